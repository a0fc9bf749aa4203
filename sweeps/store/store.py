"""What a store of sweeps owes, whoever writes one.

Who may write. The holder of a sweep's lease, and nobody else: every write but `create_sweep`, `rename`, `ask`,
`make_population`, `charge`, and `delivered` without a lease, checks it first, inside its own transaction, and raises
LeaseLost where another has taken over. A holder that was stopped past its expiry therefore writes nothing, whatever its
clock says.

What is durable when. A method that returns has survived a power loss; one that raises has kept nothing. Two
transactions make a trial: `launch` (or `relaunch`) makes the proposal, the attempt and its reservation durable before
anything is launched; `settle` the result, the settlement, the state and the outbox row, together. A kill between any
two statements leaves a whole state: a trial that is RUNNING has one open attempt with its reservation.

What never changes. A closed attempt stays as it was closed: the same content again is no change, other content is a
Conflict. What was charged never falls; a reservation that is not settled counts whole; no attempt begins beyond the
furthest executed step. Plans, configurations, seeds and claims stay the values that were written, and so does the spec
that a sweep began with: what it is extended by is appended.

Populations. A sweep whose spec declares `data.population` is charged to that population's ledger, together with all
other sweeps over it (`sweeps.population`). The charge of an attempt is durable in the very transaction of its launch,
which is refused as PopulationSpent where the budget does not hold it: whoever writes at once on one population comes in
turn. A ledger's terms never change; its rows are appended, never lowered but by `settle_block`, and outlive the sweeps
that they were for.

What a reader may see. One state between two transactions, without waiting for the writer. A sweep of an earlier release
is read by today's rules of what may leave it (`sweeps.release.policy`), and is refused where it cannot be. Views read
through the publisher (`sweeps.release.publisher`) alone.
"""

from __future__ import annotations

import hashlib
import json
import math
import secrets
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, Select, Table, delete, func, insert, select, update

from dpcore.checks import InvalidValue
from dpcore.events import Adjacency
from dpcore.guarantee import Guarantee
from dpcore.selection.filters import DPCharge, GDPCharge, LinearLedger
from sweeps.privacy.population import AddingRule, Charge, Population, Row, RowKind, admits, refusal, together
from sweeps.privacy.release import Release
from sweeps.provenance.recorded_spec import RecordedSpec
from sweeps.store.database import Database
from sweeps.store.errors import (
    Conflict,
    PopulationExists,
    PopulationSpent,
    StoreError,
    SweepExists,
    UnknownPopulation,
    UnknownSweep,
    UnknownTrial,
)
from sweeps.store.lease import LEASE_SECONDS, Lease, acquire, read_driver
from sweeps.store.records import (
    EPSILON,
    AttemptRecord,
    CurveReport,
    Driver,
    Extension,
    LedgerEntry,
    OutboxRow,
    Outcome,
    Proposal,
    Request,
    Reservation,
    Settlement,
    SweepRecord,
    SweepState,
    TrialRecord,
    TrialState,
    Wanted,
    content_of,
    kind_of,
    trial_key,
    wanted_from,
)
from sweeps.store.schema import (
    DATA_KEY,
    NULL,
    attempts,
    calibrations,
    canonical,
    charges,
    curves,
    dumps,
    extensions,
    keys,
    leases,
    ledger,
    loads_column,
    names,
    outbox,
    populations,
    requests,
    sweeps,
    trials,
)
from sweeps.util.files import collector_paused
from sweeps.util.fingerprint import keyed
from trainables.system import PrivacyPlan, Refusal

# Reads for views and recovery: whole sweeps at once, on one snapshot.

_PARSED_AT_ONCE = ("config", "violations", "guarantee")
"""Columns of texts that are parsed in one pass, several times faster than text by text, and when first looked into."""
_TRIAL_COLUMNS = (
    trials.c.number,
    trials.c.state,
    trials.c.metrics,
    trials.c.seed,
    trials.c.reason,
    trials.c.step,
    trials.c.attempts,
    trials.c.proposed_at,
    trials.c.finished_at,
    trials.c.config,
    trials.c.violations,
    trials.c.guarantee,
    trials.c.plan,
    trials.c.request,
)
_STATES = {str(state): state for state in TrialState}


def id_of_sweep(connection: Connection, name: str) -> int:
    """Row number of a sweep. Raises UnknownSweep."""
    found = connection.execute(select(sweeps.c.id).where(sweeps.c.name == name)).scalar_one_or_none()
    if found is None:
        raise UnknownSweep(name, connection.execute(select(sweeps.c.name)).scalars())
    return int(found)


def trial_number(sweep: str, key: str) -> int:
    """Number of a trial of `sweep` by its key. Raises UnknownTrial for the key of no trial, or of another sweep's."""
    name, _, number = key.rpartition("-")
    if name != sweep or not number.isdecimal():
        raise UnknownTrial(f"trial {key!r}: expected {sweep}-NUMBER")
    return int(number)


def sweep_and_number(key: str) -> tuple[str, int]:
    """What a trial's key is made of. Raises UnknownTrial."""
    sweep = key.rpartition("-")[0]
    return sweep, trial_number(sweep, key)


def read_sweeps(connection: Connection, name: str | None = None) -> list[SweepRecord]:
    """All sweeps in order of creation, or the one that has or had the name `name`."""
    statement = select(sweeps).order_by(sweeps.c.id)
    if name is not None:
        statement = statement.join(names).where(names.c.name == name)
    rows = connection.execute(statement).all()
    extended = _extensions(connection)
    return [
        SweepRecord(
            name=row.name,
            spec=RecordedSpec(json.loads(row.spec)),
            digest=row.digest,
            fingerprints=json.loads(row.fingerprints),
            root=row.root,
            created_at=row.created_at,
            state=SweepState(row.state),
            records=row.records,
            extensions=tuple(extended.get(row.id, ())),
            label=row.label,
        )
        for row in rows
    ]


def _extensions(connection: Connection) -> dict[int, list[Extension]]:
    """Of every sweep by its row number: mostly there are none."""
    found: dict[int, list[Extension]] = {}
    for row in connection.execute(select(extensions).order_by(extensions.c.sweep_id, extensions.c.number)):
        one = Extension(
            trials=row.trials,
            hours=row.hours,
            epsilon=tuple(json.loads(row.epsilon)),
            proposed=row.proposed,
            launched=row.launched,
            at=row.at,
        )
        found.setdefault(row.sweep_id, []).append(one)
    return found


