"""The routes to epsilon and delta of a composition of dominating pairs, in the order in which they are tried.

A route answers with bounds, or with None where it does not apply; the first answer stands. `WHOLE` routes tell both
directions at once. Else each direction is told apart by the first of `ONE_DIRECTION` that can, and the larger of the
two counts. `README.md` beside this file says of each when it applies, what it costs, certifies and rests on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, TypeVar

from dpcore.accountants.pld import (
    chernoff,
    gaussian,
    inversion,
    nearly_certain,
    overlap,
    pure_sums,
    refinement,
    rounded_sums,
    saddle_point,
    single_step,
    total_variation,
)
from dpcore.accountants.pld.bounds import (
    DELTA_FLOOR,
    Asked,
    Bounds,
    DiscretisationInvalid,
    ToleranceNotReached,
    of_larger,
)
from dpcore.accountants.pld.pairs import Parts, guessing, tail_for
from dpcore.accountants.pld.saddle_point import Direction

OfWhole = Callable[[Parts, Asked], Bounds | None]
OfDirection = Callable[[Direction], Bounds | None]
Of = TypeVar("Of", OfWhole, OfDirection)


@dataclass(frozen=True, slots=True)
class BoundsRoute(Generic[Of]):
    """One way to bounds: its name in the table of `README.md`, and what answers.

    epsilon, delta  at a delta, and at an epsilon of either sign; None where the route tells only the other
    """

    name: str
    epsilon: Of | None = None
    delta: Of | None = None


def _nearly_certain_epsilon(parts: Parts, asked: Asked) -> Bounds | None:
    return nearly_certain.epsilon_bounds(parts, asked, epsilon_bounds)


def _nearly_certain_delta(parts: Parts, asked: Asked) -> Bounds | None:
    return nearly_certain.delta_bounds(parts, asked, delta_bounds)


COARSE = 0.02
"""How closely, relatively, bounds are asked that only start a search."""

WHOLE: tuple[BoundsRoute[OfWhole], ...] = (
    BoundsRoute("exact sums of randomised responses", pure_sums.epsilon_bounds, pure_sums.delta_bounds),
    BoundsRoute("laws that hardly overlap", delta=overlap.delta_bounds),
    BoundsRoute("nearly certain answers", _nearly_certain_epsilon, _nearly_certain_delta),
    BoundsRoute("plain Gaussians", gaussian.epsilon_bounds, gaussian.delta_bounds),
    BoundsRoute("total variation", total_variation.epsilon_bounds),
    BoundsRoute("a single step", single_step.epsilon_bounds, single_step.delta_bounds),
)

ONE_DIRECTION: tuple[BoundsRoute[OfDirection], ...] = (
    BoundsRoute("Chernoff's bound", delta=chernoff.delta_bounds),
    BoundsRoute("sum over frequencies", inversion.epsilon_bounds, inversion.delta_bounds),
    BoundsRoute(
        "rounded randomised responses",
        lambda direction: rounded_sums.epsilon_bounds(direction.parts, direction.asked),
    ),
    BoundsRoute("grid of losses", refinement.epsilon_bounds),
    BoundsRoute("sum over more frequencies", inversion.patient_epsilon_bounds),
    BoundsRoute("large grid of losses", refinement.large_epsilon_bounds, refinement.delta_bounds),
)


@lru_cache(maxsize=4096)
def epsilon_bounds(parts: Parts, delta: float, tolerance: float) -> Bounds:
    """Lower and upper bound on the exact epsilon at `delta` of a composition of dominating pairs, in nats.

    parts      (pair, steps) each; steps >= 1; at most one unsampled Gaussian is cheapest (see `dominating.parts_of`)
    delta      in (0, 1)
    tolerance  upper - lower <= max(tolerance * upper, EPSILON_FLOOR)
    Raises ToleranceNotReached, with the best bounds on the whole if there are any, and DiscretisationInvalid should the
    runtime guard fail.
    """
    quick = quick_epsilon_bounds(parts, delta, tolerance)
    if isinstance(quick, Bounds):
        return quick
    bounds, refusal = _of_directions(_epsilon_directions(parts, Asked(delta, tolerance)), _ways_to_epsilon(), quick)
    if refusal is not None:
        raise ToleranceNotReached(str(refusal), best=bounds) from refusal
    return bounds


@lru_cache(maxsize=4096)
def quick_epsilon_bounds(parts: Parts, delta: float, tolerance: float) -> Bounds | int:
    """`epsilon_bounds` where that takes no large grid of losses, else the number of the first direction that takes one.

    Raises DiscretisationInvalid.
    """
    if not parts:
        return Bounds(0.0, 0.0)
    asked = Asked(delta, tolerance)
    found = _first(route.epsilon(parts, asked) for route in WHOLE if route.epsilon)
    if found is not None:
        return found
    bounds = Bounds(0.0, 0.0)
    for number, direction in enumerate(_epsilon_directions(parts, asked)):
        asking = direction._replace(known=bounds.upper) if number else direction
        found = _first(tell(asking) for tell in _ways_to_epsilon()[:-1])
        if found is None:
            return number
        bounds = of_larger(bounds, found)
    return bounds


def coarse_epsilon(parts: Parts, delta: float) -> float:
    """Upper bound on epsilon at `delta`, in nats, in milliseconds: usually by some percent above, a start for searches.

    Infinite where a coarse grid of losses tells nothing. Raises DiscretisationInvalid.
    """
    asked = Asked(delta, COARSE)
    found = _first(route.epsilon(parts, asked) for route in WHOLE if route.epsilon)
    if found is not None:
        return found.upper
    most = 0.0
    for number, direction in enumerate(_epsilon_directions(parts, asked)):
        asking = direction._replace(known=most) if number else direction
        told = inversion.epsilon_bounds(asking)
        most = max(most, refinement.coarse_upper(asking) if told is None else told.upper)
    return most


@lru_cache(maxsize=4096)
def delta_bounds(parts: Parts, epsilon: float, tolerance: float) -> Bounds:
    """Lower and upper bound on the exact delta at `epsilon` (either sign) of a composition of dominating pairs.

    tolerance  upper - lower <= max(tolerance * upper, DELTA_FLOOR)
    Raises ToleranceNotReached, whose best bounds keep to the distance in total variation, and DiscretisationInvalid
    should the runtime guard fail.
    """
    if not parts:
        return Bounds(guessing(epsilon), guessing(epsilon))
    asked = Asked(epsilon, tolerance, DELTA_FLOOR)
    found = _first(route.delta(parts, asked) for route in WHOLE if route.delta)
    if found is not None:
        return found
    try:
        ways = [route.delta for route in ONE_DIRECTION if route.delta]
        bounds, refusal = _of_directions(_delta_directions(parts, asked), ways)
        if refusal is None or asked.met_by(bounds):
            # Sums and grids tell delta to within the tolerance, and may so end above what nothing exceeds.
            return Bounds(bounds.lower, min(bounds.upper, total_variation.delta_bounds(parts, asked).upper))
        raise ToleranceNotReached(str(refusal), best=bounds) from refusal
    except (ToleranceNotReached, DiscretisationInvalid) as refused:
        known = getattr(refused, "best", None) or Bounds(0.0, 1.0)
        limit = total_variation.delta_bounds(parts, asked)
        if limit.upper >= known.upper:
            raise
        best = Bounds(max(known.lower, limit.lower), limit.upper)
        if asked.met_by(best):
            return best
        raise asked.too_far_apart("epsilon", best, best) from refused


def forget() -> None:
    """Drop what is kept for the next question: bounds, and laws on grids."""
    for kept in (epsilon_bounds, quick_epsilon_bounds, delta_bounds):
        kept.cache_clear()
    refinement.forget()


def epsilon_estimate(parts: Parts, delta: float) -> float:
    """Saddle-point estimate of epsilon, in nats, usually within a percent: a start for searches, never a bound."""
    parts, shift, _ = nearly_certain.set_aside(parts)
    if not parts:
        return shift
    mu = gaussian.mu_of(parts)
    if mu is not None:
        return shift + gaussian.epsilon_of(mu.upper, delta).upper
    # The other direction is hardly ever above it, and then by little.
    ahead = saddle_point.direction_at_delta(parts, Asked(delta), tail_for(delta, parts), forward=True)
    return shift + max(0.0, ahead.saddle.epsilon)


def _first(answers: Iterable[Bounds | None]) -> Bounds | None:
    return next((found for found in answers if found is not None), None)


def _of_directions(
    directions: Iterable[Direction], ways: Sequence[OfDirection], hard: int | None = None
) -> tuple[Bounds, ToleranceNotReached | None]:
    """Around the larger of what the directions need, and the first refusal that left bounds farther apart than asked.

    hard  the number of a direction that only the last way is known to tell
    Raises what left none.
    """
    bounds, refusal = None, None
    for number, direction in enumerate(directions):
        asking = direction if bounds is None else direction._replace(known=bounds.upper)
        try:
            found = _first(tell(asking) for tell in (ways[-1:] if number == hard else ways))
            assert found is not None, "the last route answers or raises"
        except ToleranceNotReached as refused:
            if refused.best is None:
                raise
            found, refusal = refused.best, refusal or refused
        bounds = found if bounds is None else of_larger(bounds, found)
    assert bounds is not None
    return bounds, refusal


def _ways_to_epsilon() -> list[OfDirection]:
    return [route.epsilon for route in ONE_DIRECTION if route.epsilon]


def _epsilon_directions(parts: Parts, asked: Asked) -> list[Direction]:
    """The direction that seems to need more first: the other then often only has to hold at its epsilon."""
    ahead = saddle_point.direction_at_delta(parts, asked, tail_for(asked.at, parts), forward=True)
    if saddle_point.symmetric(parts):
        return [ahead]
    cumulants = ahead.cumulants.mirrored()
    saddle = saddle_point.at_delta(cumulants, math.log(asked.at), near=ahead.saddle.tilt)
    back = Direction(parts, False, cumulants, saddle, asked)
    return [ahead, back] if ahead.saddle.epsilon >= back.saddle.epsilon else [back, ahead]


def _delta_directions(parts: Parts, asked: Asked) -> Iterator[Direction]:
    """One after the other."""
    for forward in saddle_point.ways_at_epsilon(parts, asked.at):
        yield saddle_point.direction_at_epsilon(parts, asked, forward=forward)
