"""Neighbouring data sets that these systems tell apart best, for audits over many runs. No record is read.

An attacker who chose all records but one chose these: groups of records, each group along columns of its own, push the
target's prediction to a wrong class without curving the objective along the target, so that it moves the minimiser by
nearly the whole of its sensitivity; or, where queries are answered, nothing but the target says anything about them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcore.events import Adjacency
from trainables.hooks import Neighbours
from trainables.system import Dataset, DatasetSpec, Split, State
from trainables.systems.linear import RowHyperparameters, classes_of

Array = NDArray[np.floating]
Labels = NDArray[np.int64]

GROUPS, LEANING = 32, 0.4
"""Number of groups that push, where there are columns for so many, and the length of the target's part in theirs.

The target then moves the minimiser by 0.75 to 0.92 of its sensitivity for regularisations of 1e-4 to 1e-2 on 64 columns
and 10 classes, and by 0.5 to 0.7 at 0.1, where nothing pushes far.
"""


def moved_furthest(
    params: RowHyperparameters, adjacency: Adjacency, facts: DatasetSpec
) -> tuple[Dataset, Dataset, int]:
    """Data sets with the target and without it, and the number of groups that push it."""
    replaces = adjacency is Adjacency.REPLACE_ONE
    families = 1 + replaces
    groups = max(0, min(GROUPS, (_width(facts) - 1) // families))
    columns = Columns(facts, params.clip_norm, 1 + families * groups)
    others, labels = _pushing(columns, groups, families)
    in_ = columns.target(range(1, 1 + groups), LEANING)
    with_it = columns.data(np.vstack([in_, others]), np.append([1], labels), in_[None])
    if replaces:
        # The same prediction from the other side: pushed to class 1, labelled 0.
        out = columns.target(range(1 + groups, 1 + 2 * groups), LEANING)
        without_it = columns.data(np.vstack([out, others]), np.append([0], labels), in_[None])
    else:
        without_it = columns.data(others, labels, in_[None], targets=0)
    return with_it, without_it, families * groups


def of_model(with_it: Dataset, without_it: Dataset, groups: int, score: Callable[[State], float]) -> Neighbours:
    """For a released model."""
    return Neighbours(
        with_it=with_it,
        without_it=without_it,
        score=score,
        doc=f"one record whose prediction {groups} groups of others push to the wrong class; the attacker "
        "knows all of them and reads the released model",
    )


def _pushing(columns: Columns, groups: int, families: int) -> tuple[Array, Labels]:
    """n - 1 records in groups of equal size, [n - 1, columns], and their labels: 0 for the first family, then 1."""
    others = np.arange(columns.facts.n - 1)
    if not groups:
        return np.zeros((len(others), columns.count), dtype=np.float32), others % classes_of(columns.facts)
    members = others % (groups * families)
    directions = np.stack([columns.direction(1 + group) for group in range(groups * families)])
    return directions[members], (members >= groups).astype(np.int64)


def _width(facts: DatasetSpec) -> int:
    return sum(math.prod(one.shape) for one in facts.features.values() if one.cardinality is None)


@dataclass(frozen=True, slots=True)
class Columns:
    """The real-valued columns of a data set in `blocks` blocks; block 0 is the target's own."""

    facts: DatasetSpec
    clip_norm: float
    blocks: int

    @property
    def count(self) -> int:
        """How many there are."""
        return _width(self.facts)

    def direction(self, block: int) -> Array:
        """The unit vector that spreads over one block; zero where there are no real columns."""
        # Single precision, as the records of every source: a data set of images would fill gigabytes otherwise.
        out = np.zeros(self.count, dtype=np.float32)
        if self.count:
            mine = np.array_split(np.arange(self.count), self.blocks)[block]
            out[mine] = 1 / math.sqrt(len(mine))
        return out

    def target(self, towards: range, leaning: float) -> Array:
        """A unit vector in its own block, leaning towards others."""
        out = self.direction(0) * (math.sqrt(1 - leaning**2) if towards else 1.0)
        for block in towards:
            out += self.direction(block) * leaning / math.sqrt(len(towards))
        return out

    def data(self, vectors: Array, labels: Labels, queries: Array, targets: int = 1) -> Dataset:
        """A data set of these training records, the first `targets` of which are the target, and these queries."""
        return Dataset(
            facts=self.facts,
            train=self._split(vectors, labels, targets),
            validation=self._split(queries, np.zeros(len(queries), dtype=np.int64), len(queries)),
            fingerprint="chosen by the attacker",
        )

    def _split(self, vectors: Array, labels: Labels, targets: int) -> Split:
        inputs: dict[str, NDArray[np.generic]] = {}
        start, scaled = 0, vectors * np.float32(self.clip_norm)
        for name, feature in self.facts.features.items():
            if feature.cardinality is not None:
                codes = np.zeros((len(vectors), *feature.shape), dtype=np.int64)
                codes[:targets] = min(1, feature.cardinality - 1)
                inputs[name] = codes
                continue
            stop = start + math.prod(feature.shape)
            values = np.clip(scaled[:, start:stop], feature.low, feature.high).astype(np.float32)
            inputs[name] = values.reshape(len(vectors), *feature.shape)
            start = stop
        return Split(inputs, labels)
