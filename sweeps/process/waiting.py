"""Nothing waits without a word: who waits for something that may never answer says for what, since when, until when.

The words come from a thread, because the one that waits is often inside a library's call; after the limit the same
thread makes that call end, where the waiter has said how.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sweeps.process import patience
from sweeps.process.words import Event, say

WORD_SECONDS = 5.0
"""Longest wait without a word."""
AGAIN_SECONDS = 10.0
"""Until the next one."""


@dataclass(slots=True)
class PatientWait:
    """One wait, on the clock of `sweeps.process.patience`.

    what     it is for, as a message names it: "MLflow at http://host:5000"
    began    when it began
    since    when something of it came last
    until    when it is given up
    give_up  makes it end: called from then on, again and again, in another thread; None where the waiter looks itself
    """

    what: str
    began: float
    since: float
    until: float
    give_up: Callable[[], None] | None = None
    _spoke: bool = False

    def waited(self) -> float:
        """Seconds so far."""
        return patience.CLOCK.now() - self.began

    def left(self) -> float:
        """Seconds until it is given up; 0 when that is over."""
        return max(0.0, self.until - patience.CLOCK.now())

    def came(self) -> None:
        """Something of it came: the limit counts from now on again."""
        now = patience.CLOCK.now()
        self.since, self.until = now, now + (self.until - self.since)

    def _sentence(self, now: float) -> str:
        limit = f"{self.until - self.since:.0f} s{' without progress' if self.since > self.began else ''}"
        so_far = f"{now - self.began:.0f} s so far"
        return f"Waiting for {self.what}, {so_far}; giving up after {limit} ({patience.VARIABLE})."


@contextmanager
def waiting(
    what: str, seconds: float | None = None, *, since: float | None = None, give_up: Callable[[], None] | None = None
) -> Iterator[PatientWait]:
    """The block waits for `what`, for `seconds` at most (default: the patience), and does not do so in silence.

    since  on the clock of `sweeps.process.patience`: an earlier wait for the same thing that this one continues
    """
    now = patience.ticking().now()
    limit = patience.patience() if seconds is None else seconds
    start = now if since is None else since
    wait = PatientWait(what, start, start, now + limit, give_up)
    _WATCH.add(wait)
    try:
        yield wait
    except BaseException:
        _WATCH.remove(wait)
        raise
    _WATCH.remove(wait)
    if wait._spoke:
        say(f"Waited {wait.waited():.0f} s for {wait.what}; it goes on.", Event.WAITING)


class _Watch:
    """All waits of the process, and the thread that looks at them."""

    def __init__(self) -> None:
        self._waits: list[PatientWait] = []
        self._said: dict[str, float] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def add(self, wait: PatientWait) -> None:
        with self._lock:
            self._waits.append(wait)
            if self._thread is None:
                self._thread = threading.Thread(target=self._loop, daemon=True, name="waiting")
                self._thread.start()

    def remove(self, wait: PatientWait) -> None:
        with self._lock:
            self._waits = [one for one in self._waits if one is not wait]
            if all(one.what != wait.what for one in self._waits):
                self._said.pop(wait.what, None)

    def _loop(self) -> None:
        while True:
            time.sleep(patience.TICK_SECONDS)
            now = patience.CLOCK.now()
            with self._lock:
                due = self._due(now)
                for wait in self._waits:
                    # Under the lock: a wait that is over by itself must not be cut any more.
                    if wait.give_up is not None and now >= wait.until:
                        wait.give_up()
            for text in due:
                say(text, Event.WAITING)

    def _due(self, now: float) -> list[str]:
        """What is to be said now: one sentence for each thing that is waited for, by however many threads."""
        due = []
        for wait in self._waits:
            last = self._said.get(wait.what)
            if now - wait.began >= WORD_SECONDS and (last is None or now - last >= AGAIN_SECONDS):
                self._said[wait.what] = now
                wait._spoke = True
                due.append(wait._sentence(now))
        return due


_WATCH = _Watch()
