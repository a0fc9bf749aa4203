"""Writes and reads of what populations are charged, on an open transaction.

Of several that charge one population at once each waits for the population's row, so that what it adds up is all that
was charged before. SQLite lets one writer in at a time anyway.
"""

from __future__ import annotations

import time
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, insert, select, update

from dpcore.checks import InvalidValue
from dpcore.events import Adjacency
from dpcore.selection.filters import DPCharge, GDPCharge
from sweeps.store.errors import Conflict, PopulationExists, PopulationSpent, UnknownPopulation
from sweeps.store.population import AddingRule, Charge, Population, Row, RowKind, admits, refusal, together
from sweeps.store.schema import charges, populations


def make_population(connection: Connection, population: Population, insert_unless_there: Any) -> None:
    """A ledger, once. `insert_unless_there` is the engine's own INSERT, which leaves a row that is there alone."""
    row = {
        "name": population.name,
        "rule": str(population.rule),
        "epsilon": population.epsilon,
        "delta": population.delta,
        "adjacency": str(population.adjacency),
        "unit": population.unit,
        "tau": population.tau,
        "at": time.time(),
    }
    connection.execute(insert_unless_there.values(row).on_conflict_do_nothing())
    there = read_population(connection, population.name)
    if there != population:
        raise PopulationExists(
            f"population {population.name!r} has a ledger already: rule {there.rule}, epsilon={there.epsilon!r}, "
            f"delta={there.delta!r}, {there.adjacency}, unit {there.unit}, tau={there.tau!r}. Its terms never change; "
            "other terms would be another promise about what was released under these."
        )


def read_populations(connection: Connection) -> list[Population]:
    """All of them, by name."""
    return [_population(row) for row in connection.execute(select(populations).order_by(populations.c.name))]


def read_population(connection: Connection, name: str, lock: bool = False) -> Population:
    """One of them; `lock`: nobody else charges it until this transaction ends. Raises UnknownPopulation."""
    statement = select(populations).where(populations.c.name == name)
    row = connection.execute(statement.with_for_update() if lock else statement).one_or_none()
    if row is None:
        raise UnknownPopulation(name, connection.execute(select(populations.c.name)).scalars())
    return _population(row)


def read_charges(connection: Connection, population: str) -> list[Row]:
    """Rows, oldest first."""
    statement = select(charges).where(charges.c.population == population)
    ordered = statement.order_by(charges.c.at, charges.c.kind, charges.c.what)
    return [_charge(row) for row in connection.execute(ordered)]


def add_charge(connection: Connection, population: str, row: Row) -> None:
    """One more row, where the budget holds it."""
    ledger = read_population(connection, population, lock=True)
    there = _read_row(connection, population, row.kind, row.what)
    if there is not None:
        if (there.sweep, there.charge) != (row.sweep, row.charge):
            raise Conflict(f"population {population!r}: {row.kind} {row.what} was charged before, with other content")
        return
    counted = _counted(connection, ledger)
    if not admits(ledger, counted, row.charge):
        raise PopulationSpent(f"{row.kind} {row.what}: {refusal(ledger, counted, row.charge)}")
    match row.charge:
        case DPCharge(epsilon=epsilon, delta=delta):
            cost = {"epsilon": epsilon, "delta": delta}
        case GDPCharge(mu=mu, tau=tau):
            cost = {"mu": mu, "tau": tau}
    values = {"kind": str(row.kind), "what": row.what, "sweep": row.sweep, "at": row.at, **cost}
    connection.execute(insert(charges).values(population=population, **values))


def charge_attempt(
    connection: Connection, population: str, sweep: str, key: str, attempt: int, charge: Charge | None
) -> None:
    """What a launch adds to the sweep's population; without one nothing may be given."""
    if not population:
        if charge is not None:
            raise InvalidValue("charge", charge, "none, since its sweep declares no population")
        return
    block = _read_row(connection, population, RowKind.SWEEP, sweep)
    if (charge is None) == (block is None):
        expected = "none, since the block of its sweep pays for it" if block else f"what it costs {population!r}"
        raise InvalidValue("charge", charge, expected)
    if charge is not None:
        row = Row(kind=RowKind.ATTEMPT, what=f"{key}/{attempt}", sweep=sweep, charge=charge, at=time.time())
        add_charge(connection, population, row)


def reserve_block(connection: Connection, population: str, sweep: str, charge: Charge) -> None:
    """One row for a whole sweep."""
    add_charge(connection, population, Row(kind=RowKind.SWEEP, what=sweep, sweep=sweep, charge=charge, at=time.time()))


def settle_block(connection: Connection, population: str, sweep: str, epsilon: float) -> None:
    """A block counts with the epsilon that it came to."""
    ledger = read_population(connection, population, lock=True)
    block = _read_row(connection, population, RowKind.SWEEP, sweep)
    if block is None:
        raise Conflict(f"population {population!r}: sweep {sweep!r} reserved nothing that could be settled")
    if block.settled is not None:
        if block.settled != epsilon:
            raise Conflict(
                f"population {population!r}: sweep {sweep!r} was settled at epsilon={block.settled!r} before"
            )
        return
    if ledger.rule is not AddingRule.LINEAR or not isinstance(block.charge, DPCharge):
        raise InvalidValue("rule", ledger.rule, "linear: by another rule a block stays at what it reserved")
    if not 0 <= epsilon <= block.charge.epsilon:
        raise InvalidValue("epsilon", epsilon, f"at most what was reserved, {block.charge.epsilon!r}")
    connection.execute(update(charges).where(*_here(population, RowKind.SWEEP, sweep)).values(settled=epsilon))


def _counted(connection: Connection, ledger: Population) -> list[Charge]:
    """All rows as one charge: a ledger may have tens of thousands, and each launch asks."""
    paid = (func.coalesce(charges.c.settled, charges.c.epsilon), charges.c.delta)
    columns = paid if ledger.rule is AddingRule.LINEAR else (charges.c.mu, charges.c.tau)
    rows = connection.execute(select(*columns).where(charges.c.population == ledger.name))
    return together(ledger, ((first, second) for first, second in rows))


def _here(population: str, kind: RowKind, what: str) -> tuple[ColumnElement[bool], ...]:
    return charges.c.population == population, charges.c.kind == str(kind), charges.c.what == what


def _read_row(connection: Connection, population: str, kind: RowKind, what: str) -> Row | None:
    row = connection.execute(select(charges).where(*_here(population, kind, what))).one_or_none()
    return None if row is None else _charge(row)


def _population(row: Any) -> Population:
    fields = {name: getattr(row, name) for name in ("name", "epsilon", "delta", "unit", "tau")}
    return Population(rule=AddingRule(row.rule), adjacency=Adjacency(row.adjacency), **fields)


def _charge(row: Any) -> Row:
    charge: Charge = DPCharge(row.epsilon, row.delta) if row.mu is None else GDPCharge(row.mu, row.tau)
    return Row(kind=RowKind(row.kind), what=row.what, sweep=row.sweep, charge=charge, settled=row.settled, at=row.at)
