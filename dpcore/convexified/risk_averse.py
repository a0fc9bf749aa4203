"""The risk-averse ("convexified") objective J(W) = (1/alpha) ln mean exp(alpha l_i(W)) + 2 lambda ||W||^2.

Convex when every l_i is; a finite alpha does not make a network's loss convex. alpha towards 0 gives the mean loss,
alpha towards infinity the largest. The log of a mini-batch's mean is a biased estimate of the log of the mean.

Source  Lu et al. (2021), equations 22-23.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_softmax, logsumexp, softmax

from dpcore import checks

Array = NDArray[np.float64]


def risk_averse_loss(losses: ArrayLike, alpha: float) -> float:
    """(1/alpha) ln mean exp(alpha l), losses of shape (n,), alpha above 0. Between their mean and their maximum.

    Raises InvalidValue.
    """
    checks.positive_finite(alpha=alpha)
    values = np.asarray(losses, dtype=np.float64)
    return (float(logsumexp(alpha * values)) - math.log(values.size)) / alpha


def record_weights(losses: ArrayLike, alpha: float) -> Array:
    """softmax(alpha l): each record's weight in the gradient, summing to 1; a badly fitted record may have it all.

    Raises InvalidValue.
    """
    checks.positive_finite(alpha=alpha)
    weights: Array = softmax(alpha * np.asarray(losses, dtype=np.float64))
    return weights


def modulus(regulariser: float) -> float:
    """Strong convexity of 2 lambda ||W||^2: 4 lambda. The publication says lambda, which errs on the safe side.

    Raises InvalidValue.
    """
    checks.positive_finite(regulariser=regulariser)
    return 4 * regulariser


def linear_objective(
    weights: Array, features: Array, labels: NDArray[np.intp], alpha: float, regulariser: float
) -> tuple[float, Array]:
    """Value and gradient of J for softmax regression with cross-entropy.

    weights   shape (d, classes)
    features  shape (n, d)
    labels    shape (n,), integers in [0, classes)
    """
    logs = log_softmax(features @ weights, axis=1)
    rows = np.arange(len(labels))
    losses = -logs[rows, labels]
    residuals = np.exp(logs)
    residuals[rows, labels] -= 1
    gradient = features.T @ (residuals * record_weights(losses, alpha)[:, None]) + 4 * regulariser * weights
    value = risk_averse_loss(losses, alpha) + 2 * regulariser * float(np.sum(weights**2))
    return value, gradient
