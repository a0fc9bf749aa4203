"""How far the budget of a whole sweep is used up: a pure function of its plans and its ledger entries.

Every entry is one charge, of all steps that it reserved: settled or not, published or not. When an attempt stops may
depend on what it saw, so that stopping early gives nothing back; a lost attempt may have drawn all of its noise; the
attempt after it draws its own, and is an entry of its own. A rung that is not launched has no entry.

The controller asks before it writes a reservation: launches in parallel are counted by then (Haney et al. 2023).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from dpcore.checks import InvalidValue
from dpcore.selection import BudgetExceeded, PrivacyFilter
from sweeps.budget.charges import LaunchCharge, charge_of, nothing
from sweeps.budget.sweep_budget import SweepBudget
from sweeps.store.records import Reservation
from trainables.system import PrivacyPlan

_ONE_RULE = "validation records that one rule parts from training in all trials"


@dataclass(frozen=True, slots=True)
class NamedCharge:
    """The charge of one launch.

    name   of its trial and attempt
    parts  the rule that parts its validation records from training; empty where they are not
    """

    name: str
    charge: LaunchCharge
    parts: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """What launches took of a budget.

    training    the ledger of training, and of all else where nothing composes in parallel
    validation  of reports on private validation records that are parted from training
    parts       the rule that parts them; empty before the first such report
    """

    training: PrivacyFilter[Any]
    validation: PrivacyFilter[Any]
    parts: str = ""

    @classmethod
    def of(cls, budget: SweepBudget, launches: Sequence[NamedCharge] = ()) -> Self:
        """After these launches. Raises BudgetExceeded where they are more than the budget."""
        empty: PrivacyFilter[Any] = budget.filter
        training = replace(empty, settled=tuple((one.name, one.charge.training) for one in launches))
        own = tuple((one.name, one.charge.validation) for one in launches if one.charge.validation is not None)
        parts = {one.parts for one in launches if one.charge.validation is not None}
        if len(parts) > 1:
            raise InvalidValue("data.validation", sorted(parts), _ONE_RULE)
        filled = cls(training=training, validation=replace(empty, settled=own), parts="".join(parts))
        if not (filled.training.admits(nothing(budget)) and filled.validation.admits(nothing(budget))):
            raise BudgetExceeded(
                f"the ledger has {len(launches)} launches: expected some that epsilon={budget.epsilon!r} at "
                f"delta={budget.delta!r} holds. Nothing further is launched."
            )
        return filled

    def holds(self, charge: LaunchCharge) -> bool:
        """Whether both ledgers have room for a launch beside everything that is charged."""
        own = charge.validation
        return self.training.admits(charge.training) and (own is None or self.validation.admits(own))

    def with_launch(self, launch: NamedCharge) -> Self:
        """With one more launch. Raises BudgetExceeded, InvalidValue for records that another rule parts."""
        training = self.training.reserve(launch.name, launch.charge.training)
        own = launch.charge.validation
        if own is None:
            return replace(self, training=training)
        if self.parts not in ("", launch.parts):
            raise InvalidValue("data.validation", launch.parts, _ONE_RULE)
        validation = self.validation.reserve(launch.name, own)
        return replace(self, training=training, validation=validation, parts=launch.parts)


@dataclass(slots=True)
class SweepFilter:
    """The filter of one sweep while it runs. Used from one thread.

    known  {question: answer} of charges that were calculated before
    """

    budget: SweepBudget
    known: MutableMapping[str, float]
    filled: Filled

    @classmethod
    def begun(
        cls,
        budget: SweepBudget,
        plans: Mapping[str, PrivacyPlan],
        entries: Iterable[Reservation],
        known: MutableMapping[str, float],
    ) -> Self:
        """As its ledger says. Raises BudgetExceeded for one that is beyond the budget."""
        launches = [_named(budget, one, plans[one.key], known) for one in entries]
        return cls(budget, known, Filled.of(budget, launches))

    def admits(self, plan: PrivacyPlan, from_step: int, to_step: int) -> bool:
        """Whether steps [from_step, to_step) of a plan may be launched beside all that was launched."""
        return self.filled.holds(charge_of(self.budget, plan, from_step, to_step, self.known))

    def charge(self, launch: Reservation, plan: PrivacyPlan) -> None:
        """Count a launch. Raises BudgetExceeded."""
        self.filled = self.filled.with_launch(_named(self.budget, launch, plan, self.known))


def _named(
    budget: SweepBudget, launch: Reservation, plan: PrivacyPlan, known: MutableMapping[str, float]
) -> NamedCharge:
    charge = charge_of(budget, plan, launch.from_step, launch.to_step, known)
    return NamedCharge(
        f"{launch.key}.{launch.attempt}", charge, "" if plan.validation is None else plan.validation.parts
    )
