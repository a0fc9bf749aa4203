"""Privacy cost of one subsampled Gaussian step against one record whose contribution is known.

A step releases a sum of contributions plus N(0, sigma^2 I). A record takes part with probability `rate` and then moves
the sum by a vector of length u. Its cost at order lambda is lambda * D_{lambda+1}, in nats.

Source  Triastcyn & Faltings (2020), Theorem 3. Its `c_R` bounds the reverse direction by convexity, linear in the rate,
        and is far too large; the true reverse divergence of equal-variance Gaussians never exceeds that of `c_L`
        (Mironov, Talwar & Zhang 2019, Corollary 7), so every claim uses `c_L` and `c_R` is here to be compared.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, logsumexp, xlog1py

from dpcore import checks

Array = NDArray[np.float64]

# exp overflows past this; 1 beside exp(40) is far below rounding.
_LARGE = 40.0


def left_cost(distances: ArrayLike, rate: float, sigma: float, order: int) -> Array:
    """lambda * D_{lambda+1} for each distance: ln E_{k ~ Bin(lambda+1, rate)} exp((k^2 - k) u^2 / (2 sigma^2)).

    distances  u, one per record, same unit as sigma, each finite and at least 0; shape (m,)
    rate       probability that the record takes part, in (0, 1]
    sigma      standard deviation of the noise, above 0
    order      lambda, an integer of at least 1
    Returns shape (m,), in nats. With u replaced by the clipping norm this is the moments accountant of Abadi et al.
    (2016). Raises InvalidValue.
    """
    ratios = _squared_ratios(distances, rate, sigma, order)
    k = np.arange(2, order + 2, dtype=np.float64)
    # The terms k = 0 and 1 sum, with the rest of the weights, to 1: adding excesses over 1 keeps the digits.
    excess = _log_binomial(order + 1, k, rate)[None, :] + _log_expm1(np.outer(ratios, k * (k - 1) / 2))
    total = logsumexp(excess, axis=1)
    out: Array = np.where(total < _LARGE, np.log1p(np.exp(np.minimum(total, _LARGE))), total)
    return out


def right_cost(distances: ArrayLike, rate: float, sigma: float, order: int) -> Array:
    """The convexity bound of Theorem 3 on the reverse direction: ln E_{k ~ Bin(lambda, rate)} exp((k^2 + k) u^2/2s^2).

    Arguments and result as in `left_cost`. Never used in a claim.
    """
    ratios = _squared_ratios(distances, rate, sigma, order)
    k = np.arange(0, order + 1, dtype=np.float64)
    terms = _log_binomial(order, k, rate)[None, :] + np.outer(ratios, k * (k + 1) / 2)
    out: Array = logsumexp(terms, axis=1)
    return out


def _squared_ratios(distances: ArrayLike, rate: float, sigma: float, order: int) -> Array:
    checks.rate(rate=rate)
    checks.positive_finite(sigma=sigma)
    checks.count(1, order=order)
    u = np.asarray(distances, dtype=np.float64)
    if u.ndim != 1 or u.size == 0 or not np.all(np.isfinite(u)) or np.any(u < 0):
        raise checks.InvalidValue("distances", distances, "a non-empty vector of finite numbers of at least 0")
    ratios: Array = (u / sigma) ** 2
    return ratios


def _log_binomial(n: int, k: Array, rate: float) -> Array:
    choose = gammaln(n + 1.0) - gammaln(k + 1) - gammaln(n - k + 1)
    out: Array = choose + k * np.log(rate) + xlog1py(n - k, -rate)
    return out


def _log_expm1(z: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.where(z < _LARGE, np.log(np.expm1(np.minimum(z, _LARGE))), z)
