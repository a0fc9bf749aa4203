"""Solved values that outlive a process: a cache, never a record, and never inside a trial's transaction."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, MutableMapping
from contextlib import suppress

from sqlalchemy import delete, select

from dpcore.checks import InvalidValue
from sweeps.store.database import Database
from sweeps.store.errors import StoreError
from sweeps.store.schema import calibrations

FLUSH_SECONDS = 1.0


class Calibrations(MutableMapping[str, float]):
    """{question: solved value}, shared by all processes on one store. Safe to use from several threads.

    A new value is visible here at once. It is written with the first one that comes FLUSH_SECONDS after the last write,
    or when the store is closed: losing one costs a calculation. Not a number is an InvalidValue.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[str, float] = {}
        self._unsaved: dict[str, float] = {}
        self._lock = threading.Lock()
        self._written = 0.0

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
        if time.monotonic() - self._written > FLUSH_SECONDS:
            # A cache must not end a sweep: the store's own next write reports what is wrong with it.
            with suppress(StoreError):
                self.flush()

    def __delitem__(self, key: str) -> None:
        self[key]
        self.flush()
        with self._lock:
            del self._known[key]
        statement = delete(calibrations).where(calibrations.c.key == key)
        self._database.write(lambda connection: connection.execute(statement))

    def __iter__(self) -> Iterator[str]:
        self.flush()
        statement = select(calibrations.c.key)
        return iter(self._database.read(lambda connection: connection.execute(statement).scalars().all()))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def flush(self) -> None:
        """Write what is not yet durable. Raises StoreError; then it is kept for the next flush."""
        with self._lock:
            unsaved, self._written = dict(self._unsaved), time.monotonic()
        if not unsaved:
            return
        self._database.upsert(calibrations, [{"key": key, "value": value} for key, value in unsaved.items()])
        with self._lock:
            self._unsaved = {key: value for key, value in self._unsaved.items() if unsaved.get(key) != value}
