"""Scores with errors, shrunk towards the mean of their like, so that the luckiest of many is not announced as it looks.

The score of the best of many noisy trials overstates what that trial is worth (the winner's curse). Each score y_i has
a known standard error s_i, and the true scores of trials that are alike are taken to spread normally around one mean:

    y_i ~ N(theta_i, s_i^2)      theta_i ~ N(m, t^2)
    shrunk_i = B_i m + (1 - B_i) y_i,      B_i = s_i^2 / (s_i^2 + t^2)

m is the mean weighted by 1 / (s_i^2 + t^2), and t^2 solves sum_i (y_i - m)^2 / (s_i^2 + t^2) = n - 1, or is 0 where the
scores spread less than their errors alone would. The error of a shrunk score is sqrt((1 - B_i) s_i^2 + B_i^2 var(m)).

Source  Efron & Morris (1975), JASA 70, section 1 (the rule, with known unequal errors); Paule & Mandel (1982), J. Res.
        NBS 87 (t^2); Morris (1983), JASA 78, equation 1.17 (the error of m). `python -m tests.benchmarks.chosen` shows
        what it gains. What is computed from released scores is post-processing: it costs no privacy.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

Floats = NDArray[np.float64]

FEWEST = 4
"""Scores that are alike, below which their spread is not known: they are then compared with those of the sweep."""

APART = 1.96
"""Two scores are told apart where they differ by more standard errors of their difference: 5% of equal pairs are."""


def shrink(scores: Floats, errors: Floats) -> tuple[Floats, Floats]:
    """Shrunk scores and their standard errors [n] of trials that are alike; n >= 1, errors >= 0.

    Scores without an error (0) stay as they are. Fewer than `FEWEST` are returned as they came.
    """
    if len(scores) < FEWEST or not errors.any():
        return scores, errors
    spread = _spread(scores, errors)
    variances = errors**2 + spread
    if not variances.all():
        return scores, errors
    weights = 1 / variances
    mean = float(weights @ scores / weights.sum())
    pulled = errors**2 / variances
    shrunk = pulled * mean + (1 - pulled) * scores
    return shrunk, np.sqrt((1 - pulled) * errors**2 + pulled**2 / weights.sum())


def _spread(scores: Floats, errors: Floats) -> float:
    """t^2 of Paule & Mandel."""

    def surplus(spread: float) -> float:
        weights = 1 / (errors**2 + spread)
        mean = weights @ scores / weights.sum()
        return float(weights @ (scores - mean) ** 2) - (len(scores) - 1)

    # Where some errors are 0 the sum has no value at 0: the smallest spread that matters stands for it.
    least = 1e-9 * float(np.max(errors)) ** 2
    if surplus(least) <= 0:
        return 0.0 if errors.all() else least
    # There the sum is at most n / 4.
    most = 4 * float(np.ptp(scores)) ** 2 + least
    return float(brentq(surplus, least, most))


def shrink_alike(
    scores: Sequence[float] | Floats, errors: Sequence[float] | Floats, alike: Sequence[Hashable]
) -> tuple[Floats, Floats]:
    """`shrink` within each group of `alike` that has `FEWEST` scores; all others together, if they are as many.

    scores  [n]; those that are infinite stay as they are
    errors  [n], 0 where none is known
    alike   [n], equal for trials that are compared with each other: a budget and the family of a system
    """
    shrunk, left = np.array(scores, dtype=np.float64), np.array(errors, dtype=np.float64)
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for row, group in enumerate(alike):
        if math.isfinite(shrunk[row]) and math.isfinite(left[row]):
            groups[group].append(row)
    large = [rows for rows in groups.values() if len(rows) >= FEWEST]
    small = [row for rows in groups.values() if len(rows) < FEWEST for row in rows]
    for rows in [*large, small]:
        if rows:
            shrunk[rows], left[rows] = shrink(shrunk[rows], left[rows])
    return shrunk, left
