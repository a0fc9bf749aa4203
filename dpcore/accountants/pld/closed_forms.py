"""Compositions whose bounds need no sum and no grid: plain Gaussians, a single step, and the distance of the two laws.

Plain Gaussians compose exactly to mu = sqrt(sum 1/z^2) Gaussian DP,
delta(epsilon) = Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu); the relative error of its evaluation
(`gdp.relative_error`, measured against 60 digits) and of mu is charged to either side.

A single step of a sampled Gaussian, in the coordinate y of `pairs` (dP/dQ = base + slope * y), with y* the place of the
loss epsilon: delta(P||Q) = slope * integral over y > y* of (y - y*) dQ, and with y* the place of the loss -epsilon:
delta(Q||P) = exp(epsilon) * slope * integral over y < y* of (y* - y) dQ. Both are differences of normal tails, whose
rounding is charged before they are subtracted; the threshold's own rounding costs its square.

Distance in total variation: at it, or any larger delta, epsilon is 0; and delta is nowhere above it (at a negative
epsilon it is 1 - exp(epsilon) + exp(epsilon) delta(-epsilon)). Each part sets a probability aside, by a coupling, and
leaves a chi-square divergence C to the rest: d <= 1 - prod (1 - aside)^count + sqrt(prod (1 + C)^count - 1) / 2.

Source  Balle & Wang (2018), Theorems 5 and 8; Dong, Roth & Su (2022), Corollary 3; Levin, Peres & Wilmer (2009),
        Proposition 4.7, for the coupling.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import ndtr

from dpcore.accountants.pld.pairs import (
    MU_ROUNDING,
    Array,
    Asked,
    Bounds,
    DominatingPair,
    Parts,
    ReplacedSampledGaussian,
    SampledGaussianPair,
    guessing,
)
from dpcore.gdp import delta_gdp, eps_gdp, relative_error

LARGEST_EPSILON = 700.0
"""Beyond it exp(epsilon) leaves float64's range."""

_EPS = float(np.finfo(float).eps)
_TAIL_ROUNDING = 1e-12
"""Relative error of either integral of a single step."""
_INVERSION = 1e-13
_UNDERFLOW = 1e-300
_DENORMAL = 1e-309
"""Absolute error of a tail: what is less is flushed to zero."""
_CUTS: Array = np.linspace(-8.0, 40.0, 97)


def epsilon_bounds(parts: Parts, asked: Asked) -> Bounds | None:
    """Around epsilon at the delta asked; None where `parts` have no closed form."""
    mu = gaussian_mu(parts)
    if mu is not None:
        return Bounds(gaussian_epsilon(mu.lower, asked.at).lower, gaussian_epsilon(mu.upper, asked.at).upper)
    if least_variation(parts) < asked.at and total_variation(parts) <= asked.at:
        return Bounds(0.0, 0.0)
    pair = _single_step(parts)
    return None if pair is None else single_step_epsilon(pair, asked.at)


def delta_bounds(parts: Parts, asked: Asked) -> Bounds | None:
    """Around delta at the epsilon asked, of either sign; None as `epsilon_bounds`."""
    mu = gaussian_mu(parts)
    if mu is not None:
        return Bounds(gaussian_delta(mu.lower, asked.at).lower, gaussian_delta(mu.upper, asked.at).upper)
    pair = _single_step(parts)
    return None if pair is None else single_step_delta(pair, asked.at)


# Plain Gaussians


def gaussian_mu(parts: Parts) -> Bounds | None:
    """Around the mu of a composition of unsampled Gaussians alone; else None."""
    gaussians = [(pair, count) for pair, count in parts if isinstance(pair, SampledGaussianPair) and pair.rate == 1.0]
    if len(gaussians) < len(parts):
        return None
    mu = math.sqrt(math.fsum(count / pair.noise_multiplier**2 for pair, count in gaussians))
    return Bounds(mu * (1 - 2 * MU_ROUNDING), mu * (1 + MU_ROUNDING))


def gaussian_delta(mu: float, epsilon: float) -> Bounds:
    """Around delta of mu-Gaussian DP at `epsilon` of either sign, apart by rounding alone; mu > 0."""
    if epsilon < 0:
        return _mirrored(gaussian_delta(mu, -epsilon), epsilon)
    value, error = delta_gdp(epsilon, mu), relative_error(mu / 2 - epsilon / mu, mu)
    # Epsilon only lowers delta: at 0 it is an error function, without cancellation.
    most = math.erf(mu / math.sqrt(8)) * (1 + _INVERSION)
    return Bounds(max(0.0, value * (1 - error)), min(1.0, most, value * (1 + error) + _UNDERFLOW))


def _mirrored(delta: Bounds, epsilon: float) -> Bounds:
    """Of a symmetric pair at epsilon < 0, given its `delta` at -epsilon: 1 - exp(epsilon) + exp(epsilon) delta."""
    low, high = (-math.expm1(epsilon) + math.exp(epsilon) * side for side in delta)
    return Bounds(low * (1 - 5 * _EPS), min(1.0, high * (1 + 5 * _EPS)))


