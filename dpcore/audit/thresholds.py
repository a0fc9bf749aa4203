"""From the scores of many runs to `MultiRun` evidence: a threshold from other runs, or several paid for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpcore import checks
from dpcore.audit import clopper_pearson
from dpcore.audit.multi_run import MultiRun
from dpcore.tradeoff import TradeOff


def choose_threshold(scores_in: ArrayLike, scores_out: ArrayLike, delta: float, level: float) -> float:
    """The threshold at which these calibration runs would prove the most epsilon at `delta`.

    scores_in   [calibration runs with the target], higher means more likely in
    scores_out  [calibration runs without it]
    level       error probability that the audit itself will use

    Where none would prove anything, the one with the largest TPR - FPR. Use it on other runs only: on these it
    has already seen the answer.
    """
    in_, out = _scores("scores_in", scores_in), _scores("scores_out", scores_out)
    candidates = _candidates(in_, out)
    true, false = _said_in(in_, candidates), _said_in(out, candidates)
    tpr = clopper_pearson.lower(true, len(in_), level / 2)
    fpr = clopper_pearson.upper(false, len(out), level / 2)
    with np.errstate(divide="ignore"):
        proved = np.log(np.maximum(np.maximum(tpr - delta, 0) / fpr, np.maximum(1 - fpr - delta, 0) / (1 - tpr)))
    advantage = true / len(in_) - false / len(out)
    best = max(range(len(candidates)), key=lambda i: (max(0.0, proved[i]), advantage[i]))
    return float(candidates[best])


def choose_threshold_against(
    scores_in: ArrayLike, scores_out: ArrayLike, hypothesis: TradeOff, delta: float, level: float
) -> float:
    """The threshold at which these calibration runs refute the trade-off function `hypothesis` by the widest margin.

    A Gaussian-shaped hypothesis is refuted where many runs fall on both sides, long before any (epsilon, delta) of it
    is. Where no threshold refutes it, that of `choose_threshold`. Use it on other runs only.
    """
    in_, out = _scores("scores_in", scores_in), _scores("scores_out", scores_out)
    candidates = _candidates(in_, out)
    tpr = clopper_pearson.lower(_said_in(in_, candidates), len(in_), level / 2)
    fpr = clopper_pearson.upper(_said_in(out, candidates), len(out), level / 2)
    margins = np.array([hypothesis(float(b)) - (1 - float(a)) for a, b in zip(tpr, fpr, strict=True)])
    best = int(np.argmax(margins))
    return float(candidates[best]) if margins[best] > 0 else choose_threshold(in_, out, delta, level)


def count_at(scores_in: ArrayLike, scores_out: ArrayLike, threshold: float) -> MultiRun:
    """ "In" is said where the score is at least `threshold`, which was fixed before these runs."""
    in_, out = _scores("scores_in", scores_in), _scores("scores_out", scores_out)
    return _count(in_, out, threshold, tried=1)


def count_best(
    scores_in: ArrayLike, scores_out: ArrayLike, thresholds: Sequence[float], delta: float, level: float
) -> MultiRun:
    """The most telling of several thresholds, listed before these runs, charged for all of them (Bonferroni)."""
    if not len(thresholds):
        raise checks.InvalidValue("thresholds", thresholds, "at least one number")
    in_, out = _scores("scores_in", scores_in), _scores("scores_out", scores_out)
    every = [_count(in_, out, one, tried=len(thresholds)) for one in thresholds]
    return max(every, key=lambda one: one.epsilon_lower(delta, level))


def _candidates(in_: NDArray[np.float64], out: NDArray[np.float64]) -> NDArray[np.float64]:
    found = np.unique(np.concatenate([in_, out]))
    # Between two scores rather than on one: the next runs' scores fall on both sides of it.
    return np.append(found[0], found[:-1] / 2 + found[1:] / 2)


def _scores(name: str, scores: ArrayLike) -> NDArray[np.float64]:
    found = np.asarray(scores, dtype=np.float64)
    if found.ndim != 1 or not found.size or np.isnan(found).any():
        raise checks.InvalidValue(name, scores, "numbers (no NaN) of shape [runs]")
    return found


def _said_in(scores: NDArray[np.float64], thresholds: NDArray[np.float64]) -> NDArray[np.int64]:
    return len(scores) - np.searchsorted(np.sort(scores), thresholds, side="left")


def _count(in_: NDArray, out: NDArray, threshold: float, tried: int) -> MultiRun:
    if np.isnan(threshold):
        raise checks.InvalidValue("threshold", threshold, "a number")
    return MultiRun(
        true_positives=int(np.count_nonzero(in_ >= threshold)),
        runs_in=len(in_),
        false_positives=int(np.count_nonzero(out >= threshold)),
        runs_out=len(out),
        tried=tried,
    )
