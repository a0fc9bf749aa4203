"""Exit codes: what each says to whoever started the command, a person, a scheduler or a script.

Imports the standard library alone.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import IntEnum
from types import FrameType, TracebackType
from typing import Any

from sweeps.util.log import CONSOLE, LOGGER

OURS = ("sweeps", "dpcore", "trainables")
ENGINES = ("mlflow", "sqlalchemy", "requests", "urllib3", "pyarrow")
"""Packages whose errors, where they reach a command, tell of a service or a file and not of a mistake in ours."""


class ExitCode(IntEnum):
    """The exit code of a command and what it says. No other code is given, but 1 by Python itself for a bug."""

    meaning: str
    goes_on: bool
    """Whether the same sweep goes on by `sweeps resume` with nothing else changed: alone then may a machine start it
    again. After SOME_FAILED and NONE_RANKED the sweep is over, and would end the same way for ever."""

    def __new__(cls, code: int, meaning: str, goes_on: bool = False) -> ExitCode:
        """The code with its meaning."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.meaning, member.goes_on = meaning, goes_on
        return member

    OK = 0, "all went well; of a sweep: it is finished (or its space exhausted) and every launched trial has a rank"
    FAILED = 1, "the command itself failed, or a question has no answer"
    BAD_INPUT = 2, "bad input, or something that the command needs is missing"
    REFUTED = 3, "an audit refuted a claim, or a certificate does not stand"
    SOME_FAILED = 4, "the sweep is finished, but some trials failed or reported no objective"
    NONE_RANKED = 5, "the sweep is finished, and no trial can be ranked"
    CLUSTER_LOST = 75, "the Ray cluster was lost", True
    INTERRUPTED = 130, "stopped by Ctrl-C or SIGTERM", True

    @classmethod
    def known(cls, code: int | None) -> ExitCode | None:
        """The member of this number; None for that of another program, or of a signal."""
        return next((one for one in cls if one.value == code), None)

    @classmethod
    def of_sweep(cls, *, ranked: int, complete: int, failed: int) -> ExitCode:
        """Of a sweep that is over: `ranked` of its `complete` trials have a value in every objective."""
        if not ranked:
            return cls.NONE_RANKED
        return cls.SOME_FAILED if failed or ranked < complete else cls.OK


TABLE = (
    f"Exit codes: {'; '.join(f'{code.value} {code.meaning}' for code in ExitCode)}. After 75 and 130, and after 2 once "
    "the cause is gone, `sweeps resume` goes on; after 4 and 5 it would end the same way."
)
"""For `--help`."""


# Ctrl-C, SIGTERM, a closed terminal: the first one stops cleanly, a second Ctrl-C ends the process at once.

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
            if CONSOLE.least <= logging.INFO:
                os.write(sys.__stderr__.fileno(), f"{_stopping()}\n".encode())  # type: ignore[union-attr]
        raise KeyboardInterrupt


def _stopping() -> str:
    text = "\nStopping; once more to end at once."
    # Written by hand: the handler's lock may be held by the very thread that the signal came upon.
    record = LOGGER.makeRecord(LOGGER.name, logging.INFO, "", 0, text, (), None)
    return CONSOLE.format(record) if CONSOLE.as_json else text


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
