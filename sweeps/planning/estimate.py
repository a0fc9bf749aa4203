"""Numbers about a sweep before it runs: how a quantity spreads over draws of the space, and what all trials release."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpcore.accounting import headline_of_many
from dpcore.checks import InvalidValue
from dpcore.events import Composed, UnsupportedEvent
from dpcore.guarantee import STANDING, Status, resting_on
from dpcore.rounding import delta_text, epsilon_text
from sweeps.privacy.heldout import Charged, planned
from sweeps.privacy.holdout_guarantee import both, tuned_of
from sweeps.privacy.ledger import Choice
from sweeps.privacy.release import Release
from sweeps.privacy.totals import NOT_COVERED, choices_by_results, filtered_guarantee, in_parallel, sweep_total
from sweeps.privacy.wording import COUNTS, COVERS, ONE_BUDGET, PROMISES_NOTHING
from sweeps.spec.sections import SweepSpec
from trainables.system import PrivacyPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Smallest, median and largest of some numbers."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread | None:
        """The spread of some values; None of none."""
        return cls(low=min(values), median=float(np.median(values)), high=max(values)) if values else None

    def __str__(self) -> str:
        return f"{self.low:.4g} .. {self.high:.4g} (median {self.median:.4g})"


@dataclass(frozen=True, slots=True, kw_only=True)
class TotalEstimate:
    """What the whole sweep may release, when every trial is published: the composition of all of them, and the reading
    of private test records that is planned once.

    The trials are not known yet, but for points of `search.first` and those of a whole grid; the total is that of these
    and of as many feasible draws from the prior as are left: an estimate, no claim.

    choices  what will let results choose budgets: then what was executed will have no total that is a claim
    standing  of the weakest claim among the draws
    public   whether the records are declared public: then more leaves than is counted
    budget   whether it is the budget of the whole sweep, which its filter keeps: no estimate then
    """

    trials: int
    epsilon: float
    delta: float
    accountant: str
    choices: tuple[Choice, ...] = ()
    standing: str = Status.PROVED
    public: bool = False
    budget: bool = False

    def __str__(self) -> str:
        if math.isinf(self.epsilon):
            return f"all {self.trials} trials together: {PROMISES_NOTHING}"
        number = f"epsilon {epsilon_text(self.epsilon)} at delta {delta_text(self.delta)}"
        if self.budget:
            return (
                f"all {self.trials} trials together: at most {number}, whichever are launched. After the run it can be "
                f"quoted. {COUNTS if self.public else COVERS}"
            )
        estimate = (
            f"all {self.trials} trials together: about {number}, an estimate by {self.accountant} from draws of the "
            "space"
        )
        if self.standing not in STANDING:
            return f"{estimate}. It will be no guarantee, because the weakest claim among them is {self.standing}."
        if not self.choices:
            return f"{estimate}. After the run the exact total can be quoted. {COUNTS if self.public else COVERS}"
        what = " and ".join(choice.will for choice in self.choices)
        instead = " and ".join(choice.instead for choice in self.choices)
        return f"{estimate}. It will be no guarantee, because {what}. For one, {instead}{ONE_BUDGET}."


def estimated_total(
    spec: SweepSpec,
    plans: Sequence[PrivacyPlan],
    choices: tuple[Choice, ...] | None = None,
    tests: Sequence[Charged] | None = None,
    certain: Sequence[PrivacyPlan] = (),
) -> tuple[TotalEstimate | None, list[str]]:
    """The estimate from plans that may be launched; None with the reason, if there is one, where there is no total.

    choices  what lets results choose budgets; that of the spec by default
    tests    readings of private test records, apart from all else; the one that the spec plans by default
    certain  plans that are among the trials whatever is drawn
    """
    plans = plans or certain
    if not plans:
        return None, []
    if not Release.of(spec).covered:
        return None, [f"total of the procedure: {NOT_COVERED}"]
    if (whole := sweep_total(spec)) is not None:
        claim = filtered_guarantee(whole, plans)
        return (
            TotalEstimate(
                trials=spec.search.trials,
                epsilon=claim.epsilon,
                delta=claim.delta,
                accountant=claim.accountant,
                standing=claim.standing,
                public=spec.data.records_are_public is not None,
                budget=True,
            ),
            [],
        )
    from dpcore.accountants.pld import DiscretisationInvalid, ToleranceNotReached
    from dpcore.accounting import headline_of_parts, larger_of_parts

    recorded = spec
    tests = planned(recorded) if tests is None else tests
    choices = choices_by_results(recorded) if choices is None else choices
    chosen = [*certain, *(plans[i % len(plans)] for i in range(spec.search.trials - len(certain)))]
    try:
        claim = headline_of_parts(
            Composed(events=tuple(plan.event() for plan in chosen)),
            Composed(events=tuple(plan.validation.event() for plan in chosen if plan.validation is not None)),
            parallel=in_parallel(chosen),
            delta=spec.privacy.delta,
            adjacency=spec.privacy.adjacency,
            unit=spec.privacy.unit,
        )
        for one in tests:
            scored = headline_of_many(one.event, spec.privacy.delta, spec.privacy.adjacency, spec.privacy.unit)
            claim = larger_of_parts(claim, scored)
        if (tuned := tuned_of(recorded)) is not None:
            claim = both(tuned, claim)
    except (InvalidValue, UnsupportedEvent, ToleranceNotReached, DiscretisationInvalid) as error:
        return None, [f"total of the procedure: no accountant can count it ({error})"]
    return (
        TotalEstimate(
            trials=spec.search.trials,
            epsilon=claim.epsilon,
            delta=claim.delta,
            accountant=claim.accountant,
            choices=(*choices, *(choice for one in tests for choice in one.choices)),
            standing=resting_on(claim, [plan.guarantee for plan in chosen]).standing,
            public=spec.data.records_are_public is not None,
        ),
        [],
    )
