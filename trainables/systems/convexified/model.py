"""The publication's network as a model of the gradient systems: `trainables.systems.convexified.model:tanh_128`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import nn

from trainables.models.dense import Flattened, keras
from trainables.models.registry import outputs, width
from trainables.system import PublicFacts, State

HIDDEN = 128
_PREFIX = "parameter.body"


def tanh_128(facts: PublicFacts) -> nn.Module:
    """width -> 128 tanh units -> outputs (Table IV of Lu et al. 2021)."""
    layers = nn.Sequential(nn.Linear(width(facts), HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, outputs(facts)))
    return keras(Flattened(layers))


def logits_of(state: State, inputs: NDArray[np.float32]) -> NDArray[np.float64]:
    """What a `tanh_128` in the state of a finished run says to `inputs` [N, width]; shape [N, classes]."""
    first, first_bias, second, second_bias = (
        np.asarray(state[f"{_PREFIX}.{layer}.{kind}"], dtype=np.float64)
        for layer in (0, 2)
        for kind in ("weight", "bias")
    )
    logits: NDArray[np.float64] = np.tanh(inputs @ first.T + first_bias) @ second.T + second_bias
    return logits
