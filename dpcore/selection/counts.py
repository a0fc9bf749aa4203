"""Laws of the number of trials K: how many independent trials a private selection runs.

K is random and secret. Each law here has a generating function f(q) = E q^K whose derivative changes little where q
changes little: that is what makes the best of K cost about two trials, however large K is (`dpcore.selection.best`).

    TruncatedNegativeBinomial   geometric (shape 1), logarithmic (shape 0), and what lies between and beyond
    BinomialCount, PoissonCount K may be 0: then a fixed default is released
    Capped                      any of them, conditioned on K <= cap: what is drawn

Source  Papernot & Steinke (2022), definition 1; Koskela, Redberg & Wang (2024); Liu & Talwar (2019) for the geometric.
"""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import gammaln, xlog1py, xlogy

from dpcore import checks

LARGEST_CAP = 10_000
"""Weights are drawn as exact integers (`draw`), whose digits grow with the cap: at this one in ten seconds."""

LEAST_KEPT = 1e-3
"""P[K <= cap] of the law that is capped, at least: of a smaller one another law was meant."""

_BLOCK = 4096
_MOST_TRIALS = 50_000_000


class CountLaw(ABC):
    """The law of K, the number of trials."""

    @property
    @abstractmethod
    def mean(self) -> float:
        """E K, which is f'(1)."""

    @property
    def largest(self) -> float:
        """The largest K that has a positive chance; infinite without a cap."""
        return math.inf

    @property
    def priced(self) -> CountLaw:
        """The law without its cap: conditioning on K <= cap never raises a price (see `Capped`)."""
        return self

    @abstractmethod
    def pmf(self, counts: NDArray[np.int64]) -> NDArray[np.float64]:
        """P[K = k] for an array of k >= 0."""

    @abstractmethod
    def reach(self, chance: float) -> float:
        """1 - f(1 - chance): P[some trial succeeds] where each does with `chance` in [0, 1].

        Exact to rounding for tiny chances too. With chance .1 it is the chance that a trial comes from the prior's top
        decile.
        """

    @abstractmethod
    def weights(self) -> Iterator[tuple[int, Fraction]]:
        """(k, P[K = k] / P[K = k - 1]) in exact arithmetic from the least k on; the first ratio is 1."""

    def quantile(self, level: float) -> int:
        """The least k with P[K <= k] >= level, for a level in (0, 1). Raises InvalidValue."""
        checks.probability_open(level=level)
        before, start = 0.0, 0
        while start <= min(self.largest, _MOST_TRIALS):
            block = self.pmf(np.arange(start, int(min(start + _BLOCK, self.largest + 1))))
            cumulative = before + np.cumsum(block)
            if cumulative[-1] >= level:
                return start + int(np.searchsorted(cumulative, level))
            if block[-1] == 0 and start > self.mean:
                break  # What is left of the law is below rounding.
            before, start = float(cumulative[-1]), start + len(block)
        raise checks.InvalidValue("level", level, "a level that double precision tells from 1")


@dataclass(frozen=True)
class TruncatedNegativeBinomial(CountLaw):
    """K >= 1 with P[K = k] in proportion to (1-g)^k prod_{l=1}^{k-1} (l + shape) / (l + 1).

    shape    eta > -1: 1 is the geometric law, 0 the logarithmic one
    success  g in (0, 1): the smaller, the more trials

    f'(q) = mean * (g / t)^(1 + shape) with t = 1 - (1-g) q. Raises InvalidValue.
    """

    shape: float
    success: float

    def __post_init__(self) -> None:
        checks.probability_open(success=self.success)
        if isinstance(self.shape, bool) or not isinstance(self.shape, int | float) or not -1 < self.shape < math.inf:
            raise checks.InvalidValue("shape", self.shape, "a finite number above -1")

    @property
    def odds(self) -> float:
        """(1 - g) / g."""
        return (1 - self.success) / self.success

    @cached_property
    def mean(self) -> float:
        """shape (1-g) / (g (1 - g^shape)); at shape 0 its limit, (1/g - 1) / ln(1/g)."""
        return self.odds * _ratio(self.shape, self.success)

    def pmf(self, counts: NDArray[np.int64]) -> NDArray[np.float64]:
        """See `CountLaw.pmf`."""
        k = np.maximum(counts, 1).astype(np.float64)
        # The sum of all weights is f'(1) g^(1+shape) up to the same constant: mean = (1-g) g^-(1+shape) / sum.
        log_sum = math.log1p(-self.success) - (1 + self.shape) * math.log(self.success) - math.log(self.mean)
        logs = xlog1py(k, -self.success) + gammaln(k + self.shape) - gammaln(1 + self.shape) - gammaln(k + 1)
        return np.where(counts < 1, 0.0, np.exp(logs - log_sum))

    def reach(self, chance: float) -> float:
        """See `CountLaw.reach`."""
        return min(1.0, _expm1_ratio(self.shape, math.log1p(self.odds * chance)) * _ratio(self.shape, self.success))

    def factorial_moment(self, order: int) -> float:
        """E K (K-1) ... (K-order+1), order >= 1. Raises InvalidValue."""
        checks.count(minimum=1, order=order)
        return self.mean * math.prod((step + self.shape) * self.odds for step in range(1, order))

    def weights(self) -> Iterator[tuple[int, Fraction]]:
        """See `CountLaw.weights`."""
        rest, shape, k = 1 - Fraction(self.success), Fraction(self.shape), 1
        yield k, Fraction(1)
        while True:
            yield k + 1, rest * (k + shape) / (k + 1)
            k += 1


