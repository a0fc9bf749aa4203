"""What a private selection costs and may find, in numbers that are public before it runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dpcore.checks import InvalidValue
from dpcore.guarantee import delta_text, epsilon_text
from sweeps.planning.rehearsal import Rehearsal
from sweeps.ray.resources import workers_of
from sweeps.selection.price import SealedPlanner, SealedPrior
from sweeps.spec.parse import public_facts
from sweeps.spec.sections import SweepSpec
from sweeps.spec.sweep_budget import law_text
from sweeps.util.log import Event, say
from trainables.system import Config, PrivacyPlan, Refusal

# Whether the announced time of a sealed search is enough for the most trials that there may be, before it begins.
#
# Later nobody could say it: how far a search is tells how many trials it has. What is measured is a rehearsed step,
# on records made up from public facts, and what is multiplied is the cap: neither a record nor the number of trials
# that is drawn next decides what is refused here. A search that has begun is never asked: its end was announced.

FACTOR = 3.0
"""By how much a search may differ from its estimate, either way. Longer: noise, updates and scores come on top of the
gradients that are timed; trials of linear models, perceptrons and convolutions on two cores took 1.05 to 2.4 times as
long. Shorter: a prior seldom draws the dearest trial (where costs are log-uniform over a decade a trial takes .39 of it
in the mean), and the machine may have been busy. So a deadline is refused that even a third of the estimate exceeds."""
STARTING_MINUTES = 1.0
"""For Ray to start, and between the last record of the workers and the release."""

DECILE = 0.1
"""The part of the prior that counts as good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredDeadline:
    """The time that a sealed search may take by the speed of its rehearsal here, beside the time that it announces.

    trials         the most that there may be
    workers        how many run at once
    trial_seconds  of the dearest trial that was rehearsed, as it is planned under the price of the search
    label          which that is, by the knobs that decide its shapes
    step_seconds, step_records  what was measured: one step of it, over so many records or units
    not_measured     systems of the space that train no network: of their trials nothing is known
    deadline_minutes  announced
    """

    trials: int
    workers: int
    trial_seconds: float
    label: str
    step_seconds: float
    step_records: int
    not_measured: tuple[str, ...]
    deadline_minutes: float

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
            f"{_short(self.minutes)} minutes, as measured on this machine: in the rehearsal a step of {self.label} "
            f"over a batch of {self.step_records} took {_short(self.step_seconds)} s, without noise and scores"
        )
        return f"{text}. Trials of {', '.join(self.not_measured)} were not measured" if self.not_measured else text

    @property
    def note(self) -> str | None:
        """What a person may not have meant; None where nothing is in the way."""
        if self.minutes <= self.deadline_minutes / FACTOR:
            return None
        return (
            f"selection.deadline_minutes={self.deadline_minutes:g} may come before the last of {self.trials} trials: "
            f"an estimate measured on this machine, good to a factor of {FACTOR:g} here, says {_short(self.minutes)} "
            f"minutes. Then nothing is released, and the price is paid. {self.enough} would leave time"
        )

    def check(self) -> None:
        """Raises InvalidValue where the time is too short by more than the factor."""
        if self.minutes <= FACTOR * self.deadline_minutes:
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

    address  of the cluster that runs it, of which this machine's speed decides nothing; None: this machine

    Raises InvalidValue where the deadline is too short.
    """
    if spec.selection is None:
        return None
    timed = [(one, step) for one in rehearsal.ran if (step := one.found.step) is not None]
    if not timed:
        return None
    # Noise and steps are those of the search: a trial that had the whole budget would take other ones.
    planner = SealedPlanner.of(SealedPrior(spec, public_facts(spec)))
    if isinstance(planner, Refusal):
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
    found = MeasuredDeadline(
        trials=cap,
        workers=min(workers_of(spec.resources), cap),
        trial_seconds=seconds,
        label=label,
        step_seconds=step.seconds,
        step_records=step.records,
        not_measured=tuple(sorted({one.found.system for one in rehearsal.ran if one.found.step is None})),
        deadline_minutes=spec.selection.deadline_minutes,
    )
    if address is None:
        found.check()
    return found


def say_deadline(found: MeasuredDeadline | None) -> None:
    """Tell a person what is to be told before the search begins."""
    if found is not None and found.note is not None:
        say(found.note, Event.WARNING)


def _short(value: float) -> str:
    """Two digits, and no exponent where there are more before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionPreview:
    """The price of releasing the best trial, the best by several orders, or the first that meets a target, and what it
    buys.

    law           of the number of trials, in words
    mean, most    trials that are run, in the mean of the law as it is drawn, and at most
    epsilon, delta  claimed for the whole search; of a ladder before it is known where it ends
    budgets       of a ladder, one of which a success costs, known afterwards; one budget otherwise
    target        in words, of the first success; None where the best leaves
    orders        in words, where the best by each of several leaves; empty otherwise
    alone         epsilon that one trial like the reference would claim alone, at this delta
    decile        chance that some trial comes from the best tenth of the prior
    deadline_minutes  when the winner leaves
    measured      how long the search may take; None without a rehearsal, or where no trial trains a network
    """

    law: str
    mean: float
    most: int
    epsilon: float
    delta: float
    budgets: tuple[float, ...]
    target: str | None
    orders: tuple[str, ...]
    alone: float
    decile: float
    deadline_minutes: float
    measured: MeasuredDeadline | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self) | {"measured": None if self.measured is None else self.measured.to_dict()}

    def lines(self) -> list[tuple[str, str]]:
        """For people: (label, sentence) each."""
        what = f"the first trial with {self.target}, or word of none"
        if self.orders:
            what = f"the best trials by each of {len(self.orders)} orders ({'; '.join(self.orders)})"
        elif self.target is None:
            what = "the best of all trials"
        elif len(self.budgets) > 1:
            what = (
                f"the first trial with {self.target}, of the cheapest budget that has one, or word of none (a success "
                "costs its own budget, known afterwards and to be quoted as ex post)"
            )
        price = (
            f"epsilon {epsilon_text(self.epsilon, digits=6)} at delta {delta_text(self.delta)} for {what}, the search "
            "included: nothing else leaves. A trial like the one in the middle alone would claim "
            f"{epsilon_text(self.alone)}"
        )
        trials = (
            f"a secret number, {self.law}: {self.mean:.3g} in the mean; one of the best tenth of the prior is among "
            f"them with a chance of {self.decile:.0%}"
        )
        takes = "how long its trials take was not measured" if self.measured is None else self.measured.measured
        time = f"the winner leaves {self.deadline_minutes:g} minutes after the start, never sooner; {takes}"
        return [("Price", price), ("Trials", trials), ("Time", time)]

    def notes(self) -> list[str]:
        """What a person may not have meant."""
        note = None if self.measured is None else self.measured.note
        return [] if note is None else [note]


