"""The plan that spends as much as a rule of the whole sweep allows, whatever its system.

A system plans for a target epsilon of one trial. A rule of a sweep asks something else of the plan (a mu, two points of
its profile), which rises with that epsilon as noise falls. So the epsilon is moved until the rule is met as nearly as
planning allows, from the safe side. Whether it is met is asked of the very plan that is given.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from trainables.system import PrivacyPlan, Refusal

NEAR = 2e-3
"""How far below the rule, in logarithms of what is spent, a plan may stay."""

Rule = Callable[[PrivacyPlan], float]
"""ln(spent / allowed) of a plan, or any number that is at most 0 exactly where the rule is met."""

_LEAST, _MOST = math.log(1e-6), math.log(1e6)
_STRIDE = 0.7
_NARROWEST = 1e-4


@dataclass(slots=True)
class _Planned:
    """What the targets that were tried come to."""

    plan_at: Callable[[float], PrivacyPlan | Refusal]
    exceeds: Rule
    refusal: Refusal | None = None
    least_excess: float = math.inf
    best: tuple[float, PrivacyPlan] | None = None
    _known: dict[float, float] = field(default_factory=dict)

    def excess(self, log_target: float) -> float:
        """Of the plan for a target; minus infinity where the system refuses, for which the target is too small."""
        if log_target not in self._known:
            self._known[log_target] = self._asked(self.plan_at(math.exp(log_target)))
        return self._known[log_target]

    def _asked(self, plan: PrivacyPlan | Refusal) -> float:
        if isinstance(plan, Refusal):
            self.refusal = plan
            return -math.inf
        excess = self.exceeds(plan)
        self.least_excess = min(self.least_excess, excess)
        if excess <= 0 and (self.best is None or excess > self.best[0]):
            self.best = excess, plan
        return excess

    @property
    def near(self) -> bool:
        """Whether a plan that was tried is near enough."""
        return self.best is not None and self.best[0] >= -NEAR


def fitted(plan_at: Callable[[float], PrivacyPlan | Refusal], exceeds: Rule, start: float) -> PrivacyPlan | Refusal:
    """The plan that comes nearest to the rule from below.

    plan_at  the plan for a target epsilon, or why there is none: it spends no less as the target rises
    exceeds  the rule
    start    a target to begin with, above 0; a good guess saves planning

    A Refusal where no plan meets the rule: one that says by how much the least plan exceeds it, or the system's own
    where it has no plan. Raises as `plan_at` and `exceeds` do.
    """
    planned = _Planned(plan_at, exceeds)
    low = high = math.log(start)
    while planned.excess(low) > 0 and low > _LEAST:
        low, high = low - _STRIDE, low
    while planned.excess(high) <= 0 and not planned.near and high < _MOST:
        low, high = high, high + _STRIDE
        if planned.excess(high) == planned.excess(low) != -math.inf:
            # Nothing is solved: every target has the same plan.
            break
    while not planned.near and high - low > _NARROWEST and planned.excess(low) <= 0 < planned.excess(high):
        middle = low + (high - low) * _share(planned.excess(low), planned.excess(high))
        low, high = (low, middle) if planned.excess(middle) > 0 else (middle, high)
    if planned.best is not None:
        return planned.best[1]
    if planned.least_excess < math.inf:
        return _too_dear(planned.least_excess)
    assert planned.refusal is not None
    return planned.refusal


def _share(below: float, above: float) -> float:
    """Where between two targets the excess is about -NEAR/2, as a share of the way: by the straight line, not too near
    to either, so that both ends move."""
    if math.isinf(below) or math.isinf(above):
        return 0.5
    return min(max((-NEAR / 2 - below) / (above - below), 0.02), 0.98)


def _too_dear(excess: float) -> Refusal:
    return Refusal(
        violations={"budget": excess},
        reason=f"the least that this trial can spend is {math.exp(min(excess, 700)):.4g} times its part of the sweep's "
        "budget. Raise the noise or privacy.epsilon, or take fewer steps or trials.",
    )
