"""One SQL database by URL: transactions, durability, and errors that say what to do.

SQLite    write-ahead log with synchronous=FULL: a commit has survived a power loss when it returns, and
          readers never wait for the writer. The file must lie on a local disk (SQLite's log needs shared
          memory between processes); a cluster uses Postgres.
Postgres  synchronous_commit is switched on where it is off. A connection lost in mid-transaction is taken
          up again; every write here can be repeated.

A store that is locked, gone or silent is waited for with `sweeps.util.waiting`, and not without a word. That is one
patience for one outage: what is asked of a store that was given up is tried once more, briefly, so that a sweep that
has to end does not wait again for each thing that it would still like to write.
"""

from __future__ import annotations

import math
import os
import socket
import sqlite3
import threading
import time
from collections import UserDict
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Table, create_engine, event, inspect, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, Engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError

from dpcore.checks import InvalidValue
from sweeps.store import schema
from sweeps.store.errors import StoreError, StoreVanished, is_busy, is_refusal, translated, unusable_folder
from sweeps.store.schema import calibrations
from sweeps.util import waiting
from sweeps.util.waiting import wait_for
from trainables.worker.redaction import shown_url

# Whether a path still leads to the file that this process holds.
#
# An open SQLite file can be deleted, moved, or replaced: every write then succeeds, into a file that nobody will find
# again. The same holds of its log (`-wal`) and of the log's index (`-shm`), where what was committed last may lie
# alone.

PARTS = ("", "-wal", "-shm")

Identity = tuple[int, int]
"""Device and inode."""


class Place:
    """The files of one SQLite database, by the identity that they had when it was opened. Safe to use from threads."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._held: dict[str, Identity] = {}
        self._size = 0
        """Bytes of the database when it was last looked at."""

    def hold(self) -> None:
        """The files that stand here now are ours; those that come later (the first write makes the log) too."""
        for part in PARTS:
            if (found := _identity(f"{self._path}{part}")) is not None:
                self._held.setdefault(part, found)

    def check(self) -> None:
        """Raises StoreVanished when one of them is gone, or another stands in its place."""
        for part, held in list(self._held.items()):
            try:
                found = _identity(f"{self._path}{part}")
            except OSError as error:
                raise StoreError(f"store {self._path}: cannot be looked at: {error}") from error
            if found != held:
                raise StoreVanished(self._path, part, replaced=found is not None)
        self.hold()
        # One that is deleted at this very moment is missed at the next look.
        with suppress(FileNotFoundError, NotADirectoryError):
            size = os.stat(self._path).st_size
            if size < self._size:
                # It is never vacuumed: an older copy was written over it in place.
                raise StoreVanished(self._path, "", replaced=True)
            self._size = size


def _identity(path: str) -> Identity | None:
    with suppress(FileNotFoundError, NotADirectoryError):
        found = os.stat(path)
        return found.st_dev, found.st_ino
    return None


# Connections to Postgres that nothing can hold for ever.
#
# Four ways to fall silent, each with its own end: a server that cannot be reached (time limit of a connection), a
# lock that another session keeps and a statement that does not come to its end (the server's own limits, which name
# the matter), a network that swallows packets (TCP's keepalives and its limit on what stays unacknowledged). A server
# that is stopped while its kernel still acknowledges meets none of them: then the connection is cut from this side.

CONNECT_SECONDS = 5
"""Longest attempt at one connection; there may be many within one patience."""
_LIMITS = {"lock_timeout": 0.9, "statement_timeout": 0.95}
"""Shares of the patience: the server's words about a lock, or else about a statement, come before the line is cut."""


