"""Modes in which every trial leaves: one run without a search, one budget for each trial, one budget composed of all.

A filter charges a trial by the Gaussian that covers it (`dpcore.selection.gdp_cover`): sum of mu^2 and of tau within
the budget's. How a planner spreads the mu^2 over trials is free, and public.

    equal         the same for each
    front-loaded  as 1, 1/2, 1/3, ...: the first trials are clearer, the last noisier
    halving       every rung of early stopping is an entry, and one that never runs is not charged
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from dpcore.gdp_dual import eps_gdp
from dpcore.guarantee import Status
from dpcore.selection import GDPFilter, covering_mu
from sweeps.advice.comparison import BudgetFor, ModeRow
from sweeps.advice.laws import TOP
from sweeps.advice.middle import Middle, NotPlanned, log_excess
from sweeps.budget.trial_profiles import trial_profile
from sweeps.checking.estimates import TotalEstimate, estimated_total
from sweeps.ledger.summary import Choice
from sweeps.search.rungs import rung_ends
from sweeps.spec.model import EarlyStopping
from trainables.system import PrivacyPlan

_CLOSE, _ROUGH = 2e-3, 1e-2
"""Relative, of a covering mu: what rounding it up may cost; of a rung's, of which there are several for each plan."""
COMPOSED = "composition of privacy-loss distributions (Zhu, Dong & Wang 2022, theorem 27)"
FILTERED = "GDP filter (Smith & Thakurta 2022; Koskela, Tobaben & Honkela 2023)"
_ALL = "scope: sweep, release: all"


def one_run(middle: Middle) -> ModeRow:
    """The whole budget in one run of a configuration that nobody tuned on these records."""
    plan = middle.plan(middle.epsilon)
    row = _row(middle, "one run", [plan], theorem=plan.guarantee.theorem, epsilon=plan.guarantee.epsilon)
    return replace(
        row,
        setting="search: {trials: 1}",
        budget_for=BudgetFor.ONE_RUN,
        says="No search: the configuration has to be fixed without a look at these records.",
    )


def each_trial(middle: Middle) -> ModeRow:
    """`scope: trial`: the budget is each trial's own."""
    plan = middle.plan(middle.epsilon)
    total = _total(middle, plan, None)
    row = _row(middle, "trial", [plan] * middle.trials, theorem=COMPOSED, epsilon=total.epsilon)
    will = "".join(f" It is no guarantee, because {choice.will}." for choice in total.choices)
    return replace(
        row,
        setting="scope: trial",
        delta=total.delta,
        budget_for=BudgetFor.EACH_TRIAL,
        status=Status.NO_CLAIM if will else total.standing,
        says="Every trial leaves, each within the budget by itself, which does not cover choosing among them. The "
        f"epsilon is that of all together.{will}",
    )


def composed(middle: Middle) -> ModeRow:
    """Equal budgets that no result changes, composed exactly."""

    def excess(plan: PrivacyPlan) -> float:
        return log_excess(_total(middle, plan, ()).epsilon, middle.epsilon)

    plan = middle.meeting(excess, middle.epsilon / math.sqrt(middle.trials))
    total = _total(middle, plan, ())
    row = _row(middle, "compose", [plan] * middle.trials, theorem=COMPOSED, epsilon=total.epsilon)
    return replace(
        row,
        delta=total.delta,
        status=total.standing,
        says="Every trial leaves; any sampler. Budgets and the number of trials are fixed before the first.",
    )


def filtered(middle: Middle) -> ModeRow:
    """Equal budgets by the filter."""
    plan = _within(middle, _budget(middle).mu_total / math.sqrt(middle.trials), middle.trials)
    row = _row(middle, "compose, filter", [plan] * middle.trials, theorem=FILTERED, epsilon=middle.epsilon)
    return replace(row, says="As above, and budgets, steps and the number of trials may follow from results.")


