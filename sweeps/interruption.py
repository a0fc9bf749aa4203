"""Ctrl-C and SIGTERM: the first one stops cleanly, the second ends the process at once."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any

from sweeps.exits import ExitCode

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """While the block runs, the first signal raises KeyboardInterrupt in the main thread and the second exits with 130.

    The second needs no clean-up: whatever a process leaves at any moment, the next start can go on with.
    Does nothing outside the main thread, which alone receives signals.
    """

    def __init__(self) -> None:
        self._seen = False
        self._before: dict[signal.Signals, Any] = {}

    def arm(self) -> None:
        """Take the signals (again): libraries put handlers of their own in place when they start."""
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                signal.signal(number, self._handle)

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
            os._exit(ExitCode.INTERRUPTED)
        self._seen = True
        os.write(sys.__stderr__.fileno(), b"\nStopping; once more to end at once.\n")  # type: ignore[union-attr]
        raise KeyboardInterrupt
