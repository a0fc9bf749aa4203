"""Naive and advanced composition: (epsilon, delta) of each step, added up. Baselines that everyone can check."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar

from scipy.optimize import brentq

from dpcore import checks
from dpcore.accountants.pld import pure_sums
from dpcore.accountants.pld.pairs import Asked, Bounds, Parts, SampledRandomisedResponse
from dpcore.accountants.protocol import NEEDS_ADD_REMOVE, Composing, amplified, approximate, exp_up, factor
from dpcore.events import Adjacency, ApproximateDP, Event, Gaussian, PoissonSampled, PureDP
from dpcore.gdp import eps_gdp

_ROUND_UP = 1 + 1e-13
# Shares of delta tried for the slack of advanced composition: each is a valid bound, fixed before any data is seen.
_SLACK_SHARES = (0.1, 0.3, 0.5, 0.7, 0.9, 0.99)


class _Composition(Composing):
    def _why_not(self, part: Event) -> str:
        match part:
            case PoissonSampled(event=Gaussian(adjacency=Adjacency.REPLACE_ONE)):
                return NEEDS_ADD_REMOVE
        return ""

    def _delta(self, epsilon: float) -> float:
        """The least delta whose epsilon is below it, to 1e-6 relative."""
        return _least_delta(self.epsilon, epsilon)

    def _steps(self, delta: float) -> list[tuple[float, int]]:
        """(epsilon, count) of each kind of step when they share `delta` equally; pure steps need none of it, and what
        is known only to be (epsilon, delta)-DP takes its own first. Infinite when that leaves nothing."""
        own = math.fsum(
            times * approximate(self.name, part, self.adjacency)[1]
            for part, times in self.parts.items()
            if isinstance(part, ApproximateDP)
        )
        left = delta - own * (1 + 1e-12)
        if left < 0:
            return [(math.inf, 1)]
        needy = sum(times for part, times in self.parts.items() if not isinstance(part, PureDP | ApproximateDP))
        if needy and not left:
            return [(math.inf, 1)]
        each = left / needy * (1 - 1e-15) if needy else delta
        return [(self._step_epsilon(part, each), times) for part, times in self.parts.items()]

    def _step_epsilon(self, part: Event, delta: float) -> float:
        """epsilon of one step at its own share of delta."""
        match part:
            case PureDP(epsilon=epsilon):
                return epsilon
            case Gaussian(noise_multiplier=noise):
                return eps_gdp(1 / noise, delta)
            case ApproximateDP():
                return approximate(self.name, part, self.adjacency)[0]
            case PoissonSampled(rate=rate, event=Gaussian(noise_multiplier=noise) as inner):
                # (eps, delta) -> (ln(1 + q (exp(eps) - 1)), q delta): Balle, Barthe & Gaboardi (2018), Theorem 8. Under
                # replace-one their advanced joint convexity, with a shared coin, compares the record drawn with a
                # mixture of its rival (mu = 2/s) and none (mu = 1/s); mu = 2/s bounds both.
                share = delta / rate
                if share >= 1:
                    return 0.0
                return amplified(rate, eps_gdp(factor(self.name, inner, self.adjacency) / noise, share))
            case _:
                raise AssertionError(f"{part!r} is not countable")


class NaiveAccountant(_Composition):
    """Sum of epsilons and sum of deltas, delta shared equally between the steps."""

    name: ClassVar[str] = "naive"
    theorem: ClassVar[str] = "Dwork & Roth (2014), Theorem 3.16; Balle & Wang (2018), Theorem 8"

    def _epsilon(self, delta: float) -> float:
        return math.fsum(times * one for one, times in self._steps(delta)) * _ROUND_UP


class AdvancedAccountant(_Composition):
    """sum eps_i tanh(eps_i / 2) + sqrt(2 ln(1/delta') sum eps_i^2) at delta' + sum delta_i; at most the naive sum."""

    name: ClassVar[str] = "advanced"
    theorem: ClassVar[str] = "Dwork, Rothblum & Vadhan (2010), as in Kairouz, Oh & Viswanath (2015), Theorem 3.5"

    def _epsilon(self, delta: float) -> float:
        bounds = [math.fsum(times * one for one, times in self._steps(delta))]
        for share in _SLACK_SHARES:
            slack = share * delta
            steps = self._steps((delta - slack) * (1 - 1e-15))
            drift = math.fsum(times * one * math.tanh(one / 2) for one, times in steps)
            spread = math.fsum(times * one * one for one, times in steps)
            bounds.append(drift + math.sqrt(2 * math.log(1 / slack) * spread))
        return min(bounds) * _ROUND_UP


def _least_delta(epsilon_at: Callable[[float], float], epsilon: float) -> float:
    """The least delta with epsilon_at(delta) <= epsilon, rounded up by 1e-6 relative; 1 if there is none."""
    low, high = math.log(1e-300), math.log(1 - 1e-12)
    if epsilon_at(math.exp(high)) > epsilon:
        return 1.0
    if epsilon_at(math.exp(low)) <= epsilon:
        return math.exp(low)
    while high - low > 1e-6:
        middle = (low + high) / 2
        if epsilon_at(math.exp(middle)) <= epsilon:
            high = middle
        else:
            low = middle
    return math.exp(high)


# Zero-concentrated differential privacy: one number rho that adds up; no amplification by sampling.

_ZCDP_ROUND_UP = 1 + 1e-14


class ZCDPAccountant(Composing):
    """rho-zCDP; every number is a proved upper bound.

    A Poisson-sampled release is charged as if nobody were left out: with the coin shared between neighbours, Renyi
    divergence is jointly quasi-convex, so sampling never costs more; that it costs far less, zCDP cannot express.
    """

    name: ClassVar[str] = "zcdp"
    theorem: ClassVar[str] = "Bun & Steinke (2016), Propositions 1.3, 1.4 and 1.6, Lemma 2.3"

    def _why_not(self, part: Event) -> str:
        return "no zCDP bound for it here." if isinstance(part, ApproximateDP) else ""

    @property
    def rho(self) -> float:
        """What has been composed is this much zCDP."""
        return sum((times * self._rho(part) for part, times in self.parts.items()), 0.0)

    def _epsilon(self, delta: float) -> float:
        return (self.rho + 2 * math.sqrt(self.rho * math.log(1 / delta))) * _ZCDP_ROUND_UP

    def _delta(self, epsilon: float) -> float:
        """exp(-(epsilon - rho)^2 / (4 rho)) for epsilon above rho, else 1."""
        rho = self.rho
        if rho == 0:
            return 0.0
        excess = epsilon / _ZCDP_ROUND_UP - rho
        return 1.0 if excess <= 0 else exp_up(-excess * excess / (4 * rho))

    def _rho(self, part: Event) -> float:
        match part:
            case Gaussian(noise_multiplier=noise):
                return (1 / noise) ** 2 / 2
            case PoissonSampled(event=Gaussian(noise_multiplier=noise) as inner):
                return (factor(self.name, inner, self.adjacency) / noise) ** 2 / 2
            case PureDP(epsilon=epsilon):
                return epsilon**2 / 2
            case _:
                return math.inf


# The exact composition of equal pure-DP releases.
#
# Source Kairouz, Oh & Viswanath (2015), Theorem 3.3 (optimal for releases known only to be (epsilon, 0)-DP).

PURE_THEOREM = "Kairouz, Oh & Viswanath 2015, Theorem 3.3 (optimal composition of pure DP)"
PURE_ACCOUNTANT = "optimal-pure"
LARGEST_PURE_COUNT = pure_sums.MAX_COUNT

_STEP = 1e-12


def delta_pure(each: float, count: int, epsilon: float) -> float:
    """delta at `epsilon` >= 0 of `count` adaptive (each, 0)-DP releases; rounded up. In [0, 1].

    Raises InvalidValue for a count outside 1..LARGEST_COUNT.
    """
    checks.non_negative_finite(each=each, epsilon=epsilon)
    return _found(pure_sums.delta_bounds(_alike(each, count), Asked(epsilon)))


def eps_pure(each: float, count: int, delta: float) -> float:
    """The smallest epsilon >= 0 with `delta_pure` at most `delta` in (0, 1); rounded up, at most count * each."""
    checks.non_negative_finite(each=each)
    checks.probability_open(delta=delta)
    return min(count * each, _found(pure_sums.epsilon_bounds(_alike(each, count), Asked(delta))))


def each_pure(epsilon: float, delta: float, count: int) -> float:
    """The largest per-release epsilon whose `count` releases are (epsilon, delta)-DP, epsilon > 0; rounded down."""
    checks.positive_finite(epsilon=epsilon)
    checks.probability_open(delta=delta)
    checks.count(minimum=1, count=count)
    low = epsilon / count
    high = 2 * low
    while delta_pure(high, count, epsilon) <= delta:
        high *= 2
    root = float(brentq(lambda e: delta_pure(e, count, epsilon) - delta, low, high, xtol=1e-300, rtol=1e-14))
    while delta_pure(root, count, epsilon) > delta:
        root -= root * _STEP
    return max(root, low)


def _alike(each: float, count: int) -> Parts:
    checks.count(minimum=1, count=count)
    if count > LARGEST_PURE_COUNT:
        raise checks.InvalidValue("count", count, f"at most {LARGEST_PURE_COUNT} releases")
    return ((SampledRandomisedResponse(1.0, float(each)), count),)


def _found(bounds: Bounds | None) -> float:
    assert bounds is not None, "releases of one kind have few sums"
    return bounds.upper
