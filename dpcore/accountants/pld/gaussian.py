"""Unsampled Gaussian releases compose exactly: mu = sqrt(sum 1/z^2) Gaussian DP (Balle & Wang 2018, Theorem 8)."""

from __future__ import annotations

import math

from dpcore.gdp_dual import delta_gdp, eps_gdp, relative_error

_ROUNDING = 1e-13
_EPS = 2.3e-16


def delta_bounds(epsilon: float, mu: float) -> tuple[float, float]:
    """(lower, upper) around delta of mu-Gaussian DP at `epsilon` of either sign, apart by rounding alone; mu > 0."""
    if epsilon < 0:
        # delta(-e) = 1 - exp(-e) + exp(-e) delta(e): the pair is symmetric.
        low, high = (-math.expm1(epsilon) + math.exp(epsilon) * side for side in delta_bounds(-epsilon, mu))
        return low * (1 - 4 * _EPS), min(1.0, high * (1 + 4 * _EPS))
    value, error = delta_gdp(epsilon, mu), relative_error(mu / 2 - epsilon / mu, mu)
    # Epsilon only lowers delta: at 0 it is an error function, without cancellation.
    most = math.erf(mu / math.sqrt(8)) * (1 + _ROUNDING)
    return max(0.0, value * (1 - error)), min(1.0, most, value * (1 + error) + 1e-300)


def log_delta(epsilon: float, mu: float) -> float:
    """ln of the middle of `delta_bounds`; -infinity where it underflows."""
    middle = 0.5 * sum(delta_bounds(epsilon, mu))
    return math.log(middle) if middle > 0 else -math.inf


def epsilon_bounds(mu: float, delta: float) -> tuple[float, float]:
    """(lower, upper) around the exact epsilon of mu-Gaussian DP at `delta`, apart by rounding alone."""
    upper = eps_gdp(mu, delta)
    if delta_bounds(0.0, mu)[0] <= delta:
        return 0.0, upper
    low, high = 0.0, upper
    while high - low > _ROUNDING * high:
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        if delta_bounds(middle, mu)[0] >= delta:
            low = middle
        else:
            high = middle
    return low * (1 - _ROUNDING), upper
