"""`sweeps account`: epsilon or delta of a setting, or noise or steps that meet one. Its help imports nothing heavy."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal, NoReturn

import typer

from dpcore import calibrate, checks
from dpcore.accountants.pld import DiscretisationInvalid, ToleranceNotReached
from dpcore.accounting import ACCOUNTANTS, HEADLINE, delta_claim, guarantee, headline, headline_delta
from dpcore.checks import InvalidValue
from dpcore.events import Adjacency, UnsupportedEvent
from dpcore.rounding import delta_text, epsilon_text
from sweeps import api
from sweeps.cli.common import DEFAULT_ROOT, AsJson, Root, StoreUrl, print_answer
from sweeps.util.exits import ExitCode
from sweeps.util.log import Event, say

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
    try:
        values: dict[str, Any] = {name: _number(name, text) for name, text in given.items()}
        if adjacency not in list(Adjacency):
            raise InvalidValue("adjacency", adjacency, f"one of {', '.join(Adjacency)}")
        rows = answer(Question(unknown=unknown, accountant=accountant, adjacency=Adjacency(adjacency), **values))
    except ValueError as error:
        # InvalidValue, CannotCalibrate and UnsupportedEvent: what the person asked for, not what we did.
        _fail(str(error), ExitCode.BAD_INPUT)
    except ArithmeticError as error:
        _fail(str(error), ExitCode.FAILED)
    print_answer(as_json, rows if accountant == ALL else rows[0], "\n".join(_lines(rows)))


def _number(name: str, text: str | None) -> float | int | None:
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
    if "delta_lower" in row:
        lower = row["delta_lower"]
        known = f" (certified lower bound {delta_text(lower, up=False)})" if lower is not None else ""
        return f"delta {delta_text(row['delta'])}{known} at epsilon {row['epsilon']!r}"
    lower = row["epsilon_lower"]
    known = "" if lower is None else f" (certified lower bound {epsilon_text(float(lower), up=False, digits=6)})"
    return f"epsilon {epsilon_text(float(row['epsilon']), digits=6)}{known} at delta {row['delta']!r}"


def _target(row: dict[str, Any]) -> str:
    target = row.get("target_epsilon")
    if target is None:
        return ""
    end = " (the end of the range that is searched: what lies beyond may meet it too)" if row["end_of_range"] else ""
    return f", solved for epsilon {target!r}{end}"


# What `sweeps account` answers, as values: one question in, one row per accountant out.

Unknown = Literal["epsilon", "delta", "noise", "steps"]
ALL = "all"
RANGES: dict[str, tuple[float, float]] = {
    "noise_multiplier": (0.01, 1e9),
    "sample_rate": (1e-12, 1.0),
    "steps": calibrate.COUNT_RANGE,
    "delta": (1e-200, 1.0),
}
"""Inclusive, a delta of 1 left out. Beyond them squares, powers or tails leave floating point in some accountant."""
_BEYOND = {
    "noise_multiplier": (
        "Less noise protects nobody: a step would spend an epsilon of thousands.",
        "More noise leaves nothing of what is released.",
    ),
    "delta": ("What allows no chance of failure at all is a mechanism of pure epsilon.", ""),
}
"""What to think of a value below its range, and of one above it."""

_NEEDS: dict[Unknown, tuple[str, ...]] = {
    "epsilon": ("noise_multiplier", "sample_rate", "steps", "delta"),
    "delta": ("epsilon", "noise_multiplier", "sample_rate", "steps"),
    "noise": ("epsilon", "sample_rate", "steps", "delta"),
    "steps": ("epsilon", "noise_multiplier", "sample_rate", "delta"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Poisson-subsampled Gaussian steps with one of epsilon, delta, noise and steps left open.

    accountant  a name in `dpcore.accounting.ACCOUNTANTS`, or "all"
    Raises InvalidValue when something needed is missing, superfluous or out of range.
    """

    unknown: Unknown
    delta: float | None = None
    epsilon: float | None = None
    noise_multiplier: float | None = None
    sample_rate: float | None = None
    steps: int | None = None
    accountant: str = HEADLINE
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    def __post_init__(self) -> None:
        needed = _NEEDS[self.unknown]
        for name in needed:
            if getattr(self, name) is None:
                option = "--" + name.replace("_", "-")
                raise InvalidValue(name, None, f"a value, since {self.unknown} is asked for", f"Give {option}.")
        for name in ("epsilon", "delta", "noise_multiplier", "steps"):
            if name not in needed and getattr(self, name) is not None:
                value = getattr(self, name)
                raise InvalidValue(name, value, f"nothing, since {self.unknown} is asked for", "Leave it out.")
        if self.accountant not in (*ACCOUNTANTS, ALL):
            raise InvalidValue("accountant", self.accountant, "one of " + ", ".join((*ACCOUNTANTS, ALL)))
        if self.delta is not None:
            checks.probability_open(delta=self.delta)
        checks.rate(sample_rate=self.needed("sample_rate"))
        for name in ("noise_multiplier", "epsilon"):
            if getattr(self, name) is not None:
                checks.positive_finite(**{name: getattr(self, name)})
        if self.steps is not None:
            checks.count(minimum=1, steps=self.steps)
        for name, (low, high) in RANGES.items():
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                end = f"at least {low:.12g}" if value < low else f"at most {high:.12g}"
                expected = f"{end}, which is as far as accountants count"
                raise InvalidValue(name, value, expected, _BEYOND.get(name, ("", ""))[value > high])

    def needed(self, name: str) -> Any:
        """A value that was given where this question needs it; None of the one that it leaves open."""
        return getattr(self, name)


