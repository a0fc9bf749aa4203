"""Prediction sensitivity: fresh noise on the logits theta^T x of each of B queries, ||x|| <= 1.

Each answer has the L2 sensitivity of theta; what differs is how B of them are composed.

Source  van der Maaten & Hannun (2020), Theorems 5 (pure, standard) and 6 (Gaussian, standard and advanced).
        Exact Gaussian composition, which the paper stops short of: Dong, Roth & Su (2022), Corollary 2.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from scipy.optimize import minimize_scalar

from dpcore import checks
from dpcore.accountants.composition import PURE_ACCOUNTANT, PURE_THEOREM, each_pure
from dpcore.gdp import sigma_gaussian
from dpcore.mechanisms.calibrated import Calibrated, of_minimiser
from dpcore.mechanisms.minimiser import MinimiserSensitivity
from dpcore.mechanisms.noise_families import GaussianNoise, RadialNoise

_STANDARD = "van der Maaten & Hannun 2020, Theorem 6 (standard composition); Balle & Wang 2018, Theorem 8"
_ADVANCED = "van der Maaten & Hannun 2020, Theorem 6 (advanced composition); Dwork, Rothblum & Vadhan 2010"


class AdvancedSplit(NamedTuple):
    """How advanced composition divides a budget: `share` of delta is its slack."""

    sigma: float
    epsilon_each: float
    delta_each: float
    share: float


def pure(
    epsilon: float, queries: int, sensitivity: MinimiserSensitivity, unit: str = "record"
) -> Calibrated[RadialNoise]:
    """(epsilon, 0) over all queries: beta = epsilon / (B sensitivity)."""
    checks.positive_finite(epsilon=epsilon)
    checks.count(minimum=1, queries=queries)
    return of_minimiser(
        sensitivity,
        RadialNoise(epsilon / queries / sensitivity.value),
        queries,
        epsilon=epsilon,
        delta=0.0,
        accountant="naive",
        theorem="van der Maaten & Hannun 2020, Theorem 5",
        unit=unit,
    )


def pure_joint(
    epsilon: float, delta: float, queries: int, sensitivity: MinimiserSensitivity, unit: str = "record"
) -> Calibrated[RadialNoise]:
    """(epsilon, delta) over all queries with pure noise, by the optimal composition of pure DP."""
    each = each_pure(epsilon, delta, queries)
    return of_minimiser(
        sensitivity,
        RadialNoise(each / sensitivity.value),
        queries,
        epsilon=epsilon,
        delta=delta,
        accountant=PURE_ACCOUNTANT,
        theorem=PURE_THEOREM,
        unit=unit,
    )


def gaussian_standard(
    epsilon: float, delta: float, queries: int, sensitivity: MinimiserSensitivity, unit: str = "record"
) -> Calibrated[GaussianNoise]:
    """(epsilon, delta) over all queries, each at (epsilon / B, delta / B)."""
    checks.count(minimum=1, queries=queries)
    sigma = sigma_gaussian(epsilon / queries, delta / queries, sensitivity.value)
    return _gaussian(sigma, epsilon, delta, queries, sensitivity, "naive", _STANDARD, unit)


def gaussian_advanced(
    epsilon: float, delta: float, queries: int, sensitivity: MinimiserSensitivity, unit: str = "record"
) -> Calibrated[GaussianNoise]:
    """(epsilon, delta) over all queries by advanced composition, its slack chosen for the least noise."""
    sigma = advanced_split(epsilon, delta, queries).sigma * sensitivity.value
    return _gaussian(sigma, epsilon, delta, queries, sensitivity, "advanced", _ADVANCED, unit)


def gaussian_published(
    epsilon: float, delta: float, queries: int, sensitivity: MinimiserSensitivity, unit: str = "record"
) -> Calibrated[GaussianNoise]:
    """The paper's choice: the smaller noise of standard and advanced composition."""
    one = gaussian_standard(epsilon, delta, queries, sensitivity, unit)
    other = gaussian_advanced(epsilon, delta, queries, sensitivity, unit)
    return min(one, other, key=lambda found: found.noise.sigma)


def gaussian_joint(
    epsilon: float, delta: float, queries: int, sensitivity: MinimiserSensitivity, unit: str = "record"
) -> Calibrated[GaussianNoise]:
    """(epsilon, delta) over all queries, exactly: mu adds up in squares, so sigma grows with sqrt(B)."""
    checks.count(minimum=1, queries=queries)
    sigma = math.sqrt(queries) * sigma_gaussian(epsilon, delta, sensitivity.value) * (1 + 1e-15)
    theorem = "Dong, Roth & Su 2022, Corollary 2 (exact Gaussian composition)"
    return _gaussian(sigma, epsilon, delta, queries, sensitivity, "gdp", theorem, unit)


def advanced_split(epsilon: float, delta: float, queries: int) -> AdvancedSplit:
    """The best division of (epsilon, delta) by advanced composition, for sensitivity 1.

    With slack delta', epsilon = B e^2/2 + e sqrt(2 B ln(1/delta')) is solved for e, and each query gets
    (e, (delta - delta')/B). Any delta' in (0, delta) that no record decides is valid; the best is found numerically.
    """
    checks.positive_finite(epsilon=epsilon)
    checks.probability_open(delta=delta)
    checks.count(minimum=1, queries=queries)

    def split(log_odds: float) -> AdvancedSplit:
        share = 1 / (1 + math.exp(-log_odds))
        each = advanced_epsilon(epsilon, share * delta, queries)
        remaining = delta * (1 - share) / queries * (1 - 1e-15)
        return AdvancedSplit(sigma_gaussian(each, remaining), each, remaining, share)

    best = minimize_scalar(
        lambda log_odds: split(log_odds).sigma, bounds=(-15.0, 15.0), method="bounded", options={"xatol": 1e-6}
    )
    return split(float(best.x))


def advanced_epsilon(epsilon: float, slack: float, queries: int) -> float:
    """e with epsilon = B e^2/2 + e sqrt(2 B ln(1/slack)), without cancellation."""
    tail = math.log(1 / slack)
    return math.sqrt(2 / queries) * epsilon / (math.sqrt(tail + epsilon) + math.sqrt(tail)) * (1 - 1e-15)


def _gaussian(
    sigma: float,
    epsilon: float,
    delta: float,
    queries: int,
    sensitivity: MinimiserSensitivity,
    accountant: str,
    theorem: str,
    unit: str,
) -> Calibrated[GaussianNoise]:
    return of_minimiser(
        sensitivity,
        GaussianNoise(sigma),
        queries,
        epsilon=epsilon,
        delta=delta,
        accountant=accountant,
        theorem=theorem,
        unit=unit,
    )
