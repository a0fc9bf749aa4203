"""Epsilon and delta of one direction by a grid of losses, refined until the bounds are as close together as asked.

Plan (where is the mass, how fine a grid), certify (upper and lower law, composed and inverted), check the gap, refine.

Certificate: the upper law of every step dominates the exact pair and the lower one is dominated by it (`masses`,
`laws.guard`), and composition keeps both (Zhu, Dong & Wang 2022, Theorem 10). What FFT and ring do to their composition
is charged (`convolution`): wrapped mass by Chernoff bounds, round-off by the spectrum's and the sum's. Estimates choose
tilt, grid and window; they can cost time or a refinement, never the bound.

Source  Koskela, Jalko & Honkela (2020) and Gopi, Lee & Wutschitz (2021) for composition by FFT; Doroshenko et al.
        (2022) for the pessimistic law.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dpcore.accountants.pld.bounds import REMEDY, Bounds, DiscretisationInvalid, ToleranceNotReached
from dpcore.accountants.pld.convolution import TiltedComposition, Window, fast_size
from dpcore.accountants.pld.laws import Discretised
from dpcore.accountants.pld.pairs import Array, SampledRandomisedResponse, guessing, tail_for
from dpcore.accountants.pld.saddle_point import Direction, at_epsilon, direction_at_delta
from dpcore.accountants.protocol import exp_up

# The grid of losses of one direction, its ring and window, as estimates plan them; and the composition on them.
#
# No certificate rests on what is planned here: a coarse grid or a short window widens the bounds (`refinement`).

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


SMALL_GRID = 1 << 17
"""What a grid may grow to, in losses, before a sum over however many frequencies is tried in its place."""

COARSE_GRID = 1 << 14
"""What it may grow to where the bounds only start a search."""

PEAKED = 0.3
"""Beyond this squared skewness plus excess kurtosis, saddle-point estimates of epsilon are off by percents."""

_TAIL = 1e-7
"""Share of delta that grids leave out: they pay for every loss that they hold."""
_ATTEMPTS = 9


def epsilon_bounds(direction: Direction) -> Bounds | None:
    """Around epsilon at the delta asked, by a grid of at most SMALL_GRID losses; None where that is too few.

    Where an epsilon is known that the other direction needs, to hold at it is enough: its upper end is that one.
    """
    if direction.known is not None and _holds(direction, direction.known):
        return Bounds(0.0, direction.known)
    try:
        return refined(shortened(direction), SMALL_GRID)
    except (ToleranceNotReached, DiscretisationInvalid):
        return None


def large_epsilon_bounds(direction: Direction) -> Bounds:
    """As `epsilon_bounds`, by a grid of at most MAX_LOSSES. Raises as `refined`."""
    return refined(shortened(direction), MAX_LOSSES)


def coarse_upper(direction: Direction) -> float:
    """Upper bound on epsilon at the delta asked, by a grid of at most COARSE_GRID losses.

    Where an epsilon is known that the other direction needs, to hold at it is enough. Infinite where no grid tells;
    raises DiscretisationInvalid.
    """
    if direction.known is not None and _holds(direction, direction.known):
        return direction.known
    try:
        return refined(shortened(direction), COARSE_GRID, rough=True).upper
    except ToleranceNotReached as refusal:
        return math.inf if refusal.best is None else refusal.best.upper


def shortened(direction: Direction) -> Direction:
    """The direction with more left out at its ends than by sums over frequencies, and its saddle."""
    parts, asked = direction.parts, direction.asked
    return direction_at_delta(parts, asked, tail_for(asked.at, parts, _TAIL), forward=direction.forward)


def delta_bounds(direction: Direction) -> Bounds:
    """Around delta at the epsilon asked, of either sign. Raises ToleranceNotReached, with the best bounds there were,
    and DiscretisationInvalid."""
    asked, epsilon = direction.asked, direction.asked.at
    shrink, result, too_many = 0.5, Bounds(0.0, 1.0), None
    for _ in range(_ATTEMPTS):
        try:
            ring = make_ring(direction, shrink * asked.tolerance / direction.saddle.tilt)
            upper_law, lower_law = (compose(direction, ring, upper=side) for side in (True, False))
        except ToleranceNotReached as refusal:
            if result.upper < 1:
                raise ToleranceNotReached(str(refusal), best=result) from refusal
            shrink *= coarsened(refusal, MAX_LOSSES)
            too_many = refusal
            continue
        assert upper_law is not None
        upper = min(1.0, exp_up(min(0.0, upper_law.log_delta_upper(epsilon))))
        lower = 0.0 if lower_law is None else math.exp(min(0.0, lower_law.log_delta_lower(epsilon)))
        # No test is worse than guessing: delta is at least 1 - exp(epsilon).
        result = Bounds(max(result.lower, lower, guessing(epsilon)), min(result.upper, upper))
        if asked.met_by(result):
            return result
        if too_many is not None:
            raise ToleranceNotReached(str(too_many), best=result) from too_many
        shrink *= 0.3
    raise asked.too_far_apart("epsilon", result, result)


def _invert(composition: TiltedComposition, log_delta: float, guess: float, gap: float, *, upper: bool) -> float:
    """The epsilon >= 0 at which the certified delta meets the target, rounded to the safe side by about gap/20."""
    curve = composition.log_delta_upper if upper else composition.log_delta_lower

    def above(eps: float) -> float:
        return max(curve(eps) - log_delta, -1e6)

    low = max(guess, 0.0)
    value = above(low)
    for _ in range(3):
        # Newton: the curve's slope is nearly the tilt. A point on the safe side certifies; `value` says how near.
        slack = -value if upper else value
        if 0 <= slack <= 0.06 * gap * composition.tilt and value != 0:
            return low
        following = max(0.0, low + value / composition.tilt + (0.02 if upper else -0.02) * gap)
        if following == low or abs(following - low) > 0.3 * low + gap:
            break
        low, value = following, above(following)
    high, f_low, f_high = low, value, value
    if value > 0:
        for _ in range(40):
            low, f_low = high, f_high
            high = low + min(
                max(1.3 * f_low / composition.tilt, 0.1 * gap), composition.spacing * composition.window.size
            )
            f_high = above(high)
            if f_high <= 0:
                break
        else:
            return math.inf if upper else low
    else:
        for _ in range(40):
            high, f_high = low, f_low
            if high == 0.0:
                return 0.0
            low = max(0.0, high - min(max(-1.3 * f_high / composition.tilt, 0.1 * gap), max(0.5 * high, gap)))
            f_low = above(low)
            if f_low > 0:
                break
        else:
            return high if upper else 0.0
    while high - low > 0.05 * gap:
        # Secant steps that keep the bracket, shortened towards its safe end so that both ends move.
        share = min(max(f_low / (f_low - f_high), 0.02), 0.98)
        before = high - low
        for middle in (low + share * before + 0.02 * gap, low + share * before - 0.02 * gap, 0.5 * (low + high)):
            if not low < middle < high:
                continue
            value = above(middle)
            if value > 0:
                low, f_low = middle, value
            else:
                high, f_high = middle, value
            if high - low <= 0.05 * gap:
                break
            if middle == 0.5 * (low + high) or high - low < 0.4 * before:
                break
        if high - low == before:
            break
    return high if upper else low


def _located(direction: Direction, largest: int) -> tuple[Direction, float]:
    """With a better saddle where few rare steps decide and the estimate is far off: around a coarse upper bound.

    Also how many times more the bounds differ there than the tilt says: splitting variance V moves epsilon by
    -V/2 (delta'' + delta') / delta', which is V/2 (tilt + 1) where one exponential family tells all.
    """
    asked, saddle = direction.asked, direction.saddle
    log_delta, steeper = math.log(asked.at), 1.0
    for share in (0.1, 0.01, 0.01, 0.01):
        if share <= 2 * asked.tolerance or direction.cumulants.peakedness(saddle.tilt) < PEAKED:
            break
        saddle = replace(saddle, log_delta=min(log_delta, saddle.log_delta))
        direction = direction._replace(saddle=saddle)
        gap = share * direction.scale
        try:
            composed = compose(direction, make_ring(direction, gap, largest=largest), upper=True)
        except ToleranceNotReached:
            break
        upper = math.inf if composed is None else _invert(composed, log_delta, saddle.epsilon, gap, upper=True)
        if composed is None or not 0 < upper < math.inf:
            break
        width = 0.05 * upper
        low, middle, high = (composed.log_delta_upper(upper + shift) for shift in (-width, 0.0, width))
        slope = (high - low) / (2 * width)
        curvature = (high - 2 * middle + low) / width**2
        near = abs(upper - saddle.epsilon) <= 0.1 * upper
        saddle = at_epsilon(direction.cumulants, upper)
        if slope < 0 and math.isfinite(curvature):
            steeper = min(max((1 - slope - curvature / slope) / (1 + saddle.tilt), 1.0), 20.0) ** 1.1
        if near:
            break
    return direction._replace(saddle=saddle), steeper


def refined(direction: Direction, largest: int = MAX_LOSSES, *, rough: bool = False) -> Bounds:
    """Around epsilon at the delta asked, from this direction alone; its saddle is where to start.

    rough  bounds will do that are not as close as asked, if the upper one is where it was planned
    Raises ToleranceNotReached, also where that takes a grid of more than `largest` losses, with the best bounds that
    so large a grid gave; and DiscretisationInvalid.
    """
    asked, log_delta = direction.asked, math.log(direction.asked.at)
    direction, steeper = _located(direction, largest)
    shrink, result = 0.7 / steeper, Bounds(0.0, math.inf)
    spacing: float | None = None
    precise, before, coarser = False, math.inf, 1.0
    for attempt in range(_ATTEMPTS):
        # Where a few rare steps decide, the estimate is far off: what may be neglected follows the delta asked for.
        saddle = replace(direction.saddle, log_delta=min(log_delta, direction.saddle.log_delta))
        direction = direction._replace(saddle=saddle)
        gap = coarser * shrink * asked.tolerance * direction.scale
        try:
            ring = make_ring(direction, gap, spacing, largest)._replace(precise=precise)
            composed = compose(direction, ring, upper=True)
        except ToleranceNotReached as refusal:
            if math.isfinite(result.upper):
                raise ToleranceNotReached(str(refusal), best=result) from refusal
            if largest < MAX_LOSSES and not rough:
                raise
            coarser *= coarsened(refusal, largest)
            continue
        assert composed is not None
        upper = _invert(composed, log_delta, saddle.epsilon, gap, upper=True)
        lower = 0.0
        if 0 < upper < math.inf:
            composed = compose(direction, ring, upper=False)
            if composed is not None:
                lower = _invert(composed, log_delta, max(0.0, upper - gap), gap, upper=False)
        result = Bounds(max(result.lower, lower), min(result.upper, upper))
        reached = asked.gap(result.upper)
        told = rough and abs(upper - saddle.epsilon) <= 0.1 * upper and lower > 0.8 * upper
        if math.isfinite(result.upper) and (told or result.upper - result.lower <= reached):
            return result
        spacing = None
        if math.isfinite(upper):
            # Around the wrong epsilon the gap tells little about the grid; else it shrinks with the spacing's square.
            near = lower > 0 and abs(upper - saddle.epsilon) <= 0.1 * upper
            if near and not precise and upper - lower > 0.9 * before:
                # A finer grid did not help: what is left is round-off.
                precise, spacing = True, ring.spacing
            elif near:
                before = upper - lower
                spacing = ring.spacing * min(0.75, max(math.sqrt(0.85 * reached / (upper - lower)), 0.35))
                shrink *= min(0.5, max(0.7 * reached / (upper - lower), 0.1))
            else:
                shrink *= 1.0 if attempt == 0 else 0.4
            middle = 0.5 * (lower + upper) if lower > 0.9 * upper else upper
            direction = direction._replace(saddle=at_epsilon(direction.cumulants, middle))
        else:
            shrink *= 0.25
    raise asked.too_far_apart("delta", result, result if math.isfinite(result.upper) else None)


def _holds(direction: Direction, epsilon: float) -> bool:
    """Whether a coarse upper bound already shows that this direction satisfies (epsilon, delta)."""
    saddle, asked = direction.saddle, direction.asked
    if epsilon >= direction.largest_loss * (1 + 1e-9):
        return True
    fine = 0.7 * asked.tolerance * max(epsilon, 0.03 * saddle.spread)
    gap = min(max(0.6 * (epsilon - saddle.epsilon), fine), max(saddle.epsilon, saddle.spread))
    try:
        composed = compose(direction, make_ring(direction, gap), upper=True)
    except ToleranceNotReached:
        return False
    return composed is not None and composed.log_delta_upper(epsilon) <= math.log(asked.at)
