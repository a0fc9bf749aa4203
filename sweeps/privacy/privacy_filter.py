"""One budget for a whole sweep: the plan that spends most of its part, and whether a launch still fits.

A system plans for a target epsilon of one trial. A rule of a sweep asks something else of the plan (a mu, two points of
its profile), which rises with that epsilon as noise falls. So the epsilon is moved until the rule is met as nearly as
planning allows, from the safe side. Whether it is met is asked of the very plan that is given.

How far the budget is used up is a pure function of plans and ledger entries. Every entry is one charge, of all steps
that it reserved: settled or not, published or not. When an attempt stops may depend on what it saw, so that stopping
early gives nothing back; a lost attempt may have drawn all of its noise; the attempt after it draws its own, and is an
entry of its own. A rung that is not launched has no entry. The controller asks before it writes a reservation: launches
in parallel are counted by then (Haney et al. 2023).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Self

from dpcore.checks import InvalidValue
from dpcore.events import UnsupportedEvent
from dpcore.selection.filters import BudgetExceeded, PrivacyFilter
from sweeps.privacy.charge import LaunchCharge, charge_of, filter_charge, trial_profile
from sweeps.spec.sweep_budget import SweepBudget
from sweeps.store.records import Reservation
from trainables.system import PrivacyPlan, Refusal

NEAR = 2e-3
"""How far below the rule, in logarithms of what is spent, a plan may stay."""

Rule = Callable[[PrivacyPlan], float]
"""ln(spent / allowed) of a plan, or any number that is at most 0 exactly where the rule is met."""

_LEAST, _MOST = math.log(1e-6), math.log(1e6)
_STRIDE = 0.7
_NARROWEST = 1e-4


def fitted(plan_at: Callable[[float], PrivacyPlan | Refusal], exceeds: Rule, start: float) -> PrivacyPlan | Refusal:
    """The plan that comes nearest to the rule from below.

    plan_at  the plan for a target epsilon, or why there is none: it spends no less as the target rises
    exceeds  the rule
    start    a target to begin with, above 0; a good guess saves planning

    A Refusal where no plan meets the rule: one that says by how much the least plan exceeds it, or the system's own
    where it has no plan. Raises as `plan_at` and `exceeds` do.
    """
    tried: list[tuple[float, PrivacyPlan]] = []
    refusals: list[Refusal] = []

    @cache
    def excess(log_target: float) -> float:
        """Of the plan for a target; minus infinity where the system refuses, for which the target is too small."""
        plan = plan_at(math.exp(log_target))
        if isinstance(plan, Refusal):
            refusals.append(plan)
            return -math.inf
        tried.append((exceeds(plan), plan))
        return tried[-1][0]

    def near() -> bool:
        """Whether a plan that was tried is near enough."""
        return any(-NEAR <= one <= 0 for one, _ in tried)

    low = high = math.log(start)
    while excess(low) > 0 and low > _LEAST:
        low, high = low - _STRIDE, low
    while excess(high) <= 0 and not near() and high < _MOST:
        low, high = high, high + _STRIDE
        if excess(high) == excess(low) != -math.inf:
            # Nothing is solved: every target has the same plan.
            break
    while not near() and high - low > _NARROWEST and excess(low) <= 0 < excess(high):
        middle = low + (high - low) * _share(excess(low), excess(high))
        low, high = (low, middle) if excess(middle) > 0 else (middle, high)
    if within := [one for one in tried if one[0] <= 0]:
        return max(within, key=lambda one: one[0])[1]
    return _too_dear(min(one for one, _ in tried)) if tried else refusals[-1]


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


@dataclass(slots=True)
class SweepFilter:
    """The filter of one sweep while it runs: a ledger of training, and of all else where nothing composes in parallel,
    and one of reports on private validation records that are parted from training. Used from one thread.

    known    {question: answer} of charges that were calculated before
    charges  {launch: what it is charged}, in both ledgers
    parts    the rule that parts the records; empty before the first such report
    """

    budget: SweepBudget
    known: MutableMapping[str, float]
    charges: dict[str, LaunchCharge] = field(default_factory=dict)
    parts: str = ""

    @classmethod
    def begun(
        cls,
        budget: SweepBudget,
        plans: Mapping[str, PrivacyPlan],
        entries: Iterable[Reservation],
        known: MutableMapping[str, float],
    ) -> Self:
        """As its ledger says. Raises BudgetExceeded for one that is beyond the budget, and InvalidValue as `add`."""
        found, nothing = cls(budget, known), filter_charge(budget)
        for one in entries:
            found.add(one, charge_of(budget, plans[one.key], one.from_step, one.to_step, known))
        if not found.holds(LaunchCharge(nothing, nothing)):
            raise BudgetExceeded(
                f"the ledger has {len(found.charges)} launches: expected some that epsilon={budget.epsilon!r} at "
                f"delta={budget.delta!r} holds. Nothing further is launched."
            )
        return found

    def holds(self, charge: LaunchCharge) -> bool:
        """Whether both ledgers have room for a launch beside everything that is charged."""
        empty: PrivacyFilter[Any] = self.budget.filter
        training = tuple((name, one.training) for name, one in self.charges.items())
        validation = tuple((name, one.validation) for name, one in self.charges.items() if one.validation is not None)
        return replace(empty, charged=training).admits(charge.training) and (
            charge.validation is None or replace(empty, charged=validation).admits(charge.validation)
        )

    def admits(self, plan: PrivacyPlan, from_step: int, to_step: int) -> bool:
        """Whether steps [from_step, to_step) of a plan may be launched beside all that was launched."""
        return self.holds(charge_of(self.budget, plan, from_step, to_step, self.known))

    def charge(self, launch: Reservation, plan: PrivacyPlan) -> None:
        """Count a launch, which was admitted. Raises as `add`."""
        self.add(launch, charge_of(self.budget, plan, launch.from_step, launch.to_step, self.known))

    def add(self, launch: Reservation, charge: LaunchCharge) -> None:
        """Count a charge. Raises InvalidValue for records that another rule parts."""
        if charge.validation is not None:
            if self.parts not in ("", charge.parts):
                expected = "validation records that one rule parts from training in all trials"
                raise InvalidValue("data.validation", charge.parts, expected)
            self.parts = charge.parts
        self.charges[f"{launch.key}.{launch.attempt}"] = charge
