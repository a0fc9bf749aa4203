"""The one training loop: intervals, what may execute, checkpoints, the points of a curve, and the report at the end."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from trainables.system import Run, State

FIRST_INTERVAL = 8
"""Steps before the first checkpoint, when their cost is not known yet."""
LARGEST_GROWTH = 32


class Training(Protocol):
    """One run as its system trains it."""

    @property
    def stopped(self) -> bool:
        """Whether no further step may run: such a run goes to its end as it stands."""
        ...

    def step(self, number: int) -> None:
        """Execute step `number`, counted from 0 at the start of the trial."""
        ...

    def state(self) -> State:
        """What a checkpoint keeps."""
        ...

    def metrics(self, step: int) -> Mapping[str, float]:
        """What is told after `step` steps: asked at the points of the curve and at the end, where the plan counts it.

        It draws nothing that training draws: with a curve and without, a run ends at the same weights.
        """
        ...


@dataclass(slots=True)
class Pace:
    """How many steps lie between two checkpoints: as many as take `seconds`, learned from the time that steps take.

    seconds  None: always `steps`
    """

    seconds: float | None = None
    steps: int = FIRST_INTERVAL
    _since: float = field(default_factory=time.perf_counter)

    def after(self, executed: int) -> None:
        """Learn from `executed` steps that took the time since the last call."""
        if self.seconds is None:
            return
        now = time.perf_counter()
        per_step = max((now - self._since) / executed, 1e-9)
        self.steps = max(1, min(int(self.seconds / per_step), executed * LARGEST_GROWTH))
        self._since = now


def run_steps(run: Run, training: Training, interval: Pace) -> None:
    """Execute `run` from its first step to its `member.to_step`, through its checkpoints."""
    step, stop = run.start_step, run.member.to_step
    curve = frozenset(run.member.curve)
    while step < stop:
        until = stop if training.stopped else min(stop, step + interval.steps)
        run.reserve_until(until)
        for number in range(step, until):
            if not training.stopped:
                training.step(number)
            if number + 1 in curve:
                run.report(number + 1, training.state(), training.metrics(number + 1))
        interval.after(until - step)
        step = until
        run.checkpoint(step, training.state(), training.metrics(step) if step == stop else {})
