"""`limits.hours` and `limits.trial_minutes`: how long attempts have run, and what happens when that is too long.

Time is that of attempts, as the store has it: pauses between two controllers are nobody's, and attempts side by side
are one time for the sweep. When a controller is killed, nobody writes down when. Its attempts then count up to the last
thing that it wrote, which is less than they ran.

What a trial claims that was stopped by the clock is its whole plan: how long it ran may depend on records, and a total
of whichever steps came out would be one of a number that was not fixed beforehand. One that `limits.trial_minutes`
stopped has failed, and all of its reservation is charged. One that `limits.hours` left on its way is charged in the
ledger as far as it came, since it may go on, and counts in a total with its whole plan; the total then rests on that
records did not decide how many trials ended in time (`sweeps.ledger.spending.cut_short`). Ending within what was
planned reveals no more than the plan (`sweeps.control.stopped_trials` says why).
"""

from __future__ import annotations

import signal
import threading
from bisect import bisect_left
from collections.abc import Iterable, Sequence

from sweeps.control.lost_attempts import CONTROLLER_ENDED
from sweeps.process.words import say
from sweeps.records import AttemptRecord

OVERRAN = "it trained for longer than limits.trial_minutes: stopped, and charged for all of its reservation"
"""Why a trial has failed that the clock stopped."""


def seconds_left(minutes: float | None, trials: Iterable[Sequence[AttemptRecord]]) -> float | None:
    """Of `limits.trial_minutes`, for trials that train together, by their earlier attempts; None without a limit."""
    if minutes is None:
        return None
    return sum(max(0.0, 60 * minutes - seconds_run(attempts)) for attempts in trials)


def seconds_run(attempts: Iterable[AttemptRecord]) -> float:
    """For how many seconds at least one of these attempts ran. Those without a known end count up to the last known
    moment before somebody found them."""
    listed = sorted(attempts, key=lambda one: one.started_at)
    known = {(one.key, one.attempt): one.ended_at for one in listed if not one.reason.startswith(CONTROLLER_ENDED)}
    moments = sorted([*(one.started_at for one in listed), *(at for at in known.values() if at is not None)])
    seconds, reached = 0.0, float("-inf")
    for one in listed:
        end = known.get((one.key, one.attempt))
        if end is None:
            before = len(moments) if one.ended_at is None else bisect_left(moments, one.ended_at)
            end = moments[max(before, 1) - 1]
        seconds += max(0.0, end - max(one.started_at, reached))
        reached = max(reached, end)
    return seconds


class Deadline:
    """Interrupts the main thread, as Ctrl-C does, when so many seconds have passed while the block runs; None: never.

    seconds  of that
    passed   whether it did
    """

    def __init__(self, seconds: float | None, said: str) -> None:
        self.seconds, self.passed = seconds, False
        self._said, self._over, self._lock = said, False, threading.Lock()
        # No timer waits for longer than that.
        after = None if seconds is None else min(max(0.0, seconds), threading.TIMEOUT_MAX)
        self._timer = None if after is None else threading.Timer(after, self._end)

    def _end(self) -> None:
        with self._lock:
            if self._over:
                return
            self.passed = True
            say(self._said)
            # Not `interrupt_main`: that wakes nobody out of a call that waits.
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def __enter__(self) -> Deadline:
        if self._timer is not None:
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        with self._lock:
            self._over = True