def cut(connection: Connection) -> None:
    """End, from another thread, what waits for an answer on this connection: it then says that the server closed it."""
    driver: Any = connection.connection.driver_connection
    with suppress(Exception), socket.socket(fileno=os.dup(driver.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)


def postgres_engine(url: URL, patience_seconds: float) -> Engine:
    """An engine whose connections take no longer than `patience_seconds`. What the URL itself says of limits holds."""
    unanswered = max(1, round(patience_seconds))
    given = {
        "connect_timeout": max(1, min(CONNECT_SECONDS, unanswered)),
        "keepalives": 1,
        "keepalives_idle": max(1, unanswered // 4),
        "keepalives_interval": max(1, unanswered // 8),
        "keepalives_count": 4,
        "tcp_user_timeout": unanswered * 1000,
    }
    engine = create_engine(
        url, connect_args={name: value for name, value in given.items() if name not in url.query}, pool_pre_ping=False
    )

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, record: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT set_config('synchronous_commit', 'on', false) "
                "WHERE current_setting('synchronous_commit') IN ('off', 'local')"
            )
            for name, share in _LIMITS.items():
                cursor.execute(
                    "SELECT set_config(%s, %s, false) WHERE current_setting(%s) = '0'",
                    (name, f"{max(1, round(1000 * share * patience_seconds))}ms", name),
                )
        connection.commit()

    return engine


T = TypeVar("T")

BUSY_SECONDS = 1.0
"""Waits for another process's write are cut into such pieces, so that Ctrl-C is heard between two of them."""
LAST_TRY_SECONDS = 2.0
"""For what is asked of a store that was given up."""
_CREATION_LOCK = 0x5357454550  # Postgres advisory lock: two processes that create the tables at once


class Database:
    """Transactions on one store. Safe to use from several threads."""

    def __init__(self, url: str, *, patience_seconds: float | None = None) -> None:
        self._patience = waiting.patience() if patience_seconds is None else patience_seconds
        parsed = _parsed(url)
        self.where = parsed.database or "" if parsed.get_backend_name() == "sqlite" else _shown(parsed)
        self.is_sqlite = parsed.get_backend_name() == "sqlite"
        self.url = parsed.render_as_string(hide_password=False)
        self._engine = (
            _sqlite(parsed, min(BUSY_SECONDS, self._patience))
            if self.is_sqlite
            else postgres_engine(parsed, self._patience)
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
        """By `time.monotonic`: since when the store did not answer; None while it does."""
        self._away_for_writers = False
        """Whether that was said of a write: a lock lets readers pass, and a read that succeeds then tells nothing."""
        self._held_up: DBAPIError | None = None
        """What it said of who keeps it from answering: a line that is cut later has no such words of its own."""

    def prepare(self, create: bool) -> None:
        """Create the tables. Raises StoreError when there are none (`create` is False) or those of another release."""
        if self.is_sqlite:
            path = Path(self.where)
            if create:
                try:
                    path.parent.mkdir(parents=True, exist_ok=True)
                except OSError as error:
                    raise unusable_folder(error, self.where) from error
            elif not path.exists():
                raise StoreError(f"store {self.where}: not there. Start a sweep with `sweeps run`, or check --root.")
        exists = self.read(self._has_tables)
        if self._place is not None:
            # A connection stays open from here on, so that the log and its index stay the same files.
            self._place.hold()
        if not exists and not create:
            raise StoreError(f"store {self.where}: holds no sweeps. Start one with `sweeps run`, or check --store.")
        if not exists:
            self.write(self._create)

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
        beside = (Path(f"{self.where}.kept-{number}") for number in count(1))
        kept = next(path for path in beside if not path.exists())
        try:
            with closing(sqlite3.connect(kept)) as copy, closing(self._engine.raw_connection()) as connection:
                connection.driver_connection.backup(copy)  # type: ignore[union-attr]
        except (sqlite3.Error, DBAPIError, OSError):
            # The folder is gone too, or the disk is full: the message then says what else there is to do.
            with suppress(OSError):
                kept.unlink()
            return vanished
        return StoreVanished(vanished.path, vanished.part, replaced=vanished.replaced, kept=str(kept))

    def read(self, work: Callable[[Connection], T]) -> T:
        """Run `work` on one consistent snapshot; waits for no writer."""
        return self._run(self._readers, work)

    def insert(self, table: Table) -> Any:
        """An INSERT that may say what to do about a row that is there."""
        return (sqlite if self.is_sqlite else postgresql).insert(table)

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
        writing, since = engine is self._writers, self._away_since
        seconds = self._patience if since is None else min(self._patience, LAST_TRY_SECONDS)
        asking: list[Connection] = []

        def give_up() -> None:
            if asking and not self.is_sqlite:
                cut(asking[0])

        with (
            wait_for(f"the store {self.where}", seconds, since=since, give_up=give_up) as wait,
            turn or nullcontext(),
        ):
            while True:
                try:
                    with engine.begin() as connection:
                        asking = [connection]
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
                    asking = []

    def _has_tables(self, connection: Connection) -> bool:
        if not inspect(connection).has_table(schema.schema_version.name):
            return False
        version = connection.execute(select(schema.schema_version.c.version)).scalar_one()
        if version != schema.VERSION:
            raise StoreError(
                f"store {self.where}: schema version {version}, expected {schema.VERSION}. It was written by another "
                "release; install that one."
            )
        return True

    def _create(self, connection: Connection) -> None:
        if not self.is_sqlite:
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_CREATION_LOCK})")
        # Asked again under the lock: another process may have been faster.
        if not self._has_tables(connection):
            schema.create_tables(connection)


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
        return error.connection_invalidated or (isinstance(error, OperationalError) and not is_refusal(error))
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


# Solved values that outlive a process: a cache, never a record, and never inside a trial's transaction.

FLUSH_SECONDS = 1.0


class Calibrations(UserDict[str, float]):
    """{question: solved value}, of all processes on one store by now. Safe to use from several threads.

    A new value is visible here at once. It is written with the first one that comes FLUSH_SECONDS after the last write,
    or when the store is closed: losing one costs a calculation. Not a number is an InvalidValue.
    """

    def __init__(self, database: Database) -> None:
        known = select(calibrations.c.key, calibrations.c.value)
        self.data = {key: value for key, value in database.read(lambda connection: connection.execute(known).all())}
        self._database = database
        self._unsaved: dict[str, float] = {}
        self._lock = threading.Lock()
        self._written = 0.0

    def __setitem__(self, key: str, value: float) -> None:
        if math.isnan(value):
            raise InvalidValue(key, value, "a number")
        with self._lock:
            self.data[key] = self._unsaved[key] = float(value)
        if time.monotonic() - self._written > FLUSH_SECONDS:
            # A cache must not end a sweep: the store's own next write reports what is wrong with it.
            with suppress(StoreError):
                self.flush()

    def flush(self) -> None:
        """Write what is not yet durable. Raises StoreError; then it is kept for the next flush."""
        with self._lock:
            unsaved, self._written = dict(self._unsaved), time.monotonic()
        if not unsaved:
            return
        statement = self._database.insert(calibrations)
        replacing = statement.on_conflict_do_update(
            index_elements=[calibrations.c.key], set_={"value": statement.excluded.value}
        )
        rows = [{"key": key, "value": value} for key, value in unsaved.items()]
        self._database.write(lambda connection: connection.execute(replacing, rows))
        with self._lock:
            self._unsaved = {key: value for key, value in self._unsaved.items() if unsaved.get(key) != value}
