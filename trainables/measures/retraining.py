"""Twins: runs of a trial's own plan by its own system, on other data, in this process, and never released.

A twin has a secret of its own, so that its noise is nobody else's; it keeps its records in memory, so that no ledger,
folder or store ever hears of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dpcore import checks
from dpcore.randomness import Streams
from trainables.system import PrivacyPlan, State, TrialRun

KEY = "twin"


@dataclass(slots=True)
class Twin:
    """The `Run` protocol in memory. `outcome()` is what left the system; see `trainables.hooks`."""

    member: TrialRun
    streams: Streams
    start_step: int = 0
    state: State | None = None
    final: State | None = None
    _released: dict[str, list[NDArray[np.generic]]] = field(default_factory=dict)

    def reserve_until(self, until_step: int) -> None:
        """Nobody keeps count of a twin."""

    def report(self, step: int, state: State, metrics: object) -> None:
        """Nobody asks for the curve of a twin."""

    def checkpoint(self, step: int, state: State, metrics: Mapping[str, float]) -> None:
        """Keep the last state."""
        if step == self.member.to_step:
            self.final = {name: np.array(value) for name, value in state.items()}

    def released(self, arrays: State) -> None:
        for name, value in arrays.items():
            self._released.setdefault(name, []).append(np.array(value))

    def outcome(self) -> State:
        """What was released: the arrays that the system showed, or its final state. Raises RuntimeError before."""
        if self._released:
            return {name: np.concatenate(parts) for name, parts in self._released.items()}
        if self.final is None:
            raise RuntimeError(f"{self.member.plan.system} ended before its last step")
        return self.final


def member(plan: PrivacyPlan, number: int, to_step: int | None = None) -> TrialRun:
    """The launch of twin `number`, from scratch up to `to_step` (all steps by default)."""
    stop = plan.steps if to_step is None else to_step
    if not 1 <= stop <= plan.steps:
        raise checks.InvalidValue("to_step", stop, f"from 1 to {plan.steps}")
    return TrialRun(key=KEY, attempt=number, seed=0, plan=plan, from_step=0, to_step=stop)


def streams(number: int, secret: bytes) -> Streams:
    """The randomness of twin `number`: noise and batches of its own, initial weights as every twin."""
    return Streams(secret=secret, seed=0, key=KEY, attempt=number)


def twin(plan: PrivacyPlan, number: int, secret: bytes, to_step: int | None = None) -> Twin:
    """Twin `number` of those that share a secret."""
    return Twin(member(plan, number, to_step), streams(number, secret))
