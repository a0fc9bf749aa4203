"""Data sources as a user would bring them, for tests of `source: module:object`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from trainables.system import Dataset, DatasetSpec, InputSpec, Split, Task


class Beyond:
    """Two numbers declared within -1 and 1, many of which are not; the class is that of their sum."""

    name, doc, options = "beyond", "numbers beyond their bounds", ()

    def facts(self, options: Mapping[str, object]) -> DatasetSpec:
        return DatasetSpec(
            dataset="beyond",
            task=Task.CLASSIFICATION,
            n=400,
            n_validation=300,
            features={"x": InputSpec(shape=(2,), low=-1.0, high=1.0)},
            classes=2,
        )

    def inspect(self, options: Mapping[str, object]) -> None:
        self.facts(options)

    def load(self, options: Mapping[str, object]) -> Dataset:
        facts, rng = self.facts(options), np.random.default_rng(1)
        x = 3 * rng.normal(size=(facts.n + facts.n_validation, 2))
        records = Split({"x": x}, (x.sum(1) > 1).astype(int))
        parts = (Split({"x": x[rows]}, records.targets[rows]) for rows in (slice(facts.n), slice(facts.n, None)))
        return Dataset(facts, *parts, "beyond")
