"""Certified bounds on epsilon of a composition, as close together as asked.

Plan (where is the mass, how fine a grid), certify (upper and lower law, composed and inverted), check the
gap, refine. Estimates choose tilt, grid and window; they can cost time or a refinement, never the
bound.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from dpcore.accountants.pld import gaussian, single
from dpcore.accountants.pld.contour import Contour, make_contour
from dpcore.accountants.pld.convolve import Composition
from dpcore.accountants.pld.lines import TooFine
from dpcore.accountants.pld.parts import (
    Parts,
    gaussian_mu,
    least_variation,
    single_step,
    tail_for,
    total_variation,
    without_nearly_certain,
)
from dpcore.accountants.pld.plan import Bounds, ToleranceNotReached, compose, make_plan
from dpcore.accountants.pld.saddle import Cumulants, Saddle, at_delta, at_epsilon, at_tilt, cumulants

PEAKED = 0.3
"""Beyond this squared skewness plus excess kurtosis, saddle-point estimates of epsilon are off by percents."""

ABSOLUTE_FLOOR = 1e-6
"""Gaps below this many nats are always within tolerance."""

_GRID_TAIL = 1e-7
"""Share of delta that grids leave out: they pay for every loss that they hold."""
_EFFORT = 64
_TILTS = (1.0, 0.65, 0.4)
_RELATIVE, _LEAST_RELATIVE = 1e-5, 1e-11
"""How closely a sum over frequencies is planned to tell delta; below the least all is rounding."""


def _invert(composition: Composition, log_delta: float, guess: float, gap: float, *, upper: bool) -> float:
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


class _Asked(NamedTuple):
    delta: float
    tolerance: float


def _scale(saddle: Saddle, asked: _Asked) -> float:
    """What the tolerance is relative to, as far as estimates tell."""
    return max(saddle.epsilon, 0.03 * saddle.spread, ABSOLUTE_FLOOR / asked.tolerance)


def _located(
    parts: Parts, direction: Cumulants, saddle: Saddle, asked: _Asked, *, forward: bool
) -> tuple[Saddle, float]:
    """A better saddle where few rare steps decide and the estimate is far off: around a coarse upper bound.

    Also how many times more the bounds differ there than the tilt says: splitting variance V moves epsilon by
    -V/2 (delta'' + delta') / delta', which is V/2 (tilt + 1) where one exponential family tells all.
    """
    log_delta, steeper = math.log(asked.delta), 1.0
    for share in (0.1, 0.01, 0.01, 0.01):
        if share <= 2 * asked.tolerance or direction.peakedness(saddle.tilt) < PEAKED:
            break
        saddle = replace(saddle, log_delta=min(log_delta, saddle.log_delta))
        gap = share * _scale(saddle, asked)
        composed = compose(parts, make_plan(direction, saddle, gap, parts), upper=True, forward=forward)
        upper = math.inf if composed is None else _invert(composed, log_delta, saddle.epsilon, gap, upper=True)
        if composed is None or not 0 < upper < math.inf:
            break
        width = 0.05 * upper
        low, middle, high = (composed.log_delta_upper(upper + shift) for shift in (-width, 0.0, width))
        slope = (high - low) / (2 * width)
        curvature = (high - 2 * middle + low) / width**2
        near = abs(upper - saddle.epsilon) <= 0.1 * upper
        saddle = at_epsilon(direction, upper)
        if slope < 0 and math.isfinite(curvature):
            steeper = min(max((1 - slope - curvature / slope) / (1 + saddle.tilt), 1.0), 20.0) ** 1.1
        if near:
            break
    return saddle, steeper


def _one_direction(parts: Parts, direction: Cumulants, asked: _Asked, *, forward: bool, saddle: Saddle) -> Bounds:
    """Bounds from one direction alone, refined until they are within tolerance. `saddle` is where to start."""
    log_delta = math.log(asked.delta)
    saddle, steeper = _located(parts, direction, saddle, asked, forward=forward)
    shrink, result = 0.7 / steeper, Bounds(0.0, math.inf)
    spacing: float | None = None
    precise, before = False, math.inf
    for attempt in range(9):
        # Where a few rare steps decide, the estimate is far off: what may be neglected follows the delta asked for.
        saddle = replace(saddle, log_delta=min(log_delta, saddle.log_delta))
        gap = shrink * asked.tolerance * _scale(saddle, asked)
        plan = replace(make_plan(direction, saddle, gap, parts, spacing), precise=precise)
        composed = compose(parts, plan, upper=True, forward=forward)
        assert composed is not None
        upper = _invert(composed, log_delta, saddle.epsilon, gap, upper=True)
        lower = 0.0
        if upper > 0:
            composed = compose(parts, plan, upper=False, forward=forward)
            if composed is not None:
                lower = _invert(composed, log_delta, max(0.0, upper - gap), gap, upper=False)
        result = Bounds(max(result.lower, lower), min(result.upper, upper))
        reached = max(asked.tolerance * result.upper, ABSOLUTE_FLOOR)
        if result.upper - result.lower <= reached:
            return result
        spacing = None
        if math.isfinite(upper):
            # Around the wrong epsilon the gap tells little about the grid; else it shrinks with the spacing's square.
            near = lower > 0 and abs(upper - saddle.epsilon) <= 0.1 * upper
            if near and not precise and upper - lower > 0.9 * before:
                # A finer grid did not help: what is left is round-off.
                precise, spacing = True, plan.spacing
            elif near:
                before = upper - lower
                spacing = plan.spacing * min(0.75, max(math.sqrt(0.85 * reached / (upper - lower)), 0.35))
                shrink *= min(0.5, max(0.7 * reached / (upper - lower), 0.1))
            else:
                shrink *= 1.0 if attempt == 0 else 0.4
            saddle = at_epsilon(direction, 0.5 * (lower + upper) if lower > 0.9 * upper else upper)
        else:
            shrink *= 0.25
    raise ToleranceNotReached(
        f"tolerance={asked.tolerance!r}: expected bounds within it, but the best are "
        f"[{result.lower!r}, {result.upper!r}] at delta={asked.delta!r}. Ask for a larger tolerance."
    )


def _contour(
    parts: Parts,
    direction: Cumulants,
    saddle: Saddle,
    asked: _Asked,
    *,
    forward: bool,
    effort: int = 1,
    tilts: tuple[float, ...] = _TILTS,
) -> Contour | None:
    """A sum over frequencies that should tell epsilon far within tolerance; None where it would take too many.

    Where rare large losses decide, the saddle's tilt would make those beyond the quadrature's end count: less does.
    """
    scale, log_delta = _scale(saddle, asked), min(math.log(asked.delta), saddle.log_delta)
    for share in tilts:
        tilted = saddle if share == 1.0 else at_tilt(direction, share * saddle.tilt, saddle.epsilon, log_delta)
        worth = 0.3 * tilted.tilt * asked.tolerance * scale
        relative = min(_RELATIVE, 0.2 * worth)
        if relative < _LEAST_RELATIVE:
            return None
        if direction.at_ends(tilted.tilt) > worth:
            continue
        try:
            return make_contour(parts, direction, tilted, math.log(relative), worth, forward=forward, effort=effort)
        except TooFine:
            return None
    return None


def _inverted(contour: Contour, saddle: Saddle, asked: _Asked) -> Bounds | None:
    found = contour.invert(math.log(asked.delta), saddle.epsilon)
    if found is None or found[1] - found[0] > max(asked.tolerance * found[1], ABSOLUTE_FLOOR):
        return None
    return Bounds(*found)


def _first_side(parts: Parts, direction: Cumulants, saddle: Saddle, asked: _Asked, *, forward: bool) -> Bounds:
    contour = _contour(parts, direction, saddle, asked, forward=forward)
    found = None if contour is None else _inverted(contour, saddle, asked)
    return found or _by_grid(parts, direction, saddle, asked, forward=forward)


def _by_grid(parts: Parts, direction: Cumulants, saddle: Saddle, asked: _Asked, *, forward: bool) -> Bounds:
    """What a grid of losses tells, or, where it would grow too large, a sum over however many frequencies."""
    shorter = cumulants(parts, tail_for(asked.delta, parts, _GRID_TAIL), forward=forward)
    try:
        start = at_delta(shorter, math.log(asked.delta))
        return _one_direction(parts, shorter, asked, forward=forward, saddle=start)
    except ToleranceNotReached:
        for tilt in _TILTS:
            contour = _contour(parts, direction, saddle, asked, forward=forward, effort=_EFFORT, tilts=(tilt,))
            found = None if contour is None else _inverted(contour, saddle, asked)
            if found is not None:
                return found
        raise


def _second_side(
    parts: Parts, direction: Cumulants, saddle: Saddle, asked: _Asked, known: Bounds, *, forward: bool
) -> Bounds:
    """Both sides' bounds, given those of the other: often this one only has to hold at the other's."""
    contour = _contour(parts, direction, saddle, asked, forward=forward)
    other = None
    if contour is not None:
        if contour.log_delta_upper(known.upper) <= math.log(asked.delta):
            return known
        other = _inverted(contour, saddle, asked)
    if other is None:
        if _holds(parts, direction, saddle, asked, known.upper, forward=forward):
            return known
        other = _by_grid(parts, direction, saddle, asked, forward=forward)
    return Bounds(max(known.lower, other.lower), max(known.upper, other.upper))


def _holds(parts: Parts, direction: Cumulants, saddle: Saddle, asked: _Asked, epsilon: float, *, forward: bool) -> bool:
    """Whether a coarse upper bound already shows that this direction satisfies (epsilon, delta)."""
    largest = sum(-c * pair.smallest_loss() for pair, c in parts) if not forward else math.inf
    if epsilon >= largest * (1 + 1e-9):
        return True
    fine = 0.7 * asked.tolerance * max(epsilon, 0.03 * saddle.spread)
    gap = min(max(0.6 * (epsilon - saddle.epsilon), fine), max(saddle.epsilon, saddle.spread))
    composed = compose(parts, make_plan(direction, saddle, gap, parts), upper=True, forward=forward)
    return composed is not None and composed.log_delta_upper(epsilon) <= math.log(asked.delta)


@lru_cache(maxsize=4096)
def epsilon_bounds(parts: Parts, delta: float, tolerance: float) -> Bounds:
    """Lower and upper bound on the exact epsilon at `delta` of a composition of dominating pairs.

    parts      (pair, steps) each; steps >= 1; at most one unsampled Gaussian is cheapest (see `pairs_of`)
    delta      in (0, 1)
    tolerance  upper - lower <= max(tolerance * upper, 1e-6 nats)
    Raises ToleranceNotReached, and DiscretisationInvalid should the runtime guard fail.
    """
    if not parts:
        return Bounds(0.0, 0.0)
    rest, shift, log_probability = without_nearly_certain(parts)
    if shift > 0:
        return _shifted(rest, shift, log_probability, delta, tolerance)
    mu = gaussian_mu(parts)
    if mu is not None:
        return Bounds(*gaussian.epsilon_bounds(mu, delta))
    if least_variation(parts) < delta and total_variation(parts) <= delta:
        return Bounds(0.0, 0.0)
    one = single_step(parts)
    if one is not None:
        return Bounds(*single.epsilon_bounds(one, delta))
    asked = _Asked(delta, tolerance)
    tail = tail_for(delta, parts)
    log_delta = math.log(delta)
    forward = cumulants(parts, tail, forward=True)
    if all(pair.symmetric for pair, _ in parts):
        return _first_side(parts, forward, at_delta(forward, log_delta), asked, forward=True)
    backward = forward.mirrored()
    ahead = at_delta(forward, log_delta)
    saddles = ahead, at_delta(backward, log_delta, near=ahead.tilt)
    forward_first = saddles[0].epsilon >= saddles[1].epsilon
    first, second = (forward, backward) if forward_first else (backward, forward)
    bounds = _first_side(parts, first, saddles[not forward_first], asked, forward=forward_first)
    return _second_side(parts, second, saddles[forward_first], asked, bounds, forward=not forward_first)


def _shifted(rest: Parts, shift: float, log_probability: float, delta: float, tolerance: float) -> Bounds:
    """Bounds where `shift` nats are lost with a probability of almost 1, on top of the rest."""
    known = epsilon_bounds(rest, delta, tolerance)
    upper = shift + known.upper
    share = delta * math.exp(-log_probability) * (1 + 1e-12)
    lower = shift + epsilon_bounds(rest, share, tolerance).lower if share < 1 else 0.0
    if share < 1 and lower == shift:
        # The rest's delta at -e is at least 1 - exp(-e).
        lower += math.log1p(-share)
    if not rest:
        # All but the rare answers lose `shift`, so delta <= 1 - p exp(epsilon - shift).
        upper += min(0.0, math.log1p(-delta) - log_probability)
    return Bounds(max(0.0, lower * (1 - 1e-14)), upper * (1 + 1e-14))


def epsilon_estimate(parts: Parts, delta: float) -> float:
    """Saddle-point estimate of epsilon, usually within a percent: a start for searches, never a bound."""
    parts, shift, _ = without_nearly_certain(parts)
    if not parts:
        return shift
    mu = gaussian_mu(parts)
    if mu is not None:
        return shift + gaussian.epsilon_bounds(mu, delta)[1]
    # The other direction is hardly ever above it, and then by little.
    found = at_delta(cumulants(parts, tail_for(delta, parts), forward=True), math.log(delta)).epsilon
    return shift + max(0.0, found)
