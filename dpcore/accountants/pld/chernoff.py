"""Chernoff's bound on delta, from one moment of the loss: enough where the other direction needs far more.

With K(t) = ln E exp(t S) and t > 0, max(0, 1 - exp(eps - s)) <= exp(t (s - eps)) t^t / (1+t)^(1+t) at every loss s, so

    delta(eps) <= exp(K(t) - t eps) t^t / (1+t)^(1+t).

It lies above delta by a small factor (2 to 15 for common settings), and costs one quadrature and no frequency. The
moment is that of the law between the quadrature's ends; what lies beyond has at most the probability `outside`, which
is added.

Source  Canonne, Kamath & Steinke (2020), proposition 12, at the order 1 + t.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dpcore.accountants.pld.bounds import Bounds
from dpcore.accountants.pld.lines import Fineness, SmoothLine, TooFine, line_of
from dpcore.accountants.pld.pairs import Array
from dpcore.accountants.pld.saddle_point import Direction
from dpcore.accountants.protocol import exp_up, log_of

_EPS = 2.0**-52
_ERROR = 1e-3
"""Of the moment, that the quadrature aims at."""
_MOST_NODES = 4096
_SHARES: Array = np.power(4.0, np.arange(-5, 1, dtype=np.float64))
"""Of the saddle's tilt, from the cheapest moment on: the saddle's own is the closest bound."""


class Chernoff(NamedTuple):
    """One moment of a composed loss: what bounds delta at every epsilon.

    tilt     t > 0
    log_mgf  upper bound on ln E exp(t S) between the ends
    outside  upper bound on the probability beyond them
    """

    tilt: float
    log_mgf: float
    outside: float

    def log_delta(self, epsilon: float) -> float:
        """ln of an upper bound on the hockey-stick divergence at `epsilon` of either sign, at most 0."""
        t = self.tilt
        log_moment = self.log_mgf - t * epsilon - t * math.log1p(1 / t) - math.log1p(t)
        rounding = 16 * _EPS * (abs(self.log_mgf) + t * abs(epsilon) + math.log1p(t) + 1)
        high, low = sorted((log_moment + rounding, log_of(self.outside)), reverse=True)
        return min(0.0, high + math.log1p(math.exp(low - high))) if high > -math.inf else high


def chernoff(direction: Direction, tilt: float) -> Chernoff:
    """Of the direction's loss. Raises TooFine, and DiscretisationInvalid where the guard refuses."""
    parts = direction.parts
    fineness = Fineness(0.0, _ERROR / sum(count for _, count in parts), _MOST_NODES)
    log_mgf = outside = 0.0
    for pair, count in parts:
        line = line_of(pair, fineness, tilt, direction.cumulants.tail, forward=direction.forward)
        if isinstance(line, SmoothLine):
            line.guard()
            outside += count * line.outside
        log_mgf += count * (line.log_mgf + line.error + 2 * _EPS * abs(line.log_mgf))
    return Chernoff(tilt, log_mgf, outside)


def below_known(direction: Direction) -> Chernoff | None:
    """The moment that bounds delta, at the epsilon asked, by no more than what is known to be enough; else None.

    Raises DiscretisationInvalid.
    """
    known, epsilon = direction.known, direction.asked.at
    if not known:
        return None
    tilts = direction.saddle.tilt * _SHARES
    told = _log_chernoff(direction.cumulants.values(tilts), tilts, epsilon) <= math.log(known)
    if not told.any():
        return None
    try:
        found = chernoff(direction, float(tilts[np.argmax(told)]))
    except TooFine:
        return None
    return found if exp_up(found.log_delta(epsilon)) <= known else None


def delta_bounds(direction: Direction) -> Bounds | None:
    """0 and a bound that is no more than what the other direction needs; None where that is not known or it is more."""
    found = below_known(direction)
    return None if found is None else Bounds(0.0, exp_up(found.log_delta(direction.asked.at)))


def _log_chernoff(log_mgf: Array, tilt: Array, epsilon: float) -> Array:
    return log_mgf - tilt * epsilon - tilt * np.log1p(1 / tilt) - np.log1p(tilt)
