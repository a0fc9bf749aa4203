"""How every command ends: one JSON document, or one clear message and an exit code."""

from __future__ import annotations

import errno
import json
import math
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from dpcore.checks import QuotesRecords
from sweeps.util.exits import ENGINES, OURS, ExitCode
from sweeps.util.log import Event, say
from trainables.worker.redaction import redacted

_FULL = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def clear_errors() -> Iterator[None]:
    """Bad input, and what the system refuses, become one message on stderr and exit code 2; Ctrl-C becomes 130.

    Anything else is a bug and keeps its traceback, with exit code 1. Passwords stand in none of it.
    """
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(ExitCode.INTERRUPTED)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        remedy = "Free space" if error.errno in _FULL else "Make it readable and writable"
        fail(f"{where}{error.strerror or error}. {remedy}, then try again.")
    except Exception as error:
        # Packages that are not loaded cannot have raised: their error classes are known by module name,
        # so that a quick command does not import them.
        package = type(error).__module__.split(".")[0]
        if package in OURS:
            fail(str(error), error.unquoted if isinstance(error, QuotesRecords) else None)
        if package in ENGINES:
            kind = type(error).__name__
            fail(f"{kind}: {' '.join(redacted(str(error)).split())[:500]}", logged=f"{kind}, from {package}")
        whole, frames = redacted(traceback.format_exc()), "".join(traceback.format_tb(error.__traceback__))
        # An error's own words may quote a record: who reads a log gets its kind, and where it was raised.
        say(f"{type(error).__name__}\n{frames}", Event.ERROR, plain=lambda: print(whole, end="", file=sys.stderr))
        sys.exit(ExitCode.FAILED)


def fail(message: str, logged: str | None = None) -> NoReturn:
    """Say what is wrong and leave with BAD_INPUT.

    logged  for a log, where `message` might quote a record
    """
    text = f"sweeps: {redacted(message)}"
    say(text if logged is None else f"sweeps: {logged}", Event.ERROR, plain=lambda: print(text, file=sys.stderr))
    sys.exit(ExitCode.BAD_INPUT)


def print_answer(as_json: bool, document: Any, text: object) -> None:
    """A command's answer on stdout: one JSON document, or text for people."""
    if as_json:
        print_json(document)
    else:
        print(text)


def print_json(value: Any) -> None:
    """One document on stdout."""
    print(json.dumps(_finite(value), indent=2, default=str))


def _finite(value: Any) -> Any:
    # JSON has no infinity and no NaN: they travel as words.
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return value
