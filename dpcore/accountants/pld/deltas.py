"""Certified bounds on delta of a composition at a given epsilon, as close together as asked."""

from __future__ import annotations

import math
from functools import lru_cache

from dpcore.accountants.pld import gaussian, responses, single
from dpcore.accountants.pld.contour import make_contour
from dpcore.accountants.pld.lines import TooFine
from dpcore.accountants.pld.parts import (
    Parts,
    gaussian_mu,
    guessing,
    nearly_one,
    single_step,
    tail_for,
    without_nearly_certain,
)
from dpcore.accountants.pld.plan import (
    MAX_LOSSES,
    REMEDY,
    Bounds,
    ToleranceNotReached,
    coarsened,
    compose,
    make_plan,
)
from dpcore.accountants.pld.saddle import Cumulants, Saddle, at_epsilon, at_tilt, cumulants

FLOOR = 1e-14
"""Deltas this close are always close enough."""


@lru_cache(maxsize=4096)
def delta_bounds(parts: Parts, epsilon: float, tolerance: float) -> Bounds:
    """Lower and upper bound on the exact delta at `epsilon` (either sign) of a composition of dominating pairs.

    tolerance  upper - lower <= max(tolerance * upper, FLOOR)
    Raises ToleranceNotReached, and DiscretisationInvalid should the runtime guard fail.
    """
    if not parts:
        return Bounds(*(2 * (guessing(epsilon),)))
    exact = responses.delta_bounds(parts, epsilon)
    if exact is not None:
        return exact
    apart = nearly_one(parts, epsilon)
    if apart >= 1 - FLOOR:
        return Bounds(apart, 1.0)
    rest, shift, log_probability = without_nearly_certain(parts)
    if shift > 0:
        try:
            known = delta_bounds(rest, epsilon - shift, tolerance)
        except ToleranceNotReached as refusal:
            # Its best bounds are of a part, not of the whole.
            raise ToleranceNotReached(str(refusal)) from refusal
        # The shift itself is rounded: by less than this, and delta by at most as much.
        rounding = 1e-14 * (shift + abs(epsilon))
        lower = max(known.lower * math.exp(log_probability) * (1 - 1e-12) - rounding, guessing(epsilon))
        return Bounds(max(0.0, lower), min(1.0, known.upper + rounding))
    mu = gaussian_mu(parts)
    if mu is not None:
        return Bounds(gaussian.delta_bounds(epsilon, mu[0])[0], gaussian.delta_bounds(epsilon, mu[1])[1])
    one = single_step(parts)
    if one is not None:
        return Bounds(*single.delta_bounds(one, epsilon))
    sides = (True,) if all(pair.symmetric for pair, _ in parts) else (True, False)
    found, refusals = [], []
    for side in sides:
        try:
            found.append(_delta_one_direction(parts, epsilon, tolerance, forward=side))
        except ToleranceNotReached as refusal:
            if refusal.best is None:
                raise
            found.append(refusal.best)
            refusals.append(refusal)
    both = Bounds(max(b.lower for b in found), max(b.upper for b in found))
    if refusals and both.upper - both.lower > max(tolerance * both.upper, FLOOR):
        raise ToleranceNotReached(str(refusals[0]), best=both)
    return both


def _delta_by_contour(
    parts: Parts, direction: Cumulants, saddle: Saddle, epsilon: float, tolerance: float, *, forward: bool
) -> Bounds | None:
    """Bounds by a sum over frequencies; None where it would take too many or tell too little."""
    for share in (1.0, 0.65, 0.4):
        tilted = saddle if share == 1.0 else at_tilt(direction, share * saddle.tilt, epsilon, saddle.log_delta)
        if direction.at_ends(tilted.tilt) > 0.3 * tolerance:
            continue
        try:
            relative = math.log(min(1e-6, 0.05 * tolerance))
            contour = make_contour(parts, direction, tilted, relative, 0.3 * tolerance, forward=forward)
        except TooFine:
            return None
        reading = contour.at(epsilon)
        lower, upper = math.exp(reading.lower), math.exp(reading.upper)
        if upper - lower <= max(tolerance * upper, FLOOR):
            return Bounds(lower, upper)
    return None


def _delta_one_direction(parts: Parts, epsilon: float, tolerance: float, *, forward: bool) -> Bounds:
    if not forward and epsilon >= max(0.0, sum(-c * pair.smallest_loss() for pair, c in parts)) * (1 + 1e-9):
        # No loss is larger.
        return Bounds(0.0, 0.0)
    direction = cumulants(parts, tail_for(1e-12, parts), forward=forward)
    most = sum(c * float(loss.max()) for loss, c in zip(direction.losses, direction.counts, strict=True))
    # Beyond the largest loss the tilt has no saddle; just below it the bound is already tiny.
    saddle = at_epsilon(direction, min(epsilon, most - 0.02 * abs(most)))
    direction = cumulants(parts, tail_for(math.exp(max(min(saddle.log_delta, 0.0), -600.0)), parts), forward=forward)
    summed = _delta_by_contour(parts, direction, saddle, epsilon, tolerance, forward=forward)
    if summed is not None:
        return summed
    shrink, result = 0.5, Bounds(0.0, 1.0)
    floor, too_many = guessing(epsilon), None
    for _ in range(9):
        gap = shrink * tolerance / saddle.tilt
        try:
            plan = make_plan(direction, saddle, gap, parts)
            upper_law, lower_law = (compose(parts, plan, upper=side, forward=forward) for side in (True, False))
        except ToleranceNotReached as refusal:
            if result.upper < 1:
                raise ToleranceNotReached(str(refusal), best=result) from refusal
            shrink *= coarsened(refusal, MAX_LOSSES)
            too_many = refusal
            continue
        assert upper_law is not None
        upper = min(1.0, math.exp(min(0.0, upper_law.log_delta_upper(epsilon))))
        lower = 0.0 if lower_law is None else math.exp(min(0.0, lower_law.log_delta_lower(epsilon)))
        # No test is worse than guessing: delta is at least 1 - exp(epsilon).
        result = Bounds(max(result.lower, lower, floor), min(result.upper, upper))
        if result.upper - result.lower <= max(tolerance * result.upper, FLOOR):
            return result
        if too_many is not None:
            raise ToleranceNotReached(str(too_many), best=result) from too_many
        shrink *= 0.3
    raise ToleranceNotReached(
        f"tolerance={tolerance!r}: expected bounds within it, but the best are "
        f"[{result.lower!r}, {result.upper!r}] at epsilon={epsilon!r}. {REMEDY}",
        best=result,
    )
