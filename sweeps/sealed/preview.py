"""What a private selection costs and may find, in numbers that are public before it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcore.rounding import delta_text, epsilon_text
from sweeps.sealed.deadline import MeasuredDeadline
from sweeps.sealed.law import law_text
from sweeps.sealed.led import DECILE, Led, led_by
from sweeps.sealed.planning import SealedPlanner
from sweeps.sealed.prior import SealedPrior
from sweeps.sealed.workers import workers_of
from sweeps.search.automatic import SECONDS_PER_GRADIENT
from trainables.system import Config, PrivacyPlan, Refusal


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
    routes        {route: epsilon that it would ask for trials like the reference}; the claim is by the tight one. Of
                  the first success {end: epsilon that it would cost}; the claim covers both. Of several orders {how
                  many: epsilon that the same trials would cost}
    alone         epsilon that one trial like the reference would claim alone, at this delta
    decile        chance that some trial comes from the best tenth of the prior
    workers       how many run at once; of this machine where the spec does not say
    trial_seconds planned, of the dearest draw of the prior, at a speed that is assumed
    worst_minutes likewise, for the most trials that there may be, each as dear
    deadline_minutes  when the winner leaves
    measured      the same by the speed of a rehearsal; None without one, or where no trial trains a network
    led           what results may do and what that costs; None where they do nothing
    """

    law: str
    mean: float
    most: int
    epsilon: float
    delta: float
    budgets: tuple[float, ...]
    target: str | None
    orders: tuple[str, ...]
    routes: Mapping[str, float]
    alone: float
    decile: float
    workers: int
    trial_seconds: float
    worst_minutes: float
    deadline_minutes: float
    measured: MeasuredDeadline | None = None
    led: Led | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self) | {"measured": None if self.measured is None else self.measured.to_dict()}

    def lines(self) -> list[str]:
        """For people."""
        routes = ", ".join(f"{name} {epsilon_text(epsilon)}" for name, epsilon in self.routes.items())
        what, by = "the best of all trials", f"by route: {routes}; the tight one is claimed"
        if self.target is not None:
            what, by = (
                f"the first trial with {self.target}, or word of none",
                f"by end: {routes}; the claim covers both",
            )
        drawn = "" if self.led is None else " if drawn independently"
        if self.orders:
            what = f"the best trials by each of {len(self.orders)} orders ({'; '.join(self.orders)})"
            by = f"would cost with fewer orders or all: {routes}"
        if self.led is not None:
            by = f"by {routes}; that of adaptive proposals is claimed"
        if len(self.budgets) > 1:
            what = f"the first trial with {self.target}, of the cheapest budget that has one, or word of none"
            by = f"by end, each known afterwards and to be quoted as ex post: {routes}"
        return [
            f"price    epsilon {epsilon_text(self.epsilon, digits=6)} at delta {delta_text(self.delta)} for {what}, "
            "the search included: nothing else leaves",
            f"         of trials like the one in the middle {by}. Such a trial alone would claim "
            f"{epsilon_text(self.alone)}",
            f"trials   a secret number, {self.law}: {self.mean:.3g} in the mean; one of the "
            f"best tenth of the prior is among them with a chance of {self.decile:.0%}{drawn}",
            *([] if self.led is None else self.led.lines(self.alone)),
            f"time     the winner leaves {self.deadline_minutes:g} minutes after the start, never sooner. "
            f"{self._planned if self.measured is None else self.measured.measured}",
        ]

    @property
    def _planned(self) -> str:
        return (
            f"{self.most} trials of {self.trial_seconds:.3g} s at most, {self.workers} at once, would take "
            f"{self.worst_minutes:.3g} minutes: planned work at an assumed {SECONDS_PER_GRADIENT:g} s for the gradient "
            "of a record, and not measured"
        )

    def notes(self) -> list[str]:
        """What a person may not have meant."""
        if self.measured is not None:
            return [] if self.measured.note is None else [self.measured.note]
        if self.worst_minutes <= self.deadline_minutes:
            return []
        return [
            f"the deadline may come before the last of {self.most} trials, by planned work at an assumed speed and not "
            "by anything measured: then nothing is released, and the price is paid. Raise selection.deadline_minutes, "
            "or lower search.trials"
        ]


def sealed_outcomes(
    prior: SealedPrior, draws: Sequence[Config]
) -> tuple[list[PrivacyPlan | Refusal], SelectionPreview | None]:
    """Plans of the draws under the price of the selection, and that price; None where nothing can be priced."""
    planner = SealedPlanner.of(prior, draws)
    if isinstance(planner, Refusal):
        return [planner] * len(draws), None
    outcomes = [planner.plan(config) for config in draws]
    works = [one.work for one in outcomes if isinstance(one, PrivacyPlan)] or [planner.pricing.reference.work]
    return outcomes, _of(planner, np.array(works, dtype=float) * SECONDS_PER_GRADIENT, draws)


def _of(planner: SealedPlanner, seconds: NDArray[np.float64], draws: Sequence[Config]) -> SelectionPreview:
    spec, pricing = planner.prior.spec, planner.pricing
    selection, law = planner.prior.selection, pricing.law
    workers = min(workers_of(spec.resources), law.cap)
    rounds, dearest = -(-law.cap // workers), float(seconds.max())
    led = None if selection.adapt is None else led_by(planner, selection.adapt, draws)
    return SelectionPreview(
        law=law_text(selection, law.cap),
        mean=law.mean,
        most=law.cap,
        epsilon=pricing.rule.epsilon,
        delta=pricing.rule.delta,
        budgets=spec.privacy.epsilon,
        target=None if selection.target is None else str(selection.target),
        orders=tuple(map(str, spec.orders)) if spec.privacy.release == "front" else (),
        routes=pricing.routes(),
        alone=pricing.reference.guarantee.epsilon,
        decile=law.reach(DECILE),
        workers=workers,
        trial_seconds=dearest,
        # Draws may be the longest in every place, and results may lead every worker there.
        worst_minutes=rounds * dearest / 60,
        deadline_minutes=selection.deadline_minutes,
        led=led,
    )
