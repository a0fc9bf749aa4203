"""Nothing waits without a word: who waits for something that may never answer says for what, since when, until when.

The words come from a thread, because the one that waits is often inside a library's call; after the limit the same
thread makes that call end, where the waiter has said how.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from dpcore.checks import InvalidValue
from sweeps.util.log import Event, say

# How long anything here waits for what does not answer: one number.
#
# The store, MLflow, the process that feeds it, and the Ray cluster are given this long; then the caller hears an
# error that says what to do.

VARIABLE = "SWEEPS_PATIENCE"
DEFAULT_SECONDS = 60.0
LONGEST_SECONDS = 86_400.0


def patience() -> float:
    """Seconds, from the environment's SWEEPS_PATIENCE; else 60, which a failover of a database survives.

    Raises InvalidValue for anything but a number above 0 and up to a day.
    """
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return DEFAULT_SECONDS
    try:
        seconds = float(text)
    except ValueError:
        seconds = float("nan")
    if not 0 < seconds <= LONGEST_SECONDS:
        expected = f"seconds above 0 and up to {LONGEST_SECONDS:.0f}"
        raise InvalidValue(VARIABLE, text, expected, f"Unset it for {DEFAULT_SECONDS:.0f}.")
    return seconds


TICK_SECONDS = 0.25
WORD_SECONDS = 5.0
"""Longest wait without a word."""
AGAIN_SECONDS = 10.0
"""Until the next one."""


@dataclass(slots=True)
class Wait:
    """One wait; times are those of `time.monotonic`.

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
        return time.monotonic() - self.began

    def left(self) -> float:
        """Seconds until it is given up; 0 when that is over."""
        return max(0.0, self.until - time.monotonic())

    def came(self) -> None:
        """Something of it came: the limit counts from now on again."""
        now = time.monotonic()
        self.since, self.until = now, now + (self.until - self.since)

    def _sentence(self) -> str:
        limit = f"{self.until - self.since:.0f} s{' without progress' if self.since > self.began else ''}"
        return f"Waiting for {self.what}, {self.waited():.0f} s so far; giving up after {limit} ({VARIABLE})."


@contextmanager
def wait_for(
    what: str, seconds: float | None = None, *, since: float | None = None, give_up: Callable[[], None] | None = None
) -> Iterator[Wait]:
    """The block waits for `what`, for `seconds` at most (default: the patience), and does not do so in silence.

    since  by `time.monotonic`: an earlier wait for the same thing that this one continues
    """
    now = time.monotonic()
    limit = patience() if seconds is None else seconds
    start = now if since is None else since
    wait = Wait(what, start, start, now + limit, give_up)
    with _WATCH.watching(wait):
        yield wait
    if wait._spoke:
        say(f"Waited {wait.waited():.0f} s for {wait.what}; it goes on.", Event.WAITING)


class _Watch:
    """All waits of the process, and the thread that looks at them."""

    def __init__(self) -> None:
        self._waits: list[Wait] = []
        self._said: dict[str, float] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    @contextmanager
    def watching(self, wait: Wait) -> Iterator[None]:
        with self._lock:
            self._waits.append(wait)
            if self._thread is None:
                self._thread = threading.Thread(target=self._loop, daemon=True, name="waiting")
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                self._waits = [one for one in self._waits if one is not wait]
                if all(one.what != wait.what for one in self._waits):
                    self._said.pop(wait.what, None)

    def _loop(self) -> None:
        while True:
            time.sleep(TICK_SECONDS)
            now = time.monotonic()
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
                due.append(wait._sentence())
        return due


_WATCH = _Watch()
