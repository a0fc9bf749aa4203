"""`sweeps account`: epsilon or delta of a setting, or noise or steps that meet one. Its help imports nothing heavy."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from sweeps.cli.options import AsJson
from sweeps.util.exits import ExitCode
from sweeps.util.log import Event, say

if TYPE_CHECKING:
    from sweeps.account.answers import Unknown

# Numbers arrive as text, so that a wrong one gets the same single line as any other bad value.
Noise = Annotated[str | None, typer.Option("--noise-multiplier", metavar="FLOAT", help="Noise over clipping norm.")]
Rate = Annotated[str | None, typer.Option("--sample-rate", metavar="FLOAT", help="Poisson sampling rate, in (0, 1].")]
Steps = Annotated[str | None, typer.Option("--steps", metavar="INT", help="Number of noisy steps.")]
Epsilon = Annotated[str | None, typer.Option("--epsilon", metavar="FLOAT", help="Target, in nats.")]
Delta = Annotated[str | None, typer.Option("--delta", metavar="FLOAT", help="Between 0 and 1; below 1/n.")]
Accountant = Annotated[
    str, typer.Option("--accountant", help="pld, rdp, gdp, gdp-clt, zcdp, advanced, naive, or all side by side.")
]
Neighbours = Annotated[str, typer.Option("--adjacency", help="add-remove or replace-one.")]

account_app = typer.Typer(
    no_args_is_help=True, help="Count a setting's epsilon or delta, or solve its noise or steps, without any data."
)


def _command(unknown: Unknown, asked: str) -> None:
    """One question: all four take the same options, and `Question` says which of them it needs."""

    def command(
        epsilon: Epsilon = None,
        noise_multiplier: Noise = None,
        sample_rate: Rate = None,
        steps: Steps = None,
        delta: Delta = None,
        accountant: Accountant = "pld",
        adjacency: Neighbours = "add-remove",
        as_json: AsJson = False,
    ) -> None:
        given = {"noise_multiplier": noise_multiplier, "sample_rate": sample_rate, "steps": steps}
        _reply(unknown, {**given, "delta": delta, "epsilon": epsilon}, accountant, adjacency, as_json)

    account_app.command(unknown, help=asked)(command)


_command("epsilon", "What a number of Poisson-sampled Gaussian steps spends.")
_command("delta", "The delta of a number of Poisson-sampled Gaussian steps at an epsilon.")
_command("noise", "The least noise multiplier that meets epsilon, rounded up to five digits.")
_command("steps", "The largest number of steps that meets epsilon.")


def _reply(unknown: Unknown, given: dict[str, str | None], accountant: str, adjacency: str, as_json: bool) -> None:
    from sweeps.account.answers import ALL, Question, answer

    try:
        values: dict[str, Any] = {name: _number(name, text) for name, text in given.items()}
        question = Question(unknown=unknown, accountant=accountant, adjacency=_adjacency(adjacency), **values)
        rows = answer(question)
    except ValueError as error:
        # InvalidValue, CannotCalibrate and UnsupportedEvent: what the person asked for, not what we did.
        _fail(str(error), ExitCode.BAD_INPUT)
    except ArithmeticError as error:
        _fail(str(error), ExitCode.FAILED)
    if as_json:
        print(json.dumps(rows if accountant == ALL else rows[0], indent=2, allow_nan=False))
    else:
        print("\n".join(_lines(rows)))


def _number(name: str, text: str | None) -> float | int | None:
    from dpcore.checks import InvalidValue

    if text is None:
        return None
    kind: Callable[[str], float | int] = int if name == "steps" else float
    try:
        found = kind(text)
    except ValueError:
        raise InvalidValue(name, text, "an integer" if name == "steps" else "a number") from None
    if found in (0, math.inf) and Decimal(text) not in (0, Decimal("inf")):
        raise InvalidValue(name, text, "a number that floating point can hold")
    return found


def _adjacency(text: str) -> Any:
    from dpcore.adjacency import Adjacency
    from dpcore.checks import InvalidValue

    if text not in [one.value for one in Adjacency]:
        raise InvalidValue("adjacency", text, "one of " + ", ".join(one.value for one in Adjacency))
    return Adjacency(text)


def _fail(message: str, code: ExitCode) -> NoReturn:
    say("sweeps account: " + " ".join(message.split()), Event.ERROR)
    sys.exit(code)


def _lines(rows: list[dict[str, Any]]) -> list[str]:
    """What was asked for is echoed to the last digit; only what was counted is rounded, away from a better claim."""
    lines = []
    for row in rows:
        if "error" in row:
            lines.append(f"{row['accountant']:9} {row['error']}")
            continue
        lines.append(
            f"{row['accountant']:9} {_counted(row)}, {row['adjacency']}: noise_multiplier {row['noise_multiplier']!r}, "
            f"sample_rate {row['sample_rate']!r}, steps {row['steps']}{_target(row)}"
        )
        lines.append(f"{'':9} {row['status']}: {row['theorem']}")
        lines.extend(f"{'':9} assumes: {line}" for line in row["assumptions"])
    return lines


def _counted(row: dict[str, Any]) -> str:
    from dpcore.rounding import delta_text, epsilon_text

    if "delta_lower" in row:
        lower = row["delta_lower"]
        known = f" (certified lower bound {delta_text(lower, up=False)})" if lower is not None else ""
        return f"delta {delta_text(row['delta'])}{known} at epsilon {row['epsilon']!r}"
    lower = row["epsilon_lower"]
    known = ""
    if lower is not None:
        known = f" (certified lower bound {epsilon_text(float(lower), up=False, digits=6)})"
    return f"epsilon {epsilon_text(float(row['epsilon']), digits=6)}{known} at delta {row['delta']!r}"


def _target(row: dict[str, Any]) -> str:
    target = row.get("target_epsilon")
    if target is None:
        return ""
    end = " (the end of the range that is searched: what lies beyond may meet it too)" if row["end_of_range"] else ""
    return f", solved for epsilon {target!r}{end}"
