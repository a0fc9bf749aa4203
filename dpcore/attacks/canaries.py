"""The score of a canary in gradient space: what the strongest attacker reads from noisy sums of clipped gradients.

Shapes: M canaries, T steps. Responses are inner products of a step's noisy sum with each canary's direction, in units
of the clipping norm: 1 plus noise in a step whose batch held the canary, noise alone without it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpcore import checks


def sampled_log_likelihood_ratio(responses: ArrayLike, noise_multiplier: float, rate: float) -> NDArray[np.float64]:
    """Sum over steps of log(1 - q + q exp((2 x - 1) / (2 z^2))), from responses x of shape [T, M]; shape [M].

    The most powerful score of a canary under Poisson sampling at rate q with noise multiplier z (Neyman & Pearson
    1933, for the pair that dominates the sampled Gaussian: Zhu, Dong & Wang 2022). Raises InvalidValue.
    """
    checks.positive_finite(noise_multiplier=noise_multiplier)
    checks.rate(rate=rate)
    exponent = (2 * _steps(responses) - 1) / (2 * noise_multiplier**2)
    present = np.log(rate) + exponent
    absent = np.log1p(-rate) if rate < 1 else -np.inf
    return np.logaddexp(absent, present).sum(0)


def _steps(responses: ArrayLike) -> NDArray[np.float64]:
    found = np.asarray(responses, dtype=np.float64)
    if found.ndim != 2 or not found.size:
        raise checks.InvalidValue("responses", np.shape(responses), "shape [steps, canaries]")
    return found
