"""Ctrl-C, SIGTERM, a closed terminal: the first one stops cleanly, a second Ctrl-C ends the process at once."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import Any

from sweeps.process.exits import ExitCode
from sweeps.process.words import Event, line, voice

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruption:
    """While the block runs, the first signal raises KeyboardInterrupt in the main thread and the second exits with 130.

    The second needs no clean-up: whatever a process leaves at any moment, the next start can go on with. A hangup is
    never a second one: kernel and shell both send it when one terminal is closed. Under `nohup`, which ignores
    hangups, they stay ignored.
    A library that swallows the KeyboardInterrupt (Ray does, where its own C++ looks for signals) takes nothing from
    that: loops that go through it `check` at each turn.
    Does nothing outside the main thread, which alone receives signals.
    """

    def __init__(self) -> None:
        self._seen = False
        self._before: dict[signal.Signals, Any] = {}

    def arm(self) -> None:
        """Take the signals (again): libraries put handlers of their own in place when they start."""
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                if number is not signal.SIGHUP or self._before.get(number) is not signal.SIG_IGN:
                    signal.signal(number, self._handle)

    def check(self) -> None:
        """Raise KeyboardInterrupt where a signal came, whatever became of the first one."""
        if self._seen:
            raise KeyboardInterrupt

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.getsignal(number) for number in SIGNALS}
            self.arm()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        if self._seen:
            if signum == signal.SIGHUP:
                return
            os._exit(ExitCode.INTERRUPTED)
        self._seen = True
        with suppress(OSError):
            # There may be no terminal any more.
            if voice().least <= Event.NOTICE.level:
                os.write(sys.__stderr__.fileno(), f"{_stopping()}\n".encode())  # type: ignore[union-attr]
        raise KeyboardInterrupt


def _stopping() -> str:
    text = "\nStopping; once more to end at once."
    return line(text, Event.NOTICE, Event.NOTICE.level) if voice().as_json else text


@contextmanager
def hangups_held() -> Iterator[None]:
    """Processes that the block starts never hear of a closed terminal; this one hears of it when the block ends.

    A cluster of one's own belongs to the controller: it has to be there while the controller stops cleanly.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
