"""Messages of a command, apart from its answer: on stderr, and in the sweep's own log, whoever listens.

A terminal that was closed and a pipe whose reader ended refuse what is written to them: that is no reason for a sweep
to end, so what is said here never raises.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from trainables.worker.redaction import redacted

LOG = "controller.log"
"""In the sweep's folder."""

_logs: list[Path] = []
_lock = threading.Lock()


def say(text: str) -> None:
    """One sentence or more on stderr, and with its time in every log that is kept now. No passwords."""
    with suppress(OSError, ValueError, AttributeError):
        print(redacted(text), file=sys.stderr, flush=True)
    keep(text)


def keep(text: str) -> None:
    """The same in the logs alone."""
    text = redacted(text)
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    with _lock:
        for log in _logs:
            with suppress(OSError), log.open("a", encoding="utf-8") as stream:
                stream.writelines(f"{stamp} {line}\n" for line in redacted(text).strip().splitlines())


@contextmanager
def kept_in(log: Path) -> Iterator[None]:
    """While the block runs, what is said is appended to `log` too."""
    _logs.append(log)
    try:
        yield
    finally:
        _logs.remove(log)
