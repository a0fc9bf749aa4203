"""Evidence from many independent runs of a mechanism, with one target record in or out of each.

Every run is its own execution with its own noise. Several canaries inside one run are not independent of each
other, and this bound is invalid there: see `OneRun`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, betaincinv, expit, gammaln, ndtri, xlog1py, xlogy

from dpcore import checks, gdp
from dpcore.audit.attacks import decide, samples
from dpcore.gdp import TradeOff

# Evidence from one run with many canaries, each by its own fair coin (Steinke, Nasr & Jagielski 2023).
#
# The theorems ask that flipping one coin leads to a neighbour: a canary that is there or not, or, under replace-one,
# one of two records in its place.


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


# Evidence from one run, tested against a whole trade-off function (Mahloujifar, Melis & Chaudhuri 2025).

# How closely the largest rejected value is found.
_CLOSE = 1e-8


@dataclass(frozen=True, slots=True, kw_only=True)
class OneRunFDP(FromOneRun):
    """The test of f-DP of Mahloujifar, Melis & Chaudhuri (2025), "Auditing f-differential privacy in one run".

    It uses the whole trade-off function: against a Gaussian-shaped claim it finds more than `OneRun`, which sees
    one (epsilon, delta) of it. `rejects_dp` and `epsilon_lower` assume no shape; `mu_lower` says something about claims
    of Gaussian DP only.
    """

    method: ClassVar[str] = "one-run-f-dp"
    theorem: ClassVar[str] = "Mahloujifar, Melis & Chaudhuri (2025), bounded number of guesses"

    def rejects(self, hypothesis: TradeOff, level: float) -> bool:
        """Whether the mechanism cannot have trade-off function `hypothesis` (symmetric), with error at most `level`.

        Suppose v or more of the r guesses were right with probability `level`. Going down one right guess at a time,
        f-DP forces a least expected number of right and of wrong guesses (`right`, `wrong`, per canary); if the two
        together exceed r/m, the supposition was false, and seeing v has probability below `level`. Raises InvalidValue.
        """
        checks.probability_open(level=level)
        m, r, v = self.observed.canaries, self.observed.guesses, self.observed.correct
        probability = level / self.tried
        right, wrong, whole = probability * v / m, probability * (r - v) / m, r / m
        for i in range(v - 1, -1, -1):
            # A symmetric f has a -> 1 - f(a), whose inverse is x -> f(1 - x).
            more = max(wrong, hypothesis(1 - right))
            right += i / (r - i) * (more - wrong)
            wrong = more
            if right + wrong > whole:
                return True
        return False

    def rejects_dp(self, epsilon: float, delta: float, level: float) -> bool:
        """Whether the mechanism cannot be (epsilon, delta)-DP, with error at most `level`."""
        if epsilon > gdp.LARGEST_EPSILON:
            return False
        return self.rejects(gdp.dp_tradeoff(epsilon, delta), level)

    def epsilon_lower(self, delta: float, level: float) -> float:
        """The largest epsilon whose (epsilon, delta)-DP is rejected (found to 1e-8, from below); 0 if there is none."""
        return largest(lambda epsilon: self.rejects_dp(epsilon, delta, level), _CLOSE)

    def mu_lower(self, level: float) -> float:
        """The largest mu whose mu-GDP is rejected (found to 1e-8, from below); 0 if there is none."""
        return largest(lambda mu: self.rejects(gdp.gaussian_tradeoff(mu), level), _CLOSE)


# Exact one-sided confidence limits for a success probability (Clopper & Pearson 1934).


def rate_lower(successes: ArrayLike, trials: int, level: float) -> NDArray[np.float64]:
    """The largest p with P[Bin(trials, p) >= successes] <= level; 0 where nothing succeeded.

    successes  integers in [0, trials], any shape; the limit has the same shape
    level      error probability of this one limit, in (0, 1)
    """
    k = np.asarray(successes, dtype=np.int64)
    limit = betaincinv(np.maximum(k, 1), trials - np.maximum(k, 1) + 1, level)
    return np.where(k == 0, 0.0, limit)


def rate_upper(successes: ArrayLike, trials: int, level: float) -> NDArray[np.float64]:
    """The smallest p with P[Bin(trials, p) <= successes] <= level; 1 where everything succeeded."""
    return 1.0 - rate_lower(trials - np.asarray(successes, dtype=np.int64), trials, level)


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiRun:
    """How often an attack, fixed before these runs, said "in".

    true_positives   runs with the target in which it said "in", of `runs_in`
    false_positives  runs without the target in which it said "in", of `runs_out`
    tried            attacks or thresholds from which this one was picked after seeing these runs; each is held
                     to 1/tried of the error (Bonferroni)

    Source: Jagielski, Ullman & Oprea (2020); Nasr et al. (2021, 2023). Raises InvalidValue.
    """

    true_positives: int
    runs_in: int
    false_positives: int
    runs_out: int
    tried: int = 1

    method: ClassVar[str] = "multi-run"
    theorem: ClassVar[str] = "Clopper & Pearson (1934); Jagielski, Ullman & Oprea (2020)"

    def __post_init__(self) -> None:
        checks.count(minimum=1, runs_in=self.runs_in, runs_out=self.runs_out, tried=self.tried)
        checks.count(true_positives=self.true_positives, false_positives=self.false_positives)
        if self.true_positives > self.runs_in:
            raise checks.InvalidValue("true_positives", self.true_positives, f"at most runs_in={self.runs_in}")
        if self.false_positives > self.runs_out:
            raise checks.InvalidValue("false_positives", self.false_positives, f"at most runs_out={self.runs_out}")

    @property
    def counts(self) -> str:
        """The observation as it is printed."""
        return f"{self.true_positives}/{self.runs_in} in, {self.false_positives}/{self.runs_out} out"

    def rates(self, level: float) -> tuple[float, float]:
        """(lower limit of the true positive rate, upper limit of the false positive rate), jointly at 1 - level.

        Raises InvalidValue.
        """
        checks.probability_open(level=level)
        each = level / (2 * self.tried)
        return (
            float(rate_lower(self.true_positives, self.runs_in, each)),
            float(rate_upper(self.false_positives, self.runs_out, each)),
        )

    def epsilon_lower(self, delta: float, level: float) -> float:
        """With probability 1 - level, no mechanism that is (epsilon, delta)-DP has a smaller epsilon. At least 0.

        Both directions of the pair count: log((TPR - delta) / FPR) and log((1 - FPR - delta) / (1 - TPR)).
        Raises InvalidValue.
        """
        checks.probability_below_one(delta=delta)
        tpr, fpr = self.rates(level)
        return max(0.0, _log_ratio(tpr - delta, fpr), _log_ratio(1 - fpr - delta, 1 - tpr))

    def mu_lower(self, level: float) -> float:
        """The same for the mu of Gaussian DP: Phi^-1(1 - FPR) - Phi^-1(1 - TPR). Refutes claims of GDP only."""
        tpr, fpr = self.rates(level)
        if tpr == 0 or fpr == 1:
            return 0.0
        return max(0.0, float(-ndtri(fpr) + ndtri(tpr)))

    def rejects(self, hypothesis: TradeOff, level: float) -> bool:
        """Whether the mechanism cannot have trade-off function `hypothesis` (symmetric), with error at most `level`."""
        tpr, fpr = self.rates(level)
        return 1 - tpr < hypothesis(fpr)

    def rejects_dp(self, epsilon: float, delta: float, level: float) -> bool:
        """Whether the mechanism cannot be (epsilon, delta)-DP, with error at most `level`."""
        return self.epsilon_lower(delta, level) > epsilon


def _log_ratio(above: float, below: float) -> float:
    # An upper limit is never 0, nor is one minus a lower limit, so the ratio is finite.
    return math.log(above / below) if above > 0 else -math.inf


# From the scores of one run's canaries to guesses: "in" for the highest, "out" for the lowest, silence between.
#
# Scores come from the mechanism's output and the canaries alone. A score that was computed with knowledge of the
# coins makes the evidence worthless.


def toss(canaries: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """One fair coin per canary, shape [canaries]: True puts it into the data. The mechanism never sees the coins.

    Raises InvalidValue.
    """
    checks.count(minimum=1, canaries=canaries)
    return rng.random(canaries) < 0.5


def guess(scores: ArrayLike, included: ArrayLike, guesses_in: int, guesses_out: int) -> Guesses:
    """Say "in" for the `guesses_in` highest scores and "out" for the `guesses_out` lowest, and count the right ones.

    scores       [m], higher means more likely in; equal scores go by their position, which no coin knows
    included     [m], the coins
    guesses_in   k+, at least 0; with k- at least 1 and at most m. Fixed before the coins are shown.
    guesses_out  k-, at least 0
    """
    score_M, coin_M = samples("scores", scores), np.asarray(included)
    if coin_M.dtype != np.bool_ or coin_M.shape != score_M.shape:
        raise checks.InvalidValue("included", included, f"booleans of shape {score_M.shape}, one per score")
    checks.count(guesses_in=guesses_in, guesses_out=guesses_out)
    m, guesses = len(score_M), guesses_in + guesses_out
    if not 1 <= guesses <= m:
        raise checks.InvalidValue("guesses_in + guesses_out", guesses, f"from 1 to {m}, the number of canaries")
    order = np.argsort(score_M, kind="stable")
    right = np.count_nonzero(~coin_M[order[:guesses_out]]) + np.count_nonzero(coin_M[order[m - guesses_in :]])
    return Guesses(canaries=m, guesses=guesses, correct=int(right))


# From the scores of many runs to `MultiRun` evidence: a threshold from other runs, or several paid for.


def choose_threshold(scores_in: ArrayLike, scores_out: ArrayLike, delta: float, level: float) -> float:
    """The threshold at which these calibration runs would prove the most epsilon at `delta`.

    scores_in   [calibration runs with the target], higher means more likely in
    scores_out  [calibration runs without it]
    level       error probability that the audit itself will use

    Where none would prove anything, the one with the largest TPR - FPR. Use it on other runs only: on these it
    has already seen the answer.
    """
    candidates, (true, false), (tpr, fpr) = _candidates(scores_in, scores_out, level)
    with np.errstate(divide="ignore"):
        proved = np.log(np.maximum(np.maximum(tpr - delta, 0) / fpr, np.maximum(1 - fpr - delta, 0) / (1 - tpr)))
    advantage = true / np.size(scores_in) - false / np.size(scores_out)
    best = max(range(len(candidates)), key=lambda i: (max(0.0, proved[i]), advantage[i]))
    return float(candidates[best])


def choose_threshold_against(
    scores_in: ArrayLike, scores_out: ArrayLike, hypothesis: TradeOff, delta: float, level: float
) -> float:
    """The threshold at which these calibration runs refute the trade-off function `hypothesis` by the widest margin.

    A Gaussian-shaped hypothesis is refuted where many runs fall on both sides, long before any (epsilon, delta) of it
    is. Where no threshold refutes it, that of `choose_threshold`. Use it on other runs only.
    """
    candidates, _, (tpr, fpr) = _candidates(scores_in, scores_out, level)
    margins = np.array([hypothesis(float(b)) - (1 - float(a)) for a, b in zip(tpr, fpr, strict=True)])
    best = int(np.argmax(margins))
    return float(candidates[best]) if margins[best] > 0 else choose_threshold(scores_in, scores_out, delta, level)


def count_at(scores_in: ArrayLike, scores_out: ArrayLike, threshold: float) -> MultiRun:
    """ "In" is said where the score is at least `threshold`, which was fixed before these runs."""
    said = decide(samples("scores_in", scores_in), samples("scores_out", scores_out), threshold)
    return MultiRun(
        true_positives=said.true_positives,
        runs_in=said.members,
        false_positives=said.false_positives,
        runs_out=said.non_members,
    )


_Pair = tuple[NDArray[Any], NDArray[Any]]


def _candidates(scores_in: ArrayLike, scores_out: ArrayLike, level: float) -> tuple[NDArray[np.float64], _Pair, _Pair]:
    """Thresholds; how many runs with and without the target reach each; and limits of the two rates at `level`."""
    in_, out = samples("scores_in", scores_in), samples("scores_out", scores_out)
    found = np.unique(np.concatenate([in_, out]))
    # Between two scores rather than on one: the next runs' scores fall on both sides of it.
    thresholds = np.append(found[0], found[:-1] / 2 + found[1:] / 2)
    true, false = (len(one) - np.searchsorted(np.sort(one), thresholds, side="left") for one in (in_, out))
    tpr = rate_lower(true, len(in_), level / 2)
    return thresholds, (true, false), (tpr, rate_upper(false, len(out), level / 2))
