"""Gradients of single records at the weights that a finished run released. They are raw records: never a release."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dpcore.gradients import PrivateGradients
from trainables.system import Dataset, PrivacyPlan, Split, State
from trainables.training.losses import loss_function, tensor
from trainables.training.released import released_model

BLOCK = 50
"""Records whose gradients are in memory together."""


def record_gradients(
    plan: PrivacyPlan, data: Dataset, split: Split, state: State, rows: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Unclipped gradients [len(rows), number of weights] of the records at `rows` of a split, at a run's last state."""
    loss: Callable[[Any, Any], torch.Tensor] = loss_function(data.facts)
    gradients = PrivateGradients(released_model(plan, data.facts, state), loss)
    cpu = torch.device("cpu")
    parts = [
        gradients.record_gradients(
            tuple(tensor(np.asarray(one)[rows[i : i + BLOCK]], cpu) for one in split.inputs.values()),
            tensor(np.asarray(split.targets)[rows[i : i + BLOCK]], cpu),
        )
        for i in range(0, len(rows), BLOCK)
    ]
    joined: NDArray[np.float32] = torch.cat(parts).numpy()
    return joined
