"""The distance in total variation: at it, or any larger delta, epsilon is 0; and delta is nowhere above it.

Certificate: delta falls with epsilon, and at 0 it is the distance d, in both directions; at a negative epsilon it is
1 - exp(epsilon) + exp(epsilon) delta(-epsilon). Each part sets a probability aside, by a coupling, and leaves a
chi-square divergence C to the rest: d <= 1 - prod (1 - aside)^count + sqrt(prod (1 + C)^count - 1) / 2.

Source  Cauchy and Schwarz for the chi-square; the coupling inequality for what is set aside (Levin, Peres & Wilmer
        2009, Proposition 4.7).
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr

from dpcore.accountants.pld.bounds import Asked, Bounds
from dpcore.accountants.pld.pairs import Array, DominatingPair, Parts, SampledGaussianPair, guessing

_CUTS: Array = np.linspace(-8.0, 40.0, 97)


def epsilon_bounds(parts: Parts, asked: Asked) -> Bounds | None:
    """Epsilon is 0 where the delta asked is no less than the distance; None where it may be less."""
    if least_variation(parts) < asked.at and total_variation(parts) <= asked.at:
        return Bounds(0.0, 0.0)
    return None


def delta_bounds(parts: Parts, asked: Asked) -> Bounds:
    """Between what guessing gives and what the distance allows, at an epsilon of either sign."""
    least = guessing(asked.at)
    most = least + math.exp(min(asked.at, 0.0)) * total_variation(parts)
    return Bounds(least, min(1.0, most * (1 + 1e-12)))


def least_variation(parts: Parts) -> float:
    """The distance in total variation of one step, below that of the composition: what a glance tells."""
    return max(pair.total_variation if isinstance(pair, SampledGaussianPair) else 0.0 for pair, _ in parts)


def total_variation(parts: Parts) -> float:
    """Upper bound on the composed pair's distance in total variation, in [0, 1]."""
    log_safe = log_chi = 0.0
    for pair, count in parts:
        aside, chi = _aside(pair, count)
        log_safe += count * math.log1p(-aside) if aside < 1 else -math.inf
        log_chi += count * math.log1p(chi)
    rest = 0.5 * math.sqrt(math.expm1(log_chi)) if log_chi < 2 else 1.0
    return min(1.0, (rest - math.expm1(log_safe)) * (1 + 1e-12))


def _aside(pair: DominatingPair, count: int) -> tuple[float, float]:
    """All of one step's distance and nothing, or what lies above a cut and the chi-square of the law below it."""
    distance = pair.total_variation or math.inf
    if isinstance(pair, SampledGaussianPair):
        q, s = pair.rate, pair.noise_multiplier
        # P without the sampled component's part above the cut, given back to Q: 1 + q (y 1{below} - P1(below)) over Q.
        cuts = 1 + s * _CUTS
        above, below = ndtr((1 - cuts) / s), ndtr((cuts - 1) / s)
        with np.errstate(over="ignore"):
            square = np.exp(min(s**-2, 700.0)) * ndtr((cuts - 2) / s) * (1 + 1e-12)
        chi = q * q * np.maximum(square - below * below * (1 - 1e-12), 0.0)
        price = count * q * above + 0.5 * np.sqrt(np.expm1(np.minimum(count * np.log1p(chi), 2.0)))
        best = int(np.argmin(price))
        if price[best] < count * distance and s**-2 < 700:
            return float(q * above[best]) * (1 + 1e-12), float(chi[best])
    return min(1.0, distance * (1 + 1e-12)), 0.0
