"""Claims and counts in words, and the public grid on which epsilons are compared."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dpcore.rounding import delta_text, epsilon_text, rounded

if TYPE_CHECKING:
    from dpcore.guarantee import Guarantee


_EXACT_POWERS = 22
"""Powers of ten up to this one are floats."""
GRID_DIGITS = 3
"""Significant digits of the public grid on which epsilons are compared: its steps are between 0.1% and 1%."""


def on_grid(epsilon: float) -> float:
    """The smallest number of `GRID_DIGITS` significant digits that is at least `epsilon`; 0 and infinity stay."""
    if not math.isfinite(epsilon) or epsilon == 0:
        return epsilon
    places = GRID_DIGITS - 1 - math.floor(math.log10(epsilon))
    if not 0 <= places <= _EXACT_POWERS:
        return float(rounded(epsilon, True, GRID_DIGITS))
    # A front has thousands of them. The power is exact and the division rounds once, so the quotient is the float of
    # the decimal number, and one comparison decides.
    power = 10.0**places
    steps = round(epsilon * power)
    return steps / power if steps / power >= epsilon else (steps + 1) / power


def claim_text(claim: Guarantee, status: str | None) -> str:
    """A claim in one line, complete enough to stand alone.

    status  as `sweeps.ledger.assumptions` words it; None for a number that is no claim
    """
    number = (
        f"epsilon {epsilon_text(claim.epsilon)} at delta {delta_text(claim.delta)}, {claim.notion}, "
        f"{claim.adjacency}, per {claim.unit}, by {claim.accountant}"
    )
    return number if status is None else f"{number}, status: {status}"


def count_text(number: int, what: str) -> str:
    """`1 step`, `2 steps`, `2 launches`."""
    ending = "" if number == 1 else "es" if what.endswith("ch") else "s"
    return f"{number:,} {what}{ending}"
