"""-q, -v and --log: options of every command, defined once. Imports nothing heavy."""

from __future__ import annotations

import logging
from enum import StrEnum
from typing import Annotated, Any

import typer

from sweeps.util.log import EVENTS, configure


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
_META = "sweeps.cli.voice"


def _heard(context: Any, parameter: Any, value: Any) -> Any:
    found = context.meta.setdefault(_META, {})
    found[parameter.name] = value
    if len(found) == len(_NAMES):
        if found["quiet"] and found["verbose"]:
            raise typer.BadParameter("expected one of -q and -v, or neither", ctx=context)
        least = logging.ERROR if found["quiet"] else logging.DEBUG if found["verbose"] else logging.INFO
        configure(least, as_json=found["log"] == LogForm.JSON)
    return value


def voiced(command: Any) -> None:
    """Give a command, or each of a group, the options."""
    if hasattr(command, "commands"):
        for one in command.commands.values():
            voiced(one)
    elif all(one.name not in _NAMES for one in command.params):
        asked = typer.Typer(add_completion=False)
        asked.command()(_options)
        for parameter in typer.main.get_command(asked).params:
            parameter.callback, parameter.expose_value = _heard, False
            command.params.append(parameter)
