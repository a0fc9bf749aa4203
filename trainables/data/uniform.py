"""Values uniform on [0, 1]: the toy's data, whose distribution is public, so that its error has a closed form."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
from pydantic import Field

from trainables.data.options import Whole
from trainables.data.source import PartOption, PublishedSource
from trainables.system import Dataset, DatasetSpec, InputSpec, Split, Task


class UniformOptions(PartOption):
    """Options of the toy."""

    n: Whole = Field(1000, description="how many values there are", examples=[4000])


class Uniform(PublishedSource[UniformOptions]):
    """`data: {source: uniform, n: 1000}`."""

    name = "uniform"
    doc = "n values uniform on [0, 1] from a fixed seed; option n (default 1000)"
    asks = UniformOptions

    def declared(self, asked: UniformOptions) -> DatasetSpec:
        """Facts of n values."""
        return DatasetSpec(
            dataset=self.name,
            task=Task.MEAN,
            n=asked.n,
            n_validation=0,
            features={"value": InputSpec(shape=(), low=0.0, high=1.0)},
        )

    def records(self, asked: UniformOptions, facts: DatasetSpec, files: list[Path]) -> Dataset:
        """The values; the same for the same n."""
        values = np.random.default_rng(20260101).random(facts.n)
        empty = np.zeros(0)
        return Dataset(
            facts=facts,
            train=Split(inputs={"value": values}, targets=values),
            validation=Split(inputs={"value": empty}, targets=empty),
            fingerprint=hashlib.sha256(values.tobytes()).hexdigest(),
        )


UNIFORM = Uniform()
