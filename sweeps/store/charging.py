"""Writes and reads of what populations are charged, on an open transaction.

Of several that charge one population at once each waits for the population's row, so that what it adds up is all that
was charged before. SQLite lets one writer in at a time anyway.
"""

from __future__ import annotations

import time
from typing import Any

from sqlalchemy import Connection, func, insert, select, update

from dpcore.adjacency import Adjacency
from dpcore.checks import InvalidValue
from dpcore.selection.filters import DPCharge, GDPCharge, LinearLedger
from sweeps.population.arithmetic import AddingRule, Charge, Population, Row, RowKind, admits, refusal, together
from sweeps.store.errors import Conflict, PopulationExists, PopulationSpent, UnknownPopulation
from sweeps.store.schema import charges, populations


def make(connection: Connection, population: Population, insert_unless_there: Any) -> None:
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
    return [_row(row) for row in connection.execute(statement.order_by(charges.c.at, charges.c.kind, charges.c.what))]


def add(connection: Connection, population: str, row: Row) -> None:
    """One more row, where the budget holds it."""
    ledger = read_population(connection, population, lock=True)
    there = _there(connection, population, row.kind, row.what)
    if there is not None:
        if (there.sweep, there.charge) != (row.sweep, row.charge):
            raise Conflict(f"population {population!r}: {row.kind} {row.what} was charged before, with other content")
        return
    counted = _counted(connection, ledger)
    if not admits(ledger, counted, row.charge):
        raise PopulationSpent(f"{row.kind} {row.what}: {refusal(ledger, counted, row.charge)}")
    connection.execute(insert(charges).values(population=population, **_values(row)))


def charge_attempt(
    connection: Connection, population: str, sweep: str, key: str, attempt: int, charge: Charge | None
) -> None:
    """What a launch adds to the sweep's population; without one nothing may be given."""
    if not population:
        if charge is not None:
            raise InvalidValue("charge", charge, "none, since its sweep declares no population")
        return
    block = _there(connection, population, RowKind.SWEEP, sweep)
    if (charge is None) == (block is None):
        expected = "none, since the block of its sweep pays for it" if block else f"what it costs {population!r}"
        raise InvalidValue("charge", charge, expected)
    if charge is not None:
        row = Row(kind=RowKind.ATTEMPT, what=f"{key}/{attempt}", sweep=sweep, charge=charge, at=time.time())
        add(connection, population, row)


def settle(connection: Connection, population: str, sweep: str, epsilon: float) -> None:
    """A block counts with the epsilon that it came to."""
    ledger = read_population(connection, population, lock=True)
    block = _there(connection, population, RowKind.SWEEP, sweep)
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
    # The one rule for what may be handed back.
    known = LinearLedger(epsilon=ledger.epsilon, delta=ledger.delta, running=((sweep, block.charge),))
    known.settle_at(sweep, epsilon)
    here = (charges.c.population == population, charges.c.kind == str(RowKind.SWEEP), charges.c.what == sweep)
    connection.execute(update(charges).where(*here).values(settled=epsilon))


def block_of(sweep: str, charge: Charge) -> Row:
    """The row of a whole sweep."""
    return Row(kind=RowKind.SWEEP, what=sweep, sweep=sweep, charge=charge, at=time.time())


def _counted(connection: Connection, ledger: Population) -> list[Charge]:
    """All rows as one charge: a ledger may have tens of thousands, and each launch asks."""
    paid = (func.coalesce(charges.c.settled, charges.c.epsilon), charges.c.delta)
    columns = paid if ledger.rule is AddingRule.LINEAR else (charges.c.mu, charges.c.tau)
    rows = connection.execute(select(*columns).where(charges.c.population == ledger.name))
    return together(ledger, ((first, second) for first, second in rows))


def _there(connection: Connection, population: str, kind: RowKind, what: str) -> Row | None:
    here = (charges.c.population == population, charges.c.kind == str(kind), charges.c.what == what)
    row = connection.execute(select(charges).where(*here)).one_or_none()
    return None if row is None else _row(row)


def _population(row: Any) -> Population:
    return Population(
        name=row.name,
        rule=AddingRule(row.rule),
        epsilon=row.epsilon,
        delta=row.delta,
        adjacency=Adjacency(row.adjacency),
        unit=row.unit,
        tau=row.tau,
    )


def _row(row: Any) -> Row:
    charge: Charge = DPCharge(row.epsilon, row.delta) if row.mu is None else GDPCharge(row.mu, row.tau)
    return Row(kind=RowKind(row.kind), what=row.what, sweep=row.sweep, charge=charge, settled=row.settled, at=row.at)


def _values(row: Row) -> dict[str, Any]:
    own: dict[str, float]
    match row.charge:
        case DPCharge(epsilon=epsilon, delta=delta):
            own = {"epsilon": epsilon, "delta": delta}
        case GDPCharge(mu=mu, tau=tau):
            own = {"mu": mu, "tau": tau}
    return {"kind": str(row.kind), "what": row.what, "sweep": row.sweep, "at": row.at, **own}
