"""Ray's messages while a sweep runs: one sentence on the screen, every word in `<sweep>/ray.log`.

A lost worker is an ordinary event here (it is charged, and launched again), so twenty lines of traceback about it
would only hide the messages that need a person.
"""

from __future__ import annotations

import contextlib
import logging
import re
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ray.exceptions import NodeDiedError, OutOfMemoryError, RayActorError

from sweeps.ray import patches
from sweeps.ray.patches import driver_lines_to
from sweeps.util.log import CONSOLE, Event, say
from trainables.worker.redaction import redacted


class Messages(logging.Filter):
    """Shortens Ray's messages about lost workers, and remembers why each launch was lost."""

    def __init__(self, log: Path) -> None:
        super().__init__()
        self._log = log
        self._lock = threading.Lock()
        self._reasons: dict[str, str] = {}

    def reason(self, launch: str) -> str:
        """Why the launch of this name was lost, in one sentence."""
        return self._reasons.get(launch, "its worker process ended")

    def filter(self, record: logging.LogRecord) -> bool:
        """Logging calls this with each record of the two loggers."""
        text = record.getMessage()
        if text.startswith(patches.TOKEN_ENABLED):
            # A local cluster is closed by a token by default, which asks nothing of anybody.
            return False
        if text.startswith(patches.TRIAL_FAILED) and record.exc_info and record.exc_info[1] is not None:
            launch = text.removeprefix(patches.TRIAL_FAILED)
            error = record.exc_info[1]
            self._reasons[launch] = _sentence(error)
            self._keep(f"{text}\n{error}")
            record.msg, record.args = f"{launch}: {self._reasons[launch]}.", ()
            record.exc_info = record.exc_text = None
            record.levelno, record.levelname = logging.WARNING, "WARNING"
            if CONSOLE.as_json:
                say(f"{launch}: {_kind(error)}.", Event.WARNING)
                return False
        return True

    def print(self, data: Mapping[str, Any], ignore_prefix: bool = False) -> None:
        """The cluster's own lines, told to this process: never on stdout, which belongs to the answer."""
        for line in data["lines"]:
            known = str(line).startswith(patches.WORKER_LOST)
            if not self._keep(f"({data.get('pid')}) {line}") or not known:
                print(f"({data.get('pid')}) {redacted(line)}", file=sys.stderr)

    def _keep(self, text: str) -> bool:
        """Append to the log; False, and the text goes to the screen, when the disk refuses."""
        try:
            with self._lock, self._log.open("a", encoding="utf-8") as stream:
                stream.write(redacted(re.sub(r"\x1b\[\d*m", "", text)) + "\n")
        except OSError:
            return False
        return True


def _kind(error: BaseException) -> str:
    """`_sentence` without an error's own words, which may quote a record."""
    lost = isinstance(error.__cause__ or error, OutOfMemoryError | NodeDiedError) or isinstance(error, RayActorError)
    return _sentence(error) if lost else f"{type(error).__name__}, see the log of Ray in the sweep's folder"


def _sentence(error: BaseException) -> str:
    if isinstance(error.__cause__ or error, OutOfMemoryError):
        return "its worker was ended because the node ran out of memory"
    if isinstance(error.__cause__ or error, NodeDiedError):
        return "its node died or became unreachable"
    if isinstance(error, RayActorError):
        return "its worker process ended (killed, crashed, or out of memory)"
    # A task's error text is the remote traceback; its last line says what it was.
    last = redacted(str(error)).strip().splitlines()[-1:] or [""]
    return f"{type(error).__name__}: {last[0].strip()}"


@contextlib.contextmanager
def short_messages(log: Path) -> Iterator[Messages]:
    """For as long as the block runs: one sentence each on the screen, the rest appended to `log`."""
    messages = Messages(log)
    loggers = [logging.getLogger(name) for name in (patches.TUNE_LOGGER, patches.TOKEN_LOGGER)]
    for logger in loggers:
        logger.addFilter(messages)
    try:
        with driver_lines_to(messages.print):
            yield messages
    finally:
        for logger in loggers:
            logger.removeFilter(messages)
