"""A Gaussian process of results, and how good a new point could well be.

Kernel    Matern 5/2 with a length for each coordinate (Rasmussen & Williams 2006, section 5.1) plus noise, on
          scikit-learn. Its parameters are those of largest posterior: few trials alone would fit any of them.
Results   shares (accuracies, error rates) by their log odds: near its end a share moves by little where as much is
          gained, and ranks say less of how far two good trials are apart. All others by normal scores of their ranks,
          as Salinas, Shen & Perrone (2020), "A quantile-based approach for hyperparameter transfer learning", do: how
          bad the failures are says nothing about where the best is.
Choice    the upper end of what is expected (Srinivas, Krause, Kakade & Seeger 2010, "GP-UCB"). On recorded surfaces it
          found better trials than expected improvement, which stayed at the first ridge that was good.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import rankdata
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

Numbers = NDArray[np.float64]

LENGTH, LENGTH_SPREAD = 1.0, 1.0
"""Median of a length before any trial, in units of a coordinate's spread, and the deviation of its logarithm."""
NOISE, NOISE_SPREAD = 0.03, 1.5
"""Likewise of the noise variance, of results with variance 1."""
SCALE_SPREAD = 1.0
"""Deviation of the logarithm of the kernel's own variance, about 1."""
OPTIMISM = 3.0
"""Deviations above the expected result by which candidates are compared."""
BOUND = 4.0
"""Deviations at which parameters end."""


def normal_scores(values: Numbers) -> Numbers:
    """The values' ranks, shared by equal ones, as quantiles of the normal law."""
    return np.asarray(ndtri((rankdata(values) - 0.5) / len(values)))


def log_odds(shares: Numbers) -> Numbers:
    """Of shares, standardised. One at an end, or beyond it by noise, counts as half as far from it as the nearest of
    the others: nobody knows how near it is."""
    inside = shares[(shares > 0) & (shares < 1)]
    low, high = (inside.min() / 2, (1 - inside.max()) / 2) if len(inside) else (0.25, 0.25)
    kept = np.clip(shares, low, 1 - high)
    odds = np.log(kept) - np.log1p(-kept)
    spread = float(odds.std())
    return np.asarray((odds - odds.mean()) / (spread if spread > 0 else 1.0))


class _LargestPosterior(GaussianProcessRegressor):  # type: ignore[misc]
    """scikit-learn's process, whose likelihood is weighed by a lognormal prior of the kernel's parameters."""

    def log_marginal_likelihood(self, theta: Any = None, eval_gradient: bool = False, clone_kernel: bool = True) -> Any:
        """Of the data, plus the logarithm of the prior at `theta` where one is given."""
        found = super().log_marginal_likelihood(theta, eval_gradient, clone_kernel)
        if theta is None:
            return found
        middle, spread = _prior(len(theta) - 2)
        off = (np.asarray(theta) - middle) / spread
        prior = -0.5 * float(off @ off)
        return (found[0] + prior, found[1] - off / spread) if eval_gradient else found + prior


def _prior(dimensions: int) -> tuple[Numbers, Numbers]:
    """Medians and deviations of the logarithms: of the variance, each length, the noise."""
    middle = np.array([0.0, *[np.log(LENGTH)] * dimensions, np.log(NOISE)])
    return middle, np.array([SCALE_SPREAD, *[LENGTH_SPREAD] * dimensions, NOISE_SPREAD])


class Process:
    """A process that has seen results `values` (n,), larger is better, at `points` (n, d).

    pending  (m, d) points whose results are not known yet: they count as what is expected of them ("kriging believer",
             Ginsbourger, Le Riche & Carraro 2010), so that the next point goes elsewhere
    """

    def __init__(self, points: Numbers, values: Numbers, pending: Numbers | None = None) -> None:
        middle, spread = _prior(points.shape[1])
        low, high = np.exp(middle - BOUND * spread), np.exp(middle + BOUND * spread)
        start = np.exp(middle)
        kernel = ConstantKernel(start[0], (low[0], high[0])) * Matern(
            start[1:-1], np.stack([low[1:-1], high[1:-1]], axis=1), nu=2.5
        ) + WhiteKernel(start[-1], (low[-1], high[-1]))
        self._model = _LargestPosterior(kernel, alpha=1e-8)
        with warnings.catch_warnings():
            # A parameter at its bound is as good as any other one.
            warnings.simplefilter("ignore", ConvergenceWarning)
            self._model.fit(points, values)
        self._noise = float(np.exp(self._model.kernel_.theta[-1]))
        if pending is not None and len(pending):
            believed, _ = self.predict(pending)
            again = _LargestPosterior(self._model.kernel_, alpha=1e-8, optimizer=None)
            self._model = again.fit(np.vstack([points, pending]), np.concatenate([values, believed]))

    def predict(self, points: Numbers) -> tuple[Numbers, Numbers]:
        """Expected result at each point, and its deviation without the noise of a single trial."""
        mean, deviation = self._model.predict(points, return_std=True)
        return mean, np.sqrt(np.maximum(deviation**2 - self._noise, 1e-10))

    def upper(self, points: Numbers) -> Numbers:
        """What each point could well be worth: `OPTIMISM` deviations above what is expected."""
        mean, deviation = self.predict(points)
        return np.asarray(mean + OPTIMISM * deviation)
