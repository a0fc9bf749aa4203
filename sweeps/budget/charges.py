"""What one launch is charged in the filter of its sweep: all steps that it may run, and the reports among them.

Training and reports on private validation records have a ledger each where a record is in one of the two parts alone
(add-remove, parted by a rule of the records' own): then what one part spends is nothing to a record of the other. Else
one ledger holds both.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import MutableMapping
from dataclasses import dataclass

from dpcore.accountants.gdp import GDPAccountant
from dpcore.adjacency import Adjacency
from dpcore.events import Composed, Event, Gaussian, phases, to_dict
from dpcore.selection import EventProfile, GDPCharge, RenyiCharge, covering_mu
from sweeps.budget.sweep_budget import SweepBudget
from trainables.system import PrivacyPlan

TOLERANCE = 2e-3
"""Of a mu that covers, relative and from above."""
ROUGH = 1e-2
"""Of the deltas that it covers: those that decide are told far more closely, and of the others a few are dear."""
_UP = 1 + 1e-12

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
    return charge.mu**2 * _UP if isinstance(charge, GDPCharge) else charge.divergence


def _charge(budget: SweepBudget, event: Event, known: MutableMapping[str, float]) -> Charge:
    if budget.order is not None:
        return RenyiCharge(float(EventProfile(event, budget.adjacency).renyi((budget.order,))[0]))
    parts = phases(event)
    if not parts:
        return GDPCharge(0.0)
    if all(isinstance(part, Gaussian) for part in parts):
        # Exact, and nothing stands beside it (Dong, Roth & Su 2022, corollary 2).
        return GDPCharge(GDPAccountant(budget.adjacency).compose(event).mu * _UP)
    question = _question(event, budget)
    mu = known.get(question)
    if mu is None:
        mu = covering_mu(EventProfile(event, budget.adjacency, tolerance=ROUGH), budget.tau, TOLERANCE)
        if math.isfinite(mu):
            known[question] = mu
    return GDPCharge(mu, budget.tau)


def _question(event: Event, budget: SweepBudget) -> str:
    counted = sorted(json.dumps([to_dict(part), count], sort_keys=True) for part, count in phases(event).items())
    asked = json.dumps(["covering-mu/1", counted, str(budget.adjacency), budget.tau, TOLERANCE, ROUGH])
    return f"covering-mu:{hashlib.sha256(asked.encode()).hexdigest()}"
