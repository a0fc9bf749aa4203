"""From the scores of many runs to `MultiRun` evidence: a threshold from other runs, or several paid for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpcore import checks
from dpcore.attacks.decisions import decide
from dpcore.attacks.roc import samples
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
    return _count(scores_in, scores_out, threshold, tried=1)


def count_best(
    scores_in: ArrayLike, scores_out: ArrayLike, thresholds: Sequence[float], delta: float, level: float
) -> MultiRun:
    """The most telling of several thresholds, listed before these runs, charged for all of them (Bonferroni).

    Raises InvalidValue.
    """
    if not len(thresholds):
        raise checks.InvalidValue("thresholds", thresholds, "at least one number")
    every = [_count(scores_in, scores_out, one, tried=len(thresholds)) for one in thresholds]
    return max(every, key=lambda one: one.epsilon_lower(delta, level))


_Pair = tuple[NDArray[Any], NDArray[Any]]


def _candidates(scores_in: ArrayLike, scores_out: ArrayLike, level: float) -> tuple[NDArray[np.float64], _Pair, _Pair]:
    """Thresholds; how many runs with and without the target reach each; and limits of the two rates at `level`."""
    in_, out = samples("scores_in", scores_in), samples("scores_out", scores_out)
    found = np.unique(np.concatenate([in_, out]))
    # Between two scores rather than on one: the next runs' scores fall on both sides of it.
    thresholds = np.append(found[0], found[:-1] / 2 + found[1:] / 2)
    true, false = (len(one) - np.searchsorted(np.sort(one), thresholds, side="left") for one in (in_, out))
    tpr = clopper_pearson.lower(true, len(in_), level / 2)
    return thresholds, (true, false), (tpr, clopper_pearson.upper(false, len(out), level / 2))


def _count(scores_in: ArrayLike, scores_out: ArrayLike, threshold: float, tried: int) -> MultiRun:
    said = decide(samples("scores_in", scores_in), samples("scores_out", scores_out), threshold)
    return MultiRun(
        true_positives=said.true_positives,
        runs_in=said.members,
        false_positives=said.false_positives,
        runs_out=said.non_members,
        tried=tried,
    )
