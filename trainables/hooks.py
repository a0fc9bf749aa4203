"""What a system may offer besides the contract, so that audits and membership measures can be made of it, and the twins
that they are made on.

A system takes part by having the method; it inherits nothing. Ordinary runs are not watched, and `Run.attach`,
`Run.saw` and `Run.released` do nothing for them. A watched run is a twin that is never released: what it sees is what
the claim calls released, and no more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dpcore.randomness import Streams
from trainables.system import Dataset, DatasetSpec, PrivacyPlan, Run, Split, State, TrialRun

if TYPE_CHECKING:
    from torch import nn

Module: TypeAlias = "nn.Module"
"""For rooms that hold no tensors, and pass a model on."""


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

    It calls `Run.released` with `asked` and `labels` of every answer that it releases.
    """

    def without_its_attack(self, plan: PrivacyPlan) -> PrivacyPlan:
        """The same mechanism, with every query for the validation records: `plan`, where none attacks members."""


@runtime_checkable
class CanaryTrained(Protocol):
    """A system that releases noisy sums of clipped per-record gradients.

    It calls `Run.attach` with its model and loss before training, and `saw` with every noisy
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
                         `Run.released`, or else the final state
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


@dataclass(slots=True)
class Twin(Run):
    """A run of a trial's own plan by its own system, on other data, in this process, and never released.

    It has a secret of its own, so that its noise is nobody else's; it keeps its records in memory, so that no ledger,
    folder or store ever hears of it.
    """

    member: TrialRun
    streams: Streams
    start_step: int = 0
    state: State | None = None
    final: State | None = None
    _released: dict[str, list[NDArray[np.generic]]] = field(default_factory=dict)

    @classmethod
    def of(cls, plan: PrivacyPlan, number: int, secret: bytes, to_step: int | None = None, **own: Any) -> Self:
        """Twin `number` of those that share a secret, from scratch up to `to_step` (all steps by default): noise and
        batches of its own, initial weights as every twin."""
        stop = plan.steps if to_step is None else to_step
        member = TrialRun(key="twin", attempt=number, seed=0, plan=plan, from_step=0, to_step=stop)
        return cls(member, Streams(secret=secret, seed=0, key=member.key, attempt=number), **own)

    def reserve_until(self, until_step: int) -> None:
        """Nobody keeps count of a twin."""

    def checkpoint(self, step: int, state: State, metrics: Mapping[str, float]) -> None:
        """Keep the last state."""
        if step == self.member.to_step:
            self.final = {name: np.array(value) for name, value in state.items()}

    def released(self, **arrays: NDArray[np.generic]) -> None:
        """See `Run.released`."""
        for name, value in arrays.items():
            self._released.setdefault(name, []).append(np.array(value))

    def outcome(self) -> State:
        """What was released: the arrays that the system showed, or its final state. Raises RuntimeError before."""
        if self._released:
            return {name: np.concatenate(parts) for name, parts in self._released.items()}
        if self.final is None:
            raise RuntimeError(f"{self.member.plan.system} ended before its last step")
        return self.final
