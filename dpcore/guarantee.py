"""A claim about privacy as a value: what is promised, by which argument, and how firmly; and its numbers as text."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from enum import StrEnum
from functools import cache, lru_cache
from typing import Any

from dpcore import checks
from dpcore.events import Adjacency

FLOATING_POINT = "floating-point: not covered"
"""What every claim on noise rests on."""


class Status(StrEnum):
    """How firmly a claim stands, from firm to fallen."""

    PROVED = "proved"
    PROVED_UNDER_ASSUMPTIONS = "proved-under-assumptions"
    ASYMPTOTIC = "asymptotic"
    AVERAGE_CASE = "average-case"
    MEMBERSHIP_ONLY = "membership-only"
    ASSERTED = "asserted"
    """On the word of code that is not this project's; nothing here counted it."""
    NOT_COVERED = "not-covered"
    """Of the mechanism alone: more left with its release than it counts, so that it bounds nothing."""
    REFUTED = "refuted"
    NO_CLAIM = "no-claim"
    """A count of what was done that promises nothing."""


STANDING = (Status.PROVED, Status.PROVED_UNDER_ASSUMPTIONS)
"""Of a claim that holds: its epsilon bounds what it names."""


def weakest(*statuses: Status) -> Status:
    """The status of a claim that rests on several: it stands no firmer than the weakest of them."""
    order = list(Status)
    return max(statuses, key=order.index)


class Notion(StrEnum):
    """Which definition of privacy epsilon and delta belong to; different notions never share an axis."""

    DP = "differential-privacy"
    BAYESIAN_DP = "bayesian-dp"
    MEMBERSHIP = "membership-privacy"
    EX_POST = "ex-post-privacy"
    """Epsilon is a function of the outcome: known when a trial has ended, not promised before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """One claim, complete enough to be printed alone.

    notion         the definition that (epsilon, delta) belongs to
    epsilon        upper bound claimed, in nats; at least 0, or infinity
    delta          in [0, 1)
    adjacency      neighbouring relation
    unit           what one neighbouring step changes: "record", "user", ...
    accountant     who counted, by its own name: "pld", "rdp", "gdp-clt", ...
    status         how firmly the claim stands
    theorem        the argument: author, year, theorem
    assumptions    what must hold besides, one sentence each
    epsilon_lower  what a release with the same event can spend, certified from below; None if unknown. What ran may
                   spend less, where a part of it is known by its own epsilon alone
    aimed_at       the budget that the noise was solved for, at this delta, adjacency and unit, and that this claim
                   keeps (epsilon is at most this); None where no budget was aimed at
    asserted_by    the modules on whose word it rests; there is one wherever the status is ASSERTED

    Raises InvalidValue.
    """

    notion: Notion = Notion.DP
    epsilon: float
    delta: float
    adjacency: Adjacency
    unit: str = "record"
    accountant: str
    status: Status
    theorem: str
    assumptions: tuple[str, ...] = field(default=())
    epsilon_lower: float | None = None
    aimed_at: float | None = None
    asserted_by: str = ""

    def __post_init__(self) -> None:
        if math.isnan(self.epsilon) or self.epsilon < 0:
            raise checks.InvalidValue("epsilon", self.epsilon, "a number of at least 0, or infinity")
        if not 0 <= self.delta < 1:
            raise checks.InvalidValue("delta", self.delta, "a number in [0, 1)")
        if self.aimed_at is not None and not self.epsilon <= self.aimed_at < math.inf:
            raise checks.InvalidValue("aimed_at", self.aimed_at, f"a finite budget of at least epsilon={self.epsilon}")
        if self.status is Status.ASSERTED and not self.asserted_by:
            raise checks.InvalidValue("asserted_by", self.asserted_by, "the module that asserts the claim")

    @property
    def standing(self) -> str:
        """The status in words, with who asserts the claim where it is no more than that: `asserted by lab.mean`."""
        return f"{self.status} by {self.asserted_by}" if self.status is Status.ASSERTED else str(self.status)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; an infinite number is the string "inf" (JSON has no infinity)."""
        out = asdict(self)
        out["assumptions"] = list(self.assumptions)
        if not self.asserted_by:
            del out["asserted_by"]
        for name in ("notion", "adjacency", "status"):
            out[name] = str(out[name])
        for name in ("epsilon", "epsilon_lower"):
            if out[name] is not None and math.isinf(out[name]):
                out[name] = "inf"
        return out

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Guarantee:
        """The inverse of `to_dict`."""
        fields, lower = dict(data), data["epsilon_lower"]
        fields["notion"], fields["adjacency"] = _notion(data["notion"]), _adjacency(data["adjacency"])
        fields["status"], fields["assumptions"] = _status(data["status"]), tuple(data["assumptions"])
        fields["epsilon"], fields["epsilon_lower"] = float(data["epsilon"]), None if lower is None else float(lower)
        return cls(**fields)


def resting_on(claim: Guarantee, others: Iterable[Guarantee]) -> Guarantee:
    """`claim`, standing no firmer than any of `others`, and on the word of whoever asserts one of them."""
    several = (claim, *others)
    asserting = dict.fromkeys(who for one in several for who in one.asserted_by.split(", ") if who)
    return replace(claim, status=weakest(*(one.status for one in several)), asserted_by=", ".join(asserting))


# Sweeps have tens of thousands of claims, and few words in them.
_notion, _adjacency, _status = lru_cache(Notion), lru_cache(Adjacency), lru_cache(Status)


# Epsilon and delta as text: shown numbers are claims too, so they are rounded up.


def epsilon_text(value: float, up: bool = True, digits: int = 4) -> str:
    """`digits` significant digits, rounded up as a claim must be (down, for a lower bound)."""
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    return f"{rounded(value, up, digits).normalize():f}"


def delta_text(value: float, up: bool = True) -> str:
    """At most six significant digits, rounded up (down, for a lower bound), in scientific notation where that is
    shorter."""
    return f"{float(rounded(value, up, 6)):g}" if value else "0"


def budget_text(value: float) -> str:
    """A budget as it was declared: every digit that it has, and no zeros behind them."""
    return epsilon_text(value, digits=17)


def rounded(value: float, up: bool, digits: int) -> Decimal:
    """A finite number other than 0 to `digits` significant digits, away from what it claims to bound."""
    # The shortest digits that give the float back: 0.1 stays 0.1.
    return _context(up, digits).create_decimal(repr(float(value)))


@cache
def _context(up: bool, digits: int) -> Context:
    return Context(digits, ROUND_CEILING if up else ROUND_FLOOR)
