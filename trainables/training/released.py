"""The model that a final state releases: its trained weights, and those that it drew once and never trained.

A checkpoint keeps what was trained. Everything else in a model (frozen random features, projections) follows from the
model's public seed, which the state carries: whoever holds the state holds the whole model, and nobody draws the
frozen part anew.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from trainables import parallel
from trainables.knobs import read
from trainables.system import PrivacyPlan, PublicFacts, Run, Split, State
from trainables.training.gradient_knobs import ModelKnobs
from trainables.training.losses import record_losses

PARAMETER, MODEL_SEED = "parameter.", "model.seed"


def with_origin(run: Run, state: State) -> State:
    """`state` with the public seed that the run's model was drawn from: what a checkpoint of a model keeps."""
    return {**state, MODEL_SEED: np.array(parallel.model_seed(run), dtype=np.uint64)}


def released_model(plan: PrivacyPlan, facts: PublicFacts, state: State) -> nn.Module:
    """The model of `state` on the CPU. Raises ValueError where the state does not say which model it belongs to."""
    if MODEL_SEED not in state:
        raise ValueError(
            f"the state has no {MODEL_SEED!r}, so the weights that are not trained cannot be rebuilt: it was written "
            "by another version. Run the trial again."
        )
    knobs = read(ModelKnobs, plan.config)
    model = parallel.initial_model(knobs.model, knobs.hidden, int(state[MODEL_SEED]), facts, torch.device("cpu"))
    restore(PARAMETER, {name: one for name, one in model.named_parameters() if one.requires_grad}, state)
    return model


def negative_losses(plan: PrivacyPlan, facts: PublicFacts, state: State, split: Split) -> NDArray[np.float64]:
    """Minus the loss of every record of `split` under the model of a final state; shape [len(split)]."""
    return -record_losses(released_model(plan, facts, state), split, facts)


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
