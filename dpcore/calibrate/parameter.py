"""The number that is solved: its range, which way epsilon goes with it, and how it is rounded to the safe side."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from dpcore import checks

DIGITS = 5
"""Significant digits of a solved noise multiplier (rounded up) or rate (rounded down)."""

NOISE_RANGE = (0.05, 1e6)
RATE_RANGE = (1e-9, 1.0)
COUNT_RANGE = (1, 10**9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Solvable:
    """One positive number to be solved.

    low, high  inclusive range that is searched
    increases  whether epsilon rises with it (steps, rate, queries) or falls (noise)
    integer    whether it is counted
    remedy     what to change when no value meets the target

    Raises InvalidValue.
    """

    name: str
    low: float
    high: float
    increases: bool
    integer: bool = False
    remedy: str = "Raise epsilon."

    def __post_init__(self) -> None:
        checks.positive_finite(low=self.low, high=self.high)
        if self.low > self.high:
            raise checks.InvalidValue("low", self.low, f"at most high={self.high!r}")

    @property
    def safest(self) -> float:
        """The end of the range with the least epsilon."""
        return self.low if self.increases else self.high

    @property
    def boldest(self) -> float:
        """The end of the range with the largest epsilon."""
        return self.high if self.increases else self.low

    def rounded(self, value: float) -> float:
        """`value` on the safe side with `DIGITS` digits (counts: the integer below), inside the range."""
        up = not self.increases
        if self.integer:
            step: float = math.ceil(value) if up else math.floor(value)
        else:
            scale = 10.0 ** (DIGITS - 1 - math.floor(math.log10(value)))
            # A value that already has so few digits is its own rounding, whatever the product says in its last bit.
            near = round(value * scale)
            exact = abs(value * scale - near) <= 1e-9 * near
            step = (near if exact else math.ceil(value * scale) if up else math.floor(value * scale)) / scale
        return min(max(float(step), self.low), self.high)

    def next(self, value: float, towards_safe: bool) -> float:
        """The neighbour of a rounded value, one unit of its last digit away, inside the range."""
        unit = 1.0 if self.integer else 10.0 ** (math.floor(math.log10(value)) - DIGITS + 1)
        moved = value + (unit if towards_safe is not self.increases else -unit)
        digits = 0 if self.integer else DIGITS + 1 - math.floor(math.log10(value))
        return min(max(round(moved, digits), self.low), self.high)


NOISE = Solvable(
    name="noise_multiplier",
    low=NOISE_RANGE[0],
    high=NOISE_RANGE[1],
    increases=False,
    remedy="Raise epsilon or delta, or take fewer steps or a smaller sampling rate.",
)
RATE = Solvable(
    name="sample_rate",
    low=RATE_RANGE[0],
    high=RATE_RANGE[1],
    increases=True,
    remedy="Raise epsilon or the noise, or take fewer steps.",
)
STEPS = Solvable(
    name="steps",
    low=COUNT_RANGE[0],
    high=COUNT_RANGE[1],
    increases=True,
    integer=True,
    remedy="Raise epsilon or the noise, or lower the sampling rate.",
)
QUERIES = replace(STEPS, name="queries", remedy="Raise epsilon, or spend less on each query.")
