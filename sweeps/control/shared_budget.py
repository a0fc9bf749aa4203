"""The budget that a sweep shares with all others over its population: a launch reserves from it, or does not happen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sweeps.population.arithmetic import Charge, Population, admits, charges_of, refusal
from sweeps.population.charging import charge_of_steps
from sweeps.records import Reservation
from sweeps.store import PopulationSpent, Store
from trainables.system import PrivacyPlan


@dataclass(slots=True)
class SharedBudget:
    """What is reserved of a population for the attempts of one sweep.

    population  None where the sweep has none, or where one row pays for all of it: then nothing is reserved here
    over        why the budget holds no further launch; empty while it does. Then nothing more is launched
    """

    population: Population | None = None
    over: str = ""

    def reserve(
        self, plan: PrivacyPlan, from_step: int, to_step: int, write: Callable[[Charge | None], Reservation]
    ) -> Reservation | None:
        """What `write` reserves in one transaction with the charge for these steps; None where the budget is over."""
        charge = None if self.population is None else charge_of_steps(self.population, plan, from_step, to_step)
        try:
            return write(charge)
        except PopulationSpent as spent:
            self.over = str(spent)
            return None

    def look_ahead(self, store: Store, plan: PrivacyPlan, to_step: int) -> None:
        """Before anything is started: whether the budget holds the first steps of this plan."""
        if self.population is not None:
            charge = charge_of_steps(self.population, plan, 0, to_step)
            counted = charges_of(store.charges(self.population.name))
            if not admits(self.population, counted, charge):
                self.over = refusal(self.population, counted, charge)
