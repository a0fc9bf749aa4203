"""What is asked of the accountant, and what it answers: an interval around the exact number, or a refusal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

EPSILON_FLOOR = 1e-6
"""Epsilons this close together, in nats, are always close enough."""

DELTA_FLOOR = 1e-14
"""Deltas this close together are always close enough."""

REMEDY = "Another accountant may bound it."


class Bounds(NamedTuple):
    """A certified interval around the exact value."""

    lower: float
    upper: float


def of_larger(one: Bounds, other: Bounds) -> Bounds:
    """Around the larger of two values: what both directions of a composition allow."""
    return Bounds(max(one.lower, other.lower), max(one.upper, other.upper))


class Asked(NamedTuple):
    """At which delta epsilon is asked for, or at which epsilon delta, and how close together the bounds shall be.

    at         delta in (0, 1); or epsilon, in nats, of either sign
    tolerance  upper - lower <= max(tolerance * upper, floor)
    floor      in nats where epsilon is asked for; a probability where delta is
    """

    at: float
    tolerance: float = 1e-3
    floor: float = EPSILON_FLOOR

    def gap(self, upper: float) -> float:
        """How far apart bounds may be whose upper end is this."""
        return max(self.tolerance * upper, self.floor)

    def met_by(self, bounds: Bounds) -> bool:
        """Whether `bounds` are as close together as asked."""
        return bounds.upper - bounds.lower <= self.gap(bounds.upper)

    def too_far_apart(self, word: str, found: Bounds, best: Bounds | None) -> ToleranceNotReached:
        """The refusal where `found` is not as close as asked. word: "delta" or "epsilon", what `at` is."""
        return ToleranceNotReached(
            f"tolerance={self.tolerance!r}: expected bounds within it, but the best are "
            f"[{found.lower!r}, {found.upper!r}] at {word}={self.at!r}. {REMEDY}",
            best=best,
        )


class ToleranceNotReached(ArithmeticError):
    """There are no bounds as close together as asked, and the grid cannot be refined further.

    best    certified bounds all the same, farther apart; None where there are none
    losses  how many the grid would have needed, where that was too many; else 0
    """

    def __init__(self, message: str, best: Bounds | None = None, losses: float = 0.0) -> None:
        super().__init__(message)
        self.best, self.losses = best, losses


class DiscretisationInvalid(ArithmeticError):
    """A discrete privacy curve crosses the exact one: the bound would not hold, so there is none."""


@contextmanager
def of_a_part() -> Iterator[None]:
    """The best bounds of what is refused inside are a part's: ToleranceNotReached goes on without them."""
    try:
        yield
    except ToleranceNotReached as refusal:
        raise ToleranceNotReached(str(refusal)) from refusal