def read_trials(
    connection: Connection,
    name: str,
    states: Collection[TrialState] | None = None,
    numbers: Collection[int] | None = None,
) -> list[TrialRecord]:
    """Trials in order of number, with what may be seen of them."""
    sweep = id_of_sweep(connection, name)
    statement = select(*_TRIAL_COLUMNS).where(trials.c.sweep_id == sweep).order_by(trials.c.number)
    if states is not None:
        statement = statement.where(trials.c.state.in_([str(state) for state in states]))
    if numbers is not None:
        statement = statement.where(trials.c.number.in_(list(numbers)))
    with collector_paused():
        rows = _tuples(connection, statement)
        if not rows:
            return []
        columns = dict(zip((column.name for column in _TRIAL_COLUMNS), zip(*rows, strict=True), strict=True))
        records = _Rows(columns, _reports(connection, sweep)).records(name)
        text = connection.execute(select(sweeps.c.spec).where(sweeps.c.id == sweep)).scalar_one()
        spec = RecordedSpec(json.loads(text))
        if spec.early_stopping is not None:
            records = [_claiming_the_plan(record) for record in records]
        release = Release.recorded(spec)
        return records if release.stated else [release.read(record) for record in records]


def _claiming_the_plan(record: TrialRecord) -> TrialRecord:
    """With what a stopped trial claims (`sweeps.execution.stopped_trials`)."""
    if record.plan is None or record.guarantee is None:
        return record
    claim = record.plan.guarantee
    whole = {EPSILON: claim.epsilon}
    return replace(
        record,
        guarantee=claim,
        metrics={**record.metrics, **whole},
        reports={step: {**metrics, **whole} for step, metrics in record.reports.items()},
    )


class _Rows:
    """One reading, column by column."""

    def __init__(self, columns: Mapping[str, Sequence[Any]], reports: Mapping[int, Mapping[int, Any]]) -> None:
        self._columns, self._reports = dict(columns), reports
        self._parsed: dict[str, list[Any]] = {}

    def decoded(self, name: str, row: int) -> Any:
        if name in _PARSED_AT_ONCE:
            if name not in self._parsed:
                with collector_paused():
                    parsed = loads_column(self._columns.pop(name))
                    self._parsed[name] = list(map(_claim, parsed)) if name == "guarantee" else parsed
            return self._parsed[name][row]
        if name == "reports":
            return self._reports_of(row)
        value = self._columns[name][row]
        if name == "plan":
            # Plans are large and rarely all read.
            return None if value == NULL else PrivacyPlan.from_dict(json.loads(value))
        return int(value) if name == "seed" else value

    def _reports_of(self, row: int) -> Mapping[int, Any]:
        if several := self._reports.get(self._columns["number"][row]):
            return several
        step = self._columns["step"][row]
        return {step: self._parsed["metrics"][row]} if step else {}

    def records(self, sweep: str) -> list[TrialRecord]:
        """All of them."""
        self._parsed["metrics"] = loads_column(self._columns.pop("metrics"))
        columns = (self._columns["number"], self._columns["state"], self._parsed["metrics"])
        return [
            TrialRecord.stored(self, row, key=f"{sweep}-{number}", number=number, state=_STATES[state], metrics=metrics)
            for row, (number, state, metrics) in enumerate(zip(*columns, strict=True))
        ]


def _claim(content: dict[str, Any] | None) -> Guarantee | None:
    return None if content is None else Guarantee.from_dict(content)


def _reports(connection: Connection, sweep: int) -> dict[int, dict[int, Any]]:
    """{number: {step: metrics}} of the trials that have reported more than once."""
    several = (
        select(attempts.c.number)
        .where(attempts.c.sweep_id == sweep, attempts.c.outcome == str(Outcome.SETTLED), attempts.c.attempt > 1)
        .distinct()
    )
    statement = (
        select(attempts.c.number, attempts.c.step, attempts.c.metrics)
        .where(attempts.c.sweep_id == sweep, attempts.c.outcome == str(Outcome.SETTLED))
        .where(attempts.c.number.in_(several))
        .order_by(attempts.c.number, attempts.c.attempt)
    )
    reports: dict[int, dict[int, Any]] = {}
    for number, step, metrics in _tuples(connection, statement):
        reports.setdefault(number, {})[step] = json.loads(metrics)
    return reports


def read_counts(connection: Connection, name: str) -> dict[str, int]:
    """Number of trials in each state, zeros included."""
    rows = connection.execute(
        select(trials.c.state, func.count()).where(trials.c.sweep_id == id_of_sweep(connection, name)).group_by("state")
    )
    return {str(state): 0 for state in TrialState} | {state: count for state, count in rows}


def read_ledger(connection: Connection, name: str, number: int | None = None) -> list[LedgerEntry]:
    """Entries in order of trial and attempt."""
    statement = (
        select(ledger.c.number, ledger.c.attempt, ledger.c.from_step, ledger.c.to_step, ledger.c.executed_to)
        .where(ledger.c.sweep_id == id_of_sweep(connection, name))
        .order_by(ledger.c.number, ledger.c.attempt)
    )
    if number is not None:
        statement = statement.where(ledger.c.number == number)
    with collector_paused():
        return [
            LedgerEntry(key=f"{name}-{row[0]}", attempt=row[1], from_step=row[2], to_step=row[3], executed_to=row[4])
            for row in _tuples(connection, statement)
        ]


def read_attempts(connection: Connection, name: str, number: int | None = None) -> list[AttemptRecord]:
    """Attempts in order of trial and attempt."""
    statement = (
        select(attempts)
        .where(attempts.c.sweep_id == id_of_sweep(connection, name))
        .order_by(attempts.c.number, attempts.c.attempt)
    )
    if number is not None:
        statement = statement.where(attempts.c.number == number)
    return [
        AttemptRecord(
            key=f"{name}-{row.number}",
            attempt=row.attempt,
            outcome=Outcome(row.outcome),
            reason=row.reason,
            step=row.step,
            seconds=row.seconds,
            started_at=row.started_at,
            ended_at=row.ended_at,
        )
        for row in connection.execute(statement)
    ]


