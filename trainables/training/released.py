"""The model that a final state releases: its trained weights, and those that it drew once and never trained.

A checkpoint keeps what was trained. Everything else in a model (frozen random features, projections) follows from the
model's public seed, which the state carries, or lies in files beside the user's own code, which it does not: whoever
holds the state can make the whole model again where that code and its files are as they were. So the state carries a
sketch of these parts too, and what would be put together from other ones is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dpcore.checks import InvalidValue
from trainables import parallel
from trainables.knobs import read
from trainables.models import sketch
from trainables.system import PrivacyPlan, PublicFacts, Run, Split, State
from trainables.training.hyperparameters import ModelKnobs
from trainables.training.losses import record_losses

PARAMETER, MODEL_SEED, UNTRAINED = "parameter.", "model.seed", "model.untrained"


@dataclass(frozen=True, slots=True)
class Origin:
    """What a run's model was made from, beside what is trained: what a checkpoint of a model keeps of it.

    seed       public: of what the model drew
    untrained  sketch of the parts that are never trained; None where there are none
    """

    seed: int
    untrained: sketch.Sketch | None

    @classmethod
    def of(cls, run: Run, model: nn.Module) -> Origin:
        """That of a model as it was made for `run`. Raises InvalidValue where `run` goes on from one with other parts
        that are never trained."""
        found = cls(parallel.model_seed(run), _untrained(model))
        if run.state is not None:
            _check_untrained(read(ModelKnobs, run.member.plan.config).model, found.untrained, run.state)
        return found

    def beside(self, state: State) -> State:
        """`state` with it."""
        parts = {} if self.untrained is None else {UNTRAINED: self.untrained}
        return {**state, MODEL_SEED: np.array(self.seed, dtype=np.uint64), **parts}


def _untrained(model: nn.Module) -> sketch.Sketch | None:
    parts = sketch.untrained(model)
    return sketch.sketch(parts) if parts else None


def _check_untrained(name: str, found: sketch.Sketch | None, state: State) -> None:
    kept = state.get(UNTRAINED)
    # Without one it had no such parts, or is of a release that kept none: then its code is another, accepted by name.
    if kept is not None and (found is None or not sketch.alike(kept.astype(np.float64), found)):
        raise InvalidValue(
            "model",
            name,
            "the parts that are never trained as they were in training: they are others now",
            "Restore the files that it loads, and draw what is random from torch's generator alone.",
        )


def released_model(plan: PrivacyPlan, facts: PublicFacts, state: State) -> nn.Module:
    """The model of `state` on the CPU.

    Raises ValueError where the state does not say which model it belongs to, and InvalidValue where the parts that are
    never trained are not those that it was trained with.
    """
    if MODEL_SEED not in state:
        raise ValueError(
            f"the state has no {MODEL_SEED!r}, so the weights that are not trained cannot be rebuilt: it was written "
            "by another version. Run the trial again."
        )
    knobs = read(ModelKnobs, plan.config)
    model = parallel.initial_model(knobs.model, knobs.hidden, int(state[MODEL_SEED]), facts, torch.device("cpu"))
    _check_untrained(knobs.model, _untrained(model), state)
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
