"""Two laws that hardly overlap: delta is almost 1.

Certificate: with B the composed overlap E_Q sqrt(P/Q), the chance under P of a loss below epsilon + a is at most
B exp((epsilon + a) / 2) (Chernoff), and delta at least (1 - exp(-a)) times the chance of one above: the best a
gives 1 - 3 (B exp(epsilon / 2) / 2)^(2/3), in both directions. Overlaps multiply; that of a plain Gaussian is
exp(-mu^2 / 8), that of any other pair at most sqrt(1 - d^2), d its distance in total variation.

Source  Tsybakov (2009), Lemma 2.3 (Le Cam's inequalities), for the overlap and the distance.
"""

from __future__ import annotations

import math

from dpcore.accountants.pld.bounds import DELTA_FLOOR, Asked, Bounds
from dpcore.accountants.pld.pairs import Parts, SampledGaussianPair


def delta_bounds(parts: Parts, asked: Asked) -> Bounds | None:
    """Delta within DELTA_FLOOR of 1; None where it may be less."""
    least = nearly_one(parts, asked.at)
    return Bounds(least, 1.0) if least >= 1 - DELTA_FLOOR else None


def nearly_one(parts: Parts, epsilon: float) -> float:
    """Lower bound on delta at `epsilon` of either sign, close to 1 where the two laws hardly overlap; else often 0."""
    log_overlap = 0.0
    for pair, count in parts:
        if isinstance(pair, SampledGaussianPair) and pair.rate == 1.0:
            log_overlap -= count / (8 * pair.noise_multiplier**2)
        else:
            distance = min(pair.total_variation, 1.0) * (1 - 1e-9)
            log_overlap += 0.5 * count * math.log1p(-distance * distance)
    exponent = 2 / 3 * (log_overlap * (1 - 1e-9) + epsilon / 2 - math.log(2))
    return max(0.0, 1 - 3 * math.exp(exponent) - 1e-15) if exponent < 0 else 0.0