def read_curves(connection: Connection, name: str, numbers: Collection[int] | None = None) -> list[CurveReport]:
    """What trials told at the ends of their launches and between, in order of trial and step."""
    sweep = id_of_sweep(connection, name)
    ends = select(attempts.c.number, attempts.c.step, attempts.c.attempt, attempts.c.ended_at, attempts.c.metrics)
    ends = ends.where(attempts.c.sweep_id == sweep, attempts.c.outcome == str(Outcome.SETTLED))
    between = select(curves.c.number, curves.c.step, curves.c.attempt, curves.c.at, curves.c.metric, curves.c.value)
    between = between.where(curves.c.sweep_id == sweep).order_by(curves.c.number, curves.c.step, curves.c.metric)
    if numbers is not None:
        ends = ends.where(attempts.c.number.in_(list(numbers)))
        between = between.where(curves.c.number.in_(list(numbers)))
    with collector_paused():
        rows = _tuples(connection, ends)
        told = loads_column([row[4] for row in rows])
        found = {tuple(row[:4]): metrics for row, metrics in zip(rows, told, strict=True)}
        for row in _tuples(connection, between):
            found.setdefault(tuple(row[:4]), {})[row[4]] = row[5]
        return [
            CurveReport(key=f"{name}-{number}", step=step, attempt=attempt, metrics=metrics, at=at)
            for (number, step, attempt, at), metrics in sorted(found.items(), key=lambda one: one[0][:2])
        ]


def read_outbox(connection: Connection, name: str, limit: int) -> list[OutboxRow]:
    """The oldest rows not yet delivered, in order."""
    statement = (
        select(outbox.c.id, outbox.c.number, outbox.c.kind, outbox.c.at)
        .where(outbox.c.sweep_id == id_of_sweep(connection, name))
        .order_by(outbox.c.id)
        .limit(limit)
    )
    return [
        OutboxRow(
            id=row.id, sweep=name, key=None if row.number is None else f"{name}-{row.number}", kind=row.kind, at=row.at
        )
        for row in connection.execute(statement)
    ]


def read_requests(connection: Connection, name: str) -> list[Request]:
    """What people asked, in order."""
    statement = select(requests).where(requests.c.sweep_id == id_of_sweep(connection, name)).order_by(requests.c.id)
    return [
        Request(id=row.id, wanted=wanted_from(row.kind, json.loads(row.content)), asker=row.asker, at=row.at)
        for row in connection.execute(statement)
    ]


def read_backlog(connection: Connection, name: str) -> int:
    """How many rows are not yet delivered."""
    sweep = id_of_sweep(connection, name)
    return int(connection.execute(select(func.count()).where(outbox.c.sweep_id == sweep)).scalar_one())


def _tuples(connection: Connection, statement: Select[Any]) -> Sequence[Any]:
    return connection.execute(statement).all()


# Writes and reads of what populations are charged, on an open transaction.
#
# Of several that charge one population at once each waits for the population's row, so that what it adds up is all
# that was charged before. SQLite lets one writer in at a time anyway.


def insert_population(connection: Connection, population: Population, insert_unless_there: Any) -> None:
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
    return [
        _charge_row(row) for row in connection.execute(statement.order_by(charges.c.at, charges.c.kind, charges.c.what))
    ]


def add_charge(connection: Connection, population: str, row: Row) -> None:
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
        add_charge(connection, population, row)


def settle_reserved(connection: Connection, population: str, sweep: str, epsilon: float) -> None:
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
    return None if row is None else _charge_row(row)


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


def _charge_row(row: Any) -> Row:
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