def answer(question: Question) -> list[dict[str, Any]]:
    """Plain JSON rows, one per accountant, the headline first.

    The headline's row may be under another accountant's name, where the loss distribution cannot be bounded.
    Asked for one accountant: its row, or its error (CannotCalibrate, UnsupportedEvent, ToleranceNotReached,
    DiscretisationInvalid). Asked for all: an accountant that cannot count sampled Gaussians has no row; one that cannot
    meet the target, bound the setting or, as the headline with little noise, count it, has a row with `error`.
    """
    if question.accountant != ALL:
        return [_row(question, question.accountant)]
    rows: list[dict[str, Any]] = []
    for name in ACCOUNTANTS:
        if rows and rows[0]["accountant"] == name and question.unknown in ("epsilon", "delta"):
            # The headline bears its name already.
            continue
        try:
            rows.append(_row(question, name))
        except (calibrate.CannotCalibrate, ToleranceNotReached, DiscretisationInvalid) as error:
            rows.append({"accountant": name, "adjacency": question.adjacency.value, "error": str(error)})
        except UnsupportedEvent as error:
            # The headline counts sampled Gaussians: which of them it does not is worth saying.
            if name == HEADLINE:
                rows.append({"accountant": name, "adjacency": question.adjacency.value, "error": str(error)})
    return rows


def _row(question: Question, accountant: str) -> dict[str, Any]:
    return _delta_row(question, accountant) if question.unknown == "delta" else _epsilon_row(question, accountant)


def _delta_row(question: Question, accountant: str) -> dict[str, Any]:
    setting = {name: question.needed(name) for name in ("noise_multiplier", "sample_rate", "steps")}
    event, epsilon = calibrate.sampled_gaussian(*setting.values()), question.needed("epsilon")
    if accountant == HEADLINE:
        claim = headline_delta(event, epsilon, question.adjacency)
    else:
        claim = delta_claim(accountant, event, epsilon, question.adjacency)
    words = {"adjacency": claim.adjacency.value, "status": claim.status.value, "assumptions": list(claim.assumptions)}
    return {**asdict(claim), **words, **setting}


def _epsilon_row(question: Question, accountant: str) -> dict[str, Any]:
    noise, rate, steps, delta = map(question.needed, ("noise_multiplier", "sample_rate", "steps", "delta"))
    if question.unknown != "epsilon":
        budget = {"epsilon": question.needed("epsilon"), "delta": delta, "adjacency": question.adjacency}
        target = calibrate.Target(**budget, accountant=accountant)
        if question.unknown == "noise":
            noise = calibrate.noise_multiplier(target, rate=rate, steps=steps)
        else:
            steps = calibrate.steps(target, rate=rate, noise_multiplier=noise)
    event = calibrate.sampled_gaussian(noise, rate, steps)
    if accountant == HEADLINE:
        # Under another's name where the loss distribution cannot be bounded as closely.
        claim = headline(event, delta, question.adjacency).to_dict()
    else:
        claim = guarantee(accountant, event, delta, question.adjacency).to_dict()
    setting = {"noise_multiplier": noise, "sample_rate": rate, "steps": steps, "target_epsilon": question.epsilon}
    if question.unknown == "noise":
        setting["end_of_range"] = noise == calibrate.NOISE_RANGE[0]
    elif question.unknown == "steps":
        setting["end_of_range"] = steps == calibrate.COUNT_RANGE[1]
    lower = _word(claim["epsilon_lower"])
    return {**claim, **setting, "lower": lower, "epsilon_lower": lower}


def _word(value: float | None) -> float | str | None:
    """JSON has no infinity: it travels as a word."""
    return "inf" if value is not None and math.isinf(value) else value


# `sweeps budget`: the ledgers of populations, made, listed and shown.


def budget(
    population: Annotated[str | None, typer.Argument(help="As specs declare in data.population; default: all.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Of everything ever released of it: makes its ledger.")] = None,
    delta: Annotated[float | None, typer.Option(help="Likewise.")] = None,
    rule: Annotated[str | None, typer.Option(help="linear or gdp: how rows add up, for ever.")] = None,
    adjacency: Annotated[str, typer.Option(help="Of neighbours: add-remove or replace-one.")] = "add-remove",
    unit: Annotated[str, typer.Option(help="What neighbours differ in, as privacy.unit says.")] = "record",
    tau: Annotated[
        float | None, typer.Option(help="Of a gdp ledger: chance beside the Gaussian of a trial; by default 1000 fit.")
    ] = None,
    spec: Annotated[str | None, typer.Option(help="Say what a sweep of this spec would cost.")] = None,
    root: Root = DEFAULT_ROOT,
    store: StoreUrl = None,
    as_json: AsJson = False,
) -> None:
    """What all sweeps, audits and test readings over a population have spent together, and what is left.

    With --epsilon, --delta and --rule its ledger is made, once and for ever. A launch that the budget does not hold
    does not happen; deleting a sweep gives nothing back.
    """
    if population is None:
        if (epsilon, delta, rule, tau, spec) != (None,) * 5:
            raise InvalidValue("POPULATION", None, "the name of a population beside these options")
        found = api.list_budgets(root=root, store=store)
        listed = "\n".join(map(str, found)) or "No population has a ledger in this store."
        return print_answer(as_json, [one.to_dict() for one in found], listed)
    one = api.population_budget(
        population,
        epsilon=epsilon,
        delta=delta,
        rule=rule,
        adjacency=adjacency,
        unit=unit,
        tau=tau,
        spec=spec,
        root=root,
        store=store,
    )
    print_answer(as_json, one.to_dict(), one)
