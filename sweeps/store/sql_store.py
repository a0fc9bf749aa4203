"""The store in one SQL database: sweeps, trials, attempts, ledger, outbox and lease (`contract` has its duties).

Everything else (MLflow, fronts, reports) is a view that can be deleted and rebuilt from here.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

from sqlalchemy import Connection, delete, insert, select, update

from sweeps.population.arithmetic import Charge, Population, Row
from sweeps.records import (
    AttemptRecord,
    CurveReport,
    Driver,
    Extension,
    LedgerEntry,
    OutboxRow,
    Proposal,
    Reservation,
    Settlement,
    SweepRecord,
    SweepState,
    TrialRecord,
    TrialState,
)
from sweeps.requests import Request, Wanted, content_of, kind_of
from sweeps.store import charging, reading
from sweeps.store.calibrations import Calibrations
from sweeps.store.contract import LEASE_SECONDS, Lease
from sweeps.store.database import Database
from sweeps.store.errors import StoreError, SweepExists, UnknownSweep, UnknownTrial
from sweeps.store.lease import SqlLease, acquire, read_driver
from sweeps.store.schema import DATA_KEY, keys, leases, names, outbox, populations, requests, sweeps
from sweeps.store.text import dumps
from sweeps.store.writing import Writer
from sweeps.util.fingerprint import keyed
from trainables.system import PrivacyPlan, Refusal

T = TypeVar("T")


class SqlStore:
    """A `sweeps.store.contract.Store`, which says what its methods do, on SQLite or Postgres."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._calibrations = Calibrations(database)

    @classmethod
    def open(cls, url: str, create: bool = True, *, patience_seconds: float | None = None) -> SqlStore:
        """Open `sqlite:///FILE` or `postgresql://USER@HOST/DATABASE`, as `sweeps.store.registry.open_store`."""
        database = Database(url, patience_seconds=patience_seconds)
        try:
            database.prepare(create)
        except BaseException:
            database.close()
            raise
        return cls(database)

    @property
    def url(self) -> str:
        """Where it is, with a password if it has one."""
        return self._database.url

    def close(self) -> None:
        """Write the calibrations that are still in memory, where the store takes them, and close all connections."""
        with suppress(StoreError):
            # A cache: losing it costs a calculation, and the reason for the loss was said by what came before.
            self._calibrations.flush()
        self._database.close()

    # -- sweeps -----------------------------------------------------------------------------------------

    def create_sweep(self, record: SweepRecord) -> None:
        """The sweep, and its lease, which nobody holds yet."""

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
        """One sweep."""

        def read(connection: Connection) -> SweepRecord:
            found = reading.read_sweeps(connection, name)
            if not found:
                raise UnknownSweep(name, connection.execute(select(names.c.name)).scalars())
            return found[0]

        return self._database.read(read)

    def sweeps(self) -> list[SweepRecord]:
        """All sweeps."""
        return self._database.read(reading.read_sweeps)

    def acquire(self, sweep: str, ttl_seconds: float = LEASE_SECONDS) -> SqlLease:
        """The lease; that of a process which is certainly gone is free at once."""
        number = self._database.read(lambda connection: reading.sweep_id(connection, sweep))
        return acquire(self._database, sweep, number, ttl_seconds)

    def set_state(self, lease: Lease, state: SweepState | str) -> None:
        """Where the sweep stands."""
        wanted = SweepState(state)
        self._write(lease, lambda writer: writer.set_state(wanted))

    def set_place(self, lease: Lease, root: str, records: str) -> None:
        """Where its files are."""
        self._write(lease, lambda writer: writer.update_sweep(root=root, records=records))

    def set_fingerprints(self, lease: Lease, fingerprints: Mapping[str, str]) -> None:
        """What it goes on under."""
        self._write(lease, lambda writer: writer.update_sweep(fingerprints=dumps(fingerprints)))

    def extend(self, lease: Lease, extension: Extension) -> None:
        """What was asked for beyond the spec."""
        self._write(lease, lambda writer: writer.extend(extension))

    def rename(self, sweep: str, label: str) -> None:
        """What it is called."""

        def write(connection: Connection) -> None:
            number = reading.sweep_id(connection, sweep)
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
        """Results go."""
        self._write(lease, lambda writer: writer.erase())

    # -- what people ask -----------------------------------------------------------------------------------

    def ask(self, sweep: str, wanted: Wanted, asker: str) -> int:
        """One more row."""

        row = {"kind": kind_of(wanted), "content": dumps(content_of(wanted)), "asker": asker, "at": time.time()}
        row["call"] = secrets.token_hex(8)

        def write(connection: Connection) -> int:
            values = {**row, "sweep_id": reading.sweep_id(connection, sweep)}
            connection.execute(self._database.insert(requests).values(values).on_conflict_do_nothing())
            return int(connection.execute(select(requests.c.id).where(requests.c.call == row["call"])).scalar_one())

        return self._database.write(write)

    def requests(self, sweep: str) -> list[Request]:
        """All of them."""
        return self._database.read(lambda connection: reading.read_requests(connection, sweep))

    def driver(self, sweep: str) -> Driver | None:
        """Who holds the lease."""
        return self._database.read(
            lambda connection: read_driver(self._database, connection, reading.sweep_id(connection, sweep))
        )

    def data_fingerprint(self, digest: str) -> str:
        """Keyed with a secret that was drawn with the tables."""
        statement = select(keys.c.value).where(keys.c.name == DATA_KEY)
        key = self._database.read(lambda connection: connection.execute(statement).scalar_one())
        return keyed(digest, bytes.fromhex(key))

    # -- the two transactions, and what else may come of an attempt ------------------------------------

    def record_infeasible(self, lease: Lease, refused: Iterable[tuple[Proposal, Refusal]]) -> None:
        """Proposals that are never launched."""
        if listed := list(refused):
            self._write(lease, lambda writer: writer.infeasible(listed))

    def launch(
        self, lease: Lease, proposal: Proposal, plan: PrivacyPlan, to_step: int, charge: Charge | None = None
    ) -> Reservation:
        """Transaction one."""
        launch = secrets.token_hex(8)
        return self._write(lease, lambda writer: writer.launch(proposal, plan, to_step, launch, charge))

    def relaunch(
        self, lease: Lease, key: str, from_step: int, to_step: int, charge: Charge | None = None
    ) -> Reservation:
        """Transaction one of a trial that is there."""
        launch = secrets.token_hex(8)
        return self._write(lease, lambda writer: writer.relaunch(key, from_step, to_step, launch, charge))

    def settle(self, lease: Lease, key: str, attempt: int, came: Settlement) -> None:
        """Transaction two."""
        self._write(lease, lambda writer: writer.settle(key, attempt, came))

    def add_to_curve(
        self, lease: Lease, key: str, attempt: int, curve: Mapping[int, Mapping[str, float]], announced: bool = True
    ) -> None:
        """What an attempt told on its way."""
        self._write(lease, lambda writer: writer.add_to_curve(key, attempt, curve, announced))

    def lose(self, lease: Lease, key: str, attempt: int, executed_to: int | None, reason: str) -> None:
        """The attempt is over, the trial goes on."""
        self._write(lease, lambda writer: writer.lose(key, attempt, executed_to, reason))

    def fail(self, lease: Lease, key: str, attempt: int, executed_to: int | None, reason: str) -> None:
        """Attempt and trial are over."""
        self._write(lease, lambda writer: writer.fail(key, attempt, executed_to, reason))

    def charge_whole(self, lease: Lease, key: str, attempt: int) -> None:
        """A closed attempt is charged its whole reservation."""
        self._write(lease, lambda writer: writer.charge_whole(key, attempt))

    def abandon(self, lease: Lease, key: str, reason: str) -> None:
        """The trial is over between two attempts."""
        self._write(lease, lambda writer: writer.abandon(key, reason))

    # -- populations --------------------------------------------------------------------------------------

    def make_population(self, population: Population) -> None:
        """Its ledger."""
        self._database.write(
            lambda connection: charging.make(connection, population, self._database.insert(populations))
        )

    def populations(self) -> list[Population]:
        """Those with a ledger."""
        return self._database.read(charging.read_populations)

    def charges(self, population: str) -> list[Row]:
        """Rows of its ledger."""

        def read(connection: Connection) -> list[Row]:
            return charging.read_charges(connection, charging.read_population(connection, population).name)

        return self._database.read(read)

    def charge(self, population: str, row: Row) -> None:
        """One more row."""
        self._database.write(lambda connection: charging.add(connection, population, row))

    def reserve_block(self, lease: Lease, population: str, charge: Charge) -> None:
        """A whole sweep as one row."""
        block = charging.block_of(lease.sweep, charge)
        self._write(lease, lambda writer: charging.add(writer.connection, population, block))

    def settle_block(self, lease: Lease, population: str, epsilon: float) -> None:
        """What it came to."""
        self._write(lease, lambda writer: charging.settle(writer.connection, population, lease.sweep, epsilon))

    # -- reading ----------------------------------------------------------------------------------------

    def trials(self, sweep: str, states: Collection[TrialState] | None = None) -> list[TrialRecord]:
        """Trials; what of them is text is parsed when it is first looked into."""
        return self._database.read(lambda connection: reading.read_trials(connection, sweep, states))

    def trials_of(self, sweep: str, keys: Collection[str]) -> list[TrialRecord]:
        """Some of them."""
        numbers = {reading.trial_number(sweep, key) for key in keys}
        found = self._database.read(lambda connection: reading.read_trials(connection, sweep, numbers=numbers))
        if missing := numbers - {trial.number for trial in found}:
            raise UnknownTrial(f"trial {sweep}-{min(missing)}: not in this store")
        return found

    def counts(self, sweep: str) -> dict[str, int]:
        """How many trials there are in each state."""
        return self._database.read(lambda connection: reading.read_counts(connection, sweep))

    def ledger(self, sweep: str) -> list[LedgerEntry]:
        """All entries."""
        return self._database.read(lambda connection: reading.read_ledger(connection, sweep))

    def ledger_of(self, key: str) -> list[LedgerEntry]:
        """Those of one trial."""
        return self._database.read(lambda connection: reading.read_ledger(connection, *reading.sweep_and_number(key)))

    def attempts(self, sweep: str) -> list[AttemptRecord]:
        """All attempts."""
        return self._database.read(lambda connection: reading.read_attempts(connection, sweep))

    def attempts_of(self, key: str) -> list[AttemptRecord]:
        """Those of one trial."""
        return self._database.read(lambda connection: reading.read_attempts(connection, *reading.sweep_and_number(key)))

    def curves(self, sweep: str, keys: Collection[str] | None = None) -> list[CurveReport]:
        """What trials told, in rows of both tables."""
        numbers = None if keys is None else {reading.trial_number(sweep, key) for key in keys}
        return self._database.read(lambda connection: reading.read_curves(connection, sweep, numbers))

    # -- views ------------------------------------------------------------------------------------------

    def outbox(self, sweep: str, limit: int = 1000) -> list[OutboxRow]:
        """The oldest changes."""
        return self._database.read(lambda connection: reading.read_outbox(connection, sweep, limit))

    def backlog(self, sweep: str) -> int:
        """Their number."""
        return self._database.read(lambda connection: reading.read_backlog(connection, sweep))

    def delivered(self, lease: Lease | None, ids: Sequence[int]) -> None:
        """Changes that are told."""

        def forget(connection: Connection) -> None:
            connection.execute(delete(outbox).where(outbox.c.id.in_(list(ids))))

        if lease is None:
            self._database.write(forget)
        else:
            self._write(lease, lambda writer: forget(writer.connection))

    def calibrations(self) -> Calibrations:
        """Solved values."""
        return self._calibrations

    def _write(self, lease: Lease, work: Callable[[Writer], T]) -> T:
        assert isinstance(lease, SqlLease), lease

        def guarded(connection: Connection) -> T:
            lease.check(connection)
            return work(Writer(connection, lease.sweep, lease.sweep_id, lease.token, time.time()))

        return self._database.write(guarded)