# The writes of one sweep, each inside a transaction that has checked the lease first.
#
# The order of statements within a transaction is free; the order of transactions is the guarantee: the reservation is
# durable before a launch exists, and the settlement carries the result, the state and the outbox row together.


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes to sweep number `sweep_id` (called `sweep`) at time `at` on an open transaction, under lease `token`."""

    connection: Connection
    sweep: str
    sweep_id: int
    token: int
    at: float

    def update_sweep(self, **values: object) -> None:
        """What the sweep's own row says."""
        self.connection.execute(update(sweeps).where(sweeps.c.id == self.sweep_id).values(**values))

    def set_state(self, wanted: SweepState) -> None:
        """Where the sweep stands; the views are told of a change."""
        here = sweeps.c.id == self.sweep_id
        if self.connection.execute(select(sweeps.c.state).where(here)).scalar_one() != wanted:
            self.update_sweep(state=str(wanted))
            self._announce("state", None)

    def extend(self, extension: Extension) -> None:
        """One more extension, where it is not the last one."""
        latest = select(extensions).where(extensions.c.sweep_id == self.sweep_id).order_by(extensions.c.number.desc())
        last = self.connection.execute(latest.limit(1)).one_or_none()
        values = asdict(extension) | {"epsilon": dumps(list(extension.epsilon))}
        if last is not None and all(getattr(last, name) == value for name, value in values.items()):
            return
        number = 1 if last is None else last.number + 1
        self.connection.execute(insert(extensions).values(sweep_id=self.sweep_id, number=number, **values))

    def infeasible(self, refused: Iterable[tuple[Proposal, Refusal]]) -> None:
        """Record proposals that are never launched; the same ones again change nothing."""
        given = {proposal.number: (proposal, refusal) for proposal, refusal in refused}
        recorded = {
            row.number: row
            for row in self.connection.execute(
                select(trials.c.number, trials.c.state, trials.c.config, trials.c.violations).where(
                    trials.c.sweep_id == self.sweep_id, trials.c.number.in_(list(given))
                )
            )
        }
        fresh = []
        for number, (proposal, why) in given.items():
            row = self._trial_row(proposal, TrialState.INFEASIBLE, NULL, why)
            if number not in recorded:
                fresh.append(row)
                continue
            before = recorded[number]
            stated = (before.state, json.loads(before.config), json.loads(before.violations))
            if stated != (row["state"], json.loads(row["config"]), json.loads(row["violations"])):
                raise Conflict(f"trial {self.sweep}-{number}: already recorded as {before.state} with other content")
        if fresh:
            self.connection.execute(insert(trials), fresh)
            self._announce("infeasible", *(row["number"] for row in fresh))

    def launch(
        self, proposal: Proposal, plan: PrivacyPlan, to_step: int, launch: str, charge: Charge | None
    ) -> Reservation:
        """The trial, its first attempt, its reservation [0, to_step) and what these cost its population."""
        if not 0 < to_step <= plan.steps:
            raise InvalidValue("to_step", to_step, f"an integer in [1, {plan.steps}], the steps of the plan")
        reserved = Reservation(key=trial_key(self.sweep, proposal.number), attempt=1, from_step=0, to_step=to_step)
        here = self._here(trials, proposal.number)
        before = self.connection.execute(select(trials.c.state).where(*here)).scalar_one_or_none()
        if before is None:
            row = self._trial_row(proposal, TrialState.RUNNING, plan.to_json(), None)
            self.connection.execute(insert(trials).values({**row, "attempts": 1}))
            self._reserve(proposal.number, reserved, launch, charge)
        elif not self._is_repetition(proposal.number, launch):
            raise Conflict(f"trial {reserved.key}: already recorded as {before}; expected a new one")
        return reserved

    def relaunch(self, key: str, from_step: int, to_step: int, launch: str, charge: Charge | None) -> Reservation:
        """The next attempt, its own reservation [from_step, to_step) and what these cost the population."""
        number = trial_number(self.sweep, key)
        trial = self._trial(number)
        reserved = Reservation(key=key, attempt=trial.attempts + 1, from_step=from_step, to_step=to_step)
        if trial.state == TrialState.RUNNING and self._is_repetition(number, launch):
            return replace(reserved, attempt=trial.attempts)
        if trial.state not in (TrialState.PLANNED, TrialState.COMPLETE):
            raise Conflict(
                f"trial {key}: {trial.state}; expected planned (or complete, for its next rung). "
                "Settle, lose or fail its running attempt first."
            )
        executed = select(func.max(ledger.c.executed_to)).where(*self._here(ledger, number))
        reached = self.connection.execute(executed).scalar_one()
        if from_step > reached:
            # Starting beyond every executed step would leave a gap in what the ledger charges.
            raise InvalidValue("from_step", from_step, f"at most {reached}, the last step that any attempt executed")
        self._update_trial(number, state=str(TrialState.RUNNING), attempts=reserved.attempt, finished_at=None)
        self._reserve(number, reserved, launch, charge)
        return reserved

    def settle(self, key: str, attempt: int, came: Settlement) -> None:
        """Result, settlement, state and outbox row; the same content again changes nothing."""
        number, metrics, claim = trial_number(self.sweep, key), dumps(came.metrics), came.guarantee.to_dict()
        content = _digest(
            "settled", came.executed_to, came.step, canonical(came.metrics), canonical(claim), came.finished
        )
        reported = {"step": came.step, "metrics": metrics, "seconds": came.seconds}
        if not self._close(number, attempt, came.executed_to, content, outcome=str(Outcome.SETTLED), **reported):
            return
        self._told(number, attempt, came.curve)
        self._update_trial(
            number,
            state=str(TrialState.COMPLETE if came.finished else TrialState.PLANNED),
            metrics=metrics,
            guarantee=dumps(claim),
            step=came.step,
            reason="",
            finished_at=self.at if came.finished else None,
        )
        if came.announced:
            self._announce("settled", number)

    def add_to_curve(self, key: str, attempt: int, curve: Mapping[int, Mapping[str, float]], announced: bool) -> None:
        """Points that are not there yet, and the trial's claim."""
        number = trial_number(self.sweep, key)
        if self._told(number, attempt, curve):
            plan = self.connection.execute(select(trials.c.plan).where(*self._here(trials, number))).scalar_one()
            claim = PrivacyPlan.from_dict(json.loads(plan)).guarantee
            self._update_trial(number, guarantee=dumps(claim.to_dict()))
            if announced:
                self._announce("told", number)

    def _told(self, number: int, attempt: int, curve: Mapping[int, Mapping[str, float]]) -> bool:
        """Whether any of these points was new; they are there now."""
        if not curve:
            return False
        entry = self.connection.execute(
            select(ledger.c.from_step, ledger.c.to_step).where(*self._here(ledger, number, attempt))
        ).one_or_none()
        if entry is None:
            raise UnknownTrial(f"trial {self.sweep}-{number}, attempt {attempt}: not in this store")
        outside = [step for step in curve if not entry.from_step < step < entry.to_step]
        if outside:
            inside = f"steps inside of the reservation [{entry.from_step}, {entry.to_step}]"
            raise InvalidValue("curve", outside, inside)
        known: dict[int, dict[str, float]] = {}
        for row in self.connection.execute(select(curves).where(*self._here(curves, number))):
            known.setdefault(row.step, {})[row.metric] = row.value
        contradicted = [step for step in curve if step in known and known[step] != dict(curve[step])]
        if contradicted:
            raise Conflict(
                f"trial {self.sweep}-{number}: told something else before after {contradicted[0]} steps; "
                "what is recorded stays"
            )
        where = {"sweep_id": self.sweep_id, "number": number, "attempt": attempt, "at": self.at}
        rows = [
            {**where, "step": step, "metric": name, "value": float(value)}
            for step, metrics in curve.items()
            if step not in known
            for name, value in metrics.items()
        ]
        if rows:
            self.connection.execute(insert(curves), rows)
        return bool(rows)

    def lose(self, key: str, attempt: int, executed_to: int | None, reason: str) -> None:
        """The attempt is gone; charged to its horizon (None: the whole reservation), the trial may go on."""
        number, content = trial_number(self.sweep, key), _digest("lost", executed_to, reason)
        if self._close(number, attempt, executed_to, content, outcome=str(Outcome.LOST), reason=reason):
            self._update_trial(number, state=str(TrialState.PLANNED), reason=reason)
            self._announce("lost", number)

    def fail(self, key: str, attempt: int, executed_to: int | None, reason: str) -> None:
        """The trial is over without a result; charged to its horizon (None: the whole reservation)."""
        number, content = trial_number(self.sweep, key), _digest("failed", executed_to, reason)
        if self._close(number, attempt, executed_to, content, outcome=str(Outcome.FAILED), reason=reason):
            self._failed(number, reason)

    def charge_whole(self, key: str, attempt: int) -> None:
        """Raise what a closed attempt is charged to its whole reservation; never lowers anything."""
        here = self._here(ledger, trial_number(self.sweep, key), attempt)
        self.connection.execute(
            update(ledger).where(*here, ledger.c.executed_to.is_not(None)).values(executed_to=ledger.c.to_step)
        )

    def abandon(self, key: str, reason: str) -> None:
        """The trial cannot go on, and no attempt of it runs; the same again changes nothing."""
        number = trial_number(self.sweep, key)
        state = self._trial(number).state
        if state in (TrialState.PLANNED, TrialState.COMPLETE):
            self._failed(number, reason)
        elif state != TrialState.FAILED:
            raise Conflict(f"trial {key}: {state}; expected planned or complete")

    def erase(self) -> None:
        """Results go, and the charge stays."""
        running = select(attempts.c.number).where(
            attempts.c.sweep_id == self.sweep_id, attempts.c.outcome == str(Outcome.RUNNING)
        )
        if self.connection.execute(running.limit(1)).one_or_none() is not None:
            raise Conflict(f"sweep {self.sweep!r}: an attempt of it runs; settle, lose or fail it first")
        for table in (trials, attempts):
            self.connection.execute(update(table).where(table.c.sweep_id == self.sweep_id).values(metrics="{}"))
        for table in (curves, outbox):
            self.connection.execute(delete(table).where(table.c.sweep_id == self.sweep_id))
        self.update_sweep(state=str(SweepState.DELETED))

    def _trial_row(self, proposal: Proposal, state: TrialState, plan: str, refusal: Refusal | None) -> dict[str, Any]:
        return {
            "sweep_id": self.sweep_id,
            "number": proposal.number,
            "state": str(state),
            "config": dumps(proposal.config),
            "seed": str(proposal.seed),
            "violations": dumps({} if refusal is None else refusal.violations),
            "reason": "" if refusal is None else refusal.reason,
            "metrics": "{}",
            "guarantee": NULL,
            "step": 0,
            "attempts": 0,
            "proposed_at": self.at,
            "finished_at": None if refusal is None else self.at,
            "plan": plan,
            "request": proposal.request,
        }

    def _reserve(self, number: int, reserved: Reservation, launch: str, charge: Charge | None) -> None:
        population = self.connection.execute(select(sweeps.c.population).where(sweeps.c.id == self.sweep_id))
        charge_attempt(self.connection, population.scalar_one(), self.sweep, reserved.key, reserved.attempt, charge)
        where = {"sweep_id": self.sweep_id, "number": number, "attempt": reserved.attempt}
        self.connection.execute(
            insert(attempts).values(
                **where,
                outcome=str(Outcome.RUNNING),
                launch=launch,
                token=self.token,
                content="",
                reason="",
                step=0,
                metrics="{}",
                seconds=0.0,
                started_at=self.at,
            )
        )
        steps = {"from_step": reserved.from_step, "to_step": reserved.to_step}
        self.connection.execute(insert(ledger).values(**where, **steps))

    def _close(self, number: int, attempt: int, executed_to: int | None, content: str, **values: object) -> bool:
        """End a running attempt and settle its ledger entry; False when it had ended with the same content."""
        here = self._here(attempts, number, attempt)
        row = self.connection.execute(
            select(attempts.c.outcome, attempts.c.content, ledger.c.from_step, ledger.c.to_step)
            .join(ledger)
            .where(*here)
        ).one_or_none()
        if row is None:
            raise UnknownTrial(f"trial {self.sweep}-{number}, attempt {attempt}: not in this store")
        if row.outcome != Outcome.RUNNING:
            if row.content == content:
                return False
            raise Conflict(
                f"trial {self.sweep}-{number}, attempt {attempt}: already {row.outcome} with other content; "
                "what is recorded stays"
            )
        charged = row.to_step if executed_to is None else executed_to
        if not row.from_step <= charged <= row.to_step:
            raise InvalidValue("executed_to", executed_to, f"within the reservation [{row.from_step}, {row.to_step}]")
        self.connection.execute(update(attempts).where(*here).values(content=content, ended_at=self.at, **values))
        entry = self._here(ledger, number, attempt)
        self.connection.execute(update(ledger).where(*entry).values(executed_to=charged))
        return True

    def _failed(self, number: int, reason: str) -> None:
        self._update_trial(number, state=str(TrialState.FAILED), reason=reason, finished_at=self.at)
        self._announce("failed", number)

    def _trial(self, number: int) -> Any:
        row = self.connection.execute(
            select(trials.c.state, trials.c.attempts).where(*self._here(trials, number))
        ).one_or_none()
        if row is None:
            raise UnknownTrial(f"trial {self.sweep}-{number}: not in this store")
        return row

    def _update_trial(self, number: int, **values: object) -> None:
        self.connection.execute(update(trials).where(*self._here(trials, number)).values(**values))

    def _is_repetition(self, number: int, launch: str) -> bool:
        """Whether this very call has been committed already (the connection broke before its answer came)."""
        here = (*self._here(attempts, number), attempts.c.launch == launch)
        return self.connection.execute(select(attempts.c.attempt).where(*here)).one_or_none() is not None

    def _here(self, table: Table, number: int, attempt: int | None = None) -> tuple[ColumnElement[bool], ...]:
        """The rows of one trial, or of one attempt."""
        trial = (table.c.sweep_id == self.sweep_id, table.c.number == number)
        return trial if attempt is None else (*trial, table.c.attempt == attempt)

    def _announce(self, kind: str, *numbers: int | None) -> None:
        rows = [{"sweep_id": self.sweep_id, "number": number, "kind": kind, "at": self.at} for number in numbers]
        self.connection.execute(insert(outbox), rows)


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


