"""Evidence from one run with many canaries, each by its own fair coin (Steinke, Nasr & Jagielski 2023).

The theorems ask that flipping one coin leads to a neighbour: a canary that is there or not, or, under replace-one, one
of two records in its place.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import betainc, expit, gammaln, xlog1py, xlogy

from dpcore import checks


@dataclass(frozen=True, slots=True, kw_only=True)
class Guesses:
    """What an attacker guessed about the coins of one run, from the mechanism's output alone.

    canaries  m, coins tossed
    guesses   r, coins that it guessed; it may abstain on the others
    correct   v, guesses that were right
    tried     ways of guessing from which this one was picked after the coins were shown; each is held to 1/tried
              of the error (Bonferroni)

    Raises InvalidValue.
    """

    canaries: int
    guesses: int
    correct: int
    tried: int = 1

    def __post_init__(self) -> None:
        checks.count(minimum=1, canaries=self.canaries, guesses=self.guesses, tried=self.tried)
        checks.count(correct=self.correct)
        if self.guesses > self.canaries:
            raise checks.InvalidValue("guesses", self.guesses, f"at most canaries={self.canaries}")
        if self.correct > self.guesses:
            raise checks.InvalidValue("correct", self.correct, f"at most guesses={self.guesses}")

    def __str__(self) -> str:
        return f"m/r/v {self.canaries}/{self.guesses}/{self.correct}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FromOneRun:
    """Evidence from the guesses about one run's canaries, however it is read."""

    observed: Guesses

    @property
    def counts(self) -> str:
        """The observation as it is printed."""
        return str(self.observed)

    @property
    def tried(self) -> int:
        """Ways of guessing that share the error."""
        return self.observed.tried


@dataclass(frozen=True, slots=True, kw_only=True)
class OneRun(FromOneRun):
    """The test of (epsilon, delta)-DP of Steinke, Nasr & Jagielski (2023), its theorem for approximate DP."""

    method: ClassVar[str] = "one-run"
    theorem: ClassVar[str] = "Steinke, Nasr & Jagielski (2023), approximate DP"

    def p_value(self, epsilon: float, delta: float) -> float:
        """The probability, at most, of so many right guesses under (epsilon, delta)-DP, times `tried`. At most 1.

        beta + 2 m delta alpha with q = exp(epsilon)/(1 + exp(epsilon)), beta = P[Bin(r, q) >= v] and
        alpha = max over i = 1..v of P[v > Bin(r, q) >= v - i] / i. Raises InvalidValue.
        """
        checks.non_negative(epsilon=epsilon)
        checks.probability_below_one(delta=delta)
        m, r, v = self.observed.canaries, self.observed.guesses, self.observed.correct
        if v == 0:
            return 1.0
        q = float(expit(epsilon))
        beta = float(betainc(v, r - v + 1, q))
        below = np.cumsum(_binomial(np.arange(v - 1, -1, -1), r, q, float(expit(-epsilon))))
        alpha = float(np.max(below / np.arange(1, v + 1)))
        return min(1.0, (beta + 2 * m * delta * alpha) * self.tried)

    def rejects_dp(self, epsilon: float, delta: float, level: float) -> bool:
        """Whether the mechanism cannot be (epsilon, delta)-DP, with error at most `level`. Raises InvalidValue."""
        checks.probability_open(level=level)
        return self.p_value(epsilon, delta) < level

    def epsilon_lower(self, delta: float, level: float) -> float:
        """The largest epsilon with p below `level` (found to 1e-10, from below); 0 if there is none.

        Any rejected epsilon is a valid bound: p dominates the concave envelope of i -> P[Bin >= v - i] at 2 m delta,
        which grows with epsilon, is itself a valid p-value, and so would be below `level` at the true epsilon too.
        """
        return largest(lambda epsilon: self.rejects_dp(epsilon, delta, level), 1e-10)


def largest(rejected: Callable[[float], bool], close: float) -> float:
    """The largest value of at least 0 that is rejected, found to `close` from below; 0 if there is none.

    Raises ArithmeticError where every value is rejected.
    """
    if not rejected(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while rejected(high):
        low, high = high, 2 * high
        if math.isinf(high):
            raise ArithmeticError("every hypothesis is rejected")
    while high - low > close:
        middle = (low + high) / 2
        low, high = (middle, high) if rejected(middle) else (low, middle)
    return low


def _binomial(k: np.ndarray, r: int, q: float, one_minus_q: float) -> np.ndarray:
    """P[Bin(r, q) = k]; the complement is passed in, since 1 - q has no digits left at large epsilon."""
    choose = gammaln(r + 1) - gammaln(k + 1) - gammaln(r - k + 1)
    failures = xlogy(r - k, one_minus_q) if q > 0.5 else xlog1py(r - k, -q)
    return np.exp(choose + xlogy(k, q) + failures)
