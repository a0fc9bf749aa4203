"""Values uniform on [0, 1]: the toy's data, whose distribution is public, so that its error has a closed form."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np

from dpcore import checks
from trainables.data.options import only
from trainables.system import Dataset, Feature, PublicFacts, Split, Task


class Uniform:
    """`data: {source: uniform, n: 1000}`."""

    name = "uniform"
    doc = "n values uniform on [0, 1] from a fixed seed; option n (default 1000)"

    def facts(self, options: Mapping[str, object]) -> PublicFacts:
        """Facts of n values. Raises InvalidValue for an unknown option or n below 1."""
        only(self.name, options, "n")
        n = options.get("n", 1000)
        checks.count(minimum=1, n=n)  # type: ignore[arg-type]
        return PublicFacts(
            dataset=self.name,
            task=Task.MEAN,
            n=int(n),  # type: ignore[call-overload]
            n_validation=0,
            features={"value": Feature(shape=(), low=0.0, high=1.0)},
        )

    def inspect(self, options: Mapping[str, object]) -> None:
        """There is no file."""

    def load(self, options: Mapping[str, object]) -> Dataset:
        """The values; the same for the same n."""
        facts = self.facts(options)
        values = np.random.default_rng(20260101).random(facts.n)
        empty = np.zeros(0)
        return Dataset(
            facts=facts,
            train=Split(inputs={"value": values}, targets=values),
            validation=Split(inputs={"value": empty}, targets=empty),
            fingerprint=hashlib.sha256(values.tobytes()).hexdigest(),
        )


UNIFORM = Uniform()
