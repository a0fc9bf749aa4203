"""The store in one SQL database: sweeps, trials, attempts, ledger, outbox and lease. Its duties: `contract`.

Everything else (MLflow, fronts, reports) is a view that can be deleted and rebuilt from here.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

from sqlalchemy import Connection, delete, insert, select, update

from sweeps.provenance.fingerprint import keyed
from sweeps.records import (
    AttemptRecord,
    LedgerEntry,
    OutboxRow,
    Proposal,
    Settlement,
    SweepRecord,
    SweepState,
    TrialRecord,
    TrialState,
)
from sweeps.store import reading
from sweeps.store.calibrations import Calibrations
from sweeps.store.database import Database
from sweeps.store.errors import StoreError, SweepExists, UnknownTrial
from sweeps.store.lease import Lease, acquire
from sweeps.store.schema import DATA_KEY, keys, leases, outbox, sweeps
from sweeps.store.text import dumps
from sweeps.store.writing import Writer
from trainables.system import PrivacyPlan, Refusal

T = TypeVar("T")


class Store:
    """The store at one URL. Safe to use from several threads; writes to a sweep need its lease."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._calibrations = Calibrations(database)

    @classmethod
    def open(cls, url: str, create: bool = True, *, patience_seconds: float | None = None) -> Store:
        """Open `sqlite:///FILE` or `postgresql://USER@HOST/DATABASE`, migrating older tables.

        create            make file and tables when there are none; otherwise their absence is an error
        patience_seconds  how long to wait for a store that is locked, gone or silent; by default one patience

        Raises StoreError: missing, locked, read-only, full, not a database, or written by a newer release.
        """
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
        """Write the calibrations that are still in memory, where the store takes them, and close all connections."""
        with suppress(StoreError):
            # A cache: losing it costs a calculation, and the reason for the loss was said by what came before.
            self._calibrations.flush()
        self._database.close()

    # -- sweeps -----------------------------------------------------------------------------------------

    def create_sweep(self, record: SweepRecord) -> None:
        """Record a new sweep. Raises SweepExists."""

        def create(connection: Connection) -> None:
            found = connection.execute(select(sweeps.c.id).where(sweeps.c.name == record.name)).one_or_none()
            if found is not None:
                raise SweepExists(record.name)
            number = connection.execute(
                insert(sweeps)
                .values(
                    name=record.name,
                    spec=dumps(record.spec.canonical),
                    digest=record.digest,
                    fingerprints=dumps(record.fingerprints),
                    root=record.root,
                    created_at=record.created_at,
                    state=str(record.state),
                    records=record.records,
                )
                .returning(sweeps.c.id)
            ).scalar_one()
            connection.execute(insert(leases).values(sweep_id=number, token=0, holder=None, expires_at=0.0))

        self._database.write(create)

    def sweep(self, name: str) -> SweepRecord:
        """One sweep. Raises UnknownSweep."""

        def read(connection: Connection) -> SweepRecord:
            reading.sweep_id(connection, name)
            return reading.read_sweeps(connection, name)[0]

        return self._database.read(read)

    def sweeps(self) -> list[SweepRecord]:
        """All sweeps, oldest first."""
        return self._database.read(reading.read_sweeps)

    def acquire(self, sweep: str, ttl_seconds: float = 30.0) -> Lease:
        """The right to write `sweep`. Raises UnknownSweep, LeaseHeld."""
        number = self._database.read(lambda connection: reading.sweep_id(connection, sweep))
        return acquire(self._database, sweep, number, ttl_seconds)

    def set_state(self, lease: Lease, state: SweepState | str) -> None:
        """Where the sweep stands, with an outbox row when that changes. Raises LeaseLost."""
        wanted = str(SweepState(state))

        def write(writer: Writer) -> None:
            here = sweeps.c.id == lease.sweep_id
            if writer.connection.execute(select(sweeps.c.state).where(here)).scalar_one() != wanted:
                writer.connection.execute(update(sweeps).where(here).values(state=wanted))
                writer.announce_state()

        self._write(lease, write)

    def set_place(self, lease: Lease, root: str, records: str) -> None:
        """Where the sweep's files are from now on: it was resumed elsewhere. Raises LeaseLost."""
        statement = update(sweeps).where(sweeps.c.id == lease.sweep_id).values(root=root, records=records)
        self._write(lease, lambda writer: writer.connection.execute(statement))

    def data_fingerprint(self, digest: str) -> str:
        """What this store records of a data set with that digest: keyed with a secret of its own.

        The secret is drawn with the tables and lies in them, since every controller on one store has to find the same:
        it serves all sweeps and outlives each. So a copy of the store confirms a guess of the records, and stays inside
        the release boundary; what is printed or copied out of it does not.
        """
        statement = select(keys.c.value).where(keys.c.name == DATA_KEY)
        key = self._database.read(lambda connection: connection.execute(statement).scalar_one())
        return keyed(digest, bytes.fromhex(key))

    def set_fingerprints(self, lease: Lease, fingerprints: Mapping[str, str]) -> None:
        """Replace the recorded fingerprints (a resume under changed ones was accepted by name). Raises LeaseLost."""
        statement = update(sweeps).where(sweeps.c.id == lease.sweep_id).values(fingerprints=dumps(fingerprints))
        self._write(lease, lambda writer: writer.connection.execute(statement))

    # -- the two transactions, and what else may come of an attempt ------------------------------------

    def record_infeasible(self, lease: Lease, refused: Iterable[tuple[Proposal, Refusal]]) -> None:
        """Record proposals that are never launched, all in one transaction. Raises LeaseLost, Conflict."""
        listed = list(refused)
        if listed:
            self._write(lease, lambda writer: writer.infeasible(listed))

    def launch(self, lease: Lease, proposal: Proposal, plan: PrivacyPlan, to_step: int) -> int:
        """Transaction one: the trial, its attempt 1 and the reservation [0, to_step), durable on return.

        Raises LeaseLost, Conflict when the number is taken.
        """
        launch = secrets.token_hex(8)
        return self._write(lease, lambda writer: writer.launch(proposal, plan, to_step, launch))

    def relaunch(self, lease: Lease, key: str, from_step: int, to_step: int) -> int:
        """The next attempt of a trial with no running one, and its own reservation [from_step, to_step).

        Raises LeaseLost, Conflict, UnknownTrial, InvalidValue when from_step lies beyond every executed step.
        """
        number, launch = _number(lease.sweep, key), secrets.token_hex(8)
        return self._write(lease, lambda writer: writer.relaunch(number, from_step, to_step, launch))

    def settle(self, lease: Lease, key: str, attempt: int, came: Settlement) -> None:
        """Transaction two: result, settlement, state (COMPLETE, or PLANNED between rungs) and outbox row.

        The same content again changes nothing. Raises LeaseLost, Conflict, UnknownTrial, InvalidValue.
        """
        number = _number(lease.sweep, key)
        self._write(lease, lambda writer: writer.settle(number, attempt, came))

    def lose(self, lease: Lease, key: str, attempt: int, executed_to: int | None, reason: str) -> None:
        """The attempt is gone: charged to its horizon (None: its whole reservation); the trial is PLANNED again.

        The same content again changes nothing. Raises LeaseLost, Conflict, UnknownTrial, InvalidValue.
        """
        number = _number(lease.sweep, key)
        self._write(lease, lambda writer: writer.lose(number, attempt, executed_to, reason))

    def fail(self, lease: Lease, key: str, attempt: int, executed_to: int | None, reason: str) -> None:
        """The trial is over without a (further) result: charged as by `lose`; the trial is FAILED.

        The same content again changes nothing. Raises LeaseLost, Conflict, UnknownTrial, InvalidValue.
        """
        number = _number(lease.sweep, key)
        self._write(lease, lambda writer: writer.fail(number, attempt, executed_to, reason))

    def charge_whole(self, lease: Lease, key: str, attempt: int) -> None:
        """An attempt that is over turned out to have gone further than it was charged for: its whole reservation is.

        Raises LeaseLost, UnknownTrial.
        """
        number = _number(lease.sweep, key)
        self._write(lease, lambda writer: writer.charge_whole(number, attempt))

    def abandon(self, lease: Lease, key: str, reason: str) -> None:
        """The trial, of which no attempt runs, cannot go on: it is FAILED; what was charged and reported stays.

        Raises LeaseLost, Conflict, UnknownTrial.
        """
        number = _number(lease.sweep, key)
        self._write(lease, lambda writer: writer.abandon(number, reason))

    # -- reading ----------------------------------------------------------------------------------------

    def trials(self, sweep: str, states: Collection[TrialState] | None = None) -> list[TrialRecord]:
        """Trials in order of number, of the given states only if any are given. Raises UnknownSweep.

        What of them is text in the store is parsed when it is first looked into.
        """
        return self._database.read(lambda connection: reading.read_trials(connection, sweep, states))

    def trials_of(self, sweep: str, keys: Collection[str]) -> list[TrialRecord]:
        """The trials with these keys, in order of number. Raises UnknownSweep, UnknownTrial."""
        numbers = {_number(sweep, key) for key in keys}
        found = self._database.read(lambda connection: reading.read_trials(connection, sweep, numbers=numbers))
        if missing := numbers - {trial.number for trial in found}:
            raise UnknownTrial(f"trial {sweep}-{min(missing)}: not in this store")
        return found

    def counts(self, sweep: str) -> dict[str, int]:
        """{"complete": ..., "running": ..., "failed": ..., "infeasible": ..., "planned": ...}."""
        return self._database.read(lambda connection: reading.read_counts(connection, sweep))

    def ledger(self, sweep: str) -> list[LedgerEntry]:
        """All entries in order of trial and attempt."""
        return self._database.read(lambda connection: reading.read_ledger(connection, sweep))

    def last_entry(self, key: str) -> LedgerEntry:
        """The ledger entry of a trial's latest attempt. Raises UnknownTrial when it was never launched."""
        sweep = key.rpartition("-")[0]
        entries = self._database.read(
            lambda connection: reading.read_ledger(connection, sweep, number=_number(sweep, key))
        )
        if not entries:
            raise UnknownTrial(f"trial {key}: never launched")
        return entries[-1]

    def ledger_of(self, key: str) -> list[LedgerEntry]:
        """The entries of one trial in order of attempt. Raises UnknownSweep."""
        sweep = key.rpartition("-")[0]
        return self._database.read(
            lambda connection: reading.read_ledger(connection, sweep, number=_number(sweep, key))
        )

    def attempts_of(self, key: str) -> list[AttemptRecord]:
        """Attempts of one trial in order. Raises UnknownSweep."""
        sweep = key.rpartition("-")[0]
        return self._database.read(
            lambda connection: reading.read_attempts(connection, sweep, number=_number(sweep, key))
        )

    def attempts(self, sweep: str) -> list[AttemptRecord]:
        """All attempts in order of trial and attempt."""
        return self._database.read(lambda connection: reading.read_attempts(connection, sweep))

    # -- views ------------------------------------------------------------------------------------------

    def outbox(self, sweep: str, limit: int = 1000) -> list[OutboxRow]:
        """The oldest `limit` changes that the views have not been told."""
        return self._database.read(lambda connection: reading.read_outbox(connection, sweep, limit))

    def backlog(self, sweep: str) -> int:
        """How many changes the views have not been told."""
        return self._database.read(lambda connection: reading.read_backlog(connection, sweep))

    def delivered(self, lease: Lease | None, ids: Sequence[int]) -> None:
        """Forget these outbox rows; unknown ones are ignored. The drain beside a controller has no lease."""
        statement = delete(outbox).where(outbox.c.id.in_(list(ids)))
        if lease is None:
            self._database.write(lambda connection: connection.execute(statement))
        else:
            self._write(lease, lambda writer: writer.connection.execute(statement))

    def calibrations(self) -> Calibrations:
        """Solved values, durable across processes (see `Calibrations`)."""
        return self._calibrations

    def _write(self, lease: Lease, work: Callable[[Writer], T]) -> T:
        def guarded(connection: Connection) -> T:
            lease.check(connection)
            return work(Writer(connection, lease.sweep, lease.sweep_id, lease.token, time.time()))

        return self._database.write(guarded)


def _number(sweep: str, key: str) -> int:
    name, _, number = key.rpartition("-")
    if name != sweep or not number.isdecimal():
        raise UnknownTrial(f"trial {key!r}: expected {sweep}-NUMBER")
    return int(number)
