"""What people do with a sweep afterwards that reads its population again: audits, and readings of private test records.

Each is charged before it begins, in a transaction of its own, so that a crash costs a charge and hides none.
"""

from __future__ import annotations

import time

from sweeps.heldout import DeclaredTest
from sweeps.population.arithmetic import Row, RowKind
from sweeps.population.blocks import ledger_named
from sweeps.population.charging import charge_of_event, charge_of_steps, repeated
from sweeps.population.refuted import check_not_refuted
from sweeps.release.publisher import Publisher
from sweeps.store.records import SweepRecord
from sweeps.store.store import Store
from trainables.system import PrivacyPlan


def charge_twins(store: Store, sweep: SweepRecord, what: str, plan: PrivacyPlan, steps: int, trainings: int) -> None:
    """Twins of a trial that are trained on the sweep's own records: each costs what its steps cost the trial.

    what  tells this audit from others of the sweep. Raises PopulationSpent, and InvalidValue where nothing bounds
    them, or an audit refuted what did.
    """
    if not (name := sweep.spec.population):
        return
    check_not_refuted(Publisher(store), name, [plan.system])
    charge = repeated(charge_of_steps(ledger_named(store, name), plan, 0, steps), trainings)
    store.charge(name, Row(kind=RowKind.AUDIT, what=what, sweep=sweep.name, charge=charge, at=time.time()))


def charge_reading(store: Store, sweep: SweepRecord, what: str, declared: DeclaredTest) -> None:
    """One score on private test records: a row of its own, which adds to all others. Public ones cost nothing.

    what  tells this reading from others of the sweep. Raises PopulationSpent.
    """
    if not (name := sweep.spec.population) or declared.histogram is None:
        return
    delta = float(sweep.spec.canonical["privacy"]["delta"])
    charge = charge_of_event(ledger_named(store, name), declared.histogram.event(), delta)
    store.charge(name, Row(kind=RowKind.READING, what=what, sweep=sweep.name, charge=charge, at=time.time()))
