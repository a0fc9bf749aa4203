"""One SQL database by URL: transactions, durability, and errors that say what to do.

SQLite    write-ahead log with synchronous=FULL: a commit has survived a power loss when it returns, and
          readers never wait for the writer. The file must lie on a local disk (SQLite's log needs shared
          memory between processes); a cluster uses Postgres.
Postgres  synchronous_commit is switched on where it is off. A connection lost in mid-transaction is taken
          up again; every write here can be repeated.

A store that is locked, gone or silent is waited for with `sweeps.process.patience`, and not without a word. That is one
patience for one outage: what is asked of a store that was given up is tried once more, briefly, so that a sweep that
has to end does not wait again for each thing that it would still like to write.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Table, create_engine, event, inspect, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, Engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError

from sweeps.process import patience
from sweeps.process.waiting import waiting
from sweeps.store import schema
from sweeps.store.errors import StoreError, StoreVanished, is_busy, refusal, translated, unusable_folder
from sweeps.store.place import Place
from sweeps.store.postgres import Lines, postgres_engine
from trainables.worker.redaction import shown_url

T = TypeVar("T")

BUSY_SECONDS = 1.0
"""Waits for another process's write are cut into such pieces, so that Ctrl-C is heard between two of them."""
LAST_TRY_SECONDS = 2.0
"""For what is asked of a store that was given up."""
_CREATION_LOCK = 0x5357454550  # Postgres advisory lock: two processes that create the tables at once


class Database:
    """Transactions on one store. Safe to use from several threads."""

    def __init__(self, url: str, *, patience_seconds: float | None = None) -> None:
        self._patience = patience.patience() if patience_seconds is None else patience_seconds
        parsed = _parsed(url)
        self.where = parsed.database or "" if parsed.get_backend_name() == "sqlite" else _shown(parsed)
        self.is_sqlite = parsed.get_backend_name() == "sqlite"
        self.url = parsed.render_as_string(hide_password=False)
        self._lines = Lines()
        self._engine = (
            _sqlite(parsed, min(BUSY_SECONDS, self._patience))
            if self.is_sqlite
            else postgres_engine(parsed, self._patience, self._lines)
        )
        self._readers = (
            self._engine if self.is_sqlite else self._engine.execution_options(isolation_level="REPEATABLE READ")
        )
        self._writers = self._engine.execution_options(store_begin="IMMEDIATE")
        self._writing = threading.Lock()
        self._place = Place(self.where) if self.is_sqlite else None
        self._saving = threading.Lock()
        self._vanished: StoreVanished | None = None
        self.drives = False
        """Whether this process holds the lease of a sweep: it then keeps a copy of a store that vanishes."""
        self._away_since: float | None = None
        """On the clock of `sweeps.process.patience`: since when the store did not answer; None while it does."""
        self._away_for_writers = False
        """Whether that was said of a write: a lock lets readers pass, and a read that succeeds then tells nothing."""
        self._held_up: DBAPIError | None = None
        """What it said of who keeps it from answering: a line that is cut later has no such words of its own."""

    def prepare(self, create: bool) -> None:
        """Create or migrate the tables. Raises StoreError when there are none (`create` is False) or newer ones."""
        if self.is_sqlite:
            path = Path(self.where)
            if create:
                try:
                    path.parent.mkdir(parents=True, exist_ok=True)
                except OSError as error:
                    raise unusable_folder(error, self.where) from error
            elif not path.exists():
                raise StoreError(f"store {self.where}: not there. Start a sweep with `sweeps run`, or check --root.")
        version = self.read(self._version)
        if self._place is not None:
            # A connection stays open from here on, so that the log and its index stay the same files.
            self._place.hold()
        if version == 0 and not create:
            raise StoreError(f"store {self.where}: holds no sweeps. Start one with `sweeps run`, or check --store.")
        if version < schema.VERSION:
            self.write(self._migrate)

    def write(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in one durable transaction. Raises StoreError; then nothing of it was kept.

        What is committed when this returns lies where the path leads: looked at before, and once more after it.
        """
        self.check_place()
        done = self._run(self._writers, work, self._writing)
        self.check_place()
        return done

    def check_place(self) -> None:
        """Raises StoreVanished when the path leads to another file than the one that is written, or to none."""
        if self._place is None:
            return
        try:
            self._place.check()
        except StoreVanished as vanished:
            with self._saving:
                if self._vanished is None:
                    self._vanished = self._with_copy(vanished) if self.drives else vanished
            raise self._vanished from None

    def _with_copy(self, vanished: StoreVanished) -> StoreVanished:
        """Write what is still held to a file of its own, once; the error says where."""
        assert self._place is not None
        kept = self._place.spare()
        try:
            with closing(sqlite3.connect(kept)) as copy:
                connection = self._engine.raw_connection()
                try:
                    connection.driver_connection.backup(copy)  # type: ignore[union-attr]
                finally:
                    connection.close()
        except (sqlite3.Error, DBAPIError, OSError):
            # The folder is gone too, or the disk is full: the message then says what else there is to do.
            with suppress(OSError):
                kept.unlink()
            return vanished
        return vanished.with_copy(str(kept))

    def read(self, work: Callable[[Connection], T]) -> T:
        """Run `work` on one consistent snapshot; waits for no writer."""
        return self._run(self._readers, work)

    def insert(self, table: Table) -> Any:
        """An INSERT that may say what to do about a row that is there."""
        return (sqlite if self.is_sqlite else postgresql).insert(table)

    def upsert(self, table: Table, rows: Sequence[Mapping[str, object]]) -> None:
        """Insert rows, replacing those with the same primary key."""
        statement = self.insert(table)
        rest = {column.name: statement.excluded[column.name] for column in table.c if not column.primary_key}
        statement = statement.on_conflict_do_update(index_elements=list(table.primary_key), set_=rest)
        self.write(lambda connection: connection.execute(statement, list(rows)))

    def now(self, connection: Connection) -> float:
        """Seconds since 1970 by the one clock that all users of this store share: the server's on Postgres."""
        if self.is_sqlite:
            return time.time()
        return float(connection.exec_driver_sql("SELECT extract(epoch FROM clock_timestamp())").scalar_one())

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    def _run(
        self, engine: Engine, work: Callable[[Connection], T], turn: AbstractContextManager[Any] | None = None
    ) -> T:
        here, writing = threading.get_ident(), engine is self._writers
        since = self._away_since
        self._lines.given_up = since is not None
        seconds = self._patience if since is None else min(self._patience, LAST_TRY_SECONDS)
        with (
            waiting(f"the store {self.where}", seconds, since=since, give_up=lambda: self._lines.cut(here)) as wait,
            turn or nullcontext(),
        ):
            try:
                while True:
                    try:
                        with engine.begin() as connection:
                            done = work(connection)
                        if writing or not self._away_for_writers:
                            self._away_since = self._held_up = None
                        return done
                    except DBAPIError as error:
                        lost = _connection_lost(error)
                        if not lost and not is_busy(error):
                            raise translated(error, self.where) from error
                        if not lost:
                            self._held_up = error
                        if wait.left() == 0 or not (lost or self.is_sqlite):
                            self._away_since, self._away_for_writers = wait.began, writing
                            raise translated(self._held_up or error, self.where, wait.waited()) from error
                        if lost:
                            self._engine.dispose()
                        time.sleep(min(0.2, wait.left()))
            finally:
                self._lines.leave(here)

    def _version(self, connection: Connection) -> int:
        if not inspect(connection).has_table(schema.schema_version.name):
            return 0
        version = connection.execute(select(schema.schema_version.c.version)).scalar_one()
        if version > schema.VERSION:
            raise StoreError(
                f"store {self.where}: schema version {version}, expected at most {schema.VERSION}. "
                "It was written by a newer release; install that one."
            )
        return int(version)

    def _migrate(self, connection: Connection) -> None:
        if not self.is_sqlite:
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_CREATION_LOCK})")
        # Asked again under the lock: another process may have been faster.
        version = self._version(connection)
        if version < schema.VERSION:
            schema.migrate(connection, version)


