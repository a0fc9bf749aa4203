"""The ways to epsilon and delta of a composition of dominating pairs, in the order in which they are tried.

A way answers with bounds, or with None where it does not apply; the first answer stands. Exact sums of pure releases
and closed forms tell both directions at once. Else each direction is told apart, by a sum over frequencies or by a grid
of losses, and the larger of the two counts. `README.md` beside this file says of each when it applies, what it costs,
certifies and rests on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

from dpcore.accountants.pld import closed_forms, contour, grid, pure_sums
from dpcore.accountants.pld.bounds import (
    DELTA_FLOOR,
    Asked,
    Bounds,
    DiscretisationInvalid,
    ToleranceNotReached,
    of_larger,
)
from dpcore.accountants.pld.pairs import LARGEST_PURE, Parts, SampledRandomisedResponse, guessing
from dpcore.accountants.pld.saddle_point import Direction, delta_directions, epsilon_directions


@lru_cache(maxsize=4096)
def epsilon_bounds(parts: Parts, delta: float, tolerance: float) -> Bounds:
    """Lower and upper bound on the exact epsilon at `delta` of a composition of dominating pairs, in nats.

    parts      (pair, steps) each; steps >= 1; at most one unsampled Gaussian is cheapest (see `pairs.parts_of`)
    delta      in (0, 1)
    tolerance  upper - lower <= max(tolerance * upper, EPSILON_FLOOR)
    Raises ToleranceNotReached, with the best bounds on the whole if there are any, and DiscretisationInvalid should the
    runtime guard fail.
    """
    if not parts:
        return Bounds(0.0, 0.0)
    asked = Asked(delta, tolerance)
    found = pure_sums.epsilon_bounds(parts, asked) or closed_forms.epsilon_bounds(parts, asked)
    if found is not None:
        return found
    _refuse_certain_answers(parts, asked)
    bounds, close = _of_larger(epsilon_directions(parts, asked), contour.epsilon_bounds, grid.epsilon_bounds)
    if not (close or asked.met_by(bounds)):
        raise ToleranceNotReached(asked, bounds)
    return bounds


@lru_cache(maxsize=4096)
def delta_bounds(parts: Parts, epsilon: float, tolerance: float) -> Bounds:
    """Lower and upper bound on the exact delta at `epsilon` (either sign) of a composition of dominating pairs.

    tolerance  upper - lower <= max(tolerance * upper, DELTA_FLOOR)
    Raises ToleranceNotReached, whose best bounds keep to the distance in total variation.
    """
    if not parts:
        return Bounds(guessing(epsilon), guessing(epsilon))
    asked = Asked(epsilon, tolerance, DELTA_FLOOR)
    found = pure_sums.delta_bounds(parts, asked) or closed_forms.delta_bounds(parts, asked)
    if found is not None:
        return found
    limit = closed_forms.variation_bounds(parts, epsilon)
    if asked.met_by(limit):
        return limit
    try:
        _refuse_certain_answers(parts, asked)
        bounds, close = _of_larger(delta_directions(parts, asked), contour.delta_bounds, grid.delta_bounds)
    except (ToleranceNotReached, DiscretisationInvalid):
        bounds, close = Bounds(0.0, 1.0), False
    # What ends within the tolerance may end above what nothing exceeds.
    bounds = Bounds(max(bounds.lower, limit.lower), min(bounds.upper, limit.upper))
    if not (close or asked.met_by(bounds)):
        raise ToleranceNotReached(asked, bounds)
    return bounds


def forget() -> None:
    """Drop the bounds that are kept for the next question."""
    epsilon_bounds.cache_clear()
    delta_bounds.cache_clear()


def _of_larger(
    directions: Iterable[Direction],
    by_sum: Callable[[Direction], Bounds | None],
    by_grid: Callable[[Direction], Bounds],
) -> tuple[Bounds, bool]:
    """Around the larger of what the directions need, and whether each is as close as asked. Raises what left none."""
    bounds, close = None, True
    for direction in directions:
        asking = direction if bounds is None else direction._replace(known=bounds.upper)
        try:
            found = by_sum(asking) or by_grid(asking)
        except ToleranceNotReached as refusal:
            if refusal.best is None:
                raise
            found, close = refusal.best, False
        bounds = found if bounds is None else of_larger(bounds, found)
    assert bounds is not None
    return bounds, close


def _refuse_certain_answers(parts: Parts, asked: Asked) -> None:
    """Randomised response that answers truly but for 1e-13 is beyond what sums and grids resolve beside other parts."""
    if any(isinstance(pair, SampledRandomisedResponse) and pair.epsilon > LARGEST_PURE for pair, _ in parts):
        raise ToleranceNotReached(asked, reason=f"a pure release has an epsilon above {LARGEST_PURE:g}")