# Solved values that outlive a process: a cache, never a record, and never inside a trial's transaction.

FLUSH_SECONDS = 1.0


class Calibrations(MutableMapping[str, float]):
    """{question: solved value}, shared by all processes on one store. Safe to use from several threads.

    A new value is visible here at once and durable within about `FLUSH_SECONDS`, written by a thread of its
    own. Losing one costs a calculation.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[str, float] = {}
        self._unsaved: dict[str, float] = {}
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None

    def __getitem__(self, key: str) -> float:
        with self._lock:
            if key in self._known:
                return self._known[key]
        statement = select(calibrations.c.value).where(calibrations.c.key == key)
        value = self._database.read(lambda connection: connection.execute(statement).scalar_one_or_none())
        if value is None:
            raise KeyError(key)
        with self._lock:
            return self._known.setdefault(key, float(value))

    def __setitem__(self, key: str, value: float) -> None:
        if math.isnan(value):
            raise InvalidValue(key, value, "a number")
        with self._lock:
            self._known[key] = self._unsaved[key] = float(value)
            if self._timer is None:
                self._timer = threading.Timer(FLUSH_SECONDS, self._flush_quietly)
                self._timer.daemon = True
                self._timer.start()

    def __delitem__(self, key: str) -> None:
        self[key]
        self.flush()
        with self._lock:
            del self._known[key]
        self._database.write(
            lambda connection: connection.execute(delete(calibrations).where(calibrations.c.key == key))
        )

    def __iter__(self) -> Iterator[str]:
        self.flush()
        return iter(
            self._database.read(lambda connection: connection.execute(select(calibrations.c.key)).scalars().all())
        )

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def flush(self) -> None:
        """Write what is not yet durable. Raises StoreError; then it is kept for the next flush."""
        with self._lock:
            rows = [{"key": key, "value": value} for key, value in self._unsaved.items()]
        if not rows:
            return
        self._database.upsert(calibrations, rows)
        with self._lock:
            for row in rows:
                if self._unsaved.get(str(row["key"])) == row["value"]:
                    del self._unsaved[str(row["key"])]

    def _flush_quietly(self) -> None:
        with self._lock:
            self._timer = None
        try:
            self.flush()
        except StoreError:
            # A cache must not end a sweep: the store's own next write reports what is wrong with it.
            return


T = TypeVar("T")


class Store:
    """Sweeps, their trials, and what these were charged, on SQLite or Postgres. Safe to use from several threads.

    Keys of trials are `<sweep>-<number>` (`sweeps.store.records.trial_key`). What is not there is an UnknownSweep or an
    UnknownTrial; whatever else goes wrong is a StoreError, and its message says what to do.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._calibrations = Calibrations(database)

    @classmethod
    def open(cls, url: str, create: bool = True, *, patience_seconds: float | None = None) -> Store:
        """Open `sqlite:///FILE` or `postgresql://USER@HOST/DATABASE`, as `open_store`."""
        database = Database(url, patience_seconds=patience_seconds)
        try:
            database.prepare(create)
        except BaseException:
            database.close()
            raise
        return cls(database)

    @property
    def url(self) -> str:
        """Where it is, with a password if it has one: for another process, never for a message."""
        return self._database.url

    def close(self) -> None:
        """End its connections. Calibrations that are still in memory are written, where the store takes them."""
        with suppress(StoreError):
            # A cache: losing it costs a calculation, and the reason for the loss was said by what came before.
            self._calibrations.flush()
        self._database.close()

    # -- sweeps -----------------------------------------------------------------------------------------

    def create_sweep(self, record: SweepRecord) -> None:
        """Record a new sweep. Raises SweepExists, also for a name that another one had."""

        row = {
            "name": record.name,
            "spec": dumps(record.spec.canonical),
            "digest": record.digest,
            "fingerprints": dumps(record.fingerprints),
            "root": record.root,
            "created_at": record.created_at,
            "state": str(record.state),
            "records": record.records,
            "population": record.spec.population,
        }
        # Of two that come at once the database lets one in, and the other sees its row.
        unless_taken = self._database.insert(sweeps).values(row).on_conflict_do_nothing().returning(sweeps.c.id)

        def create(connection: Connection) -> None:
            number = connection.execute(unless_taken).scalar_one_or_none()
            if number is None or not self._named(connection, number, record.name):
                raise SweepExists(record.name)
            connection.execute(insert(leases).values(sweep_id=number, token=0, holder=None, expires_at=0.0))

        self._database.write(create)

    def sweep(self, name: str) -> SweepRecord:
        """One sweep, by any name that it has or had; all other methods take `SweepRecord.name`. Raises UnknownSweep."""

        def read(connection: Connection) -> SweepRecord:
            found = read_sweeps(connection, name)
            if not found:
                raise UnknownSweep(name, connection.execute(select(names.c.name)).scalars())
            return found[0]

        return self._database.read(read)

    def sweeps(self) -> list[SweepRecord]:
        """All sweeps, oldest first."""
        return self._database.read(read_sweeps)

    def acquire(self, sweep: str, ttl_seconds: float = LEASE_SECONDS) -> Lease:
        """The right to write `sweep`, where nobody holds it, or no longer. Raises UnknownSweep, LeaseHeld.

        ttl_seconds  how long this holder may give no sign of life
        """
        number = self._database.read(lambda connection: id_of_sweep(connection, sweep))
        return acquire(self._database, sweep, number, ttl_seconds)

    def set_state(self, lease: Lease, state: SweepState | str) -> None:
        """Where the sweep stands, with an outbox row when that changes. Raises LeaseLost."""
        wanted = SweepState(state)
        self._write(lease, lambda writer: writer.set_state(wanted))

    def set_place(self, lease: Lease, root: str, records: str) -> None:
        """Where the sweep's files are from now on: it was resumed elsewhere. Raises LeaseLost."""
        self._write(lease, lambda writer: writer.update_sweep(root=root, records=records))

    def set_fingerprints(self, lease: Lease, fingerprints: Mapping[str, str]) -> None:
        """Replace the recorded fingerprints (a resume under changed ones was accepted by name). Raises LeaseLost."""
        self._write(lease, lambda writer: writer.update_sweep(fingerprints=dumps(fingerprints)))

    def extend(self, lease: Lease, extension: Extension) -> None:
        """Append to `SweepRecord.extensions`; the last one again changes nothing. Raises LeaseLost."""
        self._write(lease, lambda writer: writer.extend(extension))

    def rename(self, sweep: str, label: str) -> None:
        """What people call the sweep from now on, itself or what is then no other's for ever. Needs no lease.

        Raises UnknownSweep, and SweepExists where another sweep has or had that name.
        """

        def write(connection: Connection) -> None:
            number = id_of_sweep(connection, sweep)
            if not self._named(connection, number, label):
                raise SweepExists(label)
            connection.execute(update(sweeps).where(sweeps.c.id == number).values(label=label))

        self._database.write(write)

    def _named(self, connection: Connection, sweep_id: int, name: str) -> bool:
        """Give a sweep a name for ever; whether it is its own now."""
        row = {"name": name, "sweep_id": sweep_id}
        connection.execute(self._database.insert(names).values(row).on_conflict_do_nothing())
        owner = select(names.c.sweep_id).where(names.c.name == name)
        return connection.execute(owner).scalar_one_or_none() == sweep_id

    def erase(self, lease: Lease) -> None:
        """The sweep is DELETED, for ever: metrics, reports and what the views were to be told are gone.

        What was spent stays: plans, claims, attempts, every ledger entry, every charge to its population, fingerprints,
        spec, requests, all its names.
        The same again changes nothing. Raises LeaseLost, and Conflict while an attempt runs.
        """
        self._write(lease, lambda writer: writer.erase())

    # -- what people ask -----------------------------------------------------------------------------------

    def ask(self, sweep: str, wanted: Wanted, asker: str) -> int:
        """Append a request, durable on return, and return its number. Needs no lease. Raises UnknownSweep."""

        row = {"kind": kind_of(wanted), "content": dumps(content_of(wanted)), "asker": asker, "at": time.time()}
        row["call"] = secrets.token_hex(8)

        def write(connection: Connection) -> int:
            values = {**row, "sweep_id": id_of_sweep(connection, sweep)}
            connection.execute(self._database.insert(requests).values(values).on_conflict_do_nothing())
            return int(connection.execute(select(requests.c.id).where(requests.c.call == row["call"])).scalar_one())

        return self._database.write(write)

    def requests(self, sweep: str) -> list[Request]:
        """All requests in order. One with a smaller number may come to light after one with a larger: who looks for
        new ones remembers which it has seen. Raises UnknownSweep."""
        return self._database.read(lambda connection: read_requests(connection, sweep))

    def driver(self, sweep: str) -> Driver | None:
        """Who holds the lease; None where it is free, or its holder certainly gone. Raises UnknownSweep."""
        return self._database.read(
            lambda connection: read_driver(self._database, connection, id_of_sweep(connection, sweep))
        )

    def data_fingerprint(self, digest: str) -> str:
        """What this store records of a data set with that digest: keyed with a secret of its own.

        The secret lies in the store, since every controller on it has to find the same: it serves all sweeps and
        outlives each. So a copy of the store confirms a guess of the records, and stays inside the release boundary;
        what is printed or copied out of it does not.
        """
        statement = select(keys.c.value).where(keys.c.name == DATA_KEY)
        key = self._database.read(lambda connection: connection.execute(statement).scalar_one())
        return keyed(digest, bytes.fromhex(key))

    # -- the two transactions, and what else may come of an attempt ------------------------------------

    def record_infeasible(self, lease: Lease, refused: Iterable[tuple[Proposal, Refusal]]) -> None:
        """Record proposals that are never launched, all in one transaction; the same ones again change nothing.

        Raises LeaseLost, Conflict.
        """
        if listed := list(refused):
            self._write(lease, lambda writer: writer.infeasible(listed))

    def launch(
        self, lease: Lease, proposal: Proposal, plan: PrivacyPlan, to_step: int, charge: Charge | None = None
    ) -> Reservation:
        """Transaction one: the trial, its attempt 1 and the reservation [0, to_step), durable on return.

        charge  to the sweep's population, of these steps; None where it has none, or where its block pays for all

        Raises LeaseLost, Conflict when the number is taken, InvalidValue for steps that the plan does not have and for
        a charge that is missing or of no use, UnknownPopulation, PopulationSpent.
        """
        launch = secrets.token_hex(8)
        return self._write(lease, lambda writer: writer.launch(proposal, plan, to_step, launch, charge))

    def relaunch(
        self, lease: Lease, key: str, from_step: int, to_step: int, charge: Charge | None = None
    ) -> Reservation:
        """The next attempt of a trial with no running one, and its own reservation [from_step, to_step).

        Raises as `launch`, UnknownTrial, InvalidValue when from_step lies beyond every executed step.
        """
        launch = secrets.token_hex(8)
        return self._write(lease, lambda writer: writer.relaunch(key, from_step, to_step, launch, charge))

    def settle(self, lease: Lease, key: str, attempt: int, came: Settlement) -> None:
        """Transaction two: result, curve, settlement, state (COMPLETE, or PLANNED between rungs) and outbox row.

        The same content again, seconds aside, changes nothing. Raises LeaseLost, Conflict, UnknownTrial, InvalidValue
        for steps outside of the reservation.
        """
        self._write(lease, lambda writer: writer.settle(key, attempt, came))

    def add_to_curve(
        self, lease: Lease, key: str, attempt: int, curve: Mapping[int, Mapping[str, float]], announced: bool = True
    ) -> None:
        """What an attempt told on its way, {step: metrics}, as a checkpoint covers it: durable before anybody sees it.

        The trial has a claim from now on, that of its plan. Points that are known change nothing; where all are, nobody
        is told.

        announced  whether views are told of it

        Raises LeaseLost, UnknownTrial, InvalidValue for steps that are not inside of the attempt's reservation, and
        Conflict for another point at a step that has one.
        """
        self._write(lease, lambda writer: writer.add_to_curve(key, attempt, curve, announced))

    def lose(self, lease: Lease, key: str, attempt: int, executed_to: int | None, reason: str) -> None:
        """The attempt is gone: charged to its horizon (None: its whole reservation); the trial is PLANNED again.

        The same content again changes nothing. Raises as `settle`.
        """
        self._write(lease, lambda writer: writer.lose(key, attempt, executed_to, reason))

    def fail(self, lease: Lease, key: str, attempt: int, executed_to: int | None, reason: str) -> None:
        """The trial is over without a (further) result: charged as by `lose`; the trial is FAILED.

        The same content again changes nothing. Raises as `settle`.
        """
        self._write(lease, lambda writer: writer.fail(key, attempt, executed_to, reason))

    def charge_whole(self, lease: Lease, key: str, attempt: int) -> None:
        """An attempt that is over turned out to have gone further than it was charged for: its whole reservation is.

        Never lowers anything. Raises LeaseLost, UnknownTrial.
        """
        self._write(lease, lambda writer: writer.charge_whole(key, attempt))

    def abandon(self, lease: Lease, key: str, reason: str) -> None:
        """The trial, of which no attempt runs, cannot go on: it is FAILED; what was charged and reported stays.

        The same again changes nothing. Raises LeaseLost, Conflict, UnknownTrial.
        """
        self._write(lease, lambda writer: writer.abandon(key, reason))

    # -- populations --------------------------------------------------------------------------------------

    def make_population(self, population: Population) -> None:
        """Its ledger, once and for ever; the same again changes nothing. Raises PopulationExists for other terms."""
        self._database.write(
            lambda connection: insert_population(connection, population, self._database.insert(populations))
        )

    def populations(self) -> list[Population]:
        """All that have a ledger here, by name."""
        return self._database.read(read_populations)

    def charges(self, population: str) -> list[Row]:
        """What was charged to it, oldest first. Raises UnknownPopulation."""

        def read(connection: Connection) -> list[Row]:
            return read_charges(connection, read_population(connection, population).name)

        return self._database.read(read)

    def charge(self, population: str, row: Row) -> None:
        """Append a row that its budget still holds; one that is there changes nothing. Needs no lease.

        Raises UnknownPopulation, PopulationSpent, InvalidValue for a charge of another rule, and Conflict where the
        same was charged before with other content (`at` aside).
        """
        self._database.write(lambda connection: add_charge(connection, population, row))

    def reserve_block(self, lease: Lease, population: str, charge: Charge) -> None:
        """The whole of the lease's sweep as one row, before anything of it is launched; its attempts then cost nothing.

        The same again changes nothing, settled or not. Raises LeaseLost, and as `charge`.
        """
        block = block_of(lease.sweep, charge)
        self._write(lease, lambda writer: add_charge(writer.connection, population, block))

    def settle_block(self, lease: Lease, population: str, epsilon: float) -> None:
        """What a sweep under `release: first` came to: its block counts with this epsilon from now on, for ever.

        Its delta stays. By a linear ledger alone. The same again changes nothing. Raises LeaseLost, UnknownPopulation,
        Conflict where no block is reserved or another epsilon was settled, InvalidValue for one above the reserved.
        """
        self._write(lease, lambda writer: settle_reserved(writer.connection, population, lease.sweep, epsilon))

    # -- reading ----------------------------------------------------------------------------------------

    def trials(self, sweep: str, states: Collection[TrialState] | None = None) -> list[TrialRecord]:
        """Trials in order of number, of the given states only if any are given. Raises UnknownSweep.

        30,000 of them have to be read in well under a second: fields that few look into may be parsed when they are
        (`TrialRecord.stored`).
        """
        return self._database.read(lambda connection: read_trials(connection, sweep, states))

    def trials_of(self, sweep: str, keys: Collection[str]) -> list[TrialRecord]:
        """The trials with these keys, in order of number. Raises UnknownSweep, UnknownTrial."""
        numbers = {trial_number(sweep, key) for key in keys}
        found = self._database.read(lambda connection: read_trials(connection, sweep, numbers=numbers))
        if missing := numbers - {trial.number for trial in found}:
            raise UnknownTrial(f"trial {sweep}-{min(missing)}: not in this store")
        return found

    def counts(self, sweep: str) -> dict[str, int]:
        """{"complete": ..., "running": ..., "failed": ..., "infeasible": ..., "planned": ...}. Raises UnknownSweep."""
        return self._database.read(lambda connection: read_counts(connection, sweep))

    def ledger(self, sweep: str) -> list[LedgerEntry]:
        """All entries in order of trial and attempt. Raises UnknownSweep."""
        return self._database.read(lambda connection: read_ledger(connection, sweep))

    def ledger_of(self, key: str) -> list[LedgerEntry]:
        """The entries of one trial in order of attempt; none where it was never launched. Raises UnknownSweep."""
        return self._database.read(lambda connection: read_ledger(connection, *sweep_and_number(key)))

    def attempts(self, sweep: str) -> list[AttemptRecord]:
        """All attempts in order of trial and attempt. Raises UnknownSweep."""
        return self._database.read(lambda connection: read_attempts(connection, sweep))

    def attempts_of(self, key: str) -> list[AttemptRecord]:
        """Attempts of one trial in order. Raises UnknownSweep."""
        return self._database.read(lambda connection: read_attempts(connection, *sweep_and_number(key)))

    def curves(self, sweep: str, keys: Collection[str] | None = None) -> list[CurveReport]:
        """All that trials told of themselves, at the ends of their launches and between, in order of trial and step.

        keys  of these trials alone

        Raises UnknownSweep, UnknownTrial.
        """
        numbers = None if keys is None else {trial_number(sweep, key) for key in keys}
        return self._database.read(lambda connection: read_curves(connection, sweep, numbers))

    # -- views ------------------------------------------------------------------------------------------

    def outbox(self, sweep: str, limit: int = 1000) -> list[OutboxRow]:
        """The oldest `limit` changes that the views have not been told, in the order of their transactions."""
        return self._database.read(lambda connection: read_outbox(connection, sweep, limit))

    def backlog(self, sweep: str) -> int:
        """How many changes the views have not been told."""
        return self._database.read(lambda connection: read_backlog(connection, sweep))

    def delivered(self, lease: Lease | None, ids: Sequence[int]) -> None:
        """Forget these outbox rows; unknown ones are ignored. The drain beside a controller has no lease."""

        def forget(connection: Connection) -> None:
            connection.execute(delete(outbox).where(outbox.c.id.in_(list(ids))))

        if lease is None:
            self._database.write(forget)
        else:
            self._write(lease, lambda writer: forget(writer.connection))

    def calibrations(self) -> Calibrations:
        """{question: solved value}, shared by all processes on one store: a cache, and safe to use from threads.

        A new value is visible here at once and durable soon; losing one costs a calculation. Not a number is an
        InvalidValue.
        """
        return self._calibrations

    def _write(self, lease: Lease, work: Callable[[Writer], T]) -> T:
        def guarded(connection: Connection) -> T:
            lease.check(connection)
            return work(Writer(connection, lease.sweep, lease.sweep_id, lease.token, time.time()))

        return self._database.write(guarded)


# The door where a URL becomes a store.


def open_store(url: str, create: bool = True, *, patience_seconds: float | None = None) -> Store:
    """Open the store at `url`: `sqlite:///FILE` or `postgresql://USER@HOST/DATABASE`.

    create            make it when there is none; otherwise its absence is an error
    patience_seconds  how long to wait for a store that is locked, gone or silent; by default one patience

    Raises StoreError: missing, locked, read-only, full, no store, or written by another release.
    """
    return Store.open(url, create, patience_seconds=patience_seconds)
