"""The plan of one trial of a sweep that has one budget: fitted to the part that its number gets."""

from __future__ import annotations

import math
from collections.abc import Callable, MutableMapping, Sequence

from dpcore.checks import InvalidValue
from dpcore.events import UnsupportedEvent
from sweeps.budget.charges import charge_of
from sweeps.budget.fitting import fitted
from sweeps.budget.sweep_budget import SweepBudget
from sweeps.budget.trial_profiles import trial_profile
from trainables.system import PrivacyPlan, Refusal


def fitted_to_part(
    plan_at: Callable[[float], PrivacyPlan | Refusal],
    stops: Callable[[int], Sequence[int]],
    budget: SweepBudget,
    number: int,
    known: MutableMapping[str, float],
) -> PrivacyPlan | Refusal:
    """The plan that spends most of what trial `number` may spend.

    plan_at  the plan for a target epsilon
    stops    of a number of planned steps: at the end of which of them a launch ends
    known    as of `charge_of`

    Raises InvalidValue for a system whose claims do not stand, or that no accountant counts as a curve.
    """

    def exceeds(plan: PrivacyPlan) -> float:
        trial_profile(plan)
        ends = stops(plan.steps)
        try:
            charges = [
                charge_of(budget, plan, start, end, known).amounts for start, end in zip((0, *ends), ends, strict=False)
            ]
        except UnsupportedEvent as error:
            raise InvalidValue(
                plan.system,
                "privacy.scope: sweep",
                "a system whose releases have a curve of epsilon and delta",
                f"{error} Use privacy.scope: trial.",
            ) from error
        training, validation = ([one[part] for one in charges] for part in (0, 1))
        beyond = math.log(max(plan.guarantee.epsilon, 1e-300) / budget.trial_epsilon)
        return max(budget.excess(training, number), budget.excess(validation, number), beyond)

    return fitted(plan_at, exceeds, budget.alone(number))
