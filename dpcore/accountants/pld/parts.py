"""What is known of a composition before any sum or grid: exact cases, and what may be set aside."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr

from dpcore.accountants.pld.pairs import (
    Array,
    DominatingPair,
    ReplacedSampledGaussian,
    SampledGaussian,
    SampledRandomisedResponse,
)

Parts = tuple[tuple[DominatingPair, int], ...]

MU_ROUNDING = 1e-15
"""Relative error of the square root of a correctly rounded sum of squares. `gaussian_mu` allows for it twice below:
what was combined into one part (`parts_of`) has been moved up by it once."""

NEARLY_CERTAIN = 30.0
"""Randomised response of a larger epsilon answers truly but for 1e-13: its loss is nearly always epsilon."""

_CUTS: Array = np.linspace(-8.0, 40.0, 97)


def tail_for(delta: float, parts: Parts, share: float = 1e-9) -> float:
    """Probability that one step's law may leave out at either end: all steps together, twice a share of `delta`."""
    return max(share * delta / sum(count for _, count in parts), 1e-280)


def gaussian_mu(parts: Parts) -> tuple[float, float] | None:
    """(lower, upper) around mu if every part is an unsampled Gaussian, else None."""
    gaussians = [(pair, count) for pair, count in parts if isinstance(pair, SampledGaussian) and pair.rate == 1.0]
    if len(gaussians) < len(parts):
        return None
    mu = math.sqrt(math.fsum(count / pair.noise_multiplier**2 for pair, count in gaussians))
    return mu * (1 - 2 * MU_ROUNDING), mu * (1 + MU_ROUNDING)


def guessing(epsilon: float) -> float:
    """The least delta at `epsilon` (either sign): no test is worse than guessing, 1 - exp(epsilon), or 0."""
    return -math.expm1(min(epsilon, 0.0))


def single_step(parts: Parts) -> SampledGaussian | None:
    """The pair if there is one step of a sampled Gaussian in all."""
    [(pair, count), *others] = parts
    return pair if count == 1 and not others and isinstance(pair, SampledGaussian) else None


def without_nearly_certain(parts: Parts) -> tuple[Parts, float, float]:
    """(the rest, the summed losses of nearly certain responses, ln of the probability that none is the rare one).

    With S the sum and p the probability, delta of the whole at epsilon is at most that of the rest at epsilon - S (no
    loss is larger than S and the rest's), and at least p times it.
    """
    rest, shift, log_probability = [], 0.0, 0.0
    for pair, count in parts:
        if isinstance(pair, SampledRandomisedResponse) and pair.rate == 1.0 and pair.epsilon > NEARLY_CERTAIN:
            shift += count * pair.epsilon
            log_probability -= count * math.log1p(math.exp(-pair.epsilon))
        else:
            rest.append((pair, count))
    return tuple(rest), shift, log_probability


def least_variation(parts: Parts) -> float:
    """The distance in total variation of one step, below that of the composition: what a glance tells."""
    return max(
        pair.rate * math.erf(math.sqrt(0.125) / pair.noise_multiplier) if isinstance(pair, SampledGaussian) else 0.0
        for pair, _ in parts
    )


def total_variation(parts: Parts) -> float:
    """Upper bound on the composed pair's distance in total variation, which is delta at epsilon 0 on both sides.

    Each part sets a probability aside, by a coupling, and leaves a chi-square divergence C to the rest: the distance is
    at most 1 - prod (1 - aside)^count + sqrt(prod (1 + C)^count - 1) / 2 (Cauchy and Schwarz).
    """
    log_safe = log_chi = 0.0
    for pair, count in parts:
        aside, chi = _aside(pair, count)
        log_safe += count * math.log1p(-aside) if aside < 1 else -math.inf
        log_chi += count * math.log1p(chi)
    rest = 0.5 * math.sqrt(math.expm1(log_chi)) if log_chi < 2 else 1.0
    return min(1.0, (rest - math.expm1(log_safe)) * (1 + 1e-12))


def nearly_one(parts: Parts, epsilon: float) -> float:
    """Lower bound on delta at `epsilon` of either sign, close to 1 where the two laws hardly overlap; else often 0.

    With B the composed overlap E_Q sqrt(P/Q), the chance under P of a loss below epsilon + a is at most
    B exp((epsilon + a) / 2) (Chernoff), and delta at least (1 - exp(-a)) times the chance of one above: the best a
    gives 1 - 3 (B exp(epsilon / 2) / 2)^(2/3), in both directions. Overlaps multiply; that of a plain Gaussian is
    exp(-mu^2 / 8), that of any other pair at most sqrt(1 - d^2), d its distance in total variation (Le Cam).
    """
    log_overlap = 0.0
    for pair, count in parts:
        if isinstance(pair, SampledGaussian) and pair.rate == 1.0:
            log_overlap -= count / (8 * pair.noise_multiplier**2)
        else:
            distance = min(_distance(pair), 1.0) * (1 - 1e-9)
            log_overlap += 0.5 * count * math.log1p(-distance * distance)
    exponent = 2 / 3 * (log_overlap * (1 - 1e-9) + epsilon / 2 - math.log(2))
    return max(0.0, 1 - 3 * math.exp(exponent) - 1e-15) if exponent < 0 else 0.0


def _distance(pair: DominatingPair) -> float:
    """In total variation, of one step; 0 where no closed form is known."""
    match pair:
        case SampledRandomisedResponse():
            return pair.rate * math.tanh(pair.epsilon / 2)
        case ReplacedSampledGaussian():
            return pair.rate * math.erf(math.sqrt(0.5) / pair.noise_multiplier)
        case SampledGaussian():
            return pair.rate * math.erf(math.sqrt(0.125) / pair.noise_multiplier)
    return 0.0


def _aside(pair: DominatingPair, count: int) -> tuple[float, float]:
    """All of one step's distance and nothing, or what lies above a cut and the chi-square of the law below it."""
    distance = _distance(pair) or math.inf
    if isinstance(pair, SampledGaussian):
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
