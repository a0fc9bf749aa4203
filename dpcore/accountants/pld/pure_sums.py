"""Randomised responses composed exactly: their summed loss takes few values, so delta is a finite sum.

With two losses a step, `count` alike steps have count + 1 sums, binomially distributed; unlike ones have every sum of
theirs.

Certificate: delta(epsilon) = sum over the sums l above epsilon of mass(l) (1 - exp(epsilon - l)). The mass of sums that
were left out is added to upper ends; the rounding of log-factorials (of each mass, relatively) and of the sums' places
(in nats) is charged to either end.

Source  Kairouz, Oh & Viswanath (2015), Theorem 3.3, for any number of kinds and under Poisson sampling.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, reduce

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaln

from dpcore.accountants.pld.pairs import Array, Asked, Bounds, Parts, SampledRandomisedResponse, guessing, of_larger

MAX_SUMS = 1 << 18
MAX_COUNT = 1_000_000
"""Steps of one kind. Log-factorials of a million are near 1e7: their rounding moves a mass by some 1e-8 of itself."""

_LEFT_OUT = 1e-12
"""Share of delta that rare sums may hold unseen."""
_LEAST_TAIL = 1e-290
_ULP = 4e-16
_NUDGE = 1e-12


@dataclass(frozen=True, slots=True)
class Sums:
    """The law of the summed loss under the pair's first distribution.

    losses, masses  [N]; `unseen` is the mass of the sums that were left out, at most
    slack           relative error of the masses, at most; `shift` the absolute error of the losses
    """

    losses: Array
    masses: Array
    unseen: float
    slack: float
    shift: float

    def upper(self, epsilon: float) -> float:
        """delta at `epsilon`, rounded up."""
        return min(1.0, self._above(epsilon - self.shift) * (1 + self.slack) + self.unseen)

    def lower(self, epsilon: float) -> float:
        """delta at `epsilon`, rounded down; no test is worse than guessing."""
        return max(self._above(epsilon + self.shift) * (1 - self.slack), guessing(epsilon))

    def _above(self, epsilon: float) -> float:
        above = self.losses > epsilon
        return float(self.masses[above] @ -np.expm1(epsilon - self.losses[above]))


def only_responses(parts: Parts) -> bool:
    """Whether all of `parts` are randomised responses."""
    return all(isinstance(pair, SampledRandomisedResponse) for pair, _ in parts)


def largest_sum(parts: Parts) -> float:
    """The largest loss of the composition, in either direction; rounded up."""
    steps = [(pair.atom_losses(), count) for pair, count in parts if isinstance(pair, SampledRandomisedResponse)]
    ahead = math.fsum(count * high for (_, high), count in steps)
    back = math.fsum(-count * low for (low, _), count in steps)
    return max(ahead, back) * (1 + _NUDGE)


def epsilon_bounds(parts: Parts, asked: Asked) -> Bounds | None:
    """Around epsilon at the delta asked, as close as float64 allows; None where `parts` are others, or have too many
    sums."""
    delta = asked.at
    tail = max(_LEFT_OUT * delta / len(parts), _LEAST_TAIL)
    sides = _both(parts, tail)
    if sides is None:
        return None
    largest = largest_sum(parts)
    found = [
        Bounds(smallest_epsilon(side.lower, delta, largest, up=False), smallest_epsilon(side.upper, delta, largest))
        for side in sides
    ]
    return reduce(of_larger, found)


def delta_bounds(parts: Parts, asked: Asked) -> Bounds | None:
    """Around delta at the epsilon asked, of either sign; None as `epsilon_bounds`."""
    sides = _both(parts, _LEAST_TAIL) or _both(parts, 1e-20)
    if sides is None:
        return None
    return reduce(of_larger, (Bounds(side.lower(asked.at), side.upper(asked.at)) for side in sides))


def smallest_epsilon(
    delta_at: Callable[[float], float], delta: float, largest: float, least: float = 0.0, *, up: bool = True
) -> float:
    """The epsilon in [least, largest] at which a falling `delta_at` reaches `delta`; rounded up, or else down."""
    if delta_at(least) <= delta:
        return least
    if delta_at(largest) > delta:
        return largest
    root = float(brentq(lambda e: delta_at(e) - delta, least, largest, xtol=1e-300, rtol=1e-14))
    step = largest * _NUDGE
    while up and delta_at(root) > delta:
        root += step
    while not up and delta_at(root) < delta and root > least:
        root -= step
    return min(max(root, least), largest)


@lru_cache(maxsize=64)
def _both(parts: Parts, tail: float) -> tuple[Sums, ...] | None:
    if not only_responses(parts):
        return None
    symmetric = all(pair.symmetric for pair, _ in parts)
    sides = [_sums(parts, tail, forward=forward) for forward in ((True,) if symmetric else (True, False))]
    return None if None in sides else tuple(side for side in sides if side is not None)


def _sums(parts: Parts, tail: float, *, forward: bool) -> Sums | None:
    losses, masses = np.zeros(1), np.ones(1)
    unseen = rounding = shift = 0.0
    for pair, count in parts:
        assert isinstance(pair, SampledRandomisedResponse)
        if count > MAX_COUNT:
            return None
        (low, high), (log_low, log_high) = pair.atom_losses(), pair.log_masses(forward=forward)
        if not forward:
            low, high = -low, -high
        highs = np.arange(count + 1, dtype=np.float64)
        log_mass = gammaln(count + 1) - gammaln(highs + 1) - gammaln(count - highs + 1)
        log_mass += highs * log_high + (count - highs) * log_low
        mass = np.exp(log_mass)
        kept = (np.cumsum(mass) > tail) & (np.cumsum(mass[::-1])[::-1] > tail)
        unseen += float(mass[~kept].sum()) * (1 + 1e-6) + (count + 1) * 1e-300
        if len(losses) * int(kept.sum()) > MAX_SUMS:
            return None
        own = highs[kept] * high + (count - highs[kept]) * low
        losses = (losses[:, None] + own).ravel()
        masses = (masses[:, None] * mass[kept]).ravel()
        rounding += _ULP * (4 + 3 * float(gammaln(count + 1)) - count * (min(log_low, -1.0) + min(log_high, -1.0)))
        shift += _ULP * count * (abs(low) + abs(high))
    return Sums(losses, masses, unseen, math.expm1(rounding) + 1e-14, shift * (2 + len(parts)))
