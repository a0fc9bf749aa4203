"""The noise that DP-SGD takes under four ways of counting: the baselines of Lu et al. (2021), after Jayaraman & Evans.

    rdp       Poisson-sampled Gaussians in Renyi divergence (Mironov 2017): the one that counts the sampling
    zcdp      rho = T / (2 s^2), eps = rho + 2 sqrt(rho ln(1/delta)) (Bun & Steinke 2016)
    advanced  T steps at the epsilon of advanced composition (Dwork, Rothblum & Vadhan 2010), classical Gaussian noise
    naive     T steps at (eps/T, delta/T), classical Gaussian noise (Dwork et al. 2006)

Each is a noise multiplier that satisfies the target; all but the first by far too much. What a run with it spends is
counted by the usual accountant.
"""

from __future__ import annotations

import math
from enum import StrEnum

from dpcore import calibrate, checks
from dpcore.gdp_dual import sigma_gaussian
from dpcore.mechanisms.prediction_sensitivity import advanced_epsilon


class Counting(StrEnum):
    """How the baselines count their steps."""

    RDP = "rdp"
    ZCDP = "zcdp"
    ADVANCED = "advanced"
    NAIVE = "naive"


def baseline_noise(counting: Counting, epsilon: float, delta: float, steps: int, rate: float) -> float:
    """Noise standard deviation over clip norm for `steps` steps on Poisson batches of `rate`, add-remove.

    Raises CannotCalibrate (rdp) when no noise meets the target, and InvalidValue.
    """
    checks.positive_finite(epsilon=epsilon)
    checks.probability_open(delta=delta)
    checks.count(minimum=1, steps=steps)
    checks.rate(rate=rate)
    match counting:
        case Counting.RDP:
            target = calibrate.Target(epsilon=epsilon, delta=delta, accountant="rdp")
            return calibrate.noise_multiplier(target, rate=rate, steps=steps)
        case Counting.ZCDP:
            tail = math.log(1 / delta)
            rho = (epsilon / (math.sqrt(tail + epsilon) + math.sqrt(tail))) ** 2
            return math.sqrt(steps / (2 * rho))
        case Counting.ADVANCED:
            # Half of delta for the slack, half for the steps.
            return _classical(advanced_epsilon(epsilon, delta / 2, steps), delta / 2 / steps)
        case Counting.NAIVE:
            return _classical(epsilon / steps, delta / steps)


def _classical(epsilon: float, delta: float) -> float:
    """sqrt(2 ln(1.25/delta)) / epsilon, which is enough up to epsilon 1 only; above it the exact noise where larger."""
    return max(math.sqrt(2 * math.log(1.25 / delta)) / epsilon, sigma_gaussian(epsilon, delta))
