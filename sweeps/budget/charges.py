"""What one launch is charged in the filter of its sweep: all steps that it may run, and the reports among them.

Training and reports on private validation records have a ledger each where a record is in one of the two parts alone
(add-remove, parted by a rule of the records' own): then what one part spends is nothing to a record of the other. Else
one ledger holds both.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass

from dpcore.events import Adjacency, Composed, Event
from dpcore.selection import EventProfile, GDPCharge, RenyiCharge
from sweeps.budget.covers import ROUND_UP, cover
from sweeps.budget.sweep_budget import SweepBudget
from trainables.system import PrivacyPlan

Charge = GDPCharge | RenyiCharge


@dataclass(frozen=True, slots=True)
class LaunchCharge:
    """What a launch adds to the ledger of training, and to that of validation; None: it has none of its own."""

    training: Charge
    validation: Charge | None

    @property
    def amounts(self) -> tuple[float, float]:
        """What adds up, of each."""
        return _amount(self.training), 0.0 if self.validation is None else _amount(self.validation)


def charge_of(
    budget: SweepBudget, plan: PrivacyPlan, from_step: int, to_step: int, known: MutableMapping[str, float]
) -> LaunchCharge:
    """Of steps [from_step, to_step) of a plan.

    known  {question: answer}, which is asked first and told

    Raises UnsupportedEvent for what no accountant counts as a curve.
    """
    training, reports = plan.event(from_step, to_step), plan.validation
    if reports is None:
        return LaunchCharge(_charge(budget, training, known), None)
    reported = reports.event(from_step, to_step)
    if reports.parallel and budget.adjacency is Adjacency.ADD_REMOVE:
        return LaunchCharge(_charge(budget, training, known), _charge(budget, reported, known))
    return LaunchCharge(_charge(budget, Composed(events=(training, reported)), known), None)


def nothing(budget: SweepBudget) -> Charge:
    """The charge of what reads no record."""
    return GDPCharge(0.0) if budget.order is None else RenyiCharge(0.0)


def _amount(charge: Charge) -> float:
    return charge.mu**2 * ROUND_UP if isinstance(charge, GDPCharge) else charge.divergence


def _charge(budget: SweepBudget, event: Event, known: MutableMapping[str, float]) -> Charge:
    if budget.order is not None:
        return RenyiCharge(float(EventProfile(event, budget.adjacency).renyi((budget.order,))[0]))
    return cover(event, budget.adjacency, budget.tau, known)
