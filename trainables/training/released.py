"""The model of a run: as it begins, and as its final state releases it.

A checkpoint keeps what was trained. Everything else in a model (frozen random features, projections) follows from the
model's public seed, which the state carries, or lies in files beside the user's own code, which it does not: whoever
holds the state can make the whole model again where that code and its files are as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dpcore.gradients import PrivateGradients, seeded_draws
from dpcore.randomness import Purpose
from trainables import models
from trainables.hyperparameters import read
from trainables.metrics import Config
from trainables.system import Dataset, DatasetSpec, PrivacyPlan, Run, Split, State
from trainables.training.hyperparameters import ModelHyperparameters
from trainables.training.losses import chosen, loss_function, tensors

PARAMETER, MODEL_SEED = "parameter.", "model.seed"
BLOCK = 50
"""Records whose gradients are in memory together."""


def model_seed(run: Run) -> int:
    """What starting weights are drawn from; public."""
    return int.from_bytes(run.streams.derived_seed(Purpose.INITIALISATION)[:8], "big")


def build_model(config: Config, seed: int, facts: DatasetSpec, device: torch.device) -> nn.Module:
    """The model of a configuration, with its starting weights: the same everywhere. Raises InvalidValue (model)."""
    params = read(ModelHyperparameters, config)
    # Layers draw their weights from torch's global generator, which is put back afterwards.
    with seeded_draws(seed):
        model = models.build(
            params.model, facts, hidden=params.hidden, arguments=params.arguments, adaptation=params.adaptation
        )
    if any(isinstance(module, nn.Conv2d) for module in model.modules()):
        # A third faster on a CPU for the two-convolution net.
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model.to(device)


def with_seed(state: State, run: Run) -> State:
    """What a checkpoint of a model keeps: its weights, and the seed that makes all else of it again."""
    return {**state, MODEL_SEED: np.array(model_seed(run), dtype=np.uint64)}


def released_model(plan: PrivacyPlan, facts: DatasetSpec, state: State) -> nn.Module:
    """The model of `state` on the CPU. Raises ValueError for the state of another model."""
    if MODEL_SEED not in state:
        raise ValueError(f"the state has no {MODEL_SEED!r}: it is no state of a trained model")
    model = build_model(plan.config, int(state[MODEL_SEED]), facts, torch.device("cpu"))
    restore(PARAMETER, {name: one for name, one in model.named_parameters() if one.requires_grad}, state)
    return model


def arrays(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, NDArray[np.generic]]:
    """Copies of `tensors` by prefixed name, as checkpoints keep them."""
    return {f"{prefix}{name}": one.detach().cpu().contiguous().numpy().copy() for name, one in tensors.items()}


@torch.no_grad()
def restore(prefix: str, tensors: Mapping[str, Tensor], state: State) -> None:
    """The inverse of `arrays`, in place. Raises ValueError for the state of another model."""
    expected = {name.removeprefix(prefix) for name in state if name.startswith(prefix)}
    if expected != set(tensors):
        raise ValueError(f"checkpoint has {sorted(expected)}, the model has {sorted(tensors)}: another model")
    for name, one in tensors.items():
        one.copy_(torch.from_numpy(np.ascontiguousarray(state[f"{prefix}{name}"])))


def record_gradients(
    plan: PrivacyPlan, data: Dataset, split: Split, state: State, rows: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Unclipped gradients [len(rows), number of weights] of the records at `rows` of a split, at a run's last state.

    They are raw records: never a release.
    """
    loss: Callable[[Any, Any], torch.Tensor] = loss_function(data.facts)
    gradients = PrivateGradients(released_model(plan, data.facts, state), loss)
    records = tensors(split, torch.device("cpu"))
    parts = [gradients.record_gradients(*chosen(records, rows[i : i + BLOCK])) for i in range(0, len(rows), BLOCK)]
    joined: NDArray[np.float32] = torch.cat(parts).numpy()
    return joined
