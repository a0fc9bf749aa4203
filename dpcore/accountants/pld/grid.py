"""Epsilon of one direction by a grid of losses, refined until its bounds are as close together as asked.

Plan (where is the mass, how fine a grid), certify (upper and lower law, composed and inverted), check the
gap, refine. Estimates choose tilt, grid and window; they can cost time or a refinement, never the
bound.
"""

from __future__ import annotations

import math
from dataclasses import replace

from dpcore.accountants.pld.convolve import Composition
from dpcore.accountants.pld.parts import Parts
from dpcore.accountants.pld.plan import (
    ABSOLUTE_FLOOR,
    MAX_LOSSES,
    REMEDY,
    Asked,
    Bounds,
    ToleranceNotReached,
    coarsened,
    compose,
    make_plan,
    scale,
)
from dpcore.accountants.pld.saddle import Cumulants, Saddle, at_epsilon

PEAKED = 0.3
"""Beyond this squared skewness plus excess kurtosis, saddle-point estimates of epsilon are off by percents."""


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


def _located(
    parts: Parts, direction: Cumulants, saddle: Saddle, asked: Asked, *, forward: bool, largest: int
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
        gap = share * scale(saddle, asked)
        try:
            composed = compose(
                parts, make_plan(direction, saddle, gap, parts, largest=largest), upper=True, forward=forward
            )
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
        saddle = at_epsilon(direction, upper)
        if slope < 0 and math.isfinite(curvature):
            steeper = min(max((1 - slope - curvature / slope) / (1 + saddle.tilt), 1.0), 20.0) ** 1.1
        if near:
            break
    return saddle, steeper


def one_direction(
    parts: Parts,
    direction: Cumulants,
    asked: Asked,
    *,
    forward: bool,
    saddle: Saddle,
    largest: int = MAX_LOSSES,
) -> Bounds:
    """Bounds from one direction alone, refined until they are within tolerance. `saddle` is where to start.

    Raises ToleranceNotReached, also where that takes a grid of more than `largest` losses, with the best bounds that
    so large a grid gave.
    """
    log_delta = math.log(asked.delta)
    saddle, steeper = _located(parts, direction, saddle, asked, forward=forward, largest=largest)
    shrink, result = 0.7 / steeper, Bounds(0.0, math.inf)
    spacing: float | None = None
    precise, before, coarser = False, math.inf, 1.0
    for attempt in range(9):
        # Where a few rare steps decide, the estimate is far off: what may be neglected follows the delta asked for.
        saddle = replace(saddle, log_delta=min(log_delta, saddle.log_delta))
        gap = coarser * shrink * asked.tolerance * scale(saddle, asked)
        try:
            plan = replace(make_plan(direction, saddle, gap, parts, spacing, largest), precise=precise)
            composed = compose(parts, plan, upper=True, forward=forward)
        except ToleranceNotReached as refusal:
            if math.isfinite(result.upper):
                raise ToleranceNotReached(str(refusal), best=result) from refusal
            if largest < MAX_LOSSES:
                raise
            coarser *= coarsened(refusal, largest)
            continue
        assert composed is not None
        upper = _invert(composed, log_delta, saddle.epsilon, gap, upper=True)
        lower = 0.0
        if 0 < upper < math.inf:
            composed = compose(parts, plan, upper=False, forward=forward)
            if composed is not None:
                lower = _invert(composed, log_delta, max(0.0, upper - gap), gap, upper=False)
        result = Bounds(max(result.lower, lower), min(result.upper, upper))
        reached = max(asked.tolerance * result.upper, ABSOLUTE_FLOOR)
        if math.isfinite(result.upper) and result.upper - result.lower <= reached:
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
        f"[{result.lower!r}, {result.upper!r}] at delta={asked.delta!r}. {REMEDY}",
        best=result if math.isfinite(result.upper) else None,
    )


def holds(parts: Parts, direction: Cumulants, saddle: Saddle, asked: Asked, epsilon: float, *, forward: bool) -> bool:
    """Whether a coarse upper bound already shows that this direction satisfies (epsilon, delta)."""
    largest = sum(-c * pair.smallest_loss() for pair, c in parts) if not forward else math.inf
    if epsilon >= largest * (1 + 1e-9):
        return True
    fine = 0.7 * asked.tolerance * max(epsilon, 0.03 * saddle.spread)
    gap = min(max(0.6 * (epsilon - saddle.epsilon), fine), max(saddle.epsilon, saddle.spread))
    try:
        composed = compose(parts, make_plan(direction, saddle, gap, parts), upper=True, forward=forward)
    except ToleranceNotReached:
        return False
    return composed is not None and composed.log_delta_upper(epsilon) <= math.log(asked.delta)
