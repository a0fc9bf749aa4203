"""Training of `convexified-head`, and what it sees of a record."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpcore.papers.convexified import minimise_head
from trainables.system import Dataset, DatasetSpec, Split
from trainables.systems.linear import labels_of
from trainables.systems.lu2021.hyperparameters import ConvexifiedHeadKnobs, head_of

Array = NDArray[np.float64]

_FROZEN_SEED = 2021
"""Public seed of the frozen random units: no record has a say in them."""


def train(knobs: ConvexifiedHeadKnobs, data: Dataset) -> Array:
    """The certified head, shape (width, classes). Raises Uncertified where rounding spoiled the certificate."""
    return minimise_head(head_of(knobs, data.facts), features_of(knobs, data.facts, data.train), labels_of(data.train))


def features_of(knobs: ConvexifiedHeadKnobs, facts: DatasetSpec, split: Split) -> Array:
    """What the head sees of every record: rows of norm at most 1 that depend on no other record."""
    records = knobs.rows(facts, split)
    if knobs.features == "records":
        return records
    frozen = np.random.default_rng(_FROZEN_SEED).standard_normal((records.shape[1] + 1, knobs.hidden))
    # Rows have norm at most 1, so the units see arguments of spread at most 2.
    hidden: Array = np.tanh(2 * records @ frozen[:-1] + frozen[-1]) / np.sqrt(knobs.hidden)
    return hidden
