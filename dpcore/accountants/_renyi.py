"""Renyi divergence of one step: Gaussian, pure DP, Poisson-subsampled Gaussian, at any order above 1.

Everything is (order - 1) * divergence, in nats, rounded up by at least 1e-9 relative.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

Array = NDArray[np.float64]

# The sums and quadratures below round at about 1e-12 relative; the result is raised by this much.
_ROUND_UP = 1 + 1e-9
# Past this exponent exp overflows, and 1 beside it is far below rounding.
_LARGE = 40.0


def gaussian(mu: float, orders: Array) -> Array:
    """(a-1) R(a) of N(mu, 1) against N(0, 1): a (a-1) mu^2 / 2."""
    return orders * (orders - 1) * (mu * mu / 2) * _ROUND_UP


def pure_dp(epsilon: float, orders: Array) -> Array:
    """(a-1) R(a) of any (epsilon, 0)-DP release: at most that of randomised response.

    Mironov (2017), Proposition 5, for the mechanism of which every other is a post-processing (Kairouz, Oh & Viswanath
    2015, Theorem 3.1): ln[p exp((a-1) epsilon) + (1-p) exp(-(a-1) epsilon)] with p = 1/(1+exp(-epsilon)).
    """
    c = (orders - 1) * epsilon
    log_p = -np.log1p(np.exp(-epsilon))
    # p exp(c) + (1-p) exp(-c) = p exp(c) (1 + exp(-epsilon - 2c)); the alternative keeps digits at small epsilon.
    large = log_p + c + np.log1p(np.exp(-epsilon - 2 * c))
    p = 1 / (1 + np.exp(-epsilon))
    with np.errstate(over="ignore"):
        small = np.log1p(p * np.expm1(np.minimum(c, 1.0)) + (1 - p) * np.expm1(-np.minimum(c, 1.0)))
    out: Array = np.where(c < 1.0, small, large) * _ROUND_UP
    return out


@lru_cache(maxsize=1 << 14)
def _at_order(rate: float, noise_multiplier: float, order: float) -> float:
    if float(order).is_integer():
        return _integer(rate, noise_multiplier, int(order))
    return _fractional(rate, noise_multiplier, order)


def sampled_gaussian(rate: float, noise_multiplier: float, orders: tuple[float, ...]) -> Array:
    """(a-1) R(a) of a Poisson-subsampled Gaussian with q = `rate` in (0, 1), add-remove, for both directions.

    The larger direction is the mixture against N(0, s^2) (Mironov, Talwar & Zhang 2019, Theorem 5 and Corollary 7: for
    equal-variance Gaussians the divergence of N(0, s^2) from the mixture never exceeds it), so one curve bounds adding
    and removing. Integer orders sum the binomial expansion, others integrate.
    """
    return np.array([_at_order(float(rate), float(noise_multiplier), order) for order in orders])


def _integer(q: float, s: float, a: int) -> float:
    """ln sum_k Binom(k; a, q) exp((k^2-k)/(2 s^2)), as log1p of the sum of the excesses over 1: no cancellation."""
    k = np.arange(2, a + 1, dtype=np.float64)
    exponent = k * (k - 1) / (2 * s * s)
    log_weight = gammaln(a + 1.0) - gammaln(k + 1) - gammaln(a - k + 1) + k * np.log(q) + (a - k) * np.log1p(-q)
    # gammaln rounds relative to its own size, which for large orders exceeds that of the sum.
    slack = 4 * np.finfo(float).eps * float(gammaln(a + 1.0))
    return _log1p_sum(log_weight + _log_expm1(exponent)) * (_ROUND_UP + slack)


def _fractional(q: float, s: float, a: float) -> float:
    """ln E_{x ~ N(0, s^2)} (1+u)^a with u = q (exp((2x-1)/(2 s^2)) - 1), by the trapezoidal rule.

    E u = 0, so the expectation less 1 is that of (1+u)^a - 1 - a u, which is nowhere negative (Bernoulli). The
    integrand is analytic in a strip of half-width pi s^2, so the rule converges like exp(-2 pi * width / spacing).
    """
    reach = 12.0 + np.sqrt(2 * np.log(1 / q) + 2)
    spacing = min(s / 8, s * s / 2)
    low, high = -reach * s, a + reach * s
    n = int(np.ceil((high - low) / spacing)) + 1
    x = low + spacing * np.arange(n)
    z = (2 * x - 1) / (2 * s * s)
    log_ratio = np.where(z > 0, _soft_log(q, np.maximum(z, 0.0)), np.log1p(q * np.expm1(np.minimum(z, 0.0))))
    log_excess = _log_bernoulli_excess(log_ratio, a)
    log_density = -x * x / (2 * s * s) - np.log(s * np.sqrt(2 * np.pi))
    return _log1p_sum(log_excess + log_density + np.log(spacing)) * _ROUND_UP


def _soft_log(q: float, z: Array) -> Array:
    """ln(1 - q + q exp(z)) for z >= 0, keeping digits where it is small and finite where exp(z) is not."""
    small = np.log1p(q * np.expm1(np.minimum(z, _LARGE)))
    large = z + np.log(q + (1 - q) * np.exp(-z))
    out: Array = np.where(z < 1.0, small, large)
    return out


def _log_bernoulli_excess(log_ratio: Array, a: float) -> Array:
    """ln[(1+u)^a - 1 - a u] for u = exp(log_ratio) - 1; -inf where u = 0."""
    w = a * log_ratio
    u = np.expm1(np.minimum(log_ratio, _LARGE))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        middle = np.log(np.maximum(np.expm1(np.minimum(w, _LARGE)) - a * u, 0.0))
        # Taylor at u = 0: a(a-1)/2 u^2 [1 + (a-2)/3 u + (a-2)(a-3)/12 u^2 + ...]
        b = a - 2
        bracket = 1 + b * u / 3 * (1 + (b - 1) * u / 4 * (1 + (b - 2) * u / 5))
        series = np.log(a * (a - 1) / 2) + 2 * np.log(np.abs(u)) + np.log(np.maximum(bracket, 1e-300))
        # Past _LARGE, (1 + a u) is below (1+u)^a by more than rounding unless a is close to 1: keep it exactly there.
        large = w + np.log1p(-np.minimum(np.exp(-w) * (1 + a * np.expm1(np.minimum(log_ratio, 700.0))), 1 - 1e-15))
    small_u = np.abs(u) * max(a, 1.0) < 1e-3
    out: Array = np.where(small_u, series, np.where(w > 1.0, large, middle))
    return out


def _log_expm1(z: Array) -> Array:
    return np.where(z < _LARGE, np.log(np.expm1(np.minimum(z, _LARGE))), z)


def _log1p_sum(log_terms: Array) -> float:
    """ln(1 + sum exp(log_terms))."""
    top = float(np.max(log_terms))
    if top == -np.inf:
        return 0.0
    log_sum = top + float(np.log(np.sum(np.exp(log_terms - top))))
    return float(np.log1p(np.exp(log_sum))) if log_sum < _LARGE else log_sum
