"""Sampled Gaussians as analytic functions of the output x: what bounds of integrals over x need to know.

With u = (2x - 1) / (2 s^2), the loss is ln(1-q + q exp(u)), and under replacement that less its mirror image. At
x + i theta s^2, where u turns by theta, |theta| <= pi/2, and with the odds r = q exp(u) / (1-q):
|1-q + q exp(u + i theta)| lies between sqrt(1 - 2r/(1+r)^2 (1 - cos theta)) times and once its value at theta = 0, and
its argument between 0 and theta, or theta r/(1+r) where r <= 1 (its derivative falls with theta). Both grow with r.

Replacement reads the same in both directions; only the forward one is written out.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import expit, log_expit, ndtr

from dpcore.accountants.pld.pairs import Array, ReplacedSampledGaussian, SampledGaussianPair

Smooth = SampledGaussianPair | ReplacedSampledGaussian

_EPS = float(np.finfo(float).eps)
_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
_LN2 = math.log(2)


class Places(NamedTuple):
    """At outputs x: losses, ln of the first hypothesis's density, and the largest errors of both. Shapes (x,)."""

    loss: Array
    log_density: Array
    loss_error: Array
    density_error: Array


def places(pair: Smooth, x: Array, *, forward: bool) -> Places:
    """Losses of (P, Q) under P, or with forward=False of (Q, P) under Q."""
    s = pair.noise_multiplier
    loss = pair.losses(x)
    square = (0.5 / (s * s)) * x * x
    log_density = -square - (_LOG_SQRT_2PI + math.log(s))
    # q expm1(u) is off by the rounding of u; its logarithm by that over 1 + q expm1(u).
    spread = (np.abs(x) + 0.5) / (s * s)
    if isinstance(pair, ReplacedSampledGaussian):
        log_other = np.log1p(pair.rate * np.expm1(np.minimum((-2 * x - 1) / (2 * s * s), 600.0)))
        log_density += log_other
        # Either hypothesis's 1 + q expm1(u) cancels where it is small: at rates near 1.
        small = np.exp(-log_other) + np.exp(-(loss + log_other))
        loss_error = _EPS * (4 * np.abs(loss) + 16 + 4 * spread + 4 * small)
    else:
        loss_error = _EPS * (2 * np.abs(loss) + (8 + 2 * spread) * np.abs(np.expm1(-loss)))
    density_error = _EPS * (8 + 4 * square + 2 * spread * (1.0 if isinstance(pair, ReplacedSampledGaussian) else 0.0))
    if forward:
        return Places(loss, log_density + loss, loss_error, density_error + loss_error)
    return Places(-loss, log_density, loss_error, density_error)


def outside(pair: Smooth, low: float, high: float) -> float:
    """A bound on either hypothesis's probability below `low` and above `high` together."""
    q, s = pair.rate, pair.noise_multiplier
    below = float(ndtr(low / s))
    above = (1 - q) * float(ndtr(-high / s)) + q * float(ndtr((1 - high) / s))
    if isinstance(pair, ReplacedSampledGaussian):
        below = (1 - q) * below + q * float(ndtr((low + 1) / s))
    return (below + above) * (1 + 1e-9)


class Strip(NamedTuple):
    """At x + i theta s^2: |loss's imaginary part| <= turn |theta|, density exp(tilt loss) grows by at most
    exp((own + tilted * tilt) theta^2 / 2), low <= x <= high."""

    turn: float
    own: float
    tilted: float


def strip(pair: Smooth, low: float, high: float, *, forward: bool) -> Strip:
    """Valid for |theta| <= pi/2."""
    q, s2 = pair.rate, pair.noise_multiplier**2

    def odds(x: float) -> float:
        return math.exp(min((2 * x - 1) / (2 * s2) + math.log(q) - math.log1p(-q), 700.0)) * (1 + 1e-9)

    def turn(r: float) -> float:
        return r / (1 + r) if r <= 1 else 1.0

    def loss_of_size(r: float) -> float:
        # -ln(1 - y)/2 <= y ln 2 for y <= 1/2, and 1 - cos theta <= theta^2 / 2.
        return _LN2 * (2 * r / (1 + r) ** 2 if r <= 1 else 0.5)

    # exp(-x^2 / (2 s^2)) grows by exp(s^2 theta^2 / 2). Numerators only shrink; denominators to the power of the tilt
    # do that too, but from below.
    if isinstance(pair, ReplacedSampledGaussian):
        return Strip(turn(odds(high)) + turn(odds(-low)), s2, loss_of_size(odds(-low)))
    return Strip(turn(odds(high)), s2, 0.0 if forward else loss_of_size(odds(high)))


def loss_density(pair: Smooth, x: Array, tilt: float, *, forward: bool) -> tuple[Array, Array]:
    """(losses at x, increasing; ln of a lower bound on the density of the tilted, not normalised, loss between them).

    That density is g(x) = density exp(tilt loss) / |d loss / dx|. Between two places d ln g / dx lies between the sums
    of its monotone terms' ends, so ln g is at least what the steepest descent from either end leaves.
    """
    q, s = pair.rate, pair.noise_multiplier
    at = places(pair, x, forward=forward)
    odds, centre = math.log(q) - math.log1p(-q), x / (s * s)
    up = expit(centre + (odds - 0.5 / (s * s)))
    if isinstance(pair, ReplacedSampledGaussian):
        down = expit(-centre + (odds - 0.5 / (s * s)))
        log_g = at.log_density + tilt * at.loss - np.log((up + down) / (s * s))
        # d/dx: -x - down + (1 + tilt) (up + down) - (up - down)(1 - up - down)/(up + down), over s^2.
        steepest = -x[:-1] + tilt * down[:-1] + (1 + tilt) * up[1:] + 1
        flattest = -x[1:] + tilt * down[1:] + (1 + tilt) * up[:-1] - 1
    else:
        log_g = at.log_density + tilt * at.loss - (log_expit(centre + (odds - 0.5 / (s * s))) - 2 * math.log(s))
        # d/dx: -x - 1 + weight up, over s^2.
        weight = tilt + 2 if forward else 1 - tilt
        first, last = (up[1:], up[:-1]) if weight >= 0 else (up[:-1], up[1:])
        steepest, flattest = -x[:-1] - 1 + weight * first, -x[1:] - 1 + weight * last
    width = np.diff(x) / (s * s)
    low = np.maximum(
        log_g[:-1] + width * np.minimum(flattest, 0.0),
        log_g[1:] - width * np.maximum(steepest, 0.0),
    )
    # Losses that differ by little more than their rounding would make a cell look wide; the others are so by 1e-3.
    told = np.abs(np.diff(at.loss)) >= 1e3 * (at.loss_error[:-1] + at.loss_error[1:])
    low = np.where(told, low - 5e-3, -np.inf)
    if forward:
        return at.loss, low
    return at.loss[::-1], low[::-1]