def sealed_outcomes(
    prior: SealedPrior, draws: Sequence[Config]
) -> tuple[list[PrivacyPlan | Refusal], SelectionPreview | None]:
    """Plans of the draws under the price of the selection, and that price; None where nothing can be priced."""
    planner = SealedPlanner.of(prior, draws)
    if isinstance(planner, Refusal):
        return [planner] * len(draws), None
    selection, spec, pricing, law = prior.selection, prior.spec, planner.pricing, planner.pricing.law
    return [planner.plan(config) for config in draws], SelectionPreview(
        law=law_text(selection, law.cap),
        mean=law.mean,
        most=law.cap,
        epsilon=pricing.rule.epsilon,
        delta=pricing.rule.delta,
        budgets=spec.privacy.epsilon,
        target=None if selection.target is None else str(selection.target),
        orders=tuple(map(str, spec.orders)) if spec.privacy.release == "front" else (),
        alone=pricing.reference.guarantee.epsilon,
        decile=law.reach(DECILE),
        deadline_minutes=selection.deadline_minutes,
    )


# Whether the models of a sealed search fit into what its workers always write: asked before it begins.
#
# Later nobody could say it: that a model was too large tells that its trial ran.

BYTES_PER_WEIGHT, OF_A_MEAN = 12, 4
"""Of a weight and two moments of it, in float32; and of its mean over the steps (`ema`), where that is released."""


def check_model_size(spec: SweepSpec, rehearsal: Rehearsal) -> None:
    """The largest model that was rehearsed fits. Raises InvalidValue; of no other sweep anything."""
    if spec.selection is None:
        return
    steps = [one.found.step for one in rehearsal.ran]
    weights = max((step.parameters for step in steps if step is not None), default=0)
    each = BYTES_PER_WEIGHT + OF_A_MEAN * any(knobs.get("ema") for knobs in spec.systems.values())
    needed = each * weights / 2**20
    if needed > spec.selection.megabytes:
        raise InvalidValue(
            "selection.megabytes",
            spec.selection.megabytes,
            f"at least {needed:.3g}, for a model of {weights} weights and what its optimiser keeps of each: a larger "
            "one never leaves",
            f"Write `megabytes: {-(-needed // 1):.0f}`: each worker writes as much at every announced time.",
        )
