"""Probabilities near the end of what float64 holds, and their logarithms."""

from __future__ import annotations

import math

LEAST_PROBABILITY = math.ulp(0.0)
"""The smallest positive float, 4.9e-324."""


def exp_up(logarithm: float) -> float:
    """exp of `logarithm` <= 709 as an upper bound: what underflows is rounded up, for it is not 0."""
    return max(math.exp(logarithm), LEAST_PROBABILITY)


def log_of(x: float) -> float:
    """ln x, and -infinity where `x` is 0 or below."""
    return math.log(x) if x > 0 else -math.inf
