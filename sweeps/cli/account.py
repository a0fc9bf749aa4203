"""`sweeps account`: epsilon or delta of a setting, or noise or steps that meet one. Its help imports nothing heavy."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import typer

from dpcore import calibrate
from dpcore.accountants.pld import DiscretisationInvalid, ToleranceNotReached
from dpcore.accounting import ACCOUNTANTS, HEADLINE, delta_claim, guarantee
from dpcore.checks import InvalidValue
from dpcore.events import Adjacency, UnsupportedEvent
from dpcore.guarantee import Notion, delta_text, epsilon_text
from sweeps import api
from sweeps.cli.common import DEFAULT_ROOT, Answer, Root, StoreUrl, answers
from sweeps.util.exits import ExitCode
from sweeps.util.log import Event, say

Noise = Annotated[float | None, typer.Option("--noise-multiplier", help="Noise over clipping norm.")]
Rate = Annotated[float | None, typer.Option("--sample-rate", help="Poisson sampling rate, in (0, 1].")]
Steps = Annotated[int | None, typer.Option("--steps", help="Number of noisy steps.")]
Epsilon = Annotated[float | None, typer.Option("--epsilon", help="Target, in nats.")]
Delta = Annotated[float | None, typer.Option("--delta", help="Between 0 and 1; below 1/n.")]
Accountant = Annotated[
    str, typer.Option("--accountant", help="pld, rdp, gdp, gdp-clt, zcdp, advanced, naive, or all side by side.")
]
Neighbours = Annotated[Adjacency, typer.Option("--adjacency", help="add-remove or replace-one.")]

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
        accountant: Accountant = HEADLINE,
        adjacency: Neighbours = Adjacency.ADD_REMOVE,
    ) -> Answer:
        try:
            question = Question(unknown, delta, epsilon, noise_multiplier, sample_rate, steps, accountant, adjacency)
            rows = answer(question)
        except (ValueError, ArithmeticError) as error:
            # InvalidValue, CannotCalibrate and UnsupportedEvent: what the person asked for, not what we did.
            say(f"sweeps account: {' '.join(str(error).split())}", Event.ERROR)
            sys.exit(ExitCode.BAD_INPUT if isinstance(error, ValueError) else ExitCode.FAILED)
        return rows if accountant == ALL else rows[0], "\n".join(_lines(rows))

    account_app.command(unknown, help=asked)(answers(command))


_command("epsilon", "What a number of Poisson-sampled Gaussian steps spends.")
_command("delta", "The delta of a number of Poisson-sampled Gaussian steps at an epsilon.")
_command("noise", "The least noise multiplier that meets epsilon, rounded up to five digits.")
_command("steps", "The largest number of steps that meets epsilon.")


def _lines(rows: list[dict[str, Any]]) -> list[str]:
    """What was asked for is echoed to the last digit; only what was counted is rounded, away from a better claim."""
    lines = []
    for row in rows:
        if "error" in row:
            lines.append(f"{row['accountant']:9} {row['error']}")
            continue
        kind = f"{row['notion']}, {row['adjacency']}, per {row['unit']}"
        lines.append(
            f"{row['accountant']:9} {_counted(row)}, {kind}: noise_multiplier {row['noise_multiplier']!r}, "
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
    "epsilon": (1e-300, 1e300),
    "noise_multiplier": (0.01, 1e9),
    "sample_rate": (1e-12, 1.0),
    "steps": calibrate.COUNT_RANGE,
    "delta": (1e-200, 1 - 1e-9),
}
"""Inclusive. Beyond them squares, powers or tails leave floating point in some accountant."""


@dataclass(frozen=True, slots=True)
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
        if self.accountant not in (*ACCOUNTANTS, ALL):
            raise InvalidValue("accountant", self.accountant, "one of " + ", ".join((*ACCOUNTANTS, ALL)))
        for name, (low, high) in RANGES.items():
            value, is_needed = getattr(self, name), not name.startswith(self.unknown)
            if is_needed == (value is None):
                expected = f"{'a value' if is_needed else 'nothing'}, since {self.unknown} is asked for"
                remedy = f"Give --{name.replace('_', '-')}." if is_needed else "Leave it out."
                raise InvalidValue(name, value, expected, remedy)
            if is_needed and not low <= value <= high:
                expected = f"{low:.12g} to {high:.12g}, as far as accountants count"
                raise InvalidValue(name, value, expected, "Ask within it.")


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
        except (calibrate.CannotCalibrate, ToleranceNotReached, DiscretisationInvalid, UnsupportedEvent) as error:
            # The headline counts sampled Gaussians: which of them it does not is worth saying.
            if name == HEADLINE or not isinstance(error, UnsupportedEvent):
                rows.append({"accountant": name, "adjacency": question.adjacency.value, "error": str(error)})
    return rows


def _row(question: Question, accountant: str) -> dict[str, Any]:
    # Checked when the question was put: what it needs is there.
    noise, rate, steps = question.noise_multiplier or 0.0, question.sample_rate or 0.0, question.steps or 0
    delta, epsilon, adjacency = question.delta or 0.0, question.epsilon or 0.0, question.adjacency
    if question.unknown in ("noise", "steps"):
        target = calibrate.Target(epsilon=epsilon, delta=delta, adjacency=adjacency, accountant=accountant)
        if question.unknown == "noise":
            noise = calibrate.noise_multiplier(target, rate=rate, steps=steps)
        else:
            steps = calibrate.steps(target, rate=rate, noise_multiplier=noise)
    event = calibrate.sampled_gaussian(noise, rate, steps)
    setting: dict[str, Any] = {"noise_multiplier": noise, "sample_rate": rate, "steps": steps}
    if question.unknown == "delta":
        found = delta_claim(accountant, event, epsilon, adjacency)
        return {
            "notion": str(Notion.DP),
            "epsilon": epsilon,
            "delta": found.upper,
            "adjacency": adjacency.value,
            "unit": "record",
            "accountant": found.by.name,
            "status": found.by.status.value,
            "theorem": found.by.theorem,
            "assumptions": list(found.assumptions),
            "delta_lower": found.lower,
            **setting,
        }
    claim = guarantee(accountant, event, delta, adjacency)
    setting["target_epsilon"] = question.epsilon
    if question.unknown != "epsilon":
        ends = {"noise": noise == calibrate.NOISE_RANGE[0], "steps": steps == calibrate.COUNT_RANGE[1]}
        setting["end_of_range"] = ends[question.unknown]
    plain = claim.to_dict()
    return {**plain, **setting, "lower": plain["epsilon_lower"]}


# `sweeps budget`: the ledgers of populations, made, listed and shown.


@answers
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
) -> Answer:
    """What all sweeps, audits and test readings over a population have spent together, and what is left.

    With --epsilon, --delta and --rule its ledger is made, once and for ever. A launch that the budget does not hold
    does not happen; deleting a sweep gives nothing back.
    """
    terms: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "rule": rule, "tau": tau}
    if population is None:
        if {spec, *terms.values()} != {None}:
            raise InvalidValue("POPULATION", None, "the name of a population beside these options")
        found = api.list_budgets(root=root, store=store)
        listed = "\n".join(map(str, found)) or "No population has a ledger in this store."
        return [one.to_dict() for one in found], listed
    one = api.population_budget(population, **terms, adjacency=adjacency, unit=unit, spec=spec, root=root, store=store)
    return one.to_dict(), one
