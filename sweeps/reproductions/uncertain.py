"""Numbers with standard errors, and answers of three values: yes, no, and None where the errors are too large."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

Yes = bool | None
Answer = tuple[Yes, str]
"""Whether something holds (None: it is undecided), and the words or numbers that decide it."""


@dataclass(frozen=True, slots=True)
class Uncertain:
    """A number and its standard error; NaN of one value alone."""

    value: float
    error: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Uncertain:
        """The mean of independent values, at least one."""
        found = np.array(list(values), dtype=np.float64)
        error = float(found.std(ddof=1)) / math.sqrt(len(found)) if len(found) > 1 else math.nan
        return cls(float(found.mean()), error)

    def __sub__(self, other: Uncertain) -> Uncertain:
        return Uncertain(self.value - other.value, math.hypot(self.error, other.error))

    def __str__(self) -> str:
        return f"{self.value:.3f}" if math.isnan(self.error) else f"{self.value:.3f} +- {self.error:.3f}"


def at_most(one: Uncertain, margin: float) -> Yes:
    """Whether an estimate is no more than `margin`, at two standard errors; None where they are too large to tell."""
    if one.value + 2 * one.error <= margin:
        return True
    return False if one.value - 2 * one.error > margin else None


def above(one: Uncertain, other: Uncertain, slack: float) -> Yes:
    """Whether `one` is above `other` by more than `slack` and two standard errors; False if it is below by as much."""
    lead = one - other
    return None if abs(lead.value) <= max(slack, 2 * lead.error) else lead.value > 0


def every(answers: Iterable[Yes]) -> Yes:
    """Whether all hold: one that fails decides, one that is open leaves it open."""
    known = list(answers)
    return False if False in known else None if None in known else True


def opposite(answer: Yes) -> Yes:
    """No for yes, yes for no; what is open stays open."""
    return None if answer is None else not answer
