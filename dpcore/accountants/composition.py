"""Naive and advanced composition: (epsilon, delta) of each step, added up. Baselines that everyone can check."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Self

from dpcore import checks
from dpcore.accountants.countable import (
    NEEDS_ADD_REMOVE,
    Composing,
    amplified,
    approximate,
    factor,
    has_no_bound,
    merge,
)
from dpcore.adjacency import Adjacency
from dpcore.events import ApproximateDP, Event, Gaussian, PoissonSampled, PureDP
from dpcore.gdp_dual import eps_gdp
from dpcore.guarantee import Status

_ROUND_UP = 1 + 1e-13
# Shares of delta tried for the slack of advanced composition: each is a valid bound, fixed before any data is seen.
_SLACK_SHARES = (0.1, 0.3, 0.5, 0.7, 0.9, 0.99)


@dataclass(frozen=True)
class _Composition(Composing):
    name: ClassVar[str]
    status: ClassVar[Status] = Status.PROVED
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    parts: dict[Event, int] = field(default_factory=dict)

    def _why_not(self, part: Event) -> str:
        match part:
            case PoissonSampled(event=Gaussian(adjacency=Adjacency.REPLACE_ONE)):
                return NEEDS_ADD_REMOVE
        return ""

    def _with(self, parts: dict[Event, int]) -> Self:
        return type(self)(self.adjacency, merge(self.parts, parts))

    def epsilon(self, delta: float) -> float:
        """Upper bound on epsilon at `delta` in (0, 1)."""
        checks.probability_open(delta=delta)
        if has_no_bound(self.parts):
            return math.inf
        return self._epsilon(delta) * _ROUND_UP if self.parts else 0.0

    def delta(self, epsilon: float) -> float:
        """Upper bound on delta at `epsilon` >= 0: the least delta whose epsilon is below it, to 1e-6 relative."""
        checks.non_negative_finite(epsilon=epsilon)
        if not self.parts:
            return 0.0
        return _least_delta(self.epsilon, epsilon)

    @abstractmethod
    def _epsilon(self, delta: float) -> float:
        """epsilon at `delta` of parts that are all private, before rounding up."""

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


@dataclass(frozen=True)
class NaiveAccountant(_Composition):
    """Sum of epsilons and sum of deltas, delta shared equally between the steps."""

    name: ClassVar[str] = "naive"
    theorem: ClassVar[str] = "Dwork & Roth (2014), Theorem 3.16; Balle & Wang (2018), Theorem 8"

    def _epsilon(self, delta: float) -> float:
        return math.fsum(times * one for one, times in self._steps(delta))


@dataclass(frozen=True)
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
        return min(bounds)


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
