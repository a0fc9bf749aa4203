"""Ends the process when its Ray cluster is gone: Ray's own calls may then wait for ever."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import ray

from sweeps.process.exits import ExitCode
from sweeps.process.patience import CLOCK, patience, ticking
from sweeps.process.waiting import waiting
from sweeps.process.words import Event, say
from sweeps.runner.ray_private.head_processes import head_processes
from trainables.worker.redaction import redacted

ASK_SECONDS = 2.0


class Watchdog:
    """Calls `on_lost` and ends the process with CLUSTER_LOST when the cluster died, or is silent for too long.

    Losing the local raylet leaves Ray's calls waiting for ever (watched for 45 s with Ray 2.60), or its core ends
    this process with status 1 and no word as soon as it notices. So the kernel is asked to wake a thread the moment
    that one of our own cluster's processes dies. A foreign cluster is asked for its node list, in a thread of its own
    that may hang. Start and end of Ray get a time limit. All limits are the patience, on its clock: time in which this
    process itself was stopped is not the cluster's silence.
    """

    def __init__(self, on_lost: Callable[[], None]) -> None:
        self._on_lost = on_lost
        self._answered = float("inf")
        self._asked = 0.0
        self._asking = threading.Event()
        self._node = ""
        self._processes: list[int] = []
        self._lock = threading.Lock()
        self._wake_out, self._wake_in = os.pipe()
        self._over = False
        self._thread = threading.Thread(target=self._loop, daemon=True, name="watchdog")

    def __enter__(self) -> Watchdog:
        ticking()
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._over = True
        self._wake()
        self._thread.join()
        os.close(self._wake_in)
        os.close(self._wake_out)

    @contextlib.contextmanager
    def within(self, what: str) -> Iterator[None]:
        """The block has to end within the patience, or the cluster counts as lost. Nothing else is watched meanwhile.

        what  the block waits for, as words name it
        """
        self._forget()
        with waiting(what, give_up=self._end):
            yield

    def watch(self) -> None:
        """Watch the connected cluster from now on."""
        self._node = ray.get_runtime_context().get_node_id()
        with self._lock:
            try:
                self._processes = [os.pidfd_open(pid) for pid in head_processes()]
            except ProcessLookupError:
                self._end()
            self._answered = self._asked = CLOCK.now()
        self._wake()

    def _forget(self) -> None:
        with self._lock:
            self._answered = float("inf")
            forgotten, self._processes = self._processes, []
        self._wake()
        for descriptor in forgotten:
            os.close(descriptor)

    def _wake(self) -> None:
        os.write(self._wake_in, b".")

    def _loop(self) -> None:
        while not self._over:
            with self._lock:
                watched = list(self._processes)
            poll = select.poll()
            poll.register(self._wake_out, select.POLLIN)
            for descriptor in watched:
                poll.register(descriptor, select.POLLIN)
            ready = {descriptor for descriptor, events in poll.poll(500) if events & select.POLLIN}
            if self._wake_out in ready:
                os.read(self._wake_out, 64)
                continue
            now = CLOCK.now()
            if ready or now - self._answered > patience():
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
            with waiting("the Ray cluster to answer", max(0.0, since + patience() - CLOCK.now()), since=since):
                nodes: list[Mapping[str, Any]] = ray.nodes()
            alive = any(node["Alive"] and node["NodeID"] == self._node for node in nodes)
            with self._lock:
                if alive and self._answered < float("inf"):
                    self._answered = CLOCK.now()
        except Exception as error:  # any failure to answer is silence; say what it was and keep counting
            if self._answered < float("inf"):
                say(f"cluster does not answer: {redacted(str(error))}", Event.WARNING)
        finally:
            self._asking.clear()
