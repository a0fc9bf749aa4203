"""Rounding of probabilities that float64 cannot hold."""

from __future__ import annotations

import math

LEAST_PROBABILITY = math.ulp(0.0)
"""The smallest positive float, 4.9e-324."""


def exp_up(logarithm: float) -> float:
    """exp of `logarithm` <= 709 as an upper bound: what underflows is rounded up, for it is not 0."""
    return max(math.exp(logarithm), LEAST_PROBABILITY)
