"""The record of truth of every sweep: what it owes, and the one class that keeps it.

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
other sweeps over it. The charge of an attempt is durable in the very transaction of its launch, which is refused as
PopulationSpent where the budget does not hold it: whoever writes at once on one population comes in turn. A ledger's
terms never change; its rows are appended, never lowered but by `settle_block`, and outlive the sweeps that they were
for.

What a reader may see. One state between two transactions, without waiting for the writer. Views read through the
publisher (`sweeps.privacy.release`) alone.
"""

from __future__ import annotations

import functools
import hashlib
import json
import secrets
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import ColumnElement, Connection, Table, delete, func, insert, select, update

from dpcore.checks import InvalidValue
from dpcore.events import Adjacency
from dpcore.selection.filters import DPCharge, GDPCharge
from sweeps.store import errors
from sweeps.store.database import Calibrations, Database
from sweeps.store.lease import LEASE_SECONDS, Lease, acquire, read_driver
from sweeps.store.population import AddingRule, Charge, Population, Row, RowKind, admits, refusal, together
from sweeps.store.records import (
    AS_JSON,
    KINDS,
    PARSED_LATER,
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
    read_json,
    trial_key,
)
from sweeps.store.schema import (
    DATA_KEY,
    NULL,
    attempts,
    charges,
    curves,
    dumps,
    keys,
    leases,
    names,
    outbox,
    populations,
    record,
    requests,
    sweeps,
    trials,
)
from sweeps.util.fingerprint import keyed
from trainables.system import PrivacyPlan, Refusal

P = ParamSpec("P")
T = TypeVar("T")


def open_store(url: str, create: bool = True, *, patience_seconds: float | None = None) -> Store:
    """Open the store at `url`: `sqlite:///FILE` or `postgresql://USER@HOST/DATABASE`.

    create            make it when there is none; otherwise its absence is an error
    patience_seconds  how long to wait for a store that is locked, gone or silent; by default one patience

    Raises StoreError: missing, locked, read-only, full, no store, or written by another release.
    """
    database = Database(url, patience_seconds=patience_seconds)
    try:
        database.prepare(create)
    except BaseException:
        database.close()
        raise
    return Store(database)


