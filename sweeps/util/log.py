"""What a command says apart from its answer: one door, whoever listens.

People read lines on stderr, or where the command shows them; a machine reads one JSON object a line (`--log json`); the
sweep's own log keeps both's words. How much is said is one setting of the process, that of -q and -v. A terminal that
was closed and a pipe whose reader ended refuse what is written to them: that is no reason for a sweep to end, so what
is said here never raises.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from io import TextIOBase
from pathlib import Path
from typing import TextIO

from trainables.worker.redaction import redacted

LOG = "controller.log"
"""In the sweep's folder."""


class Level(IntEnum):
    """How much something matters; a voice says what is at least of its own."""

    DEBUG = 10
    INFO = 20
    WARNING = 30
    ERROR = 40


class Event(StrEnum):
    """Which kind of thing is said. The names are a promise to whoever reads the lines by machine.

    level    how much it matters, where it is not said otherwise
    always   whether it is a part of the result, and said however quiet the voice is
    kept     whether the sweep's log keeps it; what is in the store besides is not
    meaning  for `--help`
    """

    level: Level
    always: bool
    kept: bool
    meaning: str

    def __new__(cls, name: str, level: Level, meaning: str, always: bool = False, kept: bool = True) -> Event:
        """The event of this name."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.level, member.meaning, member.always, member.kept = level, meaning, always, kept
        return member

    DECISION = "decision", Level.DEBUG, "what was decided, and why"
    NOTICE = "notice", Level.INFO, "what happens now"
    WAITING = "waiting", Level.INFO, "for what, since when and until when"
    TRIAL = "trial", Level.INFO, "a trial is in another state", False, False
    PROGRESS = "progress", Level.INFO, "how far it is", False, False
    CLAIM = "claim", Level.INFO, "what stands above every claim of the sweep", True
    WARNING = "warning", Level.WARNING, "what needs a person, though it goes on"
    REFUTED = "refuted", Level.WARNING, "an audit refuted a claim", True
    FAILURE = "failure", Level.ERROR, "a trial failed"
    ERROR = "error", Level.ERROR, "the command ends without an answer"
    END = "end", Level.INFO, "how it ended; a warning where that is not well", True


EVENTS = "; ".join(f"{event} ({event.meaning})" for event in Event)
"""For `--help` and the README."""


@dataclass(frozen=True, slots=True)
class Voice:
    """How this process speaks.

    least    what matters less is not said; the log keeps it all the same
    as_json  one object a line, and on stderr nothing else
    """

    least: Level = Level.INFO
    as_json: bool = False

    def options(self) -> list[str]:
        """Those of a command that speaks so."""
        quiet, verbose = ["--quiet"] * (self.least > Level.INFO), ["--verbose"] * (self.least < Level.INFO)
        return [*quiet, *verbose, *(["--log", "json"] if self.as_json else [])]


_voice = Voice()
_logs: list[tuple[str, Path]] = []
_lock = threading.Lock()


def voice() -> Voice:
    """How this process speaks now."""
    return _voice


def speak(wanted: Voice) -> None:
    """Speak so from now on. With JSON, what libraries print on stderr goes to the log alone: it might be anything."""
    global _voice
    _voice = wanted
    if isinstance(sys.stderr, _Unsaid):
        sys.stderr = sys.stderr.instead
    if wanted.as_json:
        sys.stderr = _Unsaid(sys.stderr)


@contextmanager
def speaking(wanted: Voice | None = None) -> Iterator[None]:
    """However the block speaks, the process speaks as before when it has ended."""
    before = _voice
    speak(before if wanted is None else wanted)
    try:
        yield
    finally:
        speak(before)


def say(
    text: str,
    event: Event = Event.NOTICE,
    *,
    level: Level | None = None,
    sweep: str = "",
    trial: str = "",
    plain: Callable[[], None] | None = None,
) -> None:
    """One sentence or more, and with its time in every log that is kept now. No passwords, nothing of a record.

    level  where it matters more or less than others of its kind
    sweep  default: the one whose log is kept
    plain  shows it to people, where a line on stderr does not; it may show more than `text`, to who has the records
    """
    matters, text = event.level if level is None else level, redacted(text)
    if event.always or matters >= _voice.least:
        with suppress(OSError, ValueError, AttributeError):
            if _voice.as_json:
                _write(line(text, event, matters, sweep, trial) + "\n")
            elif plain is not None:
                plain()
            else:
                print(text, file=sys.stderr, flush=True)
    if event.kept:
        keep(text)


def line(text: str, event: Event, level: Level, sweep: str = "", trial: str = "") -> str:
    """What a machine reads: one JSON object. `sweep` and `trial` are there where there is one."""
    seconds, fraction = divmod(time.time(), 1)
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    said = {"time": f"{stamp}.{int(1000 * fraction):03d}Z", "level": level.name.lower(), "event": str(event)}
    named = {"sweep": sweep or (_logs[-1][0] if _logs else ""), "trial": trial}
    return json.dumps(said | {name: one for name, one in named.items() if one} | {"text": text.strip()})


def _write(text: str) -> None:
    stream = sys.stderr
    while (under := getattr(stream, "instead", None)) is not None:
        stream = under
    # One call: lines of two threads must not run into each other.
    stream.write(text)
    stream.flush()


def keep(text: str) -> None:
    """The same in the logs alone."""
    text = redacted(text)
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    with _lock:
        for _, log in _logs:
            with suppress(OSError), log.open("a", encoding="utf-8") as stream:
                stream.writelines(f"{stamp} {line}\n" for line in redacted(text).strip().splitlines())


@contextmanager
def kept_in(log: Path) -> Iterator[None]:
    """While the block runs, what is said is of the sweep in whose folder `log` is, and is appended to it too."""
    kept = (log.parent.name, log)
    _logs.append(kept)
    try:
        yield
    finally:
        _logs.remove(kept)


class _Unsaid(TextIOBase):
    """Stands for stderr where that holds JSON alone: what others print is kept in the log."""

    def __init__(self, instead: TextIO) -> None:
        self.instead, self._rest = instead, ""

    def write(self, text: str) -> int:
        """As of any text stream."""
        *lines, self._rest = (self._rest + text).split("\n")
        for one in filter(None, lines):
            keep(one)
        return len(text)

    def fileno(self) -> int:
        """Of the stream itself: for processes that are started with it."""
        return self.instead.fileno()
