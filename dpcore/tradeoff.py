"""Trade-off functions: the least type-II error at each type-I error (Dong, Roth & Su 2022; Bu et al. 2020).

Every function maps a type-I level in [0, 1] to a type-II level in [0, 1], is convex, continuous, non-increasing,
and at most 1 - level.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import ndtr, ndtri

from dpcore import checks
from dpcore.accountants.pld import PLDAccountant

TradeOff = Callable[[float], float]


def _level(level: float) -> float:
    if not 0 <= level <= 1:
        raise checks.InvalidValue("level", level, "a type-I error in [0, 1]")
    return float(level)


def gaussian(mu: float) -> TradeOff:
    """G_mu(a) = Phi(Phi^-1(1 - a) - mu), mu >= 0 (Dong, Roth & Su 2022, equation 6)."""
    checks.non_negative_finite(mu=mu)
    return lambda level: float(ndtr(-ndtri(_level(level)) - mu))


def epsilon_delta(epsilon: float, delta: float) -> TradeOff:
    """f of (epsilon, delta)-DP (Wasserman & Zhou 2010): max of 0, 1-delta-exp(eps) a, exp(-eps)(1-delta-a)."""
    checks.non_negative_finite(epsilon=epsilon, delta=delta)

    def f(level: float) -> float:
        a = _level(level)
        return max(0.0, 1 - delta - math.exp(epsilon) * a, math.exp(-epsilon) * (1 - delta - a))

    return f


def inverse(f: TradeOff) -> TradeOff:
    """f^-1(b) = the least a with f(a) <= b: the trade-off function of the reversed pair."""

    def g(level: float) -> float:
        b = _level(level)
        if f(0.0) <= b:
            return 0.0
        return float(brentq(lambda a: f(a) - b, 0.0, 1.0, xtol=1e-15)) if b > f(1.0) else 1.0

    return g


def least_error_sum(f: TradeOff) -> float:
    """Minimum of type-I plus type-II error over all tests, in [0, 1]; 1 minus the total variation distance."""
    found = minimize_scalar(lambda a: a + f(a), bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-12})
    return float(min(found.fun, f(0.0), 1.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledGaussianStep:
    """One Poisson-sampled Gaussian release under add-remove, exactly (Bu et al. 2020, Theorem 4; s > 0, 0 < p <= 1).

    noise_multiplier  s
    rate              p
    """

    noise_multiplier: float
    rate: float

    def __post_init__(self) -> None:
        checks.positive_finite(noise_multiplier=self.noise_multiplier)
        checks.rate(rate=self.rate)

    def one_direction(self, level: float) -> float:
        """f_p = p G_{1/s} + (1 - p) Id."""
        return self.rate * gaussian(1 / self.noise_multiplier)(level) + (1 - self.rate) * (1 - level)

    @property
    def turning_point(self) -> float:
        """x* = Phi(-1/(2s)), where f_p has slope -1."""
        return float(ndtr(-0.5 / self.noise_multiplier))

    def __call__(self, level: float) -> float:
        """The convex minorant of min{f_p, f_p^-1}: f_p, a line of slope -1, then f_p^-1."""
        a = _level(level)
        x = self.turning_point
        y = self.one_direction(x)
        if a <= x:
            return self.one_direction(a)
        return x + y - a if a <= y else inverse(self.one_direction)(a)


def composed(accountant: PLDAccountant, epsilons: int = 33) -> TradeOff:
    """A trade-off function that everything composed so far satisfies, from the accountant's upper bounds on delta.

    f(a) = max over eps of either sign of 1 - delta(eps) - exp(eps) a (Dong, Roth & Su 2022, Proposition 6), over
    `epsilons` values of each sign: fewer give a lower, still valid, f.
    """
    reach = accountant.epsilon_bounds(1e-6).upper
    if math.isinf(reach):
        return lambda level: 0.0 * _level(level)
    grid = np.linspace(-reach, reach, 2 * epsilons + 1)
    deltas = np.array([accountant.delta_bounds(float(e)).upper for e in grid])

    def f(level: float) -> float:
        return float(max(0.0, np.max(1 - deltas - np.exp(grid) * _level(level))))

    return f


DELTAS = (
    1e-6,
    1e-5,
    1e-4,
    1e-3,
    3e-3,
    0.01,
    0.02,
    0.035,
    0.05,
    *(0.075, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.65, 0.8),
)
"""Where `enveloped` touches the curve: densest where audits see."""


def enveloped(epsilon_at: Callable[[float], float], deltas: Sequence[float] = DELTAS) -> TradeOff:
    """A symmetric trade-off function that a mechanism satisfies which is (epsilon_at(d), d)-DP for every d in (0, 1).

    The largest of the trade-off functions of those claims over `deltas`. It asks an accountant for as many epsilons,
    milliseconds each, where `composed` asks for deltas at epsilons of either sign; fewer give a lower, still valid, f.
    """
    lines = [(epsilon_at(delta), delta) for delta in deltas]
    finite = [epsilon_delta(epsilon, delta) for epsilon, delta in lines if epsilon < _LARGEST_EPSILON]
    return lambda level: max((f(level) for f in finite), default=0.0 * _level(level))


_LARGEST_EPSILON = 700.0
"""exp() of more overflows."""
