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
from trainables.knobs import knob, knobs, parameters
from trainables.system import PublicFacts, Split, Task

LARGEST_WIDTH = 20_000
"""Columns; beyond it a dense matrix of records no longer fits in memory."""


@knobs
class RowKnobs:
    """How `rows` sees a record, for every system with a linear model."""

    clip_norm: float = knob(
        low=1e-6,
        high=1e6,
        default=1.0,
        unit="input norm",
        doc="each record is divided by the larger of this and its own L2 norm",
    )
    bias: bool = knob(
        choices=(False, True),
        default=False,
        doc="adds a constant column; inputs are then divided by sqrt(2) to keep their norm",
    )


ROW_PARAMETERS = parameters(RowKnobs)


def classes_of(facts: PublicFacts) -> int:
    """The number of classes. Raises InvalidValue for another task, or for too wide records."""
    if facts.task is not Task.CLASSIFICATION or facts.classes is None:
        raise InvalidValue("data", facts.dataset, "classes to predict", "Use a data source of a classification.")
    width = width_of(facts)
    if width > LARGEST_WIDTH:
        raise InvalidValue(
            "data", facts.dataset, f"at most {LARGEST_WIDTH} columns for a linear model, not {width}", "Use noisy-sgd."
        )
    return facts.classes


def width_of(facts: PublicFacts, bias: bool = False) -> int:
    """Columns of `rows`."""
    return sum(math.prod(one.shape) * (one.cardinality or 1) for one in facts.features.values()) + int(bias)


def rows(facts: PublicFacts, split: Split, clip_norm: float, bias: bool) -> NDArray[np.float64]:
    """The records of `split`, shape (n, width_of(facts, bias)), each of norm at most 1."""
    blocks = []
    for name, feature in facts.features.items():
        values = np.asarray(split.inputs[name]).reshape(len(split), -1)
        if feature.cardinality is not None:
            values = (values[:, :, None] == np.arange(feature.cardinality)).reshape(len(split), -1)
        blocks.append(values.astype(np.float64))
    return unit_inputs(np.hstack(blocks), clip_norm, bias)
