"""From the scores of one run's canaries to guesses: "in" for the highest, "out" for the lowest, silence between.

Scores come from the mechanism's output and the canaries alone. A score that was computed with knowledge of the
coins makes the evidence worthless.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpcore import checks
from dpcore.attacks.roc import samples
from dpcore.audit.one_run import Guesses


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
    return _count(score_M, coin_M, guesses_in, guesses_out, tried=1)


def guess_best(
    scores: ArrayLike,
    included: ArrayLike,
    grid: Sequence[tuple[int, int]],
    quality: Callable[[Guesses], float],
) -> Guesses:
    """The pair (k+, k-) of `grid` with the highest `quality`, charged for all of them (Bonferroni over the grid).

    quality  for instance `lambda g: OneRun(observed=g).epsilon_lower(delta, level)`; it may look at the coins, since
             the error is divided by the length of the grid. The first of equals is taken.

    Raises InvalidValue.
    """
    if not grid:
        raise checks.InvalidValue("grid", grid, "at least one pair (guesses_in, guesses_out)")
    score_M, coin_M = _checked(scores, included)
    return max((_count(score_M, coin_M, up, down, tried=len(grid)) for up, down in grid), key=quality)


def _checked(scores: ArrayLike, included: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    score_M, coin_M = samples("scores", scores), np.asarray(included)
    if coin_M.dtype != np.bool_ or coin_M.shape != score_M.shape:
        raise checks.InvalidValue("included", included, f"booleans of shape {score_M.shape}, one per score")
    return score_M, coin_M


def _count(score_M: NDArray, coin_M: NDArray, guesses_in: int, guesses_out: int, tried: int) -> Guesses:
    checks.count(guesses_in=guesses_in, guesses_out=guesses_out)
    m, guesses = len(score_M), guesses_in + guesses_out
    if not 1 <= guesses <= m:
        raise checks.InvalidValue("guesses_in + guesses_out", guesses, f"from 1 to {m}, the number of canaries")
    order = np.argsort(score_M, kind="stable")
    right = np.count_nonzero(~coin_M[order[:guesses_out]]) + np.count_nonzero(coin_M[order[m - guesses_in :]])
    return Guesses(canaries=m, guesses=guesses, correct=int(right), tried=tried)
