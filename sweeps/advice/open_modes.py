"""Modes in which every trial leaves: one run without a search, one budget for each trial, one budget for all.

One budget for all is either composed exactly, where nothing follows from results, or kept by a filter, in the parts
that a sweep would give its trials (`sweeps.budget.sweep_budget`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from dpcore.guarantee import Status
from dpcore.rounding import epsilon_text
from sweeps.advice.comparison import BudgetFor, ModeRow
from sweeps.advice.laws import TOP
from sweeps.advice.middle import Middle, NotPlanned, log_excess, made
from sweeps.budget.planning import fitted_to_part
from sweeps.budget.sweep_budget import Spread, SweepBudget
from sweeps.ledger.summary import Choice
from sweeps.planning.estimate import TotalEstimate, estimated_total
from sweeps.search.asha import rung_ends, stops
from sweeps.spec.sections import EarlyStopping
from trainables.system import PrivacyPlan

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
        setting="scope: trial",
        delta=total.delta,
        status=total.standing,
        says="Every trial leaves, and nothing that is spent follows from results: as `scope: trial` with "
        f"{epsilon_text(plan.guarantee.epsilon, up=False)} for each and a sampler that does not learn. The total of "
        "all is the guarantee.",
    )


def filtered(middle: Middle) -> ModeRow:
    """Equal parts by the filter."""
    plan = _part(middle, _budget(middle), (0,))[0]
    row = _row(middle, "compose, filter", [plan] * middle.trials, theorem=FILTERED, epsilon=middle.epsilon)
    return replace(row, says="Every trial leaves, and budgets, steps and their number may follow from results.")


def front_loaded(middle: Middle) -> ModeRow:
    """Parts that fall from trial to trial, by the filter: the first and the last are planned."""
    last = middle.trials - 1
    plans = _part(middle, _budget(middle, spread="front-loaded"), (0, last))
    row = _row(middle, "compose, front-loaded", plans, theorem=FILTERED, epsilon=middle.epsilon)
    work = math.fsum(plan.work for plan in plans) / len(plans) * middle.trials
    return replace(
        row,
        setting=f"{_ALL}, spread: front-loaded",
        trials=f"{middle.trials}",
        chance=_chance(middle.trials),
        expected=middle.trials,
        most=middle.trials,
        work=(work, work),
        says="The same with parts that fall from trial to trial: noise of the first and of the last.",
    )


def halving(middle: Middle) -> ModeRow:
    """Early stopping by the filter, where what rungs leave is given to all trials."""
    stopping = middle.spec.early_stopping or EarlyStopping(method="asha").filled(middle.trials)
    stopped = replace(middle, spec=middle.spec.model_copy(update={"early_stopping": stopping}))
    ends = rung_ends(stopping, stopped.plan(middle.epsilon).steps)
    if len(ends) < 2:
        raise NotPlanned("its trials have one step: there is nothing to stop early")
    budget = _budget(middle, spread="halving", rungs=stopping.rungs, reduction=stopping.reduction)
    plan = _part(stopped, budget, (0,))[0]
    ends = rung_ends(stopping, plan.steps)
    run = [budget.times(rung) for rung in range(len(ends))]
    steps = [end - before for before, end in zip((0, *ends), ends, strict=False)]
    work = math.fsum(trials * own for trials, own in zip(run, steps, strict=True)) * plan.work / plan.steps
    row = _row(middle, "compose, halving", [plan] * middle.trials, theorem=FILTERED, epsilon=middle.epsilon)
    return replace(
        row,
        setting=f"{_ALL}, spread: halving",
        trials=", ".join(map(str, run)),
        work=(work, work),
        says=f"The same with early stopping: {', '.join(map(str, run))} trials run the rungs, and what never runs is "
        "not charged. The filter ends the sweep where more are promoted.",
    )


def _budget(middle: Middle, spread: Spread = "equal", rungs: int = 1, reduction: int = 3) -> SweepBudget:
    return SweepBudget(
        epsilon=middle.epsilon,
        delta=middle.delta,
        adjacency=middle.adjacency,
        shares=middle.trials,
        rungs=rungs,
        reduction=reduction,
        spread=spread,
    )


def _part(middle: Middle, budget: SweepBudget, numbers: Sequence[int]) -> list[PrivacyPlan]:
    """The plans that these trials of a sweep with this budget would have."""
    return [
        made(
            fitted_to_part(middle.planned, lambda steps: stops(middle.spec, steps), budget, number, middle.calibrations)
        )
        for number in numbers
    ]


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