def _expm1_ratio(shape: float, r: float) -> float:
    """(1 - exp(-shape r)) / shape, and r at shape 0."""
    return -math.expm1(-shape * r) / shape if abs(shape * r) > 1e-300 else r


def _ratio(shape: float, success: float) -> float:
    """shape / (1 - g^shape), and 1 / ln(1/g) at shape 0."""
    return 1 / _expm1_ratio(shape, -math.log(success))


def with_mean(shape: float, mean: float) -> TruncatedNegativeBinomial:
    """The truncated negative binomial law of this shape (above -1) and mean (above 1). Raises InvalidValue."""
    checks.positive_finite(mean=mean)
    TruncatedNegativeBinomial(shape, 0.5)
    if not mean > 1:
        raise checks.InvalidValue("mean", mean, "a mean above 1, since there is always one trial")
    if shape == 1:
        return TruncatedNegativeBinomial(1.0, 1 / mean)

    def excess(log_odds: float) -> float:
        return math.log(TruncatedNegativeBinomial(shape, 1 / (1 + math.exp(log_odds))).mean / mean)

    high = 1.0
    while excess(high) < 0:
        high *= 2
        if high > 600:
            raise checks.InvalidValue("mean", mean, f"a mean that shape={shape!r} reaches in double precision")
    low = -1.0
    while excess(low) > 0:
        low *= 2
    return TruncatedNegativeBinomial(shape, 1 / (1 + math.exp(brentq(excess, low, high, xtol=1e-14, rtol=1e-15))))


def geometric(mean: float) -> TruncatedNegativeBinomial:
    """P[K = k] = g (1-g)^(k-1) with g = 1/mean; mean above 1. Raises InvalidValue."""
    return with_mean(1.0, mean)


def logarithmic(mean: float) -> TruncatedNegativeBinomial:
    """P[K = k] in proportion to (1-g)^k / k; mean above 1. Raises InvalidValue."""
    return with_mean(0.0, mean)


@dataclass(frozen=True)
class BinomialCount(CountLaw):
    """K successes of `trials` coins; f(q) = (1 - p + p q)^trials. Raises InvalidValue.

    trials       n >= 1, an integer
    probability  p in (0, 1)
    """

    trials: int
    probability: float

    def __post_init__(self) -> None:
        checks.count(minimum=1, trials=self.trials)
        checks.probability_open(probability=self.probability)

    @property
    def odds(self) -> float:
        """p / (1 - p)."""
        return self.probability / (1 - self.probability)

    @property
    def mean(self) -> float:
        """n p."""
        return self.trials * self.probability

    @property
    def largest(self) -> float:
        """n."""
        return self.trials

    def pmf(self, counts: NDArray[np.int64]) -> NDArray[np.float64]:
        """See `CountLaw.pmf`."""
        k, n = counts.astype(np.float64), self.trials
        inside = np.minimum(k, n)
        logs = gammaln(n + 1) - gammaln(inside + 1) - gammaln(n - inside + 1)
        logs += xlogy(inside, self.probability) + xlog1py(n - inside, -self.probability)
        return np.where(k > n, 0.0, np.exp(logs))

    def reach(self, chance: float) -> float:
        """See `CountLaw.reach`."""
        return -math.expm1(self.trials * math.log1p(-self.probability * chance))

    def weights(self) -> Iterator[tuple[int, Fraction]]:
        """See `CountLaw.weights`."""
        p = Fraction(self.probability)
        yield 0, Fraction(1)
        for k in range(self.trials):
            yield k + 1, Fraction(self.trials - k, k + 1) * p / (1 - p)


@dataclass(frozen=True)
class PoissonCount(CountLaw):
    """K ~ Poisson(rate); f(q) = exp(-rate (1 - q)). rate is finite and above 0. Raises InvalidValue."""

    rate: float

    def __post_init__(self) -> None:
        checks.positive_finite(rate=self.rate)

    @property
    def mean(self) -> float:
        """The rate."""
        return self.rate

    def pmf(self, counts: NDArray[np.int64]) -> NDArray[np.float64]:
        """See `CountLaw.pmf`."""
        k = counts.astype(np.float64)
        return np.asarray(np.exp(xlogy(k, self.rate) - self.rate - gammaln(k + 1)))

    def reach(self, chance: float) -> float:
        """See `CountLaw.reach`."""
        return -math.expm1(-self.rate * chance)

    def weights(self) -> Iterator[tuple[int, Fraction]]:
        """See `CountLaw.weights`."""
        rate, k = Fraction(self.rate), 0
        yield k, Fraction(1)
        while True:
            yield k + 1, rate / (k + 1)
            k += 1


