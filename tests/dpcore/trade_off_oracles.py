"""Trade-off functions that tests hold others against: one sampled step exactly, a composition, least error sums."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import ndtr

from dpcore import checks
from dpcore.accountants.pld import PLDAccountant
from dpcore.gdp import TradeOff, gaussian_tradeoff


def inverse(f: TradeOff) -> TradeOff:
    """f^-1(b) = the least a with f(a) <= b: the trade-off function of the reversed pair."""

    def g(level: float) -> float:
        b = level
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
        return self.rate * gaussian_tradeoff(1 / self.noise_multiplier)(level) + (1 - self.rate) * (1 - level)

    @property
    def turning_point(self) -> float:
        """x* = Phi(-1/(2s)), where f_p has slope -1."""
        return float(ndtr(-0.5 / self.noise_multiplier))

    def __call__(self, level: float) -> float:
        """The convex minorant of min{f_p, f_p^-1}: f_p, a line of slope -1, then f_p^-1."""
        a = level
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
        return lambda level: 0.0 * level
    grid = np.linspace(-reach, reach, 2 * epsilons + 1)
    deltas = np.array([accountant.delta_bounds(float(e)).upper for e in grid])

    def f(level: float) -> float:
        return float(max(0.0, np.max(1 - deltas - np.exp(grid) * level)))

    return f
