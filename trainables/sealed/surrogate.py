"""How good configurations could well be, by the results of others: a Gaussian process whose parameters are fixed.

Kernel   Matern 5/2 of unit variance plus noise (Rasmussen & Williams 2006, section 5.1): a fit of its parameters would
         be a guess by the few results that one worker has
Results  by normal scores of their ranks (Salinas, Shen & Perrone 2020): how bad the failures are says nothing of where
         the best is
Choice   the upper end of what is expected (Srinivas, Krause, Kakade & Seeger 2010)

The same arguments give the same bits on machines that compute alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

LENGTH = 0.5
"""Of the kernel, in units of a coordinate's whole range."""
NOISE = 0.1
"""Variance of one result about what is expected of it, of results with variance 1."""
OPTIMISM = 1.0
"""Deviations above what is expected; however few, the prior goes on being tried."""


def normal_scores(values: Sequence[float | None]) -> Numbers:
    """The ranks of values, the larger the better, shared by equal ones, as quantiles of the normal law.

    None, of what failed, is worse than every number. (n,) from n values.
    """
    known = np.array([-np.inf if one is None else one for one in values], dtype=np.float64)
    below = (known[None, :] < known[:, None]).sum(axis=1)
    equal = (known[None, :] == known[:, None]).sum(axis=1)
    law = NormalDist()
    return np.array([law.inv_cdf(float(one)) for one in (below + equal / 2) / len(known)])


def upper_ends(seen: Numbers, values: Sequence[float | None], points: Numbers) -> Numbers:
    """What each of `points` (g, d) could well be worth after results `values` at `seen` (n, d); n >= 1.

    In deviations of the results, (g,).
    """
    kernel = _matern(seen, seen) + NOISE * np.eye(len(seen))
    root = np.linalg.cholesky(kernel)
    across = np.linalg.solve(root, _matern(seen, points))
    mean = across.T @ np.linalg.solve(root, normal_scores(values))
    variance = np.maximum(1 - (across**2).sum(axis=0), 0.0)
    return np.asarray(mean + OPTIMISM * np.sqrt(variance))


def _matern(one: Numbers, other: Numbers) -> Numbers:
    distance = np.sqrt(5 * ((one[:, None, :] - other[None, :, :]) ** 2).sum(axis=2)) / LENGTH
    return np.asarray((1 + distance + distance**2 / 3) * np.exp(-distance))