def front_loaded(middle: Middle) -> ModeRow:
    """Budgets that fall from trial to trial, by the filter: the first and the last are planned."""
    shares = [1 / (one + 1) for one in range(middle.trials)]
    ends = [math.sqrt(share / math.fsum(shares)) for share in (shares[0], shares[-1])]
    plans = [_within(middle, _budget(middle).mu_total * end, middle.trials) for end in ends]
    row = _row(middle, "compose, front-loaded", plans, theorem=FILTERED, epsilon=middle.epsilon)
    return replace(
        row,
        setting=f"{_ALL}, spread: front-loaded",
        trials=f"{middle.trials}",
        chance=_chance(middle.trials),
        expected=middle.trials,
        most=middle.trials,
        work=(plans[0].work * middle.trials,) * 2,
        says="As above; mu^2 as 1, 1/2, 1/3, ... Noise of the first and of the last trial.",
    )


def halving(middle: Middle) -> ModeRow:
    """Early stopping by the filter: a trial's rungs are entries of their own."""
    stopping = middle.spec.early_stopping or EarlyStopping(method="asha").filled(middle.trials)
    stopped = replace(middle, spec=middle.spec.model_copy(update={"early_stopping": stopping}))
    budget = _budget(middle)

    def entries(plan: PrivacyPlan) -> Iterator[tuple[int, int, int]]:
        """(trials that run it, from step, to step) of each rung."""
        start = 0
        for rung, end in enumerate(rung_ends(stopping, plan.steps)):
            yield max(1, middle.trials // stopping.reduction**rung), start, end
            start = end

    def excess(plan: PrivacyPlan) -> float:
        count = sum(trials for trials, _, _ in entries(plan))
        squares = math.fsum(
            trials * covering_mu(trial_profile(plan, start, end, _ROUGH), budget.tau_total / count, _ROUGH) ** 2
            for trials, start, end in entries(plan)
        )
        return log_excess(math.sqrt(squares), budget.mu_total)

    # As if mu^2 grew with the steps.
    asked = stopped.plan(middle.epsilon)
    share = math.fsum(trials * (end - start) for trials, start, end in entries(asked)) / asked.steps
    plan = stopped.meeting(excess, eps_gdp(budget.mu_total / math.sqrt(share), middle.delta))
    rungs = list(entries(plan))
    if len(rungs) < 2:
        raise NotPlanned("its trials have one step: there is nothing to stop early")
    work = math.fsum(trials * (end - start) for trials, start, end in rungs) * plan.work / plan.steps
    row = _row(middle, "compose, halving", [plan] * middle.trials, theorem=FILTERED, epsilon=middle.epsilon)
    return replace(
        row,
        setting=f"{_ALL}, spread: halving, early_stopping: {{method: asha}}",
        trials=", ".join(str(trials) for trials, _, _ in rungs),
        work=(work, work),
        says=f"As above, with early stopping: {', '.join(str(trials) for trials, _, _ in rungs)} trials run the rungs, "
        "and what never runs is not charged. The filter ends the sweep where more are promoted.",
    )


def _budget(middle: Middle) -> GDPFilter:
    return GDPFilter(epsilon=middle.epsilon, delta=middle.delta)


def _within(middle: Middle, mu: float, trials: int) -> PrivacyPlan:
    """The plan of a trial that the filter charges `mu`, and its part of tau."""
    tau = _budget(middle).tau_total / trials
    return middle.meeting(
        lambda plan: log_excess(covering_mu(trial_profile(plan), tau, _CLOSE), mu), eps_gdp(mu, middle.delta)
    )


def _total(middle: Middle, plan: PrivacyPlan, choices: tuple[Choice, ...] | None) -> TotalEstimate:
    total, why_not = estimated_total(middle.spec, [plan], choices)
    if total is None:
        raise NotPlanned("; ".join(why_not))
    return total


def _chance(trials: int) -> float:
    return -math.expm1(trials * math.log1p(-TOP))


def _row(middle: Middle, mode: str, plans: list[PrivacyPlan], *, theorem: str, epsilon: float) -> ModeRow:
    count = len(plans)
    work = math.fsum(plan.work for plan in plans)
    return ModeRow(
        mode=mode,
        setting=_ALL,
        trials=f"{count}",
        parameter=middle.parameter,
        noise=middle.noise(*plans),
        spent=tuple(sorted({plan.guarantee.epsilon for plan in plans})),
        chance=_chance(count),
        expected=count,
        most=count,
        work=(work, work),
        epsilon=epsilon,
        delta=middle.delta,
        budget_for=BudgetFor.SWEEP,
        status=plans[0].guarantee.status,
        theorem=theorem,
        says="",
    )
