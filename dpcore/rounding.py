"""Epsilon and delta as text: shown numbers are claims too, so they are rounded up."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from functools import cache


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
