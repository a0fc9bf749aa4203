"""Comparisons at two standard errors, in three values: yes, no, and None where the error is too large to tell.

Errors are taken as independent. Methods are tested on the same records, so that they err together: the true error of a
difference is rather smaller.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

SLACK = 0.005
"""Accuracies closer than half a point are called equal."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number and its standard error."""

    value: float
    error: float

    def __sub__(self, other: Estimate) -> Estimate:
        return Estimate(self.value - other.value, math.hypot(self.error, other.error))


def above(one: Estimate, other: Estimate) -> bool | None:
    """Whether `one` is above `other` by more than SLACK; False if it is below by as much."""
    lead = one - other
    if abs(lead.value) <= max(SLACK, 2 * lead.error):
        return None
    return lead.value > 0


def at_most(one: Estimate, margin: float) -> bool | None:
    """Whether `one` is no more than `margin`."""
    if one.value + 2 * one.error <= margin:
        return True
    return False if one.value - 2 * one.error > margin else None


def every(answers: Iterable[bool | None]) -> bool | None:
    """Whether all hold: one that fails decides, one that is open leaves it open."""
    known = list(answers)
    return False if False in known else None if None in known else True


def some(answers: Iterable[bool | None]) -> bool | None:
    """Whether any holds."""
    known = list(answers)
    return True if True in known else None if None in known else False
