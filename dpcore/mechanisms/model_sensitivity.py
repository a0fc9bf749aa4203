"""Model sensitivity: noise on the minimiser itself, once; any number of queries afterwards.

Source  Chaudhuri, Monteleoni & Sarwate (2011), Algorithm 1; multi-class: van der Maaten & Hannun (2020), Theorems 1, 2.
"""

from __future__ import annotations

from dpcore import checks
from dpcore.gdp import sigma_gaussian
from dpcore.mechanisms.calibrated import Calibrated, of_minimiser
from dpcore.mechanisms.minimiser import MinimiserSensitivity
from dpcore.mechanisms.noise_families import GaussianNoise, RadialNoise


def pure(epsilon: float, sensitivity: MinimiserSensitivity, unit: str = "record") -> Calibrated[RadialNoise]:
    """(epsilon, 0): density exp(-beta ||N||_F) with beta = epsilon / sensitivity."""
    checks.positive_finite(epsilon=epsilon)
    return of_minimiser(
        sensitivity,
        RadialNoise(epsilon / sensitivity.value),
        1,
        epsilon=epsilon,
        delta=0.0,
        accountant="pure",
        theorem="van der Maaten & Hannun 2020, Theorem 1",
        unit=unit,
    )


def gaussian(
    epsilon: float, delta: float, sensitivity: MinimiserSensitivity, unit: str = "record"
) -> Calibrated[GaussianNoise]:
    """(epsilon, delta): the analytic Gaussian."""
    return of_minimiser(
        sensitivity,
        GaussianNoise(sigma_gaussian(epsilon, delta, sensitivity.value)),
        1,
        epsilon=epsilon,
        delta=delta,
        accountant="gdp",
        theorem="van der Maaten & Hannun 2020, Theorem 2; Balle & Wang 2018, Theorem 8",
        unit=unit,
    )
