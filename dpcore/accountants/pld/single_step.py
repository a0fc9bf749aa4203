"""A single step of a sampled Gaussian: its hockey-stick divergences have closed forms in both directions.

In the coordinate y of `pairs` (dP/dQ = base + slope * y), with y* the place of the loss epsilon:
delta(P||Q) = slope * integral over y > y* of (y - y*) dQ, and with y* the place of the loss -epsilon:
delta(Q||P) = exp(epsilon) * slope * integral over y < y* of (y* - y) dQ.

Certificate: both integrals are differences of normal tails, whose rounding is charged before they are subtracted; the
threshold's own rounding costs its square. Epsilon is bisected on either end of that interval.

Source  Balle & Wang (2018), Theorem 5, for the mixture.
"""

from __future__ import annotations

import math

import numpy as np

from dpcore.accountants.pld.bounds import Asked, Bounds
from dpcore.accountants.pld.pairs import Parts, SampledGaussianPair, guessing

LARGEST_EPSILON = 700.0
"""Beyond it exp(epsilon) leaves float64's range."""
_ROUNDING = 1e-12
"""Relative error of either integral. An error of the threshold itself costs only its square: there y = y*."""
_EPS = float(np.finfo(float).eps)
_UNDERFLOW = 1e-300


def epsilon_bounds(parts: Parts, asked: Asked) -> Bounds | None:
    """Around epsilon at the delta asked; None where `parts` are more than one step, or others."""
    pair = _single_step(parts)
    return None if pair is None else epsilon_of(pair, asked.at)


def delta_bounds(parts: Parts, asked: Asked) -> Bounds | None:
    """Around delta at the epsilon asked; None as `epsilon_bounds`."""
    pair = _single_step(parts)
    return None if pair is None else delta_of(pair, asked.at)


def _single_step(parts: Parts) -> SampledGaussianPair | None:
    [(pair, count), *others] = parts
    return pair if count == 1 and not others and isinstance(pair, SampledGaussianPair) else None


def delta_of(pair: SampledGaussianPair, epsilon: float) -> Bounds:
    """Around the exact delta at `epsilon` of either sign, over both directions."""
    # Epsilon only lowers delta; at small rates exp(epsilon) / rate overflows before exp(epsilon).
    if epsilon > LARGEST_EPSILON:
        return Bounds(0.0, delta_of(pair, LARGEST_EPSILON).upper)
    if math.isinf(pair.lowest_y(epsilon)):
        return Bounds(0.0, delta_of(pair, epsilon + math.log(pair.rate)).upper)
    guess = guessing(epsilon)
    lower, upper = guess * (1 - 4 * _EPS), guess * (1 + 4 * _EPS)
    for forward in (True, False):
        place = pair.lowest_y(epsilon if forward else -epsilon)
        if not math.isfinite(place):
            continue
        q_below, y_below, q_above, y_above = (float(x[0]) for x in pair.tails(np.array([place])))
        if forward:
            factor, mass, gain, loss = pair.slope, q_above, y_above, place * q_above
        else:
            factor, mass = pair.slope * math.exp(epsilon), q_below
            gain, loss = place * q_below, y_below
        # 1 + expm1(loss) / rate cancels near 0: an absolute error.
        charge = _ROUNDING * (gain + loss) + 4 * _EPS * mass
        lower = max(lower, factor * (gain - loss - charge) * (1 - _ROUNDING))
        upper = max(upper, factor * (gain - loss + charge) * (1 + _ROUNDING) + _UNDERFLOW)
    return Bounds(lower, min(upper, 1.0))


def epsilon_of(pair: SampledGaussianPair, delta: float) -> Bounds:
    """Around the exact epsilon >= 0 at `delta`, apart by rounding alone."""

    def solve(side: int) -> tuple[float, float]:
        if delta_of(pair, 0.0)[side] <= delta:
            return 0.0, 0.0
        low, high = 0.0, 1e-3
        while delta_of(pair, high)[side] > delta:
            if high > 600.0:
                return high, math.inf
            low, high = high, 2 * high
        for _ in range(60):
            middle = 0.5 * (low + high)
            if high - low <= 1e-9 * high or middle in (low, high):
                break
            if delta_of(pair, middle)[side] > delta:
                low = middle
            else:
                high = middle
        return low, high

    return Bounds(solve(0)[0], solve(1)[1])
