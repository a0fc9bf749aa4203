"""Ends the process when its Ray cluster is gone: Ray's own calls may then wait for ever."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import ray

from sweeps.ray.patches import head_processes
from sweeps.util.exits import ExitCode
from sweeps.util.log import Event, say
from sweeps.util.waiting import patience, wait_for
from trainables.worker.redaction import redacted

ASK_SECONDS = 2.0
LOOK_MILLISECONDS = 100
"""Until what is watched from now on, or no more, is known."""
STOPPED_SECONDS = 5.0
"""A process that was due so long ago was stopped; less is what a busy machine does to it."""


class Watchdog:
    """Calls `on_lost` and ends the process with CLUSTER_LOST when the cluster died, or is silent for too long.

    Losing the local raylet leaves Ray's calls waiting for ever (watched for 45 s with Ray 2.60), or its core ends
    this process with status 1 and no word as soon as it notices. So the kernel is asked to wake a thread the moment
    that one of our own cluster's processes dies. A foreign cluster is asked for its node list, in a thread of its own
    that may hang. Start and end of Ray get a time limit. All limits are the patience; time in which this process
    itself was stopped (SIGSTOP, Ctrl-Z) is not the cluster's silence.
    """

    def __init__(self, on_lost: Callable[[], None]) -> None:
        self._on_lost = on_lost
        self._answered = float("inf")
        self._asked = 0.0
        self._asking = threading.Event()
        self._node = ""
        self._processes: list[int] = []
        self._lock = threading.Lock()
        self._over = False
        self._thread = threading.Thread(target=self._loop, daemon=True, name="watchdog")

    def __enter__(self) -> Watchdog:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._over = True
        self._thread.join()

    @contextlib.contextmanager
    def within(self, what: str) -> Iterator[None]:
        """The block has to end within the patience, or the cluster counts as lost. Nothing else is watched meanwhile.

        what  the block waits for, as words name it
        """
        self._forget()
        with wait_for(what, give_up=self._end):
            yield

    def watch(self) -> None:
        """Watch the connected cluster from now on."""
        self._node = ray.get_runtime_context().get_node_id()
        with self._lock:
            try:
                self._processes = [os.pidfd_open(pid) for pid in head_processes()]
            except ProcessLookupError:
                self._end()
            self._answered = self._asked = time.monotonic()

    def _forget(self) -> None:
        with self._lock:
            self._answered = float("inf")
            forgotten, self._processes = self._processes, []
        for descriptor in forgotten:
            os.close(descriptor)

    def _loop(self) -> None:
        while not self._over:
            with self._lock:
                watched = list(self._processes)
            looked = time.monotonic()
            poll = select.poll()
            for descriptor in watched:
                poll.register(descriptor, select.POLLIN)
            ended = {descriptor for descriptor, events in poll.poll(LOOK_MILLISECONDS) if events & select.POLLIN}
            with self._lock:
                # Those that were forgotten meanwhile may end.
                ended &= set(self._processes)
            now = time.monotonic()
            if now - looked > STOPPED_SECONDS:
                # Nobody was there to hear an answer.
                self._answered = max(self._answered, now)
            if ended or now - self._answered > patience():
                self._end()
            if self._answered < float("inf") and now - self._asked > ASK_SECONDS and not self._asking.is_set():
                self._asked = now
                self._asking.set()
                threading.Thread(target=self._ask, daemon=True).start()

    def _end(self) -> None:
        self._on_lost()
        sys.stderr.flush()
        os._exit(ExitCode.CLUSTER_LOST)

    def _ask(self) -> None:
        try:
            if (since := self._answered) == float("inf"):
                return
            with wait_for("the Ray cluster to answer", max(0.0, since + patience() - time.monotonic()), since=since):
                nodes: list[Mapping[str, Any]] = ray.nodes()
            alive = any(node["Alive"] and node["NodeID"] == self._node for node in nodes)
            with self._lock:
                if alive and self._answered < float("inf"):
                    self._answered = time.monotonic()
        except Exception as error:  # any failure to answer is silence; say what it was and keep counting
            if self._answered < float("inf"):
                say(f"cluster does not answer: {redacted(str(error))}", Event.WARNING)
        finally:
            self._asking.clear()


# Launches that show no sign of life: a worker that is stopped or hung costs its own trial and nobody else anything.
#
# A sign is whatever the worker writes into its own attempt: its claim, each interval before it begins, each
# checkpoint. So nothing is written for this alone, and a process that merely exists gives none. Signs are compared
# with those of before, by the controller's clock: no two clocks have to agree.

LOOKS = 8
"""How often a launch is looked at before it is named or ended."""


@dataclass(frozen=True, slots=True)
class Sign:
    """What shows that a launch lives, to be compared with the one before.

    process  that it was given: with another one it begins anew
    written  by its workers, for each member (`Attempt.signs`)
    """

    process: str
    written: tuple[tuple[tuple[str, int], ...], ...]

    @property
    def began(self) -> bool:
        """Whether a worker has taken it: until then its process starts, imports and maps the data."""
        return any(self.written)


@dataclass(slots=True)
class _Seen:
    sign: Sign
    since: float
    named: float = 0.0
    """Seconds of silence at which it was last spoken of."""


@dataclass(slots=True)
class Stalls:
    """Silence of each launch. Used from one thread.

    limit  seconds after which a launch is to be ended, once it began; its start has the patience, if that is longer.
           None: never
    """

    limit: float | None
    _seen: dict[str, _Seen] = field(default_factory=dict)
    _looked: float = float("-inf")

    def every(self) -> float:
        """Seconds between two looks."""
        return min(self.limit or float("inf"), patience()) / LOOKS

    def look(self, launches: Mapping[str, Callable[[], Sign]]) -> list[tuple[str, float]]:
        """Those of `launches` that are to be ended, with their seconds of silence; names the silent ones.

        launches  those that a process has been given, by name, each with what shows its signs (may raise OSError)
        """
        now = time.monotonic()
        if now - self._looked < self.every():
            return []
        self._looked = now
        self._seen = {name: seen for name, seen in self._seen.items() if name in launches}
        silences = {name: self._silent(name, signs) for name, signs in launches.items()}
        return [(name, silent) for name, silent in silences.items() if self._is_over(name, silent)]

    def _silent(self, name: str, signs: Callable[[], Sign]) -> float:
        try:
            sign = signs()
        except OSError:
            # Records that cannot be looked at say nothing of their worker.
            self._seen.pop(name, None)
            return 0.0
        seen = self._seen.get(name)
        if seen is None or seen.sign != sign:
            if seen is not None and seen.named:
                say(f"{name} goes on.")
            self._seen[name] = _Seen(sign, time.monotonic())
            return 0.0
        return time.monotonic() - seen.since

    def _is_over(self, name: str, silent: float) -> bool:
        seen = self._seen.get(name)
        if seen is None:
            return False
        limit = None if self.limit is None else self.limit if seen.sign.began else max(self.limit, patience())
        if limit is not None and silent >= limit:
            return True
        if silent >= max(patience(), 2 * seen.named):
            seen.named = silent
            what = (
                "Nothing ends it: limits.stall_seconds would"
                if limit is None
                else f"It is ended after {limit:.0f} s: limits.stall_seconds"
            )
            say(
                f"{name} has shown no sign of life for {silent:.0f} s: no interval begun, no checkpoint. {what}.",
                Event.WARNING,
            )
        return False


def ended_for(silent: float) -> str:
    """The reason of an attempt that was ended."""
    return f"it showed no sign of life for {silent:.0f} s, and limits.stall_seconds ended it"
