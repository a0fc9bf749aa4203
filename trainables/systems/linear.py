"""Linear classifiers on any data of classes: every record as one float64 row of norm at most 1.

Real features are flattened; a category becomes one column per value. `clip_norm` and `bias` as in
`dpcore.erm.unit_inputs`: no record's row depends on another record.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpcore.checks import InvalidValue
from dpcore.erm import unit_inputs
from trainables.data.records import taken
from trainables.hyperparameters import hyperparameter, hyperparameters
from trainables.system import Dataset, DatasetSpec, Split, Task

LARGEST_WIDTH = 20_000
"""Columns; beyond it a dense matrix of records no longer fits in memory."""


@hyperparameters
class RowHyperparameters:
    """How `rows` sees a record, for every system with a linear model.

    clip_norm  each record is divided by the larger of this and its own L2 norm
    bias       adds a constant column; inputs are then divided by sqrt(2) to keep their norm
    """

    clip_norm: float = hyperparameter(low=1e-6, high=1e6, default=1.0, unit="input norm")
    bias: bool = hyperparameter(choices=(False, True), default=False)

    def rows(self, facts: DatasetSpec, split: Split) -> NDArray[np.float64]:
        """The records of `split` as the system sees them: see `rows`."""
        return rows(facts, split, self.clip_norm, self.bias)


def classes_of(facts: DatasetSpec) -> int:
    """The number of classes. Raises InvalidValue for another task, or for too wide records."""
    if facts.task is not Task.CLASSIFICATION or facts.classes is None:
        raise InvalidValue("data", facts.dataset, "classes to predict", "Use a data source of a classification.")
    width = width_of(facts)
    if width > LARGEST_WIDTH:
        raise InvalidValue(
            "data", facts.dataset, f"at most {LARGEST_WIDTH} columns for a linear model, not {width}", "Use noisy-sgd."
        )
    return facts.classes


def width_of(facts: DatasetSpec, bias: bool = False) -> int:
    """Columns of `rows`."""
    return sum(math.prod(one.shape) * (one.cardinality or 1) for one in facts.features.values()) + int(bias)


def real_width(facts: DatasetSpec) -> int:
    """Columns of `rows` that are no category's."""
    return sum(math.prod(one.shape) for one in facts.features.values() if one.cardinality is None)


def labels_of(split: Split) -> NDArray[np.int64]:
    """The class of every record of `split`."""
    return split.targets.astype(np.int64)


def at(split: Split, positions: NDArray[np.int64]) -> Split:
    """The records at these positions, in their order."""
    return taken(Split(split.inputs, split.targets), positions)


def columns(facts: DatasetSpec, split: Split, dtype: type[np.floating]) -> NDArray[np.floating]:
    """All inputs of every record side by side, categories as one column per value; shape (n, width_of(facts))."""
    blocks = []
    for name, feature in facts.features.items():
        values = np.asarray(split.inputs[name]).reshape(len(split), -1)
        if feature.cardinality is not None:
            values = (values[:, :, None] == np.arange(feature.cardinality)).reshape(len(split), -1)
        blocks.append(values.astype(dtype))
    return np.hstack(blocks)


def rows(facts: DatasetSpec, split: Split, clip_norm: float, bias: bool) -> NDArray[np.float64]:
    """The records of `split`, shape (n, width_of(facts, bias)), each of norm at most 1."""
    return unit_inputs(columns(facts, split, np.float64), clip_norm, bias)


def chosen_records(
    facts: DatasetSpec,
    train: NDArray[np.floating],
    labels: NDArray[np.int64],
    queries: NDArray[np.floating],
    targets: int | None = None,
) -> Dataset:
    """A data set that an attacker chose, of real columns [n, real_width(facts)] within their bounds; every category is
    the first one, but the second one of the target.

    targets  the first so many records are the target, perhaps none, and every query asks about it; None: there is no
             target, and no query asks about one
    """

    def split(vectors: NDArray[np.floating], labels: NDArray[np.int64], targets: int) -> Split:
        inputs: dict[str, NDArray[np.generic]] = {}
        start = 0
        for name, feature in facts.features.items():
            if feature.cardinality is not None:
                codes = np.zeros((len(vectors), *feature.shape), dtype=np.int64)
                codes[:targets] = min(1, feature.cardinality - 1)
                inputs[name] = codes
                continue
            stop = start + math.prod(feature.shape)
            values = np.clip(vectors[:, start:stop], feature.low, feature.high).astype(np.float32)
            inputs[name] = values.reshape(len(vectors), *feature.shape)
            start = stop
        return Split(inputs, labels)

    asked = split(queries, np.zeros(len(queries), dtype=np.int64), 0 if targets is None else len(queries))
    return Dataset(facts=facts, train=split(train, labels, targets or 0), validation=asked, fingerprint="chosen")
