"""How long anything here waits for what does not answer: one number, counted on one clock.

The store, MLflow, the process that feeds it, and the Ray cluster are given this long; then the caller hears an error
that says what to do. The clock stands still while this process is stopped (SIGSTOP, Ctrl-Z, a laptop's lid): what
nobody was there to hear is nobody's silence.
"""

from __future__ import annotations

import os
import threading
import time

from dpcore.checks import InvalidValue

VARIABLE = "SWEEPS_PATIENCE"
DEFAULT_SECONDS = 60.0
LONGEST_SECONDS = 86_400.0

TICK_SECONDS = 0.25
STOPPED_SECONDS = 5.0
"""A process whose clock did not tick for this long was stopped; less is what a busy machine does to it."""


def patience() -> float:
    """Seconds, from the environment's SWEEPS_PATIENCE; else 60, which a failover of a database survives.

    Raises InvalidValue for anything but a number above 0 and up to a day.
    """
    text = given()
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


def given() -> str:
    """The text of the environment's SWEEPS_PATIENCE; empty where there is none."""
    return os.environ.get(VARIABLE, "").strip()


class AwakeClock:
    """Seconds that this process was there for. Whoever asks first after a stop notices it. Safe from all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: float | None = None
        self._stopped = 0.0

    def now(self) -> float:
        """Seconds since some moment, times of a stop left out (once something ticks: see `tick`)."""
        with self._lock:
            return self._read() - self._stopped

    def stopped(self) -> float:
        """Seconds that this process was stopped for, all stops together."""
        with self._lock:
            self._read()
            return self._stopped

    def tick(self) -> None:
        """To be called more often than every STOPPED_SECONDS, always: who misses it was stopped."""
        with self._lock:
            self._last = self._read()

    def _read(self) -> float:
        now = time.monotonic()
        if self._last is not None and now - self._last > STOPPED_SECONDS:
            self._stopped += now - self._last
        if self._last is not None:
            self._last = now
        return now


CLOCK = AwakeClock()


def _tick() -> None:
    while True:
        CLOCK.tick()
        time.sleep(TICK_SECONDS)


_started = threading.Lock()


def ticking() -> AwakeClock:
    """The process's own clock, ticking from the first call on."""
    if _started.acquire(blocking=False):
        CLOCK.tick()
        threading.Thread(target=_tick, daemon=True, name="awake-clock").start()
    return CLOCK
