"""Trade-off functions: the least type-II error at each type-I error (Dong, Roth & Su 2022; Bu et al. 2020).

Every function maps a type-I level in [0, 1] to a type-II level in [0, 1], is convex, continuous, non-increasing,
and at most 1 - level.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from scipy.special import ndtr, ndtri

from dpcore import checks

TradeOff = Callable[[float], float]

LARGEST_EPSILON = 700.0
"""exp() of more overflows, and no number of canaries reaches it."""


def _level(level: float) -> float:
    if not 0 <= level <= 1:
        raise checks.InvalidValue("level", level, "a type-I error in [0, 1]")
    return float(level)


def gaussian(mu: float) -> TradeOff:
    """G_mu(a) = Phi(Phi^-1(1 - a) - mu), mu >= 0 (Dong, Roth & Su 2022, equation 6). Raises InvalidValue."""
    checks.non_negative_finite(mu=mu)
    return lambda level: float(ndtr(-ndtri(_level(level)) - mu))


def epsilon_delta(epsilon: float, delta: float) -> TradeOff:
    """f of (epsilon, delta)-DP (Wasserman & Zhou 2010): max of 0, 1-delta-exp(eps) a, exp(-eps)(1-delta-a).

    Raises InvalidValue.
    """
    checks.non_negative_finite(epsilon=epsilon, delta=delta)

    def f(level: float) -> float:
        a = _level(level)
        return max(0.0, 1 - delta - math.exp(epsilon) * a, math.exp(-epsilon) * (1 - delta - a))

    return f


DELTAS = (
    *(1e-6, 1e-5, 1e-4, 1e-3, 3e-3, 0.01, 0.02, 0.035, 0.05),
    *(0.075, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.65, 0.8),
)
"""Where `enveloped` touches the curve: densest where audits see."""


def enveloped(epsilon_at: Callable[[float], float], deltas: Sequence[float] = DELTAS) -> TradeOff:
    """A symmetric trade-off function that a mechanism satisfies which is (epsilon_at(d), d)-DP for every d in (0, 1).

    The largest of the trade-off functions of those claims over `deltas`. It asks an accountant for as many epsilons,
    milliseconds each; fewer give a lower, still valid, f.
    """
    lines = [(epsilon_at(delta), delta) for delta in deltas]
    finite = [epsilon_delta(epsilon, delta) for epsilon, delta in lines if epsilon < LARGEST_EPSILON]
    return lambda level: max((f(level) for f in finite), default=0.0 * _level(level))