_EXPECTED = "expected sqlite:///FILE or postgresql://USER@HOST/DATABASE. Check --store."


def _parsed(url: str) -> URL:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        # A port that is no number is a ValueError, with parts of the password in its text.
        raise StoreError(f"store={shown_url(url)!r}: {_EXPECTED}") from None
    backend = parsed.get_backend_name()
    if backend == "postgresql":
        if url.count("@") > 1:
            raise StoreError(
                f"store={shown_url(url)!r}: expected one @, before the host. Write every other one as %40."
            )
        return parsed.set(drivername="postgresql+psycopg")
    if backend != "sqlite" or parsed.database in (None, "", ":memory:"):
        raise StoreError(f"store={shown_url(url)!r}: {_EXPECTED}")
    return parsed


def _shown(url: URL) -> str:
    """The URL as messages may quote it: no password, wherever it stands, and the driver left out."""
    return shown_url(url.set(drivername="postgresql").render_as_string(hide_password=False))


def _connection_lost(error: DBAPIError) -> bool:
    if getattr(error.orig, "sqlite_errorcode", None) is not None:
        return False
    state = getattr(error.orig, "sqlstate", None)
    if state is None:
        return error.connection_invalidated or (isinstance(error, OperationalError) and refusal(error) is None)
    # 57P01..57P03: shut down, crashed, starting up. Class 08: the connection itself failed.
    return str(state).startswith(("57P", "08"))


def _sqlite(url: URL, busy_seconds: float) -> Engine:
    engine = create_engine(url, connect_args={"timeout": busy_seconds, "check_same_thread": False})

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, record: Any) -> None:
        # The driver's own implicit BEGIN is off: `_begin` decides between reading and writing.
        connection.isolation_level = None
        cursor = connection.cursor()
        mode = cursor.execute("PRAGMA journal_mode=WAL").fetchone()[0]
        if mode != "wal":
            raise StoreError(
                f"store {url.database}: journal mode {mode!r}, expected 'wal'. Put the file on a local disk, or use "
                "Postgres."
            )
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.execute("PRAGMA cache_size=-65536")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        mode = connection.get_execution_options().get("store_begin", "DEFERRED")
        connection.exec_driver_sql(f"BEGIN {mode}")

    return engine
