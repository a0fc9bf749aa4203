"""A controller hears what people ask of its sweep while it runs (`sweeps.requests`), wherever they ask it."""

from __future__ import annotations

import signal
import threading
from collections import deque
from contextlib import suppress

from sweeps.process.words import say
from sweeps.requests import KnownPoint, Request, StopRequest
from sweeps.store import Lease, Store, StoreError

LISTEN_SECONDS = 2.0
"""Between two looks at the store: whoever asks is promised five."""


class Listener:
    """Reads the sweep's requests while the block runs. A stop that means this controller interrupts the main thread, as
    Ctrl-C does, and the terminal says who asked. Safe to use from several threads.

    A stop that was meant for an earlier controller is none for this one: each names the lease of the one it means.
    """

    def __init__(self, store: Store, lease: Lease) -> None:
        self._store, self._lease = store, lease
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._loop, daemon=True, name="listener")
        self._seen: set[int] = set()
        self.points: deque[Request] = deque()
        """Points that were enqueued, as they are heard: the controller takes them out."""

    def look(self) -> None:
        """Read what is new. Raises StoreError."""
        for request in self._store.requests(self._lease.sweep):
            if request.id not in self._seen:
                self._seen.add(request.id)
                self._hear(request)

    def end(self) -> None:
        """Hear nothing from now on."""
        self._over.set()

    def _hear(self, request: Request) -> None:
        wanted = request.wanted
        if isinstance(wanted, KnownPoint):
            self.points.append(request)
        if isinstance(wanted, StopRequest) and wanted.token == self._lease.token and not self._over.is_set():
            self.end()
            say(f"\n{request.asker} asked at {request.when} for a stop (`sweeps stop`).")
            # A signal of its own, and not `interrupt_main`: that wakes nobody out of a call that waits.
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def _loop(self) -> None:
        while not self._over.is_set():
            # A store that is away may come back; that it is, the writer says.
            with suppress(StoreError):
                self.look()
            self._over.wait(LISTEN_SECONDS)

    def __enter__(self) -> Listener:
        # What waits already is known before anything is decided.
        self.look()
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.end()
        self._thread.join()
