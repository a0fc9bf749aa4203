"""Epsilon and delta of one direction by sums over frequencies, the likeliest tilt first.

Certificate: each sum's own (`contour`): aliasing, truncation, the quadrature of every step's characteristic function
and round-off are bounded. Estimates choose tilt, period and frequencies, and cost time alone: what a sum tells is
taken where its two ends are as close as asked.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from dpcore.accountants.pld.bounds import Bounds
from dpcore.accountants.pld.contour import Contour, make_contour
from dpcore.accountants.pld.lines import TooFine
from dpcore.accountants.pld.saddle_point import Direction, Saddle, at_tilt
from dpcore.accountants.protocol import exp_up

TILTS = (1.0, 0.65, 0.4)
"""Shares of the saddle's tilt. Where rare large losses decide, and where the quadrature ends not far above the saddle's
tilted mean, the saddle's own would make what lies beyond the end count: less does."""
PATIENCE = 64
"""How many times more frequencies and nodes are worth it where a grid would grow large."""
_RELATIVE, _LEAST_RELATIVE = 1e-5, 1e-11
"""How closely a sum is planned to tell delta for an epsilon; below the least all is rounding."""


def epsilon_bounds(direction: Direction) -> Bounds | None:
    """Around epsilon at the delta asked, in nats; None where no sum tells it as closely as asked.

    Where an epsilon is known that the other direction needs, to hold at it is enough: its upper end is that one.
    """
    for contour in _contours(direction):
        known = direction.known
        if known is not None and contour.log_delta_upper(known) <= math.log(direction.asked.at):
            return Bounds(0.0, known)
        found = _inverted(contour, direction)
        if found is not None:
            return found
    return None


def patient_epsilon_bounds(direction: Direction) -> Bounds | None:
    """As `epsilon_bounds`, by sums over however many frequencies, without regard to what the other direction needs."""
    told = (_inverted(contour, direction) for contour in _contours(direction, PATIENCE))
    return next((found for found in told if found is not None), None)


def delta_bounds(direction: Direction) -> Bounds | None:
    """Around delta at the epsilon asked, of either sign; None where a sum would take too many frequencies or tell too
    little."""
    asked = direction.asked
    told = (delta_told(contour, asked.at) for contour in delta_contours(direction))
    return next((found for found in told if asked.met_by(found)), None)


def delta_contours(direction: Direction) -> Iterator[Contour]:
    """Sums that should tell delta at the epsilon asked far within tolerance; none where they would take too many
    frequencies."""
    asked = direction.asked
    relative = math.log(min(1e-6, 0.05 * asked.tolerance))
    for tilted in _tilted(direction, asked.at, direction.saddle.log_delta):
        if direction.cumulants.at_ends(tilted.tilt) > 0.3 * asked.tolerance:
            continue
        try:
            yield make_contour(direction, tilted, relative, 0.3 * asked.tolerance)
        except TooFine:
            return


def delta_told(contour: Contour, epsilon: float) -> Bounds:
    """Around delta of one direction at `epsilon` of either sign: certified wherever the sum was laid."""
    reading = contour.at(epsilon)
    return Bounds(math.exp(reading.lower), exp_up(reading.upper))


def _tilted(direction: Direction, epsilon: float, log_delta: float) -> Iterator[Saddle]:
    saddle = direction.saddle
    for share in TILTS:
        tilt = share * saddle.tilt
        yield saddle if share == 1.0 else at_tilt(direction.cumulants, tilt, epsilon, log_delta)


def _contours(direction: Direction, effort: int = 1) -> Iterator[Contour]:
    """Sums that should tell epsilon far within tolerance; none where they would take too many frequencies."""
    asked, saddle = direction.asked, direction.saddle
    for tilted in _tilted(direction, saddle.epsilon, min(math.log(asked.at), saddle.log_delta)):
        worth = 0.3 * tilted.tilt * asked.tolerance * direction.scale
        relative = min(_RELATIVE, 0.2 * worth)
        if relative < _LEAST_RELATIVE:
            return
        if direction.cumulants.at_ends(tilted.tilt) > worth:
            continue
        try:
            yield make_contour(direction, tilted, math.log(relative), worth, effort)
        except TooFine:
            if effort == 1:
                return


def _inverted(contour: Contour, direction: Direction) -> Bounds | None:
    found = contour.invert(math.log(direction.asked.at), direction.saddle.epsilon)
    return None if found is None or not direction.asked.met_by(found) else found
