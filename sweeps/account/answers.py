"""What `sweeps account` answers, as values: one question in, one row per accountant out."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

from dpcore import calibrate, checks
from dpcore.accountants.pld import DiscretisationInvalid, ToleranceNotReached
from dpcore.accountants.registry import ACCOUNTANTS
from dpcore.accounting import HEADLINE, delta_claim, guarantee, headline, headline_delta
from dpcore.adjacency import Adjacency
from dpcore.events import UnsupportedEvent

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

    accountant  a name in `dpcore.accountants.registry.ACCOUNTANTS`, or "all"
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
                raise checks.InvalidValue(name, None, f"a value, since {self.unknown} is asked for", f"Give {option}.")
        for name in ("epsilon", "delta", "noise_multiplier", "steps"):
            if name not in needed and getattr(self, name) is not None:
                value = getattr(self, name)
                raise checks.InvalidValue(name, value, f"nothing, since {self.unknown} is asked for", "Leave it out.")
        if self.accountant not in (*ACCOUNTANTS, ALL):
            raise checks.InvalidValue("accountant", self.accountant, "one of " + ", ".join((*ACCOUNTANTS, ALL)))
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
                raise checks.InvalidValue(name, value, expected, _BEYOND.get(name, ("", ""))[value > high])

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