@dataclass(frozen=True)
class Capped(CountLaw):
    """`law` conditioned on K <= cap: what is drawn, and free of charge. Raises InvalidValue.

    law  a law without a cap
    cap  at least the law's least K, at most LARGEST_CAP

    Conditioning is not min(K, cap): that puts all of the tail on one count, and costs. Why it is free: the mass of the
    best is Q(y) F(a, b), with F the divided difference of f between Q(<y) and Q(<=y), a polynomial in a and b with
    weights p_k a^i b^(k-1-i). Its log-slope in a is the mean of i under these weights; for one k that is the mean of a
    truncated geometric law on 0..k-1, which rises with k, so dropping large k lowers it; alike in b. Every bound on
    F / F' over neighbours that is a path of log-slopes therefore holds for the capped law, as does F <= mean.
    """

    law: CountLaw
    cap: int

    def __post_init__(self) -> None:
        if not isinstance(self.law, CountLaw) or isinstance(self.law, Capped):
            raise checks.InvalidValue("law", self.law, "a law of counts without a cap")
        least = 1 if isinstance(self.law, TruncatedNegativeBinomial) else 0
        checks.count(minimum=max(least, 1), cap=self.cap)
        if self.cap > LARGEST_CAP:
            raise checks.InvalidValue("cap", self.cap, f"at most {LARGEST_CAP}")
        kept = float(self.law.pmf(np.arange(self.cap + 1)).sum())
        if kept < LEAST_KEPT:
            expected = f"a cap that K stays within with a chance of at least {LEAST_KEPT}, not {kept:.2g}"
            raise checks.InvalidValue("cap", self.cap, expected)

    @cached_property
    def _masses(self) -> NDArray[np.float64]:
        masses = self.law.pmf(np.arange(int(min(self.cap, self.law.largest)) + 1))
        return np.asarray(masses / math.fsum(masses))

    @cached_property
    def mean(self) -> float:
        """Of the conditioned law."""
        return math.fsum(np.arange(len(self._masses)) * self._masses)

    @property
    def largest(self) -> float:
        """The cap, or the law's own largest."""
        return len(self._masses) - 1

    @property
    def priced(self) -> CountLaw:
        """The law without the cap."""
        return self.law

    def pmf(self, counts: NDArray[np.int64]) -> NDArray[np.float64]:
        """See `CountLaw.pmf`."""
        return np.where(counts > self.largest, 0.0, self._masses[np.minimum(counts, len(self._masses) - 1)])

    def reach(self, chance: float) -> float:
        """See `CountLaw.reach`."""
        if chance == 1:
            return 1 - float(self._masses[0])
        return math.fsum(self._masses * -np.expm1(np.arange(len(self._masses)) * math.log1p(-chance)))

    def weights(self) -> Iterator[tuple[int, Fraction]]:
        """See `CountLaw.weights`."""
        for k, ratio in self.law.weights():
            if k > self.cap:
                return
            yield k, ratio


# Drawing K, exactly and in secret.


def draw(law: Capped, source: random.SystemRandom) -> int:
    """K from exactly `law`: by inversion of its masses as integers, without rounding.

    source  a cryptographic generator (`secrets.SystemRandom()`): whoever can guess K breaks the guarantee. A seeded
            generator is refused.

    All counts up to the cap are gone through whatever is drawn. To be drawn once, and stored before the first trial;
    never again. Raises InvalidValue.
    """
    if not isinstance(law, Capped):
        raise checks.InvalidValue("law", law, "a law with a cap", "Capped(law, cap) is free of charge.")
    if not isinstance(source, random.SystemRandom):
        raise checks.InvalidValue("source", source, "a cryptographic source", "Pass secrets.SystemRandom().")
    # In units of the common denominator of all masses; the least count has that mass.
    first = math.prod(ratio.denominator for _, ratio in law.weights())
    total = sum(mass for _, mass in _integer_masses(law, first))
    at = source.randrange(total)
    least, cumulative, passed = next(law.weights())[0], 0, 0
    for _, mass in _integer_masses(law, first):
        cumulative += mass
        passed += at >= cumulative
    return least + passed


def _integer_masses(law: Capped, first: int) -> Iterator[tuple[int, int]]:
    """(k, P[K = k]) up to a common factor, from the mass of the least k on; every division is exact."""
    mass = first
    for k, ratio in law.weights():
        mass = mass * ratio.numerator // ratio.denominator
        yield k, mass
