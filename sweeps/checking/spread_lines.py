"""What `sweeps check` says of one budget for the whole sweep: how it is spread, and what that buys."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpcore.rounding import epsilon_text
from sweeps.budget.sweep_budget import SweepBudget, budget_of
from sweeps.search.rungs import stops
from sweeps.spec.model import SweepSpec
from trainables.system import PrivacyPlan


def spread_lines(spec: SweepSpec, plans: Sequence[PrivacyPlan]) -> tuple[str, ...]:
    """One line each; none where each trial has a budget of its own.

    plans  of draws that may be launched
    """
    budget = budget_of(spec)
    if budget is None:
        return ()
    lines = [f"{_total_text(budget)}; {_parts_text(budget)}"]
    if budget.rungs > 1 and plans:
        lines.append(_stopping_text(spec, budget, plans))
    lines.append(
        "a launch that would exceed the budget is refused, and the sweep ends; each launch that is lost takes its part "
        "again, so that fewer trials may run"
    )
    return tuple(lines)


def _total_text(budget: SweepBudget) -> str:
    if budget.order is not None:
        return f"Renyi divergence {epsilon_text(budget.total)} at order {budget.order:g} in all"
    return f"mu {epsilon_text(math.sqrt(budget.total))} in all"


def _parts_text(budget: SweepBudget) -> str:
    """What each trial gets."""
    if budget.spread == "front-loaded" and budget.shares > 1:
        first, last = (epsilon_text(budget.alone(number), digits=3) for number in (0, budget.shares - 1))
        return f"front-loaded: the first of {budget.shares} trials at epsilon {first} by itself, the last at {last}"
    each = epsilon_text(budget.alone(0), digits=3)
    if budget.spread == "equal":
        return f"equal: {budget.shares} trials at epsilon {each} each"
    launched = ", ".join(str(budget.times(rung)) for rung in range(budget.rungs))
    return f"halving: a trial that runs whole at epsilon {each}, for {launched} launches of the rungs in turn"


def _stopping_text(spec: SweepSpec, budget: SweepBudget, plans: Sequence[PrivacyPlan]) -> str:
    """What rungs that are not launched leave to others."""
    from sweeps.budget.charges import charge_of

    plan = sorted(plans, key=lambda one: one.steps)[len(plans) // 2]
    ends = stops(spec, plan.steps)
    known: dict[str, float] = {}
    charges = [charge_of(budget, plan, start, end, known).amounts for start, end in zip((0, *ends), ends, strict=False)]
    taken = []
    for costs in np.transpose(charges):
        expected = sum(math.ceil(budget.shares / budget.reduction**rung) * cost for rung, cost in enumerate(costs))
        taken.append(expected / budget.total)
    share = f"{max(taken):.0%} of the budget"
    more = (
        ""
        if budget.spread == "halving"
        else "; `privacy.spread: halving` gives the rest to the same trials as less noise"
    )
    return (
        f"early stopping: if 1 of {budget.reduction} goes on at each rung, {budget.shares} trials as a typical draw "
        f"take {share}, and others may use what is left (search.trials is the most){more}"
    )