@dataclass(frozen=True, slots=True)
class Writing:
    """One write of a sweep, on an open transaction that has checked its lease.

    at    seconds since 1970
    call  of this write alone, however often it is tried: a connection may break after the commit
    """

    connection: Connection
    sweep: str
    sweep_id: int
    token: int
    at: float
    call: str

    def update_sweep(self, **values: object) -> None:
        """What the sweep's own row says."""
        self.connection.execute(update(sweeps).where(sweeps.c.id == self.sweep_id).values(**values))

    def update_trial(self, number: int, **values: object) -> None:
        """What a trial's row says."""
        self.connection.execute(update(trials).where(*self.rows(trials, number)).values(**values))

    def rows(self, table: Table, number: int, attempt: int | None = None) -> tuple[ColumnElement[bool], ...]:
        """The rows of one trial, or of one attempt."""
        trial = (table.c.sweep_id == self.sweep_id, table.c.number == number)
        return trial if attempt is None else (*trial, table.c.attempt == attempt)

    def announce(self, kind: str, *numbers: int | None) -> None:
        """Rows of the outbox: the views are to look at these trials, or at the sweep."""
        rows = [{"sweep_id": self.sweep_id, "number": number, "kind": kind, "at": self.at} for number in numbers]
        self.connection.execute(insert(outbox), rows)

    def is_repeated(self, number: int) -> bool:
        """Whether this very launch has been committed already (the connection broke before its answer came)."""
        here = (*self.rows(attempts, number), attempts.c.launch == self.call)
        return self.connection.execute(select(attempts.c.attempt).where(*here)).one_or_none() is not None

    def state_and_attempts(self, number: int) -> tuple[TrialState, int]:
        """Of a trial. Raises UnknownTrial."""
        statement = select(trials.c.state, trials.c.attempts).where(*self.rows(trials, number))
        row = self.connection.execute(statement).one_or_none()
        if row is None:
            raise errors.UnknownTrial(f"trial {self.sweep}-{number}: not in this store")
        return TrialState(row.state), row.attempts

    def reserve(self, number: int, reserved: Reservation, charge: Charge | None) -> None:
        """A running attempt, its ledger entry, and what these cost the sweep's population."""
        self._charge(reserved, charge)
        where = {"sweep_id": self.sweep_id, "number": number, "attempt": reserved.attempt}
        attempt = {"outcome": str(Outcome.RUNNING), "launch": self.call, "token": self.token, "started_at": self.at}
        steps = {"from_step": reserved.from_step, "to_step": reserved.to_step}
        nothing = {"content": "", "reason": "", "step": 0, "metrics": "{}", "seconds": 0.0}
        self.connection.execute(insert(attempts).values(**where, **attempt, **steps, **nothing))

    def _charge(self, reserved: Reservation, charge: Charge | None) -> None:
        """What a launch adds to the sweep's population; without one nothing may be given."""
        declared = select(sweeps.c.population).where(sweeps.c.id == self.sweep_id)
        population = self.connection.execute(declared).scalar_one()
        if not population:
            if charge is not None:
                raise InvalidValue("charge", charge, "none, since its sweep declares no population")
            return
        block = _read_row(self.connection, population, RowKind.SWEEP, self.sweep)
        if (charge is None) == (block is None):
            expected = "none, since the block of its sweep pays for it" if block else f"what it costs {population!r}"
            raise InvalidValue("charge", charge, expected)
        if charge is not None:
            what = f"{reserved.key}/{reserved.attempt}"
            row = Row(kind=RowKind.ATTEMPT, what=what, sweep=self.sweep, charge=charge, at=time.time())
            _add_charge(self.connection, population, row)

    def close(self, number: int, attempt: int, executed_to: int | None, content: str, **values: object) -> bool:
        """End a running attempt and settle its ledger entry; False when it had ended with the same content."""
        here = self.rows(attempts, number, attempt)
        row = self.connection.execute(select(attempts).where(*here)).one_or_none()
        if row is None:
            raise errors.UnknownTrial(f"trial {self.sweep}-{number}, attempt {attempt}: not in this store")
        if row.outcome != Outcome.RUNNING:
            if row.content == content:
                return False
            raise errors.Conflict(
                f"trial {self.sweep}-{number}, attempt {attempt}: already {row.outcome} with other content; "
                "what is recorded stays"
            )
        charged = row.to_step if executed_to is None else executed_to
        if not row.from_step <= charged <= row.to_step:
            raise InvalidValue("executed_to", executed_to, f"within the reservation [{row.from_step}, {row.to_step}]")
        ended = {"content": content, "ended_at": self.at, "executed_to": charged}
        self.connection.execute(update(attempts).where(*here).values(**ended, **values))
        return True

    def fail(self, number: int, reason: str) -> None:
        """A trial is over without a result."""
        self.update_trial(number, state=str(TrialState.FAILED), reason=reason, finished_at=self.at)
        self.announce("failed", number)

    def add_points(self, number: int, attempt: int, curve: Mapping[int, Mapping[str, float]]) -> bool:
        """Points of a curve; whether any of them was new. Raises as `Store.add_to_curve`."""
        if not curve:
            return False
        steps = select(attempts.c.from_step, attempts.c.to_step).where(*self.rows(attempts, number, attempt))
        entry = self.connection.execute(steps).one_or_none()
        if entry is None:
            raise errors.UnknownTrial(f"trial {self.sweep}-{number}, attempt {attempt}: not in this store")
        if outside := [step for step in curve if not entry.from_step < step < entry.to_step]:
            inside = f"steps inside of the reservation [{entry.from_step}, {entry.to_step}]"
            raise InvalidValue("curve", outside, inside)
        known: dict[int, dict[str, float]] = {}
        for row in self.connection.execute(select(curves).where(*self.rows(curves, number))):
            known.setdefault(row.step, {})[row.metric] = row.value
        if contradicted := [step for step in curve if step in known and known[step] != dict(curve[step])]:
            raise errors.Conflict(
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


def _leased(work: Callable[Concatenate[Store, Writing, P], T]) -> Callable[Concatenate[Store, Lease, P], T]:
    """A method whose body is one durable transaction of whoever holds the lease."""

    @functools.wraps(work)
    def write(self: Store, lease: Lease, *arguments: P.args, **options: P.kwargs) -> T:
        call = secrets.token_hex(8)

        def transaction(connection: Connection) -> T:
            lease.check(connection)
            writing = Writing(connection, lease.sweep, lease.sweep_id, lease.token, time.time(), call)
            return work(self, writing, *arguments, **options)

        return self._database.write(transaction)

    return write


def _durable(work: Callable[Concatenate[Store, Connection, P], T]) -> Callable[Concatenate[Store, P], T]:
    """A method whose body is one durable transaction, which needs no lease."""

    @functools.wraps(work)
    def write(self: Store, *arguments: P.args, **options: P.kwargs) -> T:
        return self._database.write(lambda connection: work(self, connection, *arguments, **options))

    return write


def _snapshot(work: Callable[Concatenate[Store, Connection, P], T]) -> Callable[Concatenate[Store, P], T]:
    """A method whose body reads one state of the store."""

    @functools.wraps(work)
    def read(self: Store, *arguments: P.args, **options: P.kwargs) -> T:
        return self._database.read(lambda connection: work(self, connection, *arguments, **options))

    return read


class Store:
    """Sweeps, their trials, and what these were charged, on SQLite or Postgres. Safe to use from several threads.

    Keys of trials are `<sweep>-<number>` (`trial_key`). What is not there is an UnknownSweep or an UnknownTrial;
    whatever else goes wrong is a StoreError, and its message says what to do. Every write that takes a lease raises
    LeaseLost where that is over.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._calibrations: Calibrations | None = None

    @property
    def url(self) -> str:
        """Where it is, with a password if it has one: for another process, never for a message."""
        return self._database.url

    def close(self) -> None:
        """End its connections. Calibrations that are still in memory are written, where the store takes them."""
        with suppress(errors.StoreError):
            # A cache: losing it costs a calculation, and the reason for the loss was said by what came before.
            if self._calibrations is not None:
                self._calibrations.flush()
        self._database.close()

    def calibrations(self) -> Calibrations:
        """{question: solved value}, shared by all processes on one store."""
        if self._calibrations is None:
            self._calibrations = Calibrations(self._database)
        return self._calibrations

    # -- sweeps -----------------------------------------------------------------------------------------

    @_durable
    def create_sweep(self, connection: Connection, new: SweepRecord) -> None:
        """Record a new sweep. Raises SweepExists, also for a name that another one had."""
        row = {name: getattr(new, name) for name in ("name", "digest", "root", "created_at", "records", "label")}
        row |= {"spec": dumps(new.spec.canonical()), "fingerprints": dumps(new.fingerprints), "state": str(new.state)}
        row |= {"population": new.spec.data.population or "", "extensions": "[]"}
        # Of two that come at once the database lets one in, and the other sees its row.
        unless_taken = self._database.insert(sweeps).values(row).on_conflict_do_nothing().returning(sweeps.c.id)
        number = connection.execute(unless_taken).scalar_one_or_none()
        if number is None or not self._named(connection, number, new.name):
            raise errors.SweepExists(new.name)
        connection.execute(insert(leases).values(sweep_id=number, token=0, holder=None, expires_at=0.0))

    @_snapshot
    def sweep(self, connection: Connection, name: str) -> SweepRecord:
        """One sweep, by any name that it has or had; all other methods take `SweepRecord.name`. Raises UnknownSweep."""
        statement = select(sweeps).join(names).where(names.c.name == name)
        row = connection.execute(statement).one_or_none()
        if row is None:
            raise errors.UnknownSweep(name, connection.execute(select(names.c.name)).scalars())
        return _sweep_record(row)

    @_snapshot
    def sweeps(self, connection: Connection) -> list[SweepRecord]:
        """All sweeps, oldest first."""
        return [_sweep_record(row) for row in connection.execute(select(sweeps).order_by(sweeps.c.id))]

    def acquire(self, sweep: str, ttl_seconds: float = LEASE_SECONDS) -> Lease:
        """The right to write `sweep`, where nobody holds it, or no longer. Raises UnknownSweep, LeaseHeld.

        ttl_seconds  how long this holder may give no sign of life
        """
        number = self._database.read(lambda connection: _sweep_id(connection, sweep))
        return acquire(self._database, sweep, number, ttl_seconds)

    @_leased
    def set_state(self, writing: Writing, state: SweepState | str) -> None:
        """Where the sweep stands, with an outbox row when that changes."""
        before = select(sweeps.c.state).where(sweeps.c.id == writing.sweep_id)
        if writing.connection.execute(before).scalar_one() != SweepState(state):
            writing.update_sweep(state=str(SweepState(state)))
            writing.announce("state", None)

    @_leased
    def set_place(self, writing: Writing, root: str, records: str) -> None:
        """Where the sweep's files are from now on: it was resumed elsewhere."""
        writing.update_sweep(root=root, records=records)

    @_leased
    def set_fingerprints(self, writing: Writing, fingerprints: Mapping[str, str]) -> None:
        """Replace the recorded fingerprints (a resume under changed ones was accepted by name)."""
        writing.update_sweep(fingerprints=dumps(fingerprints))

    @_leased
    def extend(self, writing: Writing, extension: Extension) -> None:
        """Append to `SweepRecord.extensions`; the last one again changes nothing."""
        recorded = select(sweeps.c.extensions).where(sweeps.c.id == writing.sweep_id)
        before = json.loads(writing.connection.execute(recorded).scalar_one())
        new = asdict(extension) | {"epsilon": list(extension.epsilon)}
        if before[-1:] != [new]:
            writing.update_sweep(extensions=dumps([*before, new]))

    @_durable
    def rename(self, connection: Connection, sweep: str, label: str) -> None:
        """What people call the sweep from now on, itself or what is then no other's for ever. Needs no lease.

        Raises UnknownSweep, and SweepExists where another sweep has or had that name.
        """
        number = _sweep_id(connection, sweep)
        if not self._named(connection, number, label):
            raise errors.SweepExists(label)
        connection.execute(update(sweeps).where(sweeps.c.id == number).values(label=label))

    def _named(self, connection: Connection, sweep_id: int, name: str) -> bool:
        """Give a sweep a name for ever; whether it is its own now."""
        row = {"name": name, "sweep_id": sweep_id}
        connection.execute(self._database.insert(names).values(row).on_conflict_do_nothing())
        owner = select(names.c.sweep_id).where(names.c.name == name)
        return connection.execute(owner).scalar_one_or_none() == sweep_id

    @_leased
    def erase(self, writing: Writing) -> None:
        """The sweep is DELETED, for ever: metrics, reports and what the views were to be told are gone.

        What was spent stays: plans, claims, attempts, every ledger entry, every charge to its population, fingerprints,
        spec, requests, all its names. The same again changes nothing. Raises Conflict while an attempt runs.
        """
        running = (attempts.c.sweep_id == writing.sweep_id, attempts.c.outcome == str(Outcome.RUNNING))
        if writing.connection.execute(select(attempts.c.number).where(*running).limit(1)).one_or_none() is not None:
            raise errors.Conflict(f"sweep {writing.sweep!r}: an attempt of it runs; settle, lose or fail it first")
        for table in (trials, attempts):
            results = update(table).where(table.c.sweep_id == writing.sweep_id).values(metrics="{}")
            writing.connection.execute(results)
        for table in (curves, outbox):
            writing.connection.execute(delete(table).where(table.c.sweep_id == writing.sweep_id))
        writing.update_sweep(state=str(SweepState.DELETED))

    @_leased
    def withdraw(self, writing: Writing) -> None:
        """Forget a sweep that was refused before anything of it ran: its name is free. Raises Conflict else."""
        own = writing.sweep_id
        if writing.connection.execute(select(trials.c.number).where(trials.c.sweep_id == own).limit(1)).one_or_none():
            raise errors.Conflict(f"sweep {writing.sweep!r}: it has trials; delete it")
        for table in (requests, names, outbox, leases):
            writing.connection.execute(delete(table).where(table.c.sweep_id == own))
        writing.connection.execute(delete(sweeps).where(sweeps.c.id == own))

    # -- what people ask -----------------------------------------------------------------------------------

    def ask(self, sweep: str, wanted: Wanted, asker: str) -> int:
        """Append a request, durable on return, and return its number. Needs no lease. Raises UnknownSweep."""
        kind = next(kind for kind, known in KINDS.items() if isinstance(wanted, known))
        row = {"kind": kind, "content": dumps(asdict(wanted)), "asker": asker, "at": time.time()}
        call = secrets.token_hex(8)

        def write(connection: Connection) -> int:
            values = {**row, "call": call, "sweep_id": _sweep_id(connection, sweep)}
            connection.execute(self._database.insert(requests).values(values).on_conflict_do_nothing())
            return int(connection.execute(select(requests.c.id).where(requests.c.call == call)).scalar_one())

        return self._database.write(write)

    @_snapshot
    def requests(self, connection: Connection, sweep: str) -> list[Request]:
        """All requests in order. One with a smaller number may come to light after one with a larger: who looks for
        new ones remembers which it has seen. Raises UnknownSweep, UnknownRequest."""
        statement = select(requests).where(requests.c.sweep_id == _sweep_id(connection, sweep)).order_by(requests.c.id)
        found = connection.execute(statement).all()
        if unknown := [row.kind for row in found if row.kind not in KINDS]:
            was = f"asked for {unknown[0]!r}, which this release does not know"
            raise errors.UnknownRequest(f"sweep {sweep!r}: somebody {was}. Go on with the release that wrote it.")
        return [record(Request, row, wanted=KINDS[row.kind](**json.loads(row.content))) for row in found]

    @_snapshot
    def driver(self, connection: Connection, sweep: str) -> Driver | None:
        """Who holds the lease; None where it is free, or its holder certainly gone. Raises UnknownSweep."""
        return read_driver(self._database, connection, _sweep_id(connection, sweep))

    @_snapshot
    def data_fingerprint(self, connection: Connection, digest: str) -> str:
        """What this store records of a data set with that digest: keyed with a secret of its own.

        The secret lies in the store, since every controller on it has to find the same: it serves all sweeps and
        outlives each. So a copy of the store confirms a guess of the records, and stays inside the release boundary;
        what is printed or copied out of it does not.
        """
        key = connection.execute(select(keys.c.value).where(keys.c.name == DATA_KEY)).scalar_one()
        return keyed(digest, bytes.fromhex(key))

    # -- the two transactions, and what else may come of an attempt ------------------------------------

    @_leased
    def record_infeasible(self, writing: Writing, proposal: Proposal, why: Refusal) -> None:
        """Record a proposal that is never launched; the same one again changes nothing. Raises Conflict."""
        row = _trial_row(writing, proposal, TrialState.INFEASIBLE, NULL, why)
        there = select(trials).where(*writing.rows(trials, proposal.number))
        before = writing.connection.execute(there).one_or_none()
        if before is None:
            writing.connection.execute(insert(trials).values(row))
            writing.announce("infeasible", proposal.number)
        elif any(getattr(before, name) != row[name] for name in ("state", "config", "violations")):
            key = trial_key(writing.sweep, proposal.number)
            raise errors.Conflict(f"trial {key}: already recorded as {before.state} with other content")

    @_leased
    def launch(
        self, writing: Writing, proposal: Proposal, plan: PrivacyPlan, to_step: int, charge: Charge | None = None
    ) -> Reservation:
        """Transaction one: the trial, its attempt 1 and the reservation [0, to_step), durable on return.

        charge  to the sweep's population, of these steps; None where it has none, or where its block pays for all

        Raises Conflict when the number is taken, InvalidValue for steps that the plan does not have and for a charge
        that is missing or of no use, UnknownPopulation, PopulationSpent.
        """
        if not 0 < to_step <= plan.steps:
            raise InvalidValue("to_step", to_step, f"an integer in [1, {plan.steps}], the steps of the plan")
        number = proposal.number
        reserved = Reservation(key=trial_key(writing.sweep, number), attempt=1, from_step=0, to_step=to_step)
        there = select(trials.c.state).where(*writing.rows(trials, number))
        before = writing.connection.execute(there).scalar_one_or_none()
        if before is None:
            row = _trial_row(writing, proposal, TrialState.RUNNING, plan.to_json(), None)
            writing.connection.execute(insert(trials).values({**row, "attempts": 1}))
            writing.reserve(number, reserved, charge)
        elif not writing.is_repeated(number):
            raise errors.Conflict(f"trial {reserved.key}: already recorded as {before}; expected a new one")
        return reserved

    @_leased
    def relaunch(
        self, writing: Writing, key: str, from_step: int, to_step: int, charge: Charge | None = None
    ) -> Reservation:
        """The next attempt of a trial with no running one, and its own reservation [from_step, to_step).

        Raises as `launch`, UnknownTrial, InvalidValue when from_step lies beyond every executed step.
        """
        number = _trial_number(writing.sweep, key)
        state, before = writing.state_and_attempts(number)
        reserved = Reservation(key=key, attempt=before + 1, from_step=from_step, to_step=to_step)
        if state is TrialState.RUNNING and writing.is_repeated(number):
            return replace(reserved, attempt=before)
        if state not in (TrialState.PLANNED, TrialState.COMPLETE):
            raise errors.Conflict(
                f"trial {key}: {state}; expected planned (or complete, for its next rung). "
                "Settle, lose or fail its running attempt first."
            )
        executed = select(func.max(attempts.c.executed_to)).where(*writing.rows(attempts, number))
        reached = writing.connection.execute(executed).scalar_one()
        if from_step > reached:
            # Starting beyond every executed step would leave a gap in what the ledger charges.
            raise InvalidValue("from_step", from_step, f"at most {reached}, the last step that any attempt executed")
        writing.update_trial(number, state=str(TrialState.RUNNING), attempts=reserved.attempt, finished_at=None)
        writing.reserve(number, reserved, charge)
        return reserved

    @_leased
    def settle(self, writing: Writing, key: str, attempt: int, came: Settlement) -> None:
        """Transaction two: result, curve, settlement, state (COMPLETE, or PLANNED between rungs) and outbox row.

        The same content again, seconds aside, changes nothing. Raises Conflict, UnknownTrial, InvalidValue for steps
        outside of the reservation.
        """
        number, metrics, claim = _trial_number(writing.sweep, key), dumps(came.metrics), came.guarantee.to_dict()
        values = dumps([came.metrics, claim], sort_keys=True)
        content = _digest("settled", came.executed_to, came.step, values, came.finished)
        reported = {"step": came.step, "metrics": metrics, "seconds": came.seconds}
        if not writing.close(number, attempt, came.executed_to, content, outcome=str(Outcome.SETTLED), **reported):
            return
        writing.add_points(number, attempt, came.curve)
        writing.update_trial(
            number,
            state=str(TrialState.COMPLETE if came.finished else TrialState.PLANNED),
            metrics=metrics,
            guarantee=dumps(claim),
            step=came.step,
            reason="",
            finished_at=writing.at if came.finished else None,
        )
        if came.announced:
            writing.announce("settled", number)

    @_leased
    def add_to_curve(
        self,
        writing: Writing,
        key: str,
        attempt: int,
        curve: Mapping[int, Mapping[str, float]],
        announced: bool = True,
    ) -> None:
        """What an attempt told on its way, {step: metrics}, as a checkpoint covers it: durable before anybody sees it.

        The trial has a claim from now on, that of its plan. Points that are known change nothing; where all are, nobody
        is told.

        announced  whether views are told of it

        Raises UnknownTrial, InvalidValue for steps that are not inside of the attempt's reservation, and Conflict for
        another point at a step that has one.
        """
        number = _trial_number(writing.sweep, key)
        if writing.add_points(number, attempt, curve):
            planned = select(trials.c.plan).where(*writing.rows(trials, number))
            claim = json.loads(writing.connection.execute(planned).scalar_one())["guarantee"]
            writing.update_trial(number, guarantee=dumps(claim))
            if announced:
                writing.announce("told", number)

    @_leased
    def lose(self, writing: Writing, key: str, attempt: int, executed_to: int | None, reason: str) -> None:
        """The attempt is gone: charged to its horizon (None: its whole reservation); the trial is PLANNED again.

        The same content again changes nothing. Raises as `settle`.
        """
        number, content = _trial_number(writing.sweep, key), _digest("lost", executed_to, reason)
        if writing.close(number, attempt, executed_to, content, outcome=str(Outcome.LOST), reason=reason):
            writing.update_trial(number, state=str(TrialState.PLANNED), reason=reason)
            writing.announce("lost", number)

    @_leased
    def fail(self, writing: Writing, key: str, attempt: int, executed_to: int | None, reason: str) -> None:
        """The trial is over without a (further) result: charged as by `lose`; the trial is FAILED.

        The same content again changes nothing. Raises as `settle`.
        """
        number, content = _trial_number(writing.sweep, key), _digest("failed", executed_to, reason)
        if writing.close(number, attempt, executed_to, content, outcome=str(Outcome.FAILED), reason=reason):
            writing.fail(number, reason)

    @_leased
    def charge_whole(self, writing: Writing, key: str, attempt: int) -> None:
        """An attempt that is over turned out to have gone further than it was charged for: its whole reservation is.

        Never lowers anything. Raises UnknownTrial.
        """
        settled = (
            *writing.rows(attempts, _trial_number(writing.sweep, key), attempt),
            attempts.c.executed_to.is_not(None),
        )
        writing.connection.execute(update(attempts).where(*settled).values(executed_to=attempts.c.to_step))

    @_leased
    def abandon(self, writing: Writing, key: str, reason: str) -> None:
        """The trial, of which no attempt runs, cannot go on: it is FAILED; what was charged and reported stays.

        The same again changes nothing. Raises Conflict, UnknownTrial.
        """
        number = _trial_number(writing.sweep, key)
        state, _ = writing.state_and_attempts(number)
        if state in (TrialState.PLANNED, TrialState.COMPLETE):
            writing.fail(number, reason)
        elif state is not TrialState.FAILED:
            raise errors.Conflict(f"trial {key}: {state}; expected planned or complete")

    # -- populations --------------------------------------------------------------------------------------

    @_durable
    def make_population(self, connection: Connection, population: Population) -> None:
        """Its ledger, once and for ever; the same again changes nothing. Raises PopulationExists for other terms."""
        row = asdict(population) | {"rule": str(population.rule), "adjacency": str(population.adjacency)}
        new = self._database.insert(populations).values(row | {"at": time.time()})
        connection.execute(new.on_conflict_do_nothing())
        there = _read_population(connection, population.name)
        if there != population:
            raise errors.PopulationExists(
                f"population {population.name!r} has a ledger already: rule {there.rule}, epsilon={there.epsilon!r}, "
                f"delta={there.delta!r}, {there.adjacency}, unit {there.unit}, tau={there.tau!r}. Its terms never "
                "change; other terms would be another promise about what was released under these."
            )

    @_snapshot
    def populations(self, connection: Connection) -> list[Population]:
        """All that have a ledger here, by name."""
        return [_population(row) for row in connection.execute(select(populations).order_by(populations.c.name))]

    @_snapshot
    def charges(self, connection: Connection, population: str) -> list[Row]:
        """What was charged to it, oldest first. Raises UnknownPopulation."""
        here = select(charges).where(charges.c.population == _read_population(connection, population).name)
        return [_row(one) for one in connection.execute(here.order_by(charges.c.at, charges.c.kind, charges.c.what))]

    @_snapshot
    def population(self, connection: Connection, name: str) -> Population:
        """One of them. Raises UnknownPopulation."""
        return _read_population(connection, name)

    @_durable
    def charge(self, connection: Connection, population: str, row: Row) -> None:
        """Append a row that its budget still holds; one that is there changes nothing. Needs no lease.

        Raises UnknownPopulation, PopulationSpent, InvalidValue for a charge of another rule, and Conflict where the
        same was charged before with other content (`at` aside).
        """
        _add_charge(connection, population, row)

    @_leased
    def reserve_block(self, writing: Writing, population: str, charge: Charge) -> None:
        """The whole of the lease's sweep as one row, before anything of it is launched; its attempts then cost nothing.

        The same again changes nothing, settled or not. Raises as `charge`.
        """
        row = Row(kind=RowKind.SWEEP, what=writing.sweep, sweep=writing.sweep, charge=charge, at=writing.at)
        _add_charge(writing.connection, population, row)

    @_leased
    def settle_block(self, writing: Writing, population: str, epsilon: float) -> None:
        """What a sweep under `release: first` came to: its block counts with this epsilon from now on, for ever.

        Its delta stays. By a linear ledger alone. The same again changes nothing. Raises UnknownPopulation, Conflict
        where no block is reserved or another epsilon was settled, InvalidValue for one above the reserved.
        """
        ledger = _read_population(writing.connection, population, lock=True)
        block = _read_row(writing.connection, population, RowKind.SWEEP, writing.sweep)
        if block is None:
            raise errors.Conflict(
                f"population {population!r}: sweep {writing.sweep!r} reserved nothing that could be settled"
            )
        if block.settled is not None:
            if block.settled != epsilon:
                before = f"was settled at epsilon={block.settled!r} before"
                raise errors.Conflict(f"population {population!r}: sweep {writing.sweep!r} {before}")
            return
        if ledger.rule is not AddingRule.LINEAR or not isinstance(block.charge, DPCharge):
            raise InvalidValue("rule", ledger.rule, "linear: by another rule a block stays at what it reserved")
        if not 0 <= epsilon <= block.charge.epsilon:
            raise InvalidValue("epsilon", epsilon, f"at most what was reserved, {block.charge.epsilon!r}")
        here = _charged(population, RowKind.SWEEP, writing.sweep)
        writing.connection.execute(update(charges).where(*here).values(settled=epsilon))

    # -- reading ----------------------------------------------------------------------------------------

    @_snapshot
    def trials(
        self, connection: Connection, sweep: str, states: Collection[TrialState] | None = None
    ) -> list[TrialRecord]:
        """Trials in order of number, of the given states only if any are given. Raises UnknownSweep."""
        chosen = () if states is None else (trials.c.state.in_([str(state) for state in states]),)
        return _read_trials(connection, sweep, *chosen)

    @_snapshot
    def trials_of(self, connection: Connection, sweep: str, keys: Collection[str]) -> list[TrialRecord]:
        """The trials with these keys, in order of number. Raises UnknownSweep, UnknownTrial."""
        numbers = {_trial_number(sweep, key) for key in keys}
        found = _read_trials(connection, sweep, trials.c.number.in_(numbers))
        if missing := numbers - {trial.number for trial in found}:
            raise errors.UnknownTrial(f"trial {sweep}-{min(missing)}: not in this store")
        return found

    @_snapshot
    def counts(self, connection: Connection, sweep: str) -> dict[str, int]:
        """{"complete": ..., "running": ..., "failed": ..., "infeasible": ..., "planned": ...}. Raises UnknownSweep."""
        here = trials.c.sweep_id == _sweep_id(connection, sweep)
        rows = connection.execute(select(trials.c.state, func.count()).where(here).group_by("state"))
        return {str(state): 0 for state in TrialState} | {state: count for state, count in rows}

    @_snapshot
    def ledger(self, connection: Connection, sweep: str, key: str | None = None) -> list[LedgerEntry]:
        """All entries in order of trial and attempt, or those of one trial. Raises UnknownSweep, UnknownTrial."""
        return [record(LedgerEntry, row, key=one) for one, row in _read_attempts(connection, sweep, key)]

    @_snapshot
    def attempts(self, connection: Connection, sweep: str, key: str | None = None) -> list[AttemptRecord]:
        """All attempts in order of trial and attempt, or those of one trial. Raises UnknownSweep, UnknownTrial."""
        return [
            record(AttemptRecord, row, key=one, outcome=Outcome(row.outcome))
            for one, row in _read_attempts(connection, sweep, key)
        ]

    @_snapshot
    def curves(self, connection: Connection, sweep: str, keys: Collection[str] | None = None) -> list[CurveReport]:
        """All that trials told of themselves, at the ends of their launches and between, in order of trial and step.

        keys  of these trials alone

        Raises UnknownSweep, UnknownTrial.
        """
        numbers = None if keys is None else [_trial_number(sweep, key) for key in keys]
        here = _sweep_id(connection, sweep)
        ends = select(attempts.c.number, attempts.c.step, attempts.c.attempt, attempts.c.ended_at, attempts.c.metrics)
        ends = ends.where(attempts.c.sweep_id == here, attempts.c.outcome == str(Outcome.SETTLED))
        between = select(curves).where(curves.c.sweep_id == here).order_by(curves.c.metric)
        if numbers is not None:
            ends, between = ends.where(attempts.c.number.in_(numbers)), between.where(curves.c.number.in_(numbers))
        told = {tuple(where): json.loads(metrics) for *where, metrics in connection.execute(ends)}
        for row in connection.execute(between):
            told.setdefault((row.number, row.step, row.attempt, row.at), {})[row.metric] = row.value
        return [
            CurveReport(key=trial_key(sweep, number), step=step, attempt=attempt, metrics=metrics, at=at)
            for (number, step, attempt, at), metrics in sorted(told.items(), key=lambda one: one[0][:2])
        ]

    # -- views ------------------------------------------------------------------------------------------

    @_snapshot
    def outbox(self, connection: Connection, sweep: str, limit: int = 1000) -> list[OutboxRow]:
        """The oldest `limit` changes that the views have not been told, in the order of their transactions."""
        here = outbox.c.sweep_id == _sweep_id(connection, sweep)
        rows = connection.execute(select(outbox).where(here).order_by(outbox.c.id).limit(limit)).all()
        key = {row.id: None if row.number is None else trial_key(sweep, row.number) for row in rows}
        return [record(OutboxRow, row, sweep=sweep, key=key[row.id]) for row in rows]

    @_snapshot
    def backlog(self, connection: Connection, sweep: str) -> int:
        """How many changes the views have not been told."""
        here = outbox.c.sweep_id == _sweep_id(connection, sweep)
        return int(connection.execute(select(func.count()).where(here)).scalar_one())

    def delivered(self, lease: Lease | None, ids: Sequence[int]) -> None:
        """Forget these outbox rows; unknown ones are ignored. The drain beside a controller has no lease."""

        def forget(connection: Connection) -> None:
            if lease is not None:
                lease.check(connection)
            connection.execute(delete(outbox).where(outbox.c.id.in_(list(ids))))

        self._database.write(forget)


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _sweep_id(connection: Connection, name: str) -> int:
    """Row number of a sweep. Raises UnknownSweep."""
    found = connection.execute(select(sweeps.c.id).where(sweeps.c.name == name)).scalar_one_or_none()
    if found is None:
        raise errors.UnknownSweep(name, connection.execute(select(sweeps.c.name)).scalars())
    return int(found)


# Of several that charge one population at once each waits for the population's row, so that what it adds up is all that
# was charged before. SQLite lets one writer in at a time anyway.


def _read_population(connection: Connection, name: str, lock: bool = False) -> Population:
    """One of them; `lock`: nobody else charges it until this transaction ends. Raises UnknownPopulation."""
    statement = select(populations).where(populations.c.name == name)
    row = connection.execute(statement.with_for_update() if lock else statement).one_or_none()
    if row is None:
        raise errors.UnknownPopulation(name, connection.execute(select(populations.c.name)).scalars())
    return _population(row)


def _population(row: Any) -> Population:
    return record(Population, row, rule=AddingRule(row.rule), adjacency=Adjacency(row.adjacency))


def _add_charge(connection: Connection, population: str, row: Row) -> None:
    """One more row, where the budget holds it."""
    ledger = _read_population(connection, population, lock=True)
    there = _read_row(connection, population, row.kind, row.what)
    if there is not None:
        if (there.sweep, there.charge) != (row.sweep, row.charge):
            raise errors.Conflict(
                f"population {population!r}: {row.kind} {row.what} was charged before, with other content"
            )
        return
    # All rows as one charge: a ledger may have tens of thousands, and each launch asks.
    paid = (func.coalesce(charges.c.settled, charges.c.epsilon), charges.c.delta)
    columns = paid if ledger.rule is AddingRule.LINEAR else (charges.c.mu, charges.c.tau)
    rows = connection.execute(select(*columns).where(charges.c.population == population)).all()
    counted = together(ledger, [(first, second) for first, second in rows])
    if not admits(ledger, counted, row.charge):
        raise errors.PopulationSpent(f"{row.kind} {row.what}: {refusal(ledger, counted, row.charge)}")
    values = {"kind": str(row.kind), "what": row.what, "sweep": row.sweep, "at": row.at, **asdict(row.charge)}
    connection.execute(insert(charges).values(population=population, **values))


def _charged(population: str, kind: RowKind, what: str) -> tuple[ColumnElement[bool], ...]:
    return charges.c.population == population, charges.c.kind == str(kind), charges.c.what == what


def _read_row(connection: Connection, population: str, kind: RowKind, what: str) -> Row | None:
    row = connection.execute(select(charges).where(*_charged(population, kind, what))).one_or_none()
    return None if row is None else _row(row)


def _row(row: Any) -> Row:
    charge: Charge = DPCharge(row.epsilon, row.delta) if row.mu is None else GDPCharge(row.mu, row.tau)
    return record(Row, row, kind=RowKind(row.kind), charge=charge)


def _trial_number(sweep: str, key: str) -> int:
    """Number of a trial of `sweep` by its key. Raises UnknownTrial for the key of no trial, or of another sweep's."""
    name, _, number = key.rpartition("-")
    if name != sweep or not number.isdecimal():
        raise errors.UnknownTrial(f"trial {key!r}: expected {sweep}-NUMBER")
    return int(number)


def _trial_row(
    writing: Writing, proposal: Proposal, state: TrialState, plan: str, refusal: Refusal | None
) -> dict[str, Any]:
    return {
        "sweep_id": writing.sweep_id,
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
        "proposed_at": writing.at,
        "finished_at": None if refusal is None else writing.at,
        "plan": plan,
        "request": proposal.request,
    }


def _sweep_record(row: Any) -> SweepRecord:
    from sweeps.spec.sections import SweepSpec

    return record(
        SweepRecord,
        row,
        spec=SweepSpec.model_validate_json(row.spec),
        fingerprints=json.loads(row.fingerprints),
        state=SweepState(row.state),
        extensions=tuple(Extension(**one | {"epsilon": tuple(one["epsilon"])}) for one in json.loads(row.extensions)),
    )


def _read_trials(connection: Connection, sweep: str, *chosen: ColumnElement[bool]) -> list[TrialRecord]:
    """Trials in order of number. 30,000 of them have to be read in well under a second: columns are read as wholes, and
    what is JSON is parsed when it is looked into, but for metrics and claims, which nearly everybody asks for."""
    here = _sweep_id(connection, sweep)
    reported = _several_reports(connection, here)
    columns = [column for column in trials.c if column.name in TrialRecord.__dataclass_fields__]
    statement = select(*columns).where(trials.c.sweep_id == here, *chosen).order_by(trials.c.number)
    names = [column.name + AS_JSON * (column.name in PARSED_LATER) for column in columns]
    rows = connection.execute(statement).all()
    if not rows:
        return []
    values: dict[str, Any] = dict(zip(names, zip(*rows, strict=True), strict=True))
    for name in ("metrics", f"guarantee{AS_JSON}"):
        values[name] = read_json(f"[{','.join(values[name])}]")
    values["state"], values["seed"] = map(TrialState, values["state"]), map(int, values["seed"])
    values["key"] = [trial_key(sweep, number) for number in values["number"]]
    found = [object.__new__(TrialRecord) for _ in values["key"]]
    for trial, row in zip(found, zip(*values.values(), strict=True), strict=True):
        vars(trial).update(zip(values, row, strict=True))
        vars(trial)["reports"] = reported.get(trial.number) or ({trial.step: trial.metrics} if trial.step else {})
    return found


def _several_reports(connection: Connection, sweep_id: int) -> dict[int, dict[int, Any]]:
    """{number: {step: metrics}} of the trials that have reported more than once."""
    settled = (attempts.c.sweep_id == sweep_id, attempts.c.outcome == str(Outcome.SETTLED))
    several = select(attempts.c.number).where(*settled, attempts.c.attempt > 1).distinct()
    statement = select(attempts.c.number, attempts.c.step, attempts.c.metrics).where(*settled)
    ordered = statement.where(attempts.c.number.in_(several)).order_by(attempts.c.number, attempts.c.attempt)
    reports: dict[int, dict[int, Any]] = {}
    for number, step, metrics in connection.execute(ordered):
        reports.setdefault(number, {})[step] = json.loads(metrics)
    return reports


def _read_attempts(connection: Connection, sweep: str, key: str | None) -> Iterator[tuple[str, Any]]:
    """(key of its trial, row) of attempts in order of trial and attempt."""
    chosen = () if key is None else (attempts.c.number == _trial_number(sweep, key),)
    statement = select(attempts).where(attempts.c.sweep_id == _sweep_id(connection, sweep), *chosen)
    for row in connection.execute(statement.order_by(attempts.c.number, attempts.c.attempt)):
        yield trial_key(sweep, row.number), row
