"""From the scores of one run's canaries to guesses: "in" for the highest, "out" for the lowest, silence between.

Scores come from the mechanism's output and the canaries alone. A score that was computed with knowledge of the
coins makes the evidence worthless.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpcore import checks
from dpcore.audit import evidence
from dpcore.audit.attacks import decide, samples
from dpcore.audit.evidence import Guesses, MultiRun
from dpcore.gdp import TradeOff


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
    score_M, coin_M = _checked(scores, included)
    return _count_guesses(score_M, coin_M, guesses_in, guesses_out, tried=1)


def _checked(scores: ArrayLike, included: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    score_M, coin_M = samples("scores", scores), np.asarray(included)
    if coin_M.dtype != np.bool_ or coin_M.shape != score_M.shape:
        raise checks.InvalidValue("included", included, f"booleans of shape {score_M.shape}, one per score")
    return score_M, coin_M


def _count_guesses(score_M: NDArray, coin_M: NDArray, guesses_in: int, guesses_out: int, tried: int) -> Guesses:
    checks.count(guesses_in=guesses_in, guesses_out=guesses_out)
    m, guesses = len(score_M), guesses_in + guesses_out
    if not 1 <= guesses <= m:
        raise checks.InvalidValue("guesses_in + guesses_out", guesses, f"from 1 to {m}, the number of canaries")
    order = np.argsort(score_M, kind="stable")
    right = np.count_nonzero(~coin_M[order[:guesses_out]]) + np.count_nonzero(coin_M[order[m - guesses_in :]])
    return Guesses(canaries=m, guesses=guesses, correct=int(right), tried=tried)


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
    return _count_runs(scores_in, scores_out, threshold, tried=1)


_Pair = tuple[NDArray[Any], NDArray[Any]]


def _candidates(scores_in: ArrayLike, scores_out: ArrayLike, level: float) -> tuple[NDArray[np.float64], _Pair, _Pair]:
    """Thresholds; how many runs with and without the target reach each; and limits of the two rates at `level`."""
    in_, out = samples("scores_in", scores_in), samples("scores_out", scores_out)
    found = np.unique(np.concatenate([in_, out]))
    # Between two scores rather than on one: the next runs' scores fall on both sides of it.
    thresholds = np.append(found[0], found[:-1] / 2 + found[1:] / 2)
    true, false = (len(one) - np.searchsorted(np.sort(one), thresholds, side="left") for one in (in_, out))
    tpr = evidence.rate_lower(true, len(in_), level / 2)
    return thresholds, (true, false), (tpr, evidence.rate_upper(false, len(out), level / 2))


def _count_runs(scores_in: ArrayLike, scores_out: ArrayLike, threshold: float, tried: int) -> MultiRun:
    said = decide(samples("scores_in", scores_in), samples("scores_out", scores_out), threshold)
    return MultiRun(
        true_positives=said.true_positives,
        runs_in=said.members,
        false_positives=said.false_positives,
        runs_out=said.non_members,
        tried=tried,
    )
