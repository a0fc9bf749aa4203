"""The contract of every accountant: small, immutable, and honest about what it cannot count."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

from dpcore import checks
from dpcore.events import (
    Adjacency,
    ApproximateDP,
    Composed,
    Event,
    Gaussian,
    NonPrivate,
    PoissonSampled,
    PureDP,
    Unknown,
    UnsupportedEvent,
    phases,
)
from dpcore.guarantee import Status

# What the accountants share: the parts of an event that they can count, and how an adjacency reads them.

NEEDS_ADD_REMOVE = "amplification by sampling needs the add-remove sensitivity."


@dataclass(frozen=True)
class Composing(ABC):
    """Counts events under one adjacency by composing them, and supports what `_why_not` leaves; nothing is mutated.

    name    the word printed beside its numbers
    status  how firmly they stand
    parts   what was composed, simplified, with counts
    """

    name: ClassVar[str]
    status: ClassVar[Status] = Status.PROVED
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    parts: dict[Event, int] = field(default_factory=dict, kw_only=True)

    @property
    @abstractmethod
    def theorem(self) -> str:
        """The argument that its numbers rest on: author, year, theorem."""

    def compose(self, event: Event, count: int = 1) -> Self:
        """This accountant after `count` more runs of `event`. Raises UnsupportedEvent, naming the part."""
        parts = countable(self.name, event, self.adjacency, count)
        for part in parts:
            why = self._why_not(part)
            if why:
                raise refuse(self.name, part, self.adjacency, why)
        return replace(self, parts=merge(self.parts, parts))

    @abstractmethod
    def _why_not(self, part: Event) -> str:
        """Why this accountant cannot count a part, as `countable` gives it; empty where it can."""

    def epsilon(self, delta: float) -> float:
        """Upper bound on epsilon at `delta` in (0, 1), infinite after a NonPrivate release. Raises InvalidValue."""
        checks.probability_open(delta=delta)
        if has_no_bound(self.parts):
            return math.inf
        return self._epsilon(delta) if self.parts else 0.0

    def delta(self, epsilon: float) -> float:
        """Upper bound on delta at `epsilon` >= 0, 1 after a NonPrivate release. Raises InvalidValue."""
        checks.non_negative_finite(epsilon=epsilon)
        if has_no_bound(self.parts):
            return 1.0
        return self._delta(epsilon) if self.parts else 0.0

    @abstractmethod
    def _epsilon(self, delta: float) -> float:
        """epsilon at `delta` of parts that are all private, one at least."""

    @abstractmethod
    def _delta(self, epsilon: float) -> float:
        """delta at `epsilon` of such parts."""

    def supports(self, event: Event) -> bool:
        """Whether every part of `event` can be counted under this adjacency."""
        try:
            self.compose(event)
        except UnsupportedEvent:
            return False
        return True


def refuse(name: str, part: Event, adjacency: Adjacency, why: str) -> UnsupportedEvent:
    """The error of accountant `name` for `part`."""
    return UnsupportedEvent(f"{name} cannot count {part!r} under {adjacency}: {why}")


def countable(name: str, event: Event, adjacency: Adjacency, count: int = 1) -> dict[Event, int]:
    """The parts of `event`, `count` times: Gaussian, PureDP, ApproximateDP, NonPrivate, or a sampled Gaussian.

    A Gaussian or PureDP among them refers to `adjacency`; sampled pure DP is replaced by the pure DP that it is. Raises
    UnsupportedEvent, naming the part, and InvalidValue for a negative count.
    """
    checks.count(count=count)
    parts: dict[Event, int] = {}
    for part, times in phases(event).items():
        simple = _simplify(name, part, adjacency)
        parts[simple] = parts.get(simple, 0) + times * count
    return {part: times for part, times in parts.items() if times}


def merge(old: dict[Event, int], new: dict[Event, int]) -> dict[Event, int]:
    """The multiset sum of two phase counts."""
    return {part: old.get(part, 0) + new.get(part, 0) for part in (*old, *(p for p in new if p not in old))}


def factor(name: str, part: Gaussian | PureDP | ApproximateDP, adjacency: Adjacency) -> int:
    """How many of its own neighbouring steps `part` is away from one step of `adjacency`: 1 or 2.

    Replacing a record is removing one and adding another: 2 add-remove steps. The other way round there is no bound
    (adding a record is no number of replacements): UnsupportedEvent.
    """
    if part.adjacency is adjacency:
        return 1
    if adjacency is Adjacency.REPLACE_ONE:
        return 2
    raise refuse(name, part, adjacency, "a replace-one sensitivity says nothing about adding or removing a record.")


def approximate(name: str, part: ApproximateDP, adjacency: Adjacency) -> tuple[float, float]:
    """(epsilon, delta) of an (epsilon, delta)-DP release under `adjacency`; delta may exceed 1.

    Two neighbouring steps cost (2 epsilon, (1 + exp(epsilon)) delta): Dwork & Roth (2014), group privacy.
    """
    if factor(name, part, adjacency) == 1:
        return part.epsilon, part.delta
    return 2 * part.epsilon, (1 + math.exp(min(part.epsilon, 700.0))) * part.delta * (1 + 1e-15)


def _simplify(name: str, part: Event, adjacency: Adjacency) -> Event:
    match part:
        case NonPrivate() | PoissonSampled(event=NonPrivate()):
            return NonPrivate()
        case Unknown(description=text) | PoissonSampled(event=Unknown(description=text)):
            raise refuse(name, part, adjacency, f"nobody has described {text!r}.")
        case PoissonSampled(rate=rate, event=PureDP() as inner):
            if inner.adjacency is not Adjacency.ADD_REMOVE:
                raise refuse(name, part, adjacency, "amplification by sampling needs the add-remove epsilon.")
            # Balle, Barthe & Gaboardi (2018), Theorem 8; under replace-one the shared coin of their advanced joint
            # convexity leaves a comparison of the record drawn with the mixture of its rival and none: twice epsilon.
            epsilon = factor(name, inner, adjacency) * inner.epsilon
            return PureDP(epsilon=amplified(rate, epsilon), adjacency=adjacency)
        case Gaussian(noise_multiplier=noise):
            return Gaussian(noise_multiplier=noise / factor(name, part, adjacency), adjacency=adjacency)
        case PureDP(epsilon=epsilon):
            return PureDP(epsilon=factor(name, part, adjacency) * epsilon, adjacency=adjacency)
        case ApproximateDP():
            factor(name, part, adjacency)
            return part
        case PoissonSampled(event=Gaussian() as inner):
            factor(name, inner, adjacency)
            return part
        case PoissonSampled(event=PoissonSampled()):
            raise refuse(name, part, adjacency, "sampled twice; multiply the rates in the event that you issue.")
        case PoissonSampled(event=Composed()):
            raise refuse(name, part, adjacency, "several releases on one sample; sample afresh for each of them.")
        case _:
            raise refuse(name, part, adjacency, "sampling of this kind of release has no bound here.")


def amplified(rate: float, epsilon: float) -> float:
    """ln(1 + rate (exp(epsilon) - 1)), what a Poisson sample at `rate` makes of `epsilon`; without overflow."""
    if epsilon <= 30:
        return math.log1p(rate * math.expm1(epsilon))
    return epsilon + math.log(rate + (1 - rate) * math.exp(-epsilon))


def has_no_bound(parts: dict[Event, int]) -> bool:
    """Whether a NonPrivate release is among the parts."""
    return any(isinstance(part, NonPrivate) for part in parts)


# Probabilities near the end of what float64 holds, and their logarithms.

LEAST_PROBABILITY = math.ulp(0.0)
"""The smallest positive float, 4.9e-324."""


def exp_up(logarithm: float) -> float:
    """exp of `logarithm` <= 709 as an upper bound: what underflows is rounded up, for it is not 0."""
    return max(math.exp(logarithm), LEAST_PROBABILITY)


def log_of(x: float) -> float:
    """ln x, and -infinity where `x` is 0 or below."""
    return math.log(x) if x > 0 else -math.inf
