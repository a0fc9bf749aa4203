"""The grid of losses of one direction, its ring and window, as estimates plan them; and the composition on them.

No certificate rests on what is planned here: a coarse grid or a short window widens the bounds (`refinement`).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dpcore.accountants.pld.bounds import REMEDY, DiscretisationInvalid, ToleranceNotReached
from dpcore.accountants.pld.discretisation.convolution import TiltedComposition, Window, fast_size
from dpcore.accountants.pld.discretisation.laws import Discretised
from dpcore.accountants.pld.pairs import Array, SampledRandomisedResponse
from dpcore.accountants.pld.saddle_point import Direction

MAX_LOSSES = 1 << 21
"""Largest grid that is tried, in losses: seconds and less than a gigabyte. Beyond it there is no answer, whatever the
machine: plans are pure."""

_KEPT_GRID = 1 << 15

_SHIFTS: Array = np.geomspace(0.02, 4.0, 16)

COARSEST = 1e3
"""How many times more losses than are tried a grid may want, for a coarser one to be tried in its place."""


def coarsened(refusal: ToleranceNotReached, largest: int) -> float:
    """By how much the gap has to grow for a grid of half of `largest` losses. Raises `refusal` where that is no use."""
    ratio = refusal.losses / largest
    if not 1 < ratio <= COARSEST:
        raise refusal
    return (2 * ratio) ** 2


class Ring(NamedTuple):
    """How one direction is discretised and composed.

    tilt     of the masses on the ring
    spacing  of the grid of losses, in nats
    tail     probability left out on either side of each step
    largest  how many losses a step's law and the ring may have
    precise  compose in long double
    """

    tilt: float
    spacing: float
    tail: float
    window: Window
    largest: int = MAX_LOSSES
    precise: bool = False


def _spacing(direction: Direction, gap: float) -> float:
    """The coarsest grid whose bounds on epsilon should differ by `gap` nats.

    A loss L in a cell [a, b] becomes a or b with the ratio's mean kept: ln of its moment generating
    function at t grows by t (t+1)/2 E (L-a)(b-L), so epsilon by the sum of (t+1)/2 E (L-a)(b-L). For a
    density that is h^2 (t+1)/12 a step, and half as much again downwards for the lower bound. Where a
    heavy tail makes h wide against the bulk, the bulk sits near a node and costs far less: measured,
    not assumed.
    """
    parts, cumulants, tilt = direction.parts, direction.cumulants, direction.saddle.tilt
    steps = sum(cumulants.counts)
    spacing = math.sqrt(8 * gap / (steps * (tilt + 1)))
    candidates: Array = spacing * 1.3 ** np.arange(14, dtype=np.float64)
    cost = 0.75 * (tilt + 1) * cumulants.splitting_variance(tilt, candidates)
    for candidate, price in zip(candidates, cost, strict=True):
        if price <= gap and candidate * (tilt + 1) <= 0.7:
            spacing = float(candidate)
    for pair, _ in parts:
        if isinstance(pair, SampledRandomisedResponse):
            low, high = pair.atom_losses()
            if all(other == pair for other, _ in parts):
                return high - low
            return (high - low) / math.ceil((high - low) / spacing)
    return min(spacing, 0.7 / (tilt + 1))


def make_ring(direction: Direction, gap: float, spacing: float | None = None, largest: int = MAX_LOSSES) -> Ring:
    """Grid and ring so that upper and lower epsilon should differ by `gap` nats at the saddle.

    Raises ToleranceNotReached where that takes more than `largest` losses.
    """
    cumulants, saddle = direction.cumulants, direction.saddle
    t, eps = saddle.tilt, saddle.epsilon
    spacing = _spacing(direction, gap) if spacing is None else spacing
    k, _, _ = cumulants.at(t)
    relative = min(0.05, max(0.1 * gap * t, 1e-12))
    peak = t * math.log(t) - (1 + t) * math.log1p(t)
    log_outside = min(-4.0, math.log(relative) + saddle.log_delta - k + t * eps - peak - math.log(2))
    reach = math.sqrt(-2 * log_outside) / max(saddle.spread, 1e-300)
    shifts = reach * _SHIFTS
    up = (cumulants.values(t + shifts) - k - log_outside) / shifts
    down = -(cumulants.values(t - shifts) - k - log_outside) / shifts
    best_up, best_down = int(np.argmin(up)), int(np.argmax(down))
    margin = 4 * spacing + 0.02 * (up[best_up] - down[best_down])
    bottom, top = min(float(down[best_down]), eps) - margin, max(float(up[best_up]), eps) + margin
    most = float(sum(c * loss.max() for loss, c in zip(cumulants.losses, cumulants.counts, strict=True)))
    least = float(sum(c * loss.min() for loss, c in zip(cumulants.losses, cumulants.counts, strict=True)))
    # A few steps have a bounded support, and a window that holds it has no outside.
    pad = spacing * (sum(cumulants.counts) + 4)
    bottom, top = max(bottom, min(least, eps) - pad), min(top, max(most, eps) + pad)
    if not (top - bottom) / spacing <= largest:
        raise ToleranceNotReached(
            f"window of {(top - bottom) / spacing:.3g} losses: expected at most {largest}. {REMEDY}",
            losses=(top - bottom) / spacing,
        )
    size = fast_size(max(64, math.ceil((top - bottom) / spacing)))
    above = min(size - 2, max(2, math.ceil((top - eps) / spacing)))
    window = Window(size, above, float(shifts[best_up]), float(shifts[best_down]))
    return Ring(t, spacing, cumulants.tail, window, largest)


_kept = lru_cache(maxsize=64)(Discretised)
_kept_while_large = lru_cache(maxsize=2)(Discretised)
"""A large grid takes hundreds of megabytes: it serves both bounds of one composition and is forgotten."""


def forget() -> None:
    """Drop the laws that are kept for the next composition on the same grid."""
    _kept.cache_clear()
    _kept_while_large.cache_clear()


def compose(direction: Direction, ring: Ring, *, upper: bool) -> TiltedComposition | None:
    """The direction on its ring, bounded from above or below; None if this grid has no lower law: no mass, or refused.

    Raises ToleranceNotReached where a law or the ring is too large, DiscretisationInvalid where the guard refuses the
    upper law.
    """
    if ring.window.size > 2 * ring.largest:
        raise ToleranceNotReached(
            f"window of {ring.window.size} losses: expected at most {2 * ring.largest}. {REMEDY}",
            losses=ring.window.size / 2,
        )
    laws = []
    for pair, _ in direction.parts:
        low, high = pair.loss_range(ring.tail)
        losses = (high - low) / ring.spacing
        if losses > ring.largest:
            raise ToleranceNotReached(
                f"step of {losses:.3g} losses: expected at most {ring.largest}. {REMEDY}", losses=losses
            )
        keep = _kept if losses <= _KEPT_GRID else _kept_while_large
        discrete = keep(pair, ring.spacing, ring.tail)
        try:
            law = discrete.law(upper=upper, forward=direction.forward)
        except DiscretisationInvalid:
            if upper:
                raise
            # Without a lower law there is no lower bound from this grid; a finer one may have one.
            return None
        if not law.masses.any():
            return None
        laws.append(law)
    return TiltedComposition(laws, [count for _, count in direction.parts], ring.tilt, ring.window, ring.precise)
