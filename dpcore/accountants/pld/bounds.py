"""What is asked of the accountant, and what it answers: an interval around the exact number, or a refusal."""

from __future__ import annotations

import math
from typing import NamedTuple

EPSILON_FLOOR = 1e-6
"""Epsilons this close together, in nats, are always close enough."""

DELTA_FLOOR = 1e-14
"""Deltas this close together are always close enough."""


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
        return bounds.upper - bounds.lower <= self.gap(bounds.upper) < math.inf


class ToleranceNotReached(ArithmeticError):
    """There are no bounds as close together as asked, and the grid cannot be refined further.

    best  certified bounds all the same, farther apart; None where there are none
    """

    def __init__(self, asked: Asked, best: Bounds | None = None, reason: str = "") -> None:
        found = f"the best are [{best.lower!r}, {best.upper!r}]" if best is not None else reason or "there are none"
        super().__init__(
            f"tolerance={asked.tolerance!r}: expected bounds within it, but {found} (asked at {asked.at!r}). "
            "Another accountant may bound it."
        )
        self.asked, self.best = asked, best

    def of_a_part(self) -> ToleranceNotReached:
        """The refusal of a whole of which this bounds a part: without its best bounds."""
        return ToleranceNotReached(self.asked, reason="a part of it has none")


class DiscretisationInvalid(ArithmeticError):
    """A discrete privacy curve crosses the exact one: the bound would not hold, so there is none."""
