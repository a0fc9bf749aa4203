"""What a system may offer besides the contract, so that audits and membership measures can be made of it, and where it
lets an audit look: at its model before training, at its noisy gradients, at its answers.

A system takes part by having the method; it inherits nothing. Ordinary runs are not watched, and `attach`, `saw` and
`released` do nothing for them. A watched run is a twin that is never released: what it sees is what the claim calls
released, and no more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from trainables.system import Dataset, DatasetSpec, PrivacyPlan, Run, Split, State


@runtime_checkable
class Scored(Protocol):
    """A system whose final state is released, so that anybody can ask it about a record."""

    def membership_scores(
        self, plan: PrivacyPlan, facts: DatasetSpec, state: State, split: Split
    ) -> NDArray[np.float64]:
        """[len(split)], higher for records that the released model was more likely trained on: -loss, for instance."""


@runtime_checkable
class ReleasesModel(Protocol):
    """A system whose final state is a model that its claim covers.

    One that answers queries has none: its claim covers its answers, and not the model behind them.
    """

    def released_model(self, plan: PrivacyPlan, facts: DatasetSpec, state: State) -> nn.Module:
        """The model of a final state, on the CPU. Raises ValueError for the state of another model."""


@runtime_checkable
class Answering(Protocol):
    """A system that releases labels of queried validation records, and no model.

    It calls `trainables.hooks.released` with `asked` and `labels` of every answer that it releases.
    """

    def without_its_attack(self, plan: PrivacyPlan) -> PrivacyPlan:
        """The same mechanism, with every query for the validation records: `plan`, where none attacks members."""


@runtime_checkable
class CanaryTrained(Protocol):
    """A system that releases noisy sums of clipped per-record gradients.

    It calls `trainables.hooks.attach` with its model and loss before training, and `saw` with every noisy
    mean gradient.
    """

    def canary_scale(self, plan: PrivacyPlan, facts: DatasetSpec) -> tuple[float, float]:
        """(clip norm C, what the noisy sum is divided by): a record at the clip norm adds C / divisor to the mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbours:
    """Two data sets that differ in one record under the plan's adjacency, and how to tell their releases apart.

    with_it, without_it  synthetic, and chosen by an attacker: a claim of differential privacy covers the worst case.
                         Their validation records are the queries that the attacker asks
    score                from what one run releases to a number, higher where the record is likelier in. It is given the
                         answers ("asked", "labels") of an `Answering` system, what a system showed by
                         `trainables.hooks.released`, or else the final state
    doc                  one sentence: what differs, and what the attacker looks at
    """

    with_it: Dataset
    without_it: Dataset
    score: Callable[[State], float]
    doc: str


@runtime_checkable
class Auditable(Protocol):
    """A system that knows neighbours which its releases tell apart best."""

    def neighbours(self, plan: PrivacyPlan, facts: DatasetSpec) -> Neighbours:
        """For the audit over many runs. Reads no record."""


if TYPE_CHECKING:
    from torch import Tensor, nn

    Loss = Callable[[Any, Any], Tensor]

Module: TypeAlias = "nn.Module"
"""For rooms that hold no tensors, and pass a model on."""


@runtime_checkable
class WatchesGradients(Protocol):
    """A run with canaries in gradient space."""

    def attach(self, model: nn.Module, loss: Loss) -> tuple[nn.Module, Loss]:
        """The model and loss to train instead."""

    def saw(self, step: int, gradient: Mapping[str, Tensor]) -> None:
        """Look at the noisy mean gradient of one step."""


def attach(run: Run, model: nn.Module, loss: Loss) -> tuple[nn.Module, Loss]:
    """The model and loss that `run` trains: with canaries where it is watched, as they are elsewhere."""
    return run.attach(model, loss) if isinstance(run, WatchesGradients) else (model, loss)


def saw(run: Run, step: int, gradient: Mapping[str, Tensor]) -> None:
    """Show the noisy mean gradient of step number `step`, before it is used."""
    if isinstance(run, WatchesGradients):
        run.saw(step, gradient)


def released(run: Run, **arrays: NDArray[np.generic]) -> None:
    """Show what leaves the system, where that is not its final state.

    Of answers: the `labels` [Q] to the validation records `asked` [Q], and whatever leaves besides. A run that looks at
    them has a method `released` of such arrays; those that it is given later are to be appended.
    """
    if hasattr(run, "released"):
        run.released(arrays)
