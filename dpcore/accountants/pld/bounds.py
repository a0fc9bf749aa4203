"""Certified bounds on epsilon of a composition, as close together as asked.

What a closed form, a single step or few sums of losses (`responses`) decide is decided so; else a sum over frequencies
(`contour`), and where that does not reach, responses rounded to a common unit (`rounded_responses`) or a grid of losses
(`grid`). Both directions count; the second often has only to hold at the first's epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache

from dpcore.accountants.pld import gaussian, responses, rounded_responses, single
from dpcore.accountants.pld.contour import Contour, make_contour
from dpcore.accountants.pld.grid import holds, one_direction
from dpcore.accountants.pld.lines import TooFine
from dpcore.accountants.pld.loss import DiscretisationInvalid
from dpcore.accountants.pld.parts import (
    Parts,
    gaussian_mu,
    least_variation,
    single_step,
    tail_for,
    total_variation,
    without_nearly_certain,
)
from dpcore.accountants.pld.plan import (
    ABSOLUTE_FLOOR,
    MAX_LOSSES,
    SMALL_GRID,
    Asked,
    Bounds,
    ToleranceNotReached,
    scale,
)
from dpcore.accountants.pld.saddle import Cumulants, Saddle, at_delta, at_tilt, cumulants

_GRID_TAIL = 1e-7
"""Share of delta that grids leave out: they pay for every loss that they hold."""
_EFFORT = 64
_TILTS = (1.0, 0.65, 0.4)
_RELATIVE, _LEAST_RELATIVE = 1e-5, 1e-11
"""How closely a sum over frequencies is planned to tell delta; below the least all is rounding."""


def _contours(
    parts: Parts,
    direction: Cumulants,
    saddle: Saddle,
    asked: Asked,
    *,
    forward: bool,
    effort: int = 1,
) -> Iterator[Contour]:
    """Sums over frequencies that should tell epsilon far within tolerance, the likeliest first; none where they would
    take too many.

    Where rare large losses decide, and where the quadrature ends not far above the saddle's tilted mean, that tilt
    would make what lies beyond the end count: less does.
    """
    whole, log_delta = scale(saddle, asked), min(math.log(asked.delta), saddle.log_delta)
    for share in _TILTS:
        tilted = saddle if share == 1.0 else at_tilt(direction, share * saddle.tilt, saddle.epsilon, log_delta)
        worth = 0.3 * tilted.tilt * asked.tolerance * whole
        relative = min(_RELATIVE, 0.2 * worth)
        if relative < _LEAST_RELATIVE:
            return
        if direction.at_ends(tilted.tilt) > worth:
            continue
        try:
            yield make_contour(parts, direction, tilted, math.log(relative), worth, forward=forward, effort=effort)
        except TooFine:
            if effort == 1:
                return


def _inverted(contour: Contour, saddle: Saddle, asked: Asked) -> Bounds | None:
    found = contour.invert(math.log(asked.delta), saddle.epsilon)
    if found is None or found[1] - found[0] > max(asked.tolerance * found[1], ABSOLUTE_FLOOR):
        return None
    return Bounds(*found)


def _first_side(parts: Parts, direction: Cumulants, saddle: Saddle, asked: Asked, *, forward: bool) -> Bounds:
    found = _by_contours(parts, direction, saddle, asked, forward=forward)
    # Few unlike responses have a spectrum that does not decay, and atoms that no grid's nodes meet.
    found = found or rounded_responses.epsilon_bounds(parts, asked)
    return found or _by_grid(parts, direction, saddle, asked, forward=forward)


def _by_contours(
    parts: Parts, direction: Cumulants, saddle: Saddle, asked: Asked, *, forward: bool, effort: int = 1
) -> Bounds | None:
    contours = _contours(parts, direction, saddle, asked, forward=forward, effort=effort)
    told = (_inverted(contour, saddle, asked) for contour in contours)
    return next((found for found in told if found is not None), None)


def _by_grid(parts: Parts, direction: Cumulants, saddle: Saddle, asked: Asked, *, forward: bool) -> Bounds:
    """What a grid of losses tells; where it would grow, a sum over however many frequencies, then a large grid."""
    shorter = cumulants(parts, tail_for(asked.delta, parts, _GRID_TAIL), forward=forward)
    start = at_delta(shorter, math.log(asked.delta))
    try:
        return one_direction(parts, shorter, asked, forward=forward, saddle=start, largest=SMALL_GRID)
    except (ToleranceNotReached, DiscretisationInvalid):
        found = _by_contours(parts, direction, saddle, asked, forward=forward, effort=_EFFORT)
        if found is not None:
            return found
    return one_direction(parts, shorter, asked, forward=forward, saddle=start, largest=MAX_LOSSES)


def _second_side(
    parts: Parts, direction: Cumulants, saddle: Saddle, asked: Asked, known: Bounds, *, forward: bool
) -> Bounds:
    """Both sides' bounds, given those of the other: often this one only has to hold at the other's."""
    other = None
    for contour in _contours(parts, direction, saddle, asked, forward=forward):
        if contour.log_delta_upper(known.upper) <= math.log(asked.delta):
            return known
        other = _inverted(contour, saddle, asked)
        if other is not None:
            break
    if other is None:
        if holds(parts, direction, saddle, asked, known.upper, forward=forward):
            return known
        other, refusal = _or_best(lambda: _by_grid(parts, direction, saddle, asked, forward=forward))
        if refusal is not None:
            raise ToleranceNotReached(str(refusal), best=_both(known, other)) from refusal
    return _both(known, other)


def _both(one: Bounds, other: Bounds) -> Bounds:
    return Bounds(max(one.lower, other.lower), max(one.upper, other.upper))


def _or_best(find: Callable[[], Bounds]) -> tuple[Bounds, ToleranceNotReached | None]:
    """What `find` gives, or the best bounds that it had when it gave up. Raises what leaves none."""
    try:
        return find(), None
    except ToleranceNotReached as refusal:
        if refusal.best is None:
            raise
        return refusal.best, refusal


@lru_cache(maxsize=4096)
def epsilon_bounds(parts: Parts, delta: float, tolerance: float) -> Bounds:
    """Lower and upper bound on the exact epsilon at `delta` of a composition of dominating pairs.

    parts      (pair, steps) each; steps >= 1; at most one unsampled Gaussian is cheapest (see `pairs_of`)
    delta      in (0, 1)
    tolerance  upper - lower <= max(tolerance * upper, 1e-6 nats)
    Raises ToleranceNotReached, with the best bounds on the whole if there are any, and DiscretisationInvalid should the
    runtime guard fail.
    """
    if not parts:
        return Bounds(0.0, 0.0)
    exact = responses.epsilon_bounds(parts, delta)
    if exact is not None:
        return exact
    rest, shift, log_probability = without_nearly_certain(parts)
    if shift > 0:
        return _shifted(rest, shift, log_probability, delta, tolerance)
    mu = gaussian_mu(parts)
    if mu is not None:
        return Bounds(gaussian.epsilon_bounds(mu[0], delta)[0], gaussian.epsilon_bounds(mu[1], delta)[1])
    if least_variation(parts) < delta and total_variation(parts) <= delta:
        return Bounds(0.0, 0.0)
    one = single_step(parts)
    if one is not None:
        return Bounds(*single.epsilon_bounds(one, delta))
    asked = Asked(delta, tolerance)
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
    bounds, refusal = _or_best(
        lambda: _first_side(parts, first, saddles[not forward_first], asked, forward=forward_first)
    )
    bounds = _second_side(parts, second, saddles[forward_first], asked, bounds, forward=not forward_first)
    if refusal is not None:
        raise ToleranceNotReached(str(refusal), best=bounds) from refusal
    return bounds


def _shifted(rest: Parts, shift: float, log_probability: float, delta: float, tolerance: float) -> Bounds:
    """Bounds where `shift` nats are lost with a probability of almost 1, on top of the rest."""
    known = _exactly(rest, delta, tolerance)
    upper = shift + known.upper
    share = delta * math.exp(-log_probability) * (1 + 1e-12)
    lower = shift + _exactly(rest, share, tolerance).lower if share < 1 else 0.0
    if share < 1 and lower == shift:
        # The rest's delta at -e is at least 1 - exp(-e).
        lower += math.log1p(-share)
    if not rest:
        # All but the rare answers lose `shift`, so delta <= 1 - p exp(epsilon - shift).
        upper += min(0.0, math.log1p(-delta) - log_probability)
    return Bounds(max(0.0, lower * (1 - 1e-14)), upper * (1 + 1e-14))


def _exactly(parts: Parts, delta: float, tolerance: float) -> Bounds:
    """`epsilon_bounds`; bounds that are farther apart are of a part here, not of the whole, and are not passed on."""
    try:
        return epsilon_bounds(parts, delta, tolerance)
    except ToleranceNotReached as refusal:
        raise ToleranceNotReached(str(refusal)) from refusal


def epsilon_estimate(parts: Parts, delta: float) -> float:
    """Saddle-point estimate of epsilon, usually within a percent: a start for searches, never a bound."""
    parts, shift, _ = without_nearly_certain(parts)
    if not parts:
        return shift
    mu = gaussian_mu(parts)
    if mu is not None:
        return shift + gaussian.epsilon_bounds(mu[1], delta)[1]
    # The other direction is hardly ever above it, and then by little.
    found = at_delta(cumulants(parts, tail_for(delta, parts), forward=True), math.log(delta)).epsilon
    return shift + max(0.0, found)
