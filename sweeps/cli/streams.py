"""stdout and stderr that a sweep survives: a pipe whose reader ended, a terminal that was closed, a full disk.

`sweeps run ... | head -1` and a lost connection end the reader, not the wish for the result. What the sweep says from
then on stands in its own log.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from sweeps.util import log


class Steadfast:
    """A text stream that never raises: what it cannot write any more it keeps in the log."""

    def __init__(self, stream: TextIO, name: str) -> None:
        self._stream, self._name, self._lost, self._line = stream, name, False, ""

    def write(self, text: str) -> int:
        """As of any text stream."""
        if not self._lost:
            try:
                return self._stream.write(text)
            except OSError as error:
                self._lose(error)
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            log.keep(line)
        return len(text)

    def flush(self) -> None:
        """As of any text stream."""
        if not self._lost:
            try:
                self._stream.flush()
            except OSError as error:
                self._lose(error)

    def _lose(self, error: OSError) -> None:
        self._lost = True
        with suppress(OSError, ValueError):
            # For what is still buffered, and for libraries that write without asking Python.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
        log.say(f"{self._name} is closed ({error.strerror}). The sweep goes on; what it says is in its {log.LOG}.")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def steadfast_streams() -> Iterator[None]:
    """While the block runs, nothing that is printed can end it."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = Steadfast(before[0], "stdout"), Steadfast(before[1], "stderr")  # type: ignore[assignment]
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        sys.stdout, sys.stderr = before
