"""What a command says apart from its answer: `logging`, under the logger "sweeps".

People read lines on stderr, or where the command shows them; a machine reads one JSON object a line (`--log json`); the
sweep's own log keeps both's words. A terminal that was closed and a pipe whose reader ended refuse what is written to
them: that is no reason for a sweep to end, so what is said here never raises.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from io import TextIOBase
from pathlib import Path
from typing import TextIO

from trainables.worker.redaction import redacted

LOG = "controller.log"
"""In the sweep's folder."""
LOGGER = logging.getLogger("sweeps")


class Event(StrEnum):
    """Which kind of thing is said. The names are a promise to whoever reads the lines by machine.

    level    how much it matters, where it is not said otherwise
    always   whether it is a part of the result, and said however quiet the command is
    kept     whether the sweep's log keeps it; what is in the store besides is not
    meaning  for `--help`
    """

    level: int
    always: bool
    kept: bool
    meaning: str

    def __new__(cls, name: str, level: int, meaning: str, always: bool = False, kept: bool = True) -> Event:
        """The event of this name."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.level, member.meaning, member.always, member.kept = level, meaning, always, kept
        return member

    DECISION = "decision", logging.DEBUG, "what was decided, and why"
    NOTICE = "notice", logging.INFO, "what happens now"
    WAITING = "waiting", logging.INFO, "for what, since when and until when"
    TRIAL = "trial", logging.INFO, "a trial is in another state", False, False
    PROGRESS = "progress", logging.INFO, "how far it is", False, False
    CLAIM = "claim", logging.INFO, "what stands above every claim of the sweep", True
    WARNING = "warning", logging.WARNING, "what needs a person, though it goes on"
    REFUTED = "refuted", logging.WARNING, "an audit refuted a claim", True
    FAILURE = "failure", logging.ERROR, "a trial failed"
    ERROR = "error", logging.ERROR, "the command ends without an answer"
    END = "end", logging.INFO, "how it ended; a warning where that is not well", True


EVENTS = "; ".join(f"{event} ({event.meaning})" for event in Event)
"""For `--help` and the README."""


def say(
    text: str,
    event: Event = Event.NOTICE,
    *,
    level: int | None = None,
    sweep: str = "",
    trial: str = "",
    plain: Callable[[], None] | None = None,
) -> None:
    """One sentence or more. No passwords, nothing of a record.

    level  where it matters more or less than others of its kind
    sweep  default: the one whose log is kept
    plain  shows it to people, where a line on stderr does not; it may show more than `text`, to who has the records
    """
    named = {"event": event, "sweep": sweep, "trial": trial, "plain": plain}
    LOGGER.log(event.level if level is None else level, "%s", redacted(text), extra=named)


def _event(record: logging.LogRecord) -> Event:
    return getattr(record, "event", Event.NOTICE)


class JsonFormatter(logging.Formatter):
    """One object a line: time, level, event and text; `sweep` and `trial` where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter`."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        said = {"time": f"{stamp}.{int(record.msecs):03d}Z", "level": record.levelname.lower(), "event": _event(record)}
        sweep = getattr(record, "sweep", "") or (_logs[-1].sweep if _logs else "")
        named = {"sweep": sweep, "trial": getattr(record, "trial", "")}
        said |= {name: value for name, value in named.items() if value}
        return json.dumps(said | {"text": record.getMessage().strip()})


class Console(logging.Handler):
    """stderr, for people or for a machine.

    least    what matters less is not said; a sweep's log keeps it all the same
    as_json  one object a line, and on stderr nothing else
    """

    least, as_json = logging.INFO, False

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler`."""
        if record.levelno < self.least and not _event(record).always:
            return
        plain: Callable[[], None] | None = getattr(record, "plain", None)
        with suppress(OSError, ValueError, AttributeError):
            if self.as_json:
                stream = getattr(sys.stderr, "instead", sys.stderr)
                # One call: lines of two threads must not run into each other.
                stream.write(self.format(record) + "\n")
                stream.flush()
            elif plain is not None:
                plain()
            else:
                print(record.getMessage(), file=sys.stderr, flush=True)

    def options(self) -> list[str]:
        """Those of a command that says as much, in the same form."""
        quiet, verbose = ["--quiet"] * (self.least > logging.INFO), ["--verbose"] * (self.least < logging.INFO)
        return [*quiet, *verbose, *(["--log", "json"] if self.as_json else [])]


class SweepLog(logging.Handler):
    """The file in a sweep's folder, which keeps what is said of it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path, self.sweep = path, path.parent.name
        self.addFilter(lambda record: _event(record).kept)

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler`."""
        self.keep(record.getMessage())

    def keep(self, text: str) -> None:
        """Append lines, each with its time."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        with suppress(OSError), self.path.open("a", encoding="utf-8") as stream:
            stream.writelines(f"{stamp} {line}\n" for line in text.strip().splitlines())


CONSOLE = Console()
CONSOLE.setFormatter(JsonFormatter())
LOGGER.setLevel(logging.DEBUG)
LOGGER.propagate = False
LOGGER.addHandler(CONSOLE)
_logs: list[SweepLog] = []


def configure(least: int = logging.INFO, as_json: bool = False) -> None:
    """Say so much from now on. With JSON, what libraries print on stderr goes to the log alone: it may be anything."""
    CONSOLE.least, CONSOLE.as_json = least, as_json
    if isinstance(sys.stderr, LogOnly):
        sys.stderr = sys.stderr.instead
    if as_json:
        sys.stderr = LogOnly(sys.stderr)


@contextmanager
def configured(least: int | None = None, as_json: bool | None = None) -> Iterator[None]:
    """However much the block says, as much is said as before when it has ended."""
    before = CONSOLE.least, CONSOLE.as_json
    configure(before[0] if least is None else least, before[1] if as_json is None else as_json)
    try:
        yield
    finally:
        configure(*before)


@contextmanager
def kept_in(path: Path) -> Iterator[None]:
    """While the block runs, what is said is of the sweep in whose folder `path` is, and is appended to it too."""
    log = SweepLog(path)
    _logs.append(log)
    LOGGER.addHandler(log)
    try:
        yield
    finally:
        LOGGER.removeHandler(log)
        _logs.remove(log)


def keep(text: str) -> None:
    """In the logs alone."""
    for log in _logs:
        log.keep(redacted(text))


class LogOnly(TextIOBase):
    """Stands for a stream that holds JSON alone, or whose reader is gone: what is printed there is kept in the log."""

    def __init__(self, instead: TextIO) -> None:
        self.instead, self._rest = instead, ""

    def write(self, text: str) -> int:
        """As of any text stream."""
        *lines, self._rest = (self._rest + text).split("\n")
        for line in filter(None, lines):
            keep(line)
        return len(text)

    def fileno(self) -> int:
        """Of the stream itself: for processes that are started with it."""
        return self.instead.fileno()
