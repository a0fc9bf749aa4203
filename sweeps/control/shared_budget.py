"""The budget that launches are reserved from: a launch that it does not hold does not happen.

There are two. A sweep whose trials have budgets of their own may share one with other sweeps, over its population. A
sweep that has one budget for everything that leaves it keeps that by a filter, and is one row of its population.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sweeps.budget.sweep_budget import budget_of
from sweeps.population.arithmetic import Charge, Population, admits, charges_of, refusal
from sweeps.population.charging import charge_of_steps
from sweeps.records import LedgerEntry, Reservation, TrialRecord
from sweeps.spec import SweepSpec
from sweeps.store import PopulationSpent, Store
from trainables.system import PrivacyPlan

if TYPE_CHECKING:
    from sweeps.budget.filling import SweepFilter

NO_RETRY = "another attempt does not fit into what is left of the budget of its sweep"
"""Why a trial whose launch was lost has failed."""
SPENT = "The budget of the sweep is spent: the next launch would exceed what may leave it in all."


@dataclass(slots=True)
class SharedBudget:
    """What is reserved for the attempts of one sweep. Used from one thread.

    population  None where the sweep has none, or where one row pays for all of it: then nothing is reserved of it here
    over        why the budget holds no further launch; empty while it does. Then nothing new is launched
    filter      of a sweep that has one budget; None where each trial has its own
    """

    population: Population | None = None
    over: str = ""
    filter: SweepFilter | None = None

    @property
    def is_final(self) -> bool:
        """Whether the filter of the sweep refused a launch: what it holds never grows."""
        return self.filter is not None and bool(self.over)

    @property
    def lets_go_on(self) -> bool:
        """Whether trials that were launched may still go on, where the budget holds that."""
        return self.is_final or not self.over

    def open_filter(
        self,
        spec: SweepSpec,
        trials: Mapping[str, TrialRecord],
        entries: Iterable[LedgerEntry],
        known: MutableMapping[str, float],
    ) -> None:
        """At every start of a sweep with one budget, as its ledger has used that up; else nothing.

        known  {question: answer}, what charges are calculated from

        Raises BudgetExceeded for a ledger that is beyond it.
        """
        budget = budget_of(spec)
        if budget is not None:
            # The mathematics of search takes a while to import.
            from sweeps.budget.filling import SweepFilter

            plans = {key: one.plan for key, one in trials.items() if one.plan is not None}
            self.filter = SweepFilter.begun(budget, plans, entries, known)

    def stays_spent(self) -> None:
        """Of a sweep that ended when its filter refused a launch: nothing new is asked of it."""
        if self.filter is not None:
            self.over = SPENT

    def reserve(
        self, plan: PrivacyPlan, from_step: int, to_step: int, write: Callable[[Charge | None], Reservation]
    ) -> Reservation | None:
        """What `write` reserves in one transaction with the charge for these steps; None where the budget is over."""
        if self.filter is not None and not self.filter.admits(plan, from_step, to_step):
            self.over = SPENT
            return None
        charge = None if self.population is None else charge_of_steps(self.population, plan, from_step, to_step)
        try:
            reserved = write(charge)
        except PopulationSpent as spent:
            self.over = str(spent)
            return None
        if self.filter is not None:
            # The store has it by now; it counts before anything else is decided.
            self.filter.charge(reserved, plan)
        return reserved

    def look_ahead(self, store: Store, plan: PrivacyPlan, to_step: int) -> None:
        """Before anything is started: whether the budget holds the first steps of this plan."""
        if self.population is not None:
            charge = charge_of_steps(self.population, plan, 0, to_step)
            counted = charges_of(store.charges(self.population.name))
            if not admits(self.population, counted, charge):
                self.over = refusal(self.population, counted, charge)
