"""The whole of a sweep as one row of its population's ledger.

Of a sweep whose procedure has one fixed budget: a filter's, or that of a sealed search, whose rows per attempt would
tell how many trials it drew. The row is reserved before its first trial and stays, however little of it was used; only
a `first` sweep is settled, by a linear ledger, at the epsilon of the rung that it released.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from dpcore.checks import InvalidValue
from dpcore.selection.filters import DPCharge, GDPCharge, GDPFilter
from sweeps.privacy.charge import charge_of_event, charge_of_steps, check_terms, repeated
from sweeps.privacy.claims import count_text
from sweeps.privacy.heldout import DeclaredTest
from sweeps.privacy.published_store import PublishedStore
from sweeps.spec.sections import SweepSpec
from sweeps.spec.sweep_budget import budget_of
from sweeps.store.errors import UnknownPopulation
from sweeps.store.lease import Lease
from sweeps.store.population import AddingRule, Charge, Population, Row, RowKind, to_charge
from sweeps.store.records import Refutation, SweepRecord
from sweeps.store.store import Store
from sweeps.store.workspace import Workspace
from trainables.system import PrivacyPlan


def ledger_named(store: Store, population: str) -> Population:
    """The ledger of a population. Raises UnknownPopulation."""
    found = {one.name: one for one in store.populations()}
    if population not in found:
        raise UnknownPopulation(population, found)
    return found[population]


def reserve_block(
    store: Store, lease: Lease, population: str, whole: DPCharge, gdp: GDPCharge | None = None
) -> Charge | None:
    """Reserve what the lease's sweep costs at most, durable on return; the same again changes nothing.

    population  as its spec declares; "" for none, and then nothing is reserved
    whole       (epsilon, delta) of everything that may leave the sweep
    gdp         (mu_total, tau_total) where it runs within a GDP filter: what a gdp ledger is charged instead of `whole`

    Returns what was reserved. Raises PopulationSpent where the budget does not hold it: the sweep then must not begin;
    and UnknownPopulation, LeaseLost, Conflict for another block than before.
    """
    if not population:
        return None
    charge = to_charge(ledger_named(store, population), whole.epsilon, whole.delta, gdp)
    store.reserve_block(lease, population, charge)
    return charge


def settle_block(store: Store, lease: Lease, population: str, epsilon: float) -> None:
    """What a `first` sweep came to: the ex-post epsilon of what it released, at most the reserved one.

    By a gdp ledger nothing is handed back: it stands at its dearest rung. The same again changes nothing. Raises
    UnknownPopulation, LeaseLost, Conflict, InvalidValue.
    """
    if population and ledger_named(store, population).rule is AddingRule.LINEAR:
        store.settle_block(lease, population, epsilon)


# Audits that refuted a system over a population: what its rows cost is then not known, and it is launched no more.
#
# A row is what a claim says that a launch costs. Where an audit refuted the claim of a system in a sweep, all rows of
# that system in that sweep may have cost more, by nobody knows how much.


@dataclass(frozen=True, slots=True, kw_only=True)
class RefutedRows:
    """Rows of one sweep that rest on a claim that an audit refuted.

    sweep  as it is called
    by     {system: the audit that refuted a claim of it}, at least one
    rows   of these systems; none where they were launched before the sweep was charged here
    """

    sweep: str
    by: Mapping[str, Refutation]
    rows: tuple[Row, ...]

    def __str__(self) -> str:
        systems = ", ".join(f"{system} (audit {one.audit})" for system, one in self.by.items())
        return f"{systems} in {self.sweep}"


def refuted_rows(seen: PublishedStore, rows: Sequence[Row]) -> tuple[RefutedRows, ...]:
    """Of the rows of a ledger, by sweep. A reading of test records rests on no claim of a trial."""
    called = {one.name: one.called for one in seen.sweeps()}
    found = []
    for sweep in dict.fromkeys(row.sweep for row in rows):
        by = seen.refuted(sweep) if sweep in called else {}
        if by:
            resting = tuple(_resting(seen, sweep, by, [row for row in rows if row.sweep == sweep]))
            found.append(RefutedRows(sweep=called[sweep], by=by, rows=resting))
    return tuple(found)


def not_known(refuted: Sequence[RefutedRows]) -> str:
    """What an account says of them; empty where there are none."""
    count = sum(len(one.rows) for one in refuted)
    if not count:
        return ""
    rest = "rests" if count == 1 else "rest"
    return (
        f"{count_text(count, 'row')} {rest} on a claim that an audit refuted: what is spent is not known "
        f"({'; '.join(str(one) for one in refuted if one.rows)})"
    )


def check_not_refuted(seen: PublishedStore, population: str, systems: Iterable[str]) -> None:
    """Raises InvalidValue for a system that an audit refuted in a sweep over this population."""
    wanted = set(systems)
    for found in refuted_rows(seen, seen.charges(population)):
        for system in sorted(wanted & found.by.keys()):
            raise InvalidValue(
                f"systems.{system}",
                system,
                f"a system that no audit refuted over population {population!r}: audit {found.by[system].audit} of "
                f"{found.sweep} refuted a claim of it, so that nobody knows what a launch of it costs",
                "Leave that system out.",
            )


def _resting(seen: PublishedStore, sweep: str, by: Mapping[str, Refutation], rows: Iterable[Row]) -> Iterator[Row]:
    systems = {one.key: one.system for one in seen.claimed(sweep)}
    for row in rows:
        match row.kind:
            case RowKind.SWEEP:
                yield row
            case RowKind.ATTEMPT:
                if systems.get(row.what.rpartition("/")[0]) in by:
                    yield row
            case RowKind.AUDIT:
                if systems.get(row.what.partition(" ")[0]) in by:
                    yield row
            case RowKind.READING:
                pass


# What a sweep over a population needs before it may begin: a ledger, made once, which counts as the sweep does.


def make_ledger(workspace: Workspace, population: Population) -> None:
    """The ledger of a population, once and for ever. Raises PopulationExists for other terms, StoreError."""
    with closing(workspace.open_store(create=True)) as store:
        store.make_population(population)


def ledger_of(store: Store, spec: SweepSpec) -> Population | None:
    """The ledger that a sweep of this spec is charged to; None where it declares no population.

    Raises UnknownPopulation where that has none yet, InvalidValue where it counts by other neighbours, and for a
    system that an audit refuted over it.
    """
    if spec.data.population is None:
        return None
    population = ledger_named(store, spec.data.population)
    check_terms(population, spec.privacy.adjacency, spec.privacy.unit)
    check_not_refuted(PublishedStore(store), population.name, spec.systems)
    return population


def reserve_whole(store: Store, lease: Lease, spec: SweepSpec) -> None:
    """The one row of a sweep whose one budget a filter keeps, before its first trial; for any other sweep nothing.

    Raises PopulationSpent where the population does not hold it, and as `reserve_block`.
    """
    if budget_of(spec) is not None and spec.data.population is not None:
        reserve_block(store, lease, spec.data.population, *whole_of(spec))


def whole_of(spec: SweepSpec) -> tuple[DPCharge, GDPCharge | None]:
    """What may leave a sweep with one budget, as `reserve_block` takes it: what is reserved, and what is forecast.

    The second is what covers it within its filter of Gaussian privacy, closer than its epsilon does; None without one.
    """
    budget = budget_of(spec)
    filter = None if budget is None else budget.filter
    covered = GDPCharge(filter.mu_total, filter.tau_total) if isinstance(filter, GDPFilter) else None
    return DPCharge(max(spec.privacy.epsilon), spec.privacy.delta), covered


# What people do with a sweep afterwards that reads its population again: audits, and readings of private test
# records.
#
# Each is charged before it begins, in a transaction of its own, so that a crash costs a charge and hides none.


def charge_audit(store: Store, sweep: SweepRecord, what: str, plan: PrivacyPlan, steps: int, trainings: int) -> None:
    """Twins of a trial that are trained on the sweep's own records: each costs what its steps cost the trial.

    what  tells this audit from others of the sweep. Raises PopulationSpent, and InvalidValue where nothing bounds
    them, or an audit refuted what did.
    """
    if not (name := sweep.spec.data.population):
        return
    check_not_refuted(PublishedStore(store), name, [plan.system])
    charge = repeated(charge_of_steps(ledger_named(store, name), plan, 0, steps), trainings)
    store.charge(name, Row(kind=RowKind.AUDIT, what=what, sweep=sweep.name, charge=charge, at=time.time()))


def charge_reading(store: Store, sweep: SweepRecord, what: str, declared: DeclaredTest) -> None:
    """One score on private test records: a row of its own, which adds to all others. Public ones cost nothing.

    what  tells this reading from others of the sweep. Raises PopulationSpent.
    """
    if not (name := sweep.spec.data.population) or declared.histogram is None:
        return
    delta = float(sweep.spec.canonical()["privacy"]["delta"])
    charge = charge_of_event(ledger_named(store, name), declared.histogram.event(), delta)
    store.charge(name, Row(kind=RowKind.READING, what=what, sweep=sweep.name, charge=charge, at=time.time()))
