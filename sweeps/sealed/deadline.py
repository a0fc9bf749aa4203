"""Whether the announced time of a sealed search is enough for the most trials that there may be, before it begins.

Later nobody could say it: how far a search is tells how many trials it has. What is measured is a rehearsed step, on
records made up from public facts, and what is multiplied is the cap: neither a record nor the number of trials that
is drawn next decides what is refused here. A search that has begun is never asked: its end was announced.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from dpcore.checks import InvalidValue
from sweeps.planning.rehearsal import Rehearsal
from sweeps.sealed.planning import SealedPlanner
from sweeps.sealed.prior import SealedPrior
from sweeps.sealed.workers import workers_of
from sweeps.spec import SweepSpec, public_facts
from sweeps.util.log import Event, say
from trainables.system import PrivacyPlan

FACTOR = 3.0
"""By how much a search may differ from its estimate, either way. Longer: noise, updates and scores come on top of the
gradients that are timed; trials of linear models, perceptrons and convolutions on two cores took 1.05 to 2.4 times as
long. Shorter: a prior seldom draws the dearest trial (where costs are log-uniform over a decade a trial takes .39 of it
in the mean), and the machine may have been busy. So a deadline is refused that even a third of the estimate exceeds."""
STARTING_MINUTES = 1.0
"""For Ray to start, and between the last record of the workers and the release."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredDeadline:
    """The time that a sealed search may take by the measured speed of its rehearsal, beside the time it announces.

    trials         the most that there may be
    workers        how many run at once
    trial_seconds  of the dearest trial that was rehearsed, as it is planned under the price of the search
    label          which that is, by the knobs that decide its shapes
    step_seconds, step_records  what was measured: one step of it, over so many records or units
    unmeasured     systems of the space that train no network: of their trials nothing is known
    deadline_minutes  announced
    elsewhere      whether trials run on a cluster: then this machine's speed decides nothing
    """

    trials: int
    workers: int
    trial_seconds: float
    label: str
    step_seconds: float
    step_records: int
    unmeasured: tuple[str, ...]
    deadline_minutes: float
    elsewhere: bool

    @property
    def minutes(self) -> float:
        """Estimated, for the most trials, each like the dearest."""
        return -(-self.trials // self.workers) * self.trial_seconds / 60

    @property
    def enough(self) -> int:
        """A deadline that leaves time whichever way the estimate errs, in minutes."""
        return math.ceil(FACTOR * self.minutes + STARTING_MINUTES)

    @property
    def measured(self) -> str:
        """In words."""
        text = (
            f"{self.trials} trials of {_short(self.trial_seconds)} s at most, {self.workers} at once, would take about "
            f"{_short(self.minutes)} minutes, as measured: in the rehearsal a step of {self.label} over a batch of "
            f"{self.step_records} took {_short(self.step_seconds)} s, without noise and scores"
        )
        if self.unmeasured:
            text += f". Trials of {', '.join(self.unmeasured)} were not measured"
        return f"{text}. That was this machine, and not the cluster" if self.elsewhere else text

    @property
    def note(self) -> str | None:
        """What a person may not have meant; None where nothing is in the way."""
        if self.minutes <= self.deadline_minutes / FACTOR:
            return None
        whose = (
            f"an estimate measured on this machine, which does not speak for the cluster, says "
            f"{_short(self.minutes)} minutes"
            if self.elsewhere
            else f"a measured estimate, good to a factor of {FACTOR:g}, says {_short(self.minutes)} minutes"
        )
        return (
            f"selection.deadline_minutes={self.deadline_minutes:g} may come before the last of {self.trials} trials: "
            f"{whose}. Then nothing is released, and the price is paid. {self.enough} would leave time"
        )

    def check(self) -> None:
        """Raises InvalidValue where the time is too short by more than the factor, on this machine."""
        if self.elsewhere or self.minutes <= FACTOR * self.deadline_minutes:
            return
        raise InvalidValue(
            "selection.deadline_minutes",
            self.deadline_minutes,
            f"time for all trials that there may be: {self.measured}. A search that is late releases nothing, and its "
            "price is paid",
            f"Write `deadline_minutes: {self.enough}`, or lower search.trials.",
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self) | {"minutes": self.minutes}


def check_deadline(spec: SweepSpec, rehearsal: Rehearsal, address: str | None = None) -> MeasuredDeadline | None:
    """The time of a sealed search at the rehearsal's speed; None of another sweep, and where no speed was measured.

    address  of the cluster that runs it; None: this machine

    Raises InvalidValue where the deadline is too short.
    """
    if spec.selection is None:
        return None
    found = _measured(spec, rehearsal, elsewhere=address is not None)
    if found is not None:
        found.check()
    return found


def say_deadline(found: MeasuredDeadline | None) -> None:
    """Tell a person what is to be told before the search begins."""
    if found is not None and found.note is not None:
        say(found.note, Event.WARNING)


def _measured(spec: SweepSpec, rehearsal: Rehearsal, *, elsewhere: bool) -> MeasuredDeadline | None:
    timed = [(one, step) for one in rehearsal.ran if (step := one.found.step) is not None]
    # Noise and steps are those of the search: a trial that had the whole budget would take other ones.
    planner = SealedPlanner.of(SealedPrior(spec, public_facts(spec))) if timed else None
    if not isinstance(planner, SealedPlanner):
        return None
    planned = [(planner.plan(one.proposed), one.label, step) for one, step in timed]
    trials = [
        (plan.work * step.gradient_seconds, label, step)
        for plan, label, step in planned
        if isinstance(plan, PrivacyPlan)
    ]
    if not trials:
        return None
    seconds, label, step = max(trials, key=lambda one: one[0])
    cap = planner.pricing.law.cap
    return MeasuredDeadline(
        trials=cap,
        workers=min(workers_of(spec.resources), cap),
        trial_seconds=seconds,
        label=label,
        step_seconds=step.seconds,
        step_records=step.records,
        unmeasured=tuple(sorted({one.found.system for one in rehearsal.ran if one.found.step is None})),
        deadline_minutes=planner.prior.selection.deadline_minutes,
        elsewhere=elsewhere,
    )


def _short(value: float) -> str:
    """Two digits, and no exponent where there are more before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"