def gaussian_epsilon(mu: float, delta: float) -> Bounds:
    """Around the epsilon of mu-Gaussian DP at `delta`, apart by rounding alone."""
    upper = eps_gdp(mu, delta)
    low, _ = _bisected(lambda epsilon: gaussian_delta(mu, epsilon).lower, delta, upper, _INVERSION)
    return Bounds(low * (1 - _INVERSION), upper)


# A single step of a sampled Gaussian

SingleStep = SampledGaussianPair | ReplacedSampledGaussian


def _single_step(parts: Parts) -> SingleStep | None:
    [(pair, count), *others] = parts
    return pair if count == 1 and not others and isinstance(pair, SingleStep) else None


def single_step_delta(pair: SingleStep, epsilon: float) -> Bounds:
    """Around the exact delta at `epsilon` of either sign, over both directions."""
    # Epsilon only lowers delta; at small rates exp(epsilon) / rate overflows before exp(epsilon).
    if epsilon > LARGEST_EPSILON:
        return Bounds(0.0, single_step_delta(pair, LARGEST_EPSILON).upper)
    if pair.symmetric and epsilon < 0:
        return _mirrored(single_step_delta(pair, -epsilon), epsilon)
    if math.isinf(pair.lowest_y(epsilon)):
        return Bounds(0.0, single_step_delta(pair, epsilon + math.log(pair.rate)).upper)
    guess = guessing(epsilon)
    lower, upper = guess * (1 - 4 * _EPS), guess * (1 + 4 * _EPS)
    for forward in (True,) if pair.symmetric else (True, False):
        place = pair.lowest_y(epsilon if forward else -epsilon)
        if not math.isfinite(place):
            continue
        q_below, y_below, q_above, y_above = (float(x[0]) for x in pair.tails(np.array([place])))
        if forward:
            factor, mass, gain, loss = pair.slope, q_above, y_above, place * q_above
        else:
            factor, mass, gain, loss = pair.slope * math.exp(epsilon), q_below, place * q_below, y_below
        # 1 + expm1(loss) / rate cancels near 0: an absolute error. Under replace-one the gain is itself a difference,
        # of a tail and of one that is at most `mass`.
        charge = _TAIL_ROUNDING * (gain + loss) + 4 * _EPS * mass + _DENORMAL * (1 + place)
        if isinstance(pair, ReplacedSampledGaussian):
            charge += 2 * _TAIL_ROUNDING * mass
        lower = max(lower, factor * (gain - loss - charge) * (1 - _TAIL_ROUNDING))
        most = gain + min(charge - loss, _TAIL_ROUNDING * (gain + 2 * mass))
        upper = max(upper, factor * most * (1 + _TAIL_ROUNDING) + _UNDERFLOW)
    return Bounds(lower, min(upper, 1.0))


def single_step_epsilon(pair: SingleStep, delta: float) -> Bounds:
    """Around the exact epsilon >= 0 at `delta`, apart by rounding alone."""

    def solve(side: int) -> tuple[float, float]:
        high = 1e-3
        while single_step_delta(pair, high)[side] > delta:
            if high > 600.0:
                return high, math.inf
            high *= 2
        return _bisected(lambda epsilon: single_step_delta(pair, epsilon)[side], delta, high, 1e-9)

    return Bounds(solve(0)[0], solve(1)[1])


def _bisected(delta_at: Callable[[float], float], delta: float, high: float, close: float) -> tuple[float, float]:
    """Around the epsilon in [0, high] at which a falling `delta_at` reaches `delta`, to `close` relatively."""
    if delta_at(0.0) <= delta:
        return 0.0, 0.0
    low = 0.0
    while high - low > close * high:
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        low, high = (middle, high) if delta_at(middle) > delta else (low, middle)
    return low, high


# The distance in total variation


def variation_bounds(parts: Parts, epsilon: float) -> Bounds:
    """delta at `epsilon` of either sign, between what guessing gives and what the distance allows."""
    least = guessing(epsilon)
    most = least + math.exp(min(epsilon, 0.0)) * total_variation(parts)
    return Bounds(least, min(1.0, most * (1 + 1e-12)))


def least_variation(parts: Parts) -> float:
    """The distance in total variation of one step, below that of the composition: what a glance tells."""
    return max(pair.total_variation if isinstance(pair, SampledGaussianPair) else 0.0 for pair, _ in parts)


def total_variation(parts: Parts) -> float:
    """Upper bound on the composed pair's distance in total variation, in [0, 1]."""
    log_safe = log_chi = 0.0
    for pair, count in parts:
        aside, chi = _set_aside(pair, count)
        log_safe += count * math.log1p(-aside) if aside < 1 else -math.inf
        log_chi += count * math.log1p(chi)
    rest = 0.5 * math.sqrt(math.expm1(log_chi)) if log_chi < 2 else 1.0
    return min(1.0, (rest - math.expm1(log_safe)) * (1 + 1e-12))


def _set_aside(pair: DominatingPair, count: int) -> tuple[float, float]:
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
