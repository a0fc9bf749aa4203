"""Data sources as a user would bring them, for tests of `source: module:object`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from torch.nn.functional import cross_entropy

from trainables.system import Dataset, DatasetSpec, InputSpec, Split, Task


def absolute(outputs, targets):
    """A loss of one's own: how far the softmax is from the class."""
    return 1 - outputs.softmax(1).gather(1, targets[:, None])[:, 0]


def whole(outputs, targets):
    return cross_entropy(outputs, targets)


def mixing(outputs, targets):
    each = cross_entropy(outputs, targets, reduction="none")
    return each - each.mean() + outputs.square().mean()


def broken(outputs, targets):
    raise KeyError("no such thing")


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


class Sentences:
    """Sentences of at most six of nine codes, each told by its first."""

    name, doc, options = "sentences", "padded codes", ()

    def facts(self, options: Mapping[str, object]) -> DatasetSpec:
        features = {"words": InputSpec(shape=(6,), cardinality=9, padding=0)}
        return DatasetSpec(
            dataset="sentences", task=Task.CLASSIFICATION, n=200, n_validation=0, features=features, classes=2
        )

    def inspect(self, options: Mapping[str, object]) -> None:
        self.facts(options)

    def load(self, options: Mapping[str, object]) -> Dataset:
        rng = np.random.default_rng(2)
        words = rng.integers(1, 9, (200, 6)) * (np.arange(6) < rng.integers(1, 7, (200, 1)))
        return Dataset(
            self.facts(options), Split({"words": words}, words[:, 0] % 2), Split({"words": words[:0]}, words[:0, 0]), ""
        )
