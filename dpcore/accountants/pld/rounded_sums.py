"""Many unlike randomised responses: their epsilons rounded to a common unit, outwards, and composed without loss.

In whole units the composition is a sum of few enough values, added up release by release: only positive numbers are
ever added, so that no mass is too small to be told.

Certificate: a response of a larger epsilon dominates one of a smaller, so rounding all of them up bounds from above,
and down from below; the rest is that of `exact_sums`. The unit shrinks until both ends are as close as asked.

Source  Kairouz, Oh & Viswanath (2015), Theorem 3.3.
"""

from __future__ import annotations

import math

import numpy as np

from dpcore.accountants.pld.bounds import Asked, Bounds
from dpcore.accountants.pld.pairs import Array, Parts, SampledRandomisedResponse
from dpcore.accountants.pld.pure_sums import Sums, smallest_epsilon

MAX_WORK = 2_000_000_000
"""Additions of one side, at most: some seconds."""
_FIRST_UNITS = 1 << 12
_FINER = 8.0
_ULP = 4e-16


def epsilon_bounds(parts: Parts, asked: Asked) -> Bounds | None:
    """Bounds on epsilon as close as asked; None where `parts` are others, or where that would take too long."""
    steps = [(pair.epsilon, n) for pair, n in parts if isinstance(pair, SampledRandomisedResponse) and pair.rate == 1.0]
    if len(steps) < len(parts):
        return None
    total, releases = math.fsum(epsilon * count for epsilon, count in steps), sum(count for _, count in steps)
    unit, best = total / _FIRST_UNITS, Bounds(0.0, total)
    while True:
        # Sums further below the largest do not reach epsilons above the lower bound.
        lost = total - best.lower + releases * unit
        if releases * lost / unit > MAX_WORK:
            return None
        lower = _epsilon(steps, unit, lost, asked.at, best.lower, up=False)
        upper = _epsilon(steps, unit, lost, asked.at, best.lower, up=True)
        best = Bounds(max(best.lower, lower), min(best.upper, upper))
        if asked.met_by(best):
            return best
        gap, wanted = best.upper - best.lower, asked.gap(best.upper)
        unit /= min(_FINER, max(1.5, 1.5 * gap / wanted))


def _epsilon(
    steps: list[tuple[float, int]], unit: float, lost: float, delta: float, least: float, *, up: bool
) -> float:
    sums = _sums(steps, unit, lost, up=up)
    largest = float(sums.losses[0]) * (1 + 1e-12)
    return smallest_epsilon(sums.upper if up else sums.lower, delta, largest, least, up=up)


def _sums(steps: list[tuple[float, int]], unit: float, lost: float, *, up: bool) -> Sums:
    """The law of the sums that are at most `lost` below the largest; a flip costs a whole number of units."""
    size = math.ceil(lost / unit) + 1
    mass: Array = np.zeros(size)
    mass[0] = 1.0
    whole, releases = 0, 0
    for epsilon, count in steps:
        cost = math.ceil(2 * epsilon / unit * (1 + 1e-14)) if up else math.floor(2 * epsilon / unit * (1 - 1e-14))
        if cost == 0:
            continue
        kept = 1 / (1 + math.exp(-cost * unit / 2))
        flipped = kept * math.exp(-cost * unit / 2)
        for _ in range(count):
            moved = flipped * mass[: max(0, size - cost)]
            mass *= kept
            mass[cost:] += moved
        whole, releases = whole + count * cost, releases + count
    losses: Array = (whole / 2 - np.arange(size, dtype=np.float64)) * unit
    return Sums(losses, mass, 1e-300 * size, _ULP * 4 * (releases + 40), _ULP * 4 * (whole + 1) * unit)
