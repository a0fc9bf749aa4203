"""Renyi differential privacy: a curve over orders, added up over steps, turned into (epsilon, delta) at the end."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from dpcore import checks
from dpcore.accountants.protocol import NEEDS_ADD_REMOVE, Composing, exp_up, has_no_bound
from dpcore.events import Adjacency, ApproximateDP, Event, Gaussian, PoissonSampled, PureDP

# Renyi divergence of one step: Gaussian, pure DP, Poisson-subsampled Gaussian, at any order above 1.
#
# Everything is (order - 1) * divergence, in nats, rounded up by at least 1e-9 relative.

Array = NDArray[np.float64]

# The sums and quadratures below round at about 1e-12 relative; the result is raised by this much.
_ROUND_UP = 1 + 1e-9
# Past this exponent exp overflows, and 1 beside it is far below rounding.
_LARGE = 40.0


def _gaussian(mu: float, orders: Array) -> Array:
    """(a-1) R(a) of N(mu, 1) against N(0, 1): a (a-1) mu^2 / 2."""
    return orders * (orders - 1) * (mu * mu / 2) * _ROUND_UP


def _pure_dp(epsilon: float, orders: Array) -> Array:
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


def _sampled_gaussian(rate: float, noise_multiplier: float, orders: tuple[float, ...]) -> Array:
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
    return _log1p_sum(log_weight + log_expm1(exponent)) * (_ROUND_UP + slack)


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


def log_expm1(z: Array) -> Array:
    """ln(exp(z) - 1) of z of at least 0; -infinity at 0."""
    with np.errstate(divide="ignore"):
        return np.where(z < _LARGE, np.log(np.expm1(np.minimum(z, _LARGE))), z)


def _log1p_sum(log_terms: Array) -> float:
    """ln(1 + sum exp(log_terms))."""
    top = float(np.max(log_terms))
    if top == -np.inf:
        return 0.0
    log_sum = top + float(np.log(np.sum(np.exp(log_terms - top))))
    return float(np.log1p(np.exp(log_sum))) if log_sum < _LARGE else log_sum


def _wide_orders() -> tuple[float, ...]:
    """Orders from 1.0005 (huge epsilon) to 300,000 (tiny epsilon); fractional ones below 12."""
    near_one = 1 + np.geomspace(5e-4, 0.98, 60)
    fractional = np.concatenate([np.arange(2.0, 6.0, 0.125), np.arange(6.0, 12.0, 0.25)])
    middle = np.arange(12, 64)
    large = np.unique(np.round(np.geomspace(64, 300_000, 48)))
    return tuple(float(a) for a in np.unique(np.concatenate([near_one, fractional, middle, large])))


WIDE_ORDERS = _wide_orders()
BU2020_ORDERS: tuple[float, ...] = (
    *(1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 3.0, 3.5, 4.0, 4.5),
    *(float(order) for order in range(5, 65)),
    *(128.0, 256.0, 512.0),
)
"""The orders with which Bu et al. (2020) computed their moments-accountant columns."""


@dataclass(frozen=True)
class RDPAccountant(Composing):
    """Renyi accountant; every number is a proved upper bound.

    orders      Renyi orders above 1 over which the bound is minimised
    conversion  "improved": Canonne, Kamath & Steinke (2020), Proposition 12; "old": Mironov (2017), Proposition 3

    Replace-one of a Poisson-subsampled Gaussian with an add-remove sensitivity goes through the data set without the
    record: by the weak triangle inequality (Mironov 2017, Proposition 11, p = q = 2) the divergence at order a is at
    most (a - 1/2)/(a - 1) R(2a) + R(2a - 1), R being the add-remove curve of both directions. For Gaussians that is
    the exact 4-fold cost up to a term that vanishes for large a. Raises InvalidValue.
    """

    name: ClassVar[str] = "rdp"
    orders: tuple[float, ...] = WIDE_ORDERS
    conversion: Literal["improved", "old"] = "improved"

    def __post_init__(self) -> None:
        if not self.orders or not all(math.isfinite(order) and order > 1 for order in self.orders):
            raise checks.InvalidValue("orders", self.orders, "at least one finite order, each above 1")
        if self.conversion not in ("improved", "old"):
            raise checks.InvalidValue("conversion", self.conversion, '"improved" or "old"')

    @property
    def theorem(self) -> str:
        """The step's divergence and the conversion: author, year, theorem."""
        step = "Mironov, Talwar & Zhang (2019), Theorem 5"
        if self.conversion == "old":
            return f"{step}; Mironov (2017), Proposition 3"
        return f"{step}; Canonne, Kamath & Steinke (2020), Proposition 12"

    def _why_not(self, part: Event) -> str:
        match part:
            case PoissonSampled(event=Gaussian(adjacency=Adjacency.REPLACE_ONE)):
                return NEEDS_ADD_REMOVE
            case ApproximateDP():
                return "its delta may hide any Renyi divergence."
        return ""

    def rdp(self, orders: tuple[float, ...]) -> np.ndarray:
        """Renyi divergence at each of `orders`, each above 1, in nats; infinite after a NonPrivate release."""
        a = np.array(orders)
        if has_no_bound(self.parts):
            return np.full(a.shape, math.inf)
        total = np.zeros(a.shape)
        for part, times in self.parts.items():
            total += times * self._scaled(part, orders) / (a - 1)
        return total

    def _epsilon(self, delta: float) -> float:
        """The least over the orders."""

        def bound(a: float, divergence: float) -> float:
            if self.conversion == "improved":
                return improved_epsilon(a, divergence, delta)
            return divergence + math.log(1 / delta) / (a - 1)

        return max(0.0, self._least(bound))

    def _delta(self, epsilon: float) -> float:
        """The least over the orders, at most 1."""

        def bound(a: float, divergence: float) -> float:
            value = (a - 1) * (divergence - epsilon)
            return value + (a - 1) * math.log1p(-1 / a) - math.log(a) if self.conversion == "improved" else value

        return exp_up(min(0.0, self._least(bound)))

    def _least(self, bound: Callable[[float, float], float]) -> float:
        """The least bound(order, divergence), by descent over the sorted orders: each is a bound, few are computed."""
        orders = sorted(self.orders)
        known: dict[int, float] = {}

        def at(i: int) -> float:
            if i not in known:
                value = bound(orders[i], float(self.rdp((orders[i],))[0]))
                known[i] = math.inf if math.isnan(value) else value
            return known[i]

        best, stride = len(orders) // 2, 32
        while stride:
            beside = [i for i in (best - stride, best + stride) if 0 <= i < len(orders)]
            lowest = min((best, *beside), key=at)
            if lowest == best:
                stride //= 2
            best = lowest
        return at(best)

    def _scaled(self, part: Event, at: tuple[float, ...]) -> np.ndarray:
        """(order - 1) * divergence of one run of `part` at some orders."""
        orders = np.array(at)
        match part:
            case Gaussian(noise_multiplier=noise):
                return _gaussian(1 / noise, orders)
            case PureDP(epsilon=epsilon):
                return _pure_dp(epsilon, orders)
            case PoissonSampled(rate=rate, event=Gaussian(noise_multiplier=noise)):
                if self.adjacency is Adjacency.ADD_REMOVE:
                    return _sampled_gaussian(rate, noise, at)
                first = _sampled_gaussian(rate, noise, tuple(2 * order for order in at))
                second = _sampled_gaussian(rate, noise, tuple(2 * order - 1 for order in at))
                # (a-1) [ (a-1/2)/(a-1) R(2a) + R(2a-1) ] in terms of the scaled curves (2a-1) R(2a), (2a-2) R(2a-1).
                return first / 2 + second / 2
            case _:
                raise AssertionError(f"{part!r} is not countable")


def improved_epsilon(order: float, divergence: float, delta: float) -> float:
    """epsilon at `delta` in (0, 1) of a Renyi divergence (Canonne, Kamath & Steinke 2020, Proposition 12).

    Not yet clipped at 0; the least over the orders is what counts.
    """
    value = divergence + math.log(1 / delta) / (order - 1)
    return value + math.log1p(-1 / order) - math.log(order) / (order - 1)
