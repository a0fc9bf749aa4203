"""The weight of each record in the loss that a system trains by. B batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from dpcore.checks import InvalidValue
from trainables.measures.gradient_canaries import COLUMN
from trainables.system import PublicFacts, Split

LossFunction = Callable[[Any, Any], Tensor]


def record_weights(facts: PublicFacts, split: Split) -> NDArray[np.float32] | None:
    """[n] of the records of `split`; None where nothing is weighted. An audit's canaries have the largest weight that a
    record can have, 1 at least: a light one would be no longer than the clip, and the audit blind.

    Raises InvalidValue where the facts name a column of weights and the records have none.
    """
    declared = facts.weights
    if declared is None:
        return None
    weights = np.ones(len(split), dtype=np.float32)
    if declared.classes:
        weights = weights * np.array(declared.classes, dtype=np.float32)[split.targets]
    if declared.column:
        if split.weights is None:
            raise InvalidValue("weights", None, f"the column {declared.column} of every record that is trained on")
        weights = weights * split.weights
    if COLUMN in split.inputs and COLUMN not in facts.features:
        weights[split.inputs[COLUMN] != 0] = max(1.0, declared.largest)
    return weights


def weighted(loss: LossFunction) -> LossFunction:
    """(outputs, (targets [B], weights [B])) -> losses [B], each times its weight: what is clipped is their gradient."""

    def of_records(outputs: Any, answers: tuple[Tensor, Tensor]) -> Tensor:
        targets_B, weights_B = answers
        return weights_B * loss(outputs, targets_B)

    return of_records
