"""What commands share: arguments and options, answers, and how an error ends them. Imports nothing heavy."""

from __future__ import annotations

import errno
import inspect
import json
import logging
import math
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from dpcore.checks import QuotesRecords
from sweeps import api
from sweeps.util.exits import ENGINES, OURS, ExitCode
from sweeps.util.log import EVENTS, Event, configure, say
from trainables.worker.redaction import redacted

DEFAULT_ROOT = Path(".sweeps")

SpecSource = Annotated[str, typer.Argument(help="Spec file (YAML), or the name of a packaged example.")]
Changes = Annotated[
    list[str] | None, typer.Option("--set", help="path.to.key=VALUE (YAML) over the spec's own; repeatable.")
]
Trials = Annotated[int | None, typer.Option(help="Override search.trials.")]
NewTotal = Annotated[
    int | None,
    typer.Option("--trials", help="Extend the sweep to this many in all; says what that costs, and does to its total."),
]
MoreBudgets = Annotated[
    list[float] | None,
    typer.Option(
        "--epsilon", help="Add this budget, for trials that are left or that --trials adds; says its cost. Repeatable."
    ),
]
Hours = Annotated[float | None, typer.Option(help="Let the sweep run for this many hours in all; see limits.hours.")]
Seed = Annotated[int | None, typer.Option(help="Override search.seed.")]
NewName = Annotated[str | None, typer.Option("--name", help="Of the sweep; default: the spec's, numbered if taken.")]
Accepted = Annotated[
    list[str] | None,
    typer.Option("--accept", help="Resuming: go on although this changed: spec, code or data; repeatable."),
]
DataFolder = Annotated[Path | None, typer.Option("--data", help="Folder with the data set's upstream files.")]

Root = Annotated[Path, typer.Option("--root", envvar="SWEEPS_ROOT", help="Folder of store, records and reports.")]
StoreUrl = Annotated[str | None, typer.Option("--store", envvar="SWEEPS_STORE", help="Store by SQLAlchemy URL.")]
Records = Annotated[
    str | None,
    typer.Option("--records", envvar="SWEEPS_RECORDS", help="Workers' records: a folder or URL that every node sees."),
]
TrackingUri = Annotated[
    str | None,
    typer.Option("--tracking", envvar=["SWEEPS_TRACKING", "MLFLOW_TRACKING_URI"], help="MLflow tracking URI."),
]
ClusterAddress = Annotated[
    str | None, typer.Option("--address", help="Ray cluster: auto, HOST:PORT or ray://HOST:PORT.")
]
TrialName = Annotated[str, typer.Argument(help="Key of the trial, or its number.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]


# What a command returns is its answer: something with words and `to_dict`, or a document beside its words, and perhaps
# the code that it exits with.

Answer = tuple[Any, object] | tuple[Any, object, ExitCode]
_PLACES: dict[str, tuple[Any, Any]] = {"root": (Root, DEFAULT_ROOT), "store": (StoreUrl, None)}


def answers(call: Callable[..., Any]) -> Callable[..., None]:
    """The command of `call`, with --json."""

    def command(*, as_json: bool = False, **given: Any) -> None:
        found = call(**given)
        document, text, *code = found if isinstance(found, tuple) else (found.to_dict(), found)
        print_answer(as_json, document, text)
        if code and code[0] is not ExitCode.OK:
            sys.exit(code[0])

    return _extended(call, command, {"as_json": (AsJson, False)})  # type: ignore[no-any-return]


def on_sweep(call: Callable[..., Any], tracking: bool = False) -> Callable[..., Any]:
    """The command of `call` on one sweep, which is opened where --root and --store say, and --tracking if asked for."""
    more = _PLACES | ({"tracking": (TrackingUri, None)} if tracking else {})

    def command(sweep: str, **given: Any) -> Any:
        places = {name: given.pop(name) for name in more if name in given}
        return call(api.open(sweep, **places), **given)

    return _extended(call, command, more, sweep=str)


tracked = partial(on_sweep, tracking=True)


def placed(call: Callable[..., Any]) -> Callable[..., Any]:
    """The command of `call` with all places of a sweep, and the cluster that runs it, as its `places`."""

    rest = {"records": (Records, None), "tracking": (TrackingUri, None), "address": (ClusterAddress, None)}
    return _extended(call, lambda **given: call(**given), _PLACES | rest)  # type: ignore[no-any-return]


def _extended(call: Any, command: Any, more: dict[str, tuple[Any, Any]], **types: Any) -> Any:
    """`command` with the parameters of `call` and `more`, {name: (type, default)}; `types` replace its own."""
    own = inspect.signature(call, eval_str=True).parameters.values()
    given, others = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD
    known = [one.replace(annotation=types.get(one.name, one.annotation)) for one in own if one.kind is not others]
    added = [inspect.Parameter(name, given, default=one, annotation=kind) for name, (kind, one) in more.items()]
    made: Any = wraps(call)(command)
    made.__signature__ = inspect.Signature([*known, *added])
    made.__annotations__ = {one.name: one.annotation for one in made.__signature__.parameters.values()}
    return made


# -q, -v and --log: options of every command.


class LogForm(StrEnum):
    """Of what is said on stderr."""

    PLAIN = "plain"
    JSON = "json"


def _options(
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but results and errors.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Say what is decided, and why.")] = False,
    log: Annotated[
        LogForm,
        typer.Option(
            help="json: what is said is one JSON object a line on stderr, with time, level, event, text, and sweep and "
            f"trial where there is one. Events: {EVENTS}."
        ),
    ] = LogForm.PLAIN,
) -> None:
    """No command: its options are taken from here."""


_NAMES = ("quiet", "verbose", "log")
_META = "sweeps.cli.logging"


def _heard(context: Any, parameter: Any, value: Any) -> Any:
    found = context.meta.setdefault(_META, {})
    found[parameter.name] = value
    if len(found) == len(_NAMES):
        if found["quiet"] and found["verbose"]:
            raise typer.BadParameter("expected one of -q and -v, or neither", ctx=context)
        least = logging.ERROR if found["quiet"] else logging.DEBUG if found["verbose"] else logging.INFO
        configure(least, as_json=found["log"] == LogForm.JSON)
    return value


def add_logging_options(command: Any) -> None:
    """Give a command, or each of a group, the options."""
    if hasattr(command, "commands"):
        for one in command.commands.values():
            add_logging_options(one)
    elif all(one.name not in _NAMES for one in command.params):
        asked = typer.Typer(add_completion=False)
        asked.command()(_options)
        for parameter in typer.main.get_command(asked).params:
            parameter.callback, parameter.expose_value = _heard, False
            command.params.append(parameter)


# One JSON document, or one clear message and an exit code.

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
