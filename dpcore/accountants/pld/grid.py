"""Epsilon and delta of one direction by a grid of losses, refined until the bounds are as close together as asked.

Plan (where is the mass, how fine a grid), certify (upper and lower law, composed and read), check the gap, refine.

Certificate: the upper law of every step dominates the exact pair and the lower one is dominated by it (`laws.guard`),
and composition keeps both (Zhu, Dong & Wang 2022, Theorem 10). What FFT and ring do to their composition is charged
(`convolution`): wrapped mass by Chernoff bounds, round-off by the spectrum's and the sum's. Estimates choose tilt, grid
and window; they can cost time or a refinement, never the bound.

Source  Koskela, Jalko & Honkela (2020) and Gopi, Lee & Wutschitz (2021) for composition by FFT; Doroshenko et al.
        (2022) for the pessimistic law.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
from scipy.fft import next_fast_len
from scipy.optimize import brentq

from dpcore.accountants.pld.convolution import TiltedComposition, Window
from dpcore.accountants.pld.laws import Discretised
from dpcore.accountants.pld.pairs import (
    Array,
    Bounds,
    DiscretisationInvalid,
    SampledRandomisedResponse,
    ToleranceNotReached,
    guessing,
    tail_for,
)
from dpcore.accountants.pld.saddle_point import Direction, Saddle, at_epsilon, direction_at_delta
from dpcore.accountants.protocol import exp_up

MAX_LOSSES = 1 << 21
"""Largest grid that is tried, in losses: seconds and less than a gigabyte. Beyond it there is no answer, whatever the
machine: plans are pure."""

_TAIL = 1e-7
"""Share of delta that grids leave out: they pay for every loss that they hold."""
_ATTEMPTS = 9
_CLOSE = 0.02
"""Of the gap: how closely a curve is inverted."""
_SHIFTS: Array = np.geomspace(0.02, 4.0, 16)

Curves = tuple[TiltedComposition, TiltedComposition | None]
"""A direction from above, and from below where its grid has a lower law."""


class Ring(NamedTuple):
    """How one direction is discretised and composed.

    spacing  of the grid of losses, in nats
    largest  whether the grid cannot be finer
    """

    spacing: float
    window: Window
    largest: bool


def epsilon_bounds(direction: Direction) -> Bounds:
    """Around epsilon at the delta asked. Raises ToleranceNotReached, with the best bounds there were, and
    DiscretisationInvalid.

    Where an epsilon is known that the other direction needs, to need no more is enough.
    """
    asked, known = direction.asked, direction.known
    log_delta = math.log(asked.at)
    # More is left out at the ends than by sums over frequencies.
    tail = tail_for(asked.at, direction.parts, _TAIL)
    direction = direction_at_delta(direction.parts, asked, tail, forward=direction.forward)._replace(known=known)
    if known is not None and _holds(direction, known):
        return Bounds(0.0, known)

    def read(curves: Curves, saddle: Saddle, gap: float) -> Bounds:
        above, below = curves
        upper = _inverted(above.log_delta_upper, log_delta, saddle.epsilon, gap, up=True)
        if below is None or not 0 < upper < math.inf:
            return Bounds(0.0, upper)
        return Bounds(_inverted(below.log_delta_lower, log_delta, max(0.0, upper - gap), gap, up=False), upper)

    def recentred(saddle: Saddle, found: Bounds) -> Saddle:
        near = 0.5 * (found.lower + found.upper) if found.lower > 0.9 * found.upper else found.upper
        # Where a few rare steps decide, the estimate is far off: what may be neglected follows the delta asked for.
        moved = at_epsilon(direction.cumulants, near) if math.isfinite(near) else saddle
        return replace(moved, log_delta=min(log_delta, moved.log_delta))

    start = replace(direction.saddle, log_delta=min(log_delta, direction.saddle.log_delta))
    return _refined(direction, start, Bounds(0.0, math.inf), read, recentred)


def delta_bounds(direction: Direction) -> Bounds:
    """Around delta at the epsilon asked, of either sign. Raises ToleranceNotReached, with the best bounds there were,
    and DiscretisationInvalid."""
    epsilon = direction.asked.at

    def read(curves: Curves, saddle: Saddle, gap: float) -> Bounds:
        above, below = curves
        lower = 0.0 if below is None else math.exp(min(0.0, below.log_delta_lower(epsilon)))
        # No test is worse than guessing.
        return Bounds(max(lower, guessing(epsilon)), min(1.0, exp_up(min(0.0, above.log_delta_upper(epsilon)))))

    return _refined(direction, direction.saddle, Bounds(0.0, 1.0), read, lambda saddle, found: saddle)


def _refined(
    direction: Direction,
    saddle: Saddle,
    best: Bounds,
    read: Callable[[Curves, Saddle, float], Bounds],
    recentred: Callable[[Saddle, Bounds], Saddle],
) -> Bounds:
    """The bounds that ever finer grids `read`, until they settle the direction. `best` are those known beforehand."""
    asked, at_epsilons = direction.asked, math.isinf(best.upper)
    spacing, shrink = None, 0.7
    for _ in range(_ATTEMPTS):
        direction = direction._replace(saddle=saddle)
        # A relative change of delta moves epsilon by so much over the tilt, in nats.
        gap = shrink * (asked.tolerance * direction.scale if at_epsilons else direction.relative / saddle.tilt)
        ring = make_ring(direction, gap, spacing)
        above = compose(direction, ring, upper=True)
        assert above is not None, "an upper law has mass, or is refused"
        found = read((above, compose(direction, ring, upper=False)), saddle, gap)
        best = Bounds(max(best.lower, found.lower), min(best.upper, found.upper))
        if direction.settled_by(best):
            return best
        if ring.largest:
            break
        near = math.isfinite(found.upper) and abs(found.upper - saddle.epsilon) <= 0.1 * found.upper
        if near or not at_epsilons:
            # The gap falls with the square of the spacing.
            ratio = min(max(0.85 * asked.gap(found.upper) / (found.upper - found.lower), 0.1), 0.55)
            spacing, shrink = ring.spacing * math.sqrt(ratio), shrink * ratio
        else:
            # Around the wrong epsilon the gap tells little about the grid.
            spacing, shrink = None, shrink * (0.7 if math.isfinite(found.upper) else 0.25)
        saddle = recentred(saddle, found)
    raise ToleranceNotReached(asked, best if math.isfinite(best.upper) else None, "no grid of losses bounds it")


def _holds(direction: Direction, epsilon: float) -> bool:
    """Whether an upper bound on a coarse grid already shows that this direction satisfies (epsilon, delta)."""
    saddle, asked = direction.saddle, direction.asked
    fine = 0.7 * asked.tolerance * max(epsilon, 0.03 * saddle.spread)
    gap = min(max(0.6 * (epsilon - saddle.epsilon), fine), max(saddle.epsilon, saddle.spread))
    composed = compose(direction, make_ring(direction, gap), upper=True)
    return composed is not None and composed.log_delta_upper(epsilon) <= math.log(asked.at)


def _inverted(curve: Callable[[float], float], log_delta: float, guess: float, gap: float, *, up: bool) -> float:
    """The epsilon >= 0 at which a certified falling `curve` meets ln delta, on the safe side by about gap / 50."""

    @cache
    def excess(epsilon: float) -> float:
        return min(max(curve(epsilon) - log_delta, -1e6), 1e6)

    low = high = max(guess, 0.0)
    stride = gap
    if excess(high) > 0:
        while excess(high) > 0:
            if stride > 1e15 * gap:
                return math.inf if up else low
            low, high, stride = high, high + stride, 4 * stride
    else:
        while excess(low) <= 0:
            if low == 0:
                return 0.0
            low, high, stride = max(0.0, low - stride), low, 4 * stride
    root = float(brentq(excess, low, high, xtol=_CLOSE * gap, rtol=1e-14))
    step = _CLOSE * gap
    while (excess(root) > 0) if up else (root > 0 and excess(root) < 0):
        root, step = max(0.0, root + (step if up else -step)), 2 * step
    return root


def make_ring(direction: Direction, gap: float, spacing: float | None = None) -> Ring:
    """Grid and ring so that upper and lower epsilon should differ by `gap` nats at the saddle; else the largest."""
    cumulants, saddle = direction.cumulants, direction.saddle
    t, eps = saddle.tilt, saddle.epsilon
    spacing = _spacing(direction, gap) if spacing is None else spacing
    k, _, _ = cumulants.at(t)
    relative = min(0.05, max(0.1 * gap * t, 1e-12))
    peak = t * math.log(t) - (1 + t) * math.log1p(t)
    log_outside = min(-4.0, math.log(relative) + saddle.log_delta - k + t * eps - peak - math.log(2))
    shifts = math.sqrt(-2 * log_outside) / max(saddle.spread, 1e-300) * _SHIFTS
    up = (cumulants.values(t + shifts) - k - log_outside) / shifts
    down = -(cumulants.values(t - shifts) - k - log_outside) / shifts
    best_up, best_down = int(np.argmin(up)), int(np.argmax(down))
    ends = [cumulants.losses_at(end) for end in (0, -1)]

    def window(spacing: float) -> tuple[float, float]:
        margin = 4 * spacing + 0.02 * (up[best_up] - down[best_down])
        bottom, top = min(float(down[best_down]), eps) - margin, max(float(up[best_up]), eps) + margin
        # A few steps have a bounded support, and a window that holds it has no outside.
        pad = spacing * (sum(count for _, count in direction.parts) + 4)
        return max(bottom, min(min(ends), eps) - pad), min(top, max(max(ends), eps) + pad)

    bottom, top = window(spacing)
    widest = max(high - low for low, high in (pair.loss_range(cumulants.tail) for pair, _ in direction.parts))
    least = max(top - bottom, widest) / MAX_LOSSES
    largest = spacing <= least
    if largest:
        spacing = least
        bottom, top = window(spacing)
    size = int(next_fast_len(max(64, math.ceil((top - bottom) / spacing)), real=True))
    above = min(size - 2, max(2, math.ceil((top - eps) / spacing)))
    return Ring(spacing, Window(size, above, float(shifts[best_up]), float(shifts[best_down])), largest)


def _spacing(direction: Direction, gap: float) -> float:
    """The coarsest grid whose bounds on epsilon should differ by `gap` nats.

    A loss L in a cell [a, b] becomes a or b with the ratio's mean kept: ln of its moment generating
    function at t grows by t (t+1)/2 E (L-a)(b-L), so epsilon by the sum of (t+1)/2 E (L-a)(b-L). For a
    density that is h^2 (t+1)/12 a step, and half as much again downwards for the lower bound. Where a
    heavy tail makes h wide against the bulk, the bulk sits near a node and costs far less: measured,
    not assumed.
    """
    parts, cumulants, tilt = direction.parts, direction.cumulants, direction.saddle.tilt
    spacing = math.sqrt(8 * gap / (sum(count for _, count in direction.parts) * (tilt + 1)))
    candidates: Array = spacing * 1.3 ** np.arange(14, dtype=np.float64)
    cost = 0.75 * (tilt + 1) * cumulants.splitting_variance(tilt, candidates)
    for candidate, price in zip(candidates, cost, strict=True):
        if price <= gap and candidate * (tilt + 1) <= 0.7:
            spacing = float(candidate)
    for pair, _ in parts:
        if isinstance(pair, SampledRandomisedResponse):
            # Atoms on nodes lose nothing.
            low, high = pair.atom_losses()
            alike = all(other == pair for other, _ in parts)
            return high - low if alike else (high - low) / math.ceil((high - low) / spacing)
    return min(spacing, 0.7 / (tilt + 1))


_laws = lru_cache(maxsize=2)(Discretised)
"""A large grid takes hundreds of megabytes: it serves both bounds of one composition and is forgotten."""


def compose(direction: Direction, ring: Ring, *, upper: bool) -> TiltedComposition | None:
    """The direction on its ring, bounded from above or below; None if this grid has no lower law: no mass, or refused.

    Raises DiscretisationInvalid where the guard refuses the upper law.
    """
    laws = []
    for pair, count in direction.parts:
        try:
            law = _laws(pair, ring.spacing, direction.cumulants.tail).law(upper=upper, forward=direction.forward)
        except DiscretisationInvalid:
            if upper:
                raise
            return None
        if not law.masses.any():
            return None
        laws.append((law, count))
    return TiltedComposition(laws, direction.saddle.tilt, ring.window)
