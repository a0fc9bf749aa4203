"""Work in a process of its own, so that whatever it does there ends with a sentence here.

The user's code is about to run for the first time. It may end the process, crash it, or never come back: none of that
reaches the command that asked.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from types import ModuleType
from typing import Any, Self

from sweeps.util.exits import ExitCode

Send = Callable[[Any], None]


class ProcessEnded(RuntimeError):
    """The process is gone, or was stopped because it did not go on; the message says how."""


class Child:
    """A process that runs `work(send, *given)`; what it sends are its messages.

    Use it as a context: leaving the block ends the process and all that it started. What it prints goes to stderr.
    """

    def __init__(self, work: Callable[..., None], *given: Any) -> None:
        context: Any = multiprocessing.get_context(_method())
        self._receiver, sender = context.Pipe(duplex=False)
        self._process = context.Process(target=_work, args=(work, sender, os.getpid(), *given))
        with _main_left_out():
            self._process.start()
        # Only the child holds it now, so that its end is seen.
        sender.close()
        self._heard = time.monotonic()

    def messages(self, patience: float) -> Iterator[Any]:
        """Until the work is over. Raises ProcessEnded, also after `patience` seconds without a message."""
        while True:
            try:
                while not self._receiver.poll():
                    # Processes that it started may hold its end of the pipe open after it.
                    if not self._process.is_alive() and not self._receiver.poll():
                        raise EOFError
                    left = self._heard + patience - time.monotonic()
                    if left <= 0:
                        raise ProcessEnded(f"it did not come back within {patience:g} s, and was stopped")
                    wait([self._receiver, self._process.sentinel], min(left, _LOOK_SECONDS))
                message = self._receiver.recv()
            except (EOFError, ConnectionResetError):
                self._process.join()
                raise ProcessEnded(_how(self._process.exitcode)) from None
            self._heard = time.monotonic()
            if message == _OVER:
                return
            yield message

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        assert self._process.pid is not None
        with suppress(ProcessLookupError, PermissionError):
            # Its own group, once it has one, with whatever it started.
            os.killpg(self._process.pid, signal.SIGKILL)
        if self._process.is_alive():
            self._process.kill()
        self._process.join()
        self._receiver.close()


_OVER = ("over",)
_LOOK_SECONDS = 1.0


def _method() -> str:
    """A fork has all imports done; it is safe where this process has no other thread and no engine of its own yet."""
    engines = {"torch", "ray"} & set(sys.modules)
    return "fork" if sys.platform == "linux" and threading.active_count() == 1 and not engines else "spawn"


@contextmanager
def _main_left_out() -> Iterator[None]:
    """A process that is spawned runs the main module again, but for what is under `if __name__ == "__main__"`: a
    script that has run one sweep and begins the next would run the first once more."""
    main, sys.modules["__main__"] = sys.modules["__main__"], ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _work(work: Callable[..., None], sender: Connection, parent: int, *given: Any) -> None:
    os.setsid()
    # Ctrl-C is for the parent, which ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_outlives, args=(parent,), daemon=True).start()
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    try:
        work(sender.send, *given)
    except KeyboardInterrupt:
        os._exit(ExitCode.INTERRUPTED)
    sender.send(_OVER)


def _outlives(parent: int) -> None:
    """Nobody is left to stop a process that never comes back, once its parent was killed."""
    while os.getppid() == parent:
        time.sleep(_LOOK_SECONDS)
    os.killpg(os.getpid(), signal.SIGKILL)


def _how(code: int | None) -> str:
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        memory = ": probably out of memory" if name == "SIGKILL" else ""
        return f"its process was ended by {name}{memory}"
    return f"its process ended itself with exit code {code}"
