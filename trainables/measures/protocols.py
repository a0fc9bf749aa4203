"""What a system may offer besides the contract, so that audits and membership measures can be made of it.

A system takes part by having the method; it inherits nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from trainables.system import Dataset, PrivacyPlan, PublicFacts, Split, State


@runtime_checkable
class Scored(Protocol):
    """A system whose final state is released, so that anybody can ask it about a record."""

    def membership_scores(
        self, plan: PrivacyPlan, facts: PublicFacts, state: State, split: Split
    ) -> NDArray[np.float64]:
        """[len(split)], higher for records that the released model was more likely trained on: -loss, for instance."""
        ...


@runtime_checkable
class Answering(Protocol):
    """A system that releases labels of queried validation records, and no model.

    It calls `trainables.measures.watching.released` with `asked` and `labels` of every answer that it releases.
    """

    def queries(self, plan: PrivacyPlan) -> int:
        """How many answers one trial releases."""
        ...


@runtime_checkable
class AttacksItself(Protocol):
    """An `Answering` system that can spend queries on an attack of its own, with records that it keeps back for it."""

    def without_its_attack(self, plan: PrivacyPlan) -> PrivacyPlan:
        """The same mechanism, with every query for the validation records."""
        ...


@runtime_checkable
class CanaryTrained(Protocol):
    """A system that releases noisy sums of clipped per-record gradients.

    It calls `trainables.measures.watching.attach` with its model and loss before training, and `saw` with every noisy
    mean gradient.
    """

    def canary_scale(self, plan: PrivacyPlan, facts: PublicFacts) -> tuple[float, float]:
        """(clip norm C, what the noisy sum is divided by): a record at the clip norm adds C / divisor to the mean."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbours:
    """Two data sets that differ in one record under the plan's adjacency, and how to tell their releases apart.

    with_it, without_it  synthetic, and chosen by an attacker: a claim of differential privacy covers the worst case.
                         Their validation records are the queries that the attacker asks
    score                from what one run releases to a number, higher where the record is likelier in. It is given the
                         answers ("asked", "labels") of an `Answering` system, what a system showed by
                         `watching.released`, or else the final state
    doc                  one sentence: what differs, and what the attacker looks at
    """

    with_it: Dataset
    without_it: Dataset
    score: Callable[[State], float]
    doc: str


@runtime_checkable
class Auditable(Protocol):
    """A system that knows neighbours which its releases tell apart best."""

    def neighbours(self, plan: PrivacyPlan, facts: PublicFacts) -> Neighbours:
        """For the audit over many runs. Reads no record."""
        ...
