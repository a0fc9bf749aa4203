"""The routes to epsilon and delta of a composition of dominating pairs, in the order in which they are tried.

A route answers with bounds, or with None where it does not apply; the first answer stands. `WHOLE` routes tell both
directions at once. Else each direction is told apart by the first of `ONE_DIRECTION` that can, and the larger of the
two counts. `README.md` beside this file is the same table for readers, with formulas and error terms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, TypeVar

from dpcore.accountants.pld import saddle_point
from dpcore.accountants.pld.bounds import (
    DELTA_FLOOR,
    Asked,
    Bounds,
    DiscretisationInvalid,
    ToleranceNotReached,
    of_larger,
)
from dpcore.accountants.pld.characteristic_function import inversion
from dpcore.accountants.pld.closed_forms import gaussian, overlap, single_step, total_variation
from dpcore.accountants.pld.discretisation import refinement
from dpcore.accountants.pld.pairs import Parts, guessing, tail_for
from dpcore.accountants.pld.randomised_response import exact_sums, nearly_certain, rounded_sums
from dpcore.accountants.pld.saddle_point import Direction

OfWhole = Callable[[Parts, Asked], Bounds | None]
OfDirection = Callable[[Direction], Bounds | None]
Of = TypeVar("Of", OfWhole, OfDirection)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route(Generic[Of]):
    """One way to bounds, where it is open.

    when            where it applies
    cost            about what it takes
    certifies       how far its ends may be from the truth, and what is charged to them
    source          the argument: author, year
    epsilon, delta  what answers at a delta, and at an epsilon of either sign; None where the route tells only the other
    """

    name: str
    when: str
    cost: str
    certifies: str
    source: str
    epsilon: Of | None = None
    delta: Of | None = None


def _nearly_certain_epsilon(parts: Parts, asked: Asked) -> Bounds | None:
    return nearly_certain.epsilon_bounds(parts, asked, epsilon_bounds)


def _nearly_certain_delta(parts: Parts, asked: Asked) -> Bounds | None:
    return nearly_certain.delta_bounds(parts, asked, delta_bounds)


WHOLE: tuple[Route[OfWhole], ...] = (
    Route(
        name="exact sums of randomised responses",
        when="every release is a randomised response, sampled or not, and all together have at most 2^18 sums",
        cost="milliseconds",
        certifies="a finite sum; ends apart by rounding alone",
        source="Kairouz, Oh & Viswanath 2015, Theorem 3.3",
        epsilon=exact_sums.epsilon_bounds,
        delta=exact_sums.delta_bounds,
    ),
    Route(
        name="laws that hardly overlap",
        when="the overlap E_Q sqrt(P/Q) of the composition shows it within 1e-14 of 1",
        cost="microseconds",
        certifies="a Chernoff bound from below, 1 from above",
        source="Tsybakov 2009, Lemma 2.3 (Le Cam)",
        delta=overlap.delta_bounds,
    ),
    Route(
        name="nearly certain answers",
        when="some unsampled randomised response has an epsilon above 30: its loss is set aside, and the rest asked",
        cost="that of the rest",
        certifies="ends apart by those of the rest, and by the chance of a rare answer, below 1e-13 each",
        source="Kairouz, Oh & Viswanath 2015, Theorem 3.1",
        epsilon=_nearly_certain_epsilon,
        delta=_nearly_certain_delta,
    ),
    Route(
        name="plain Gaussians",
        when="every release is a Gaussian that was not sampled",
        cost="microseconds",
        certifies="a closed form; ends apart by rounding alone",
        source="Balle & Wang 2018, Theorem 8",
        epsilon=gaussian.epsilon_bounds,
        delta=gaussian.delta_bounds,
    ),
    Route(
        name="total variation",
        when="delta is no less than the distance of the two laws",
        cost="microseconds",
        certifies="epsilon is 0",
        source="Levin, Peres & Wilmer 2009, Proposition 4.7",
        epsilon=total_variation.epsilon_bounds,
    ),
    Route(
        name="a single step",
        when="there is one release, a sampled Gaussian under add-remove",
        cost="a millisecond",
        certifies="a closed form in either direction; ends apart by rounding alone",
        source="Balle & Wang 2018, Theorem 5",
        epsilon=single_step.epsilon_bounds,
        delta=single_step.delta_bounds,
    ),
)

ONE_DIRECTION: tuple[Route[OfDirection], ...] = (
    Route(
        name="sum over frequencies",
        when="the characteristic function decays within 2^12 frequencies, at 2^20 products of them with nodes",
        cost="milliseconds",
        certifies="aliasing, truncation, quadrature and rounding are bounded; no loss is rounded to a grid",
        source="Trefethen & Weideman 2014, Theorem 5.1; Zhu, Dong & Wang 2022",
        epsilon=inversion.epsilon_bounds,
        delta=inversion.delta_bounds,
    ),
    Route(
        name="rounded randomised responses",
        when="every release is an unsampled randomised response",
        cost="up to seconds: 2e9 additions of one side",
        certifies="epsilons rounded up and down to a common unit, composed exactly",
        source="Kairouz, Oh & Viswanath 2015, Theorem 3.3",
        epsilon=lambda direction: rounded_sums.epsilon_bounds(direction.parts, direction.asked),
    ),
    Route(
        name="grid of losses",
        when="2^17 losses are enough",
        cost="up to a tenth of a second",
        certifies="upper law dominates, lower law is dominated, both guarded; wrapped mass and FFT round-off charged",
        source="Doroshenko et al. 2022; Koskela et al. 2020; Gopi et al. 2021",
        epsilon=refinement.epsilon_bounds,
    ),
    Route(
        name="sum over more frequencies",
        when="64 times as many frequencies and nodes are enough",
        cost="up to a second",
        certifies="as the sum over frequencies",
        source="Trefethen & Weideman 2014, Theorem 5.1",
        epsilon=inversion.patient_epsilon_bounds,
    ),
    Route(
        name="large grid of losses",
        when="nothing before has told; refused, with the best bounds there were, beyond 2^21 losses",
        cost="seconds, up to a gigabyte",
        certifies="as the grid of losses; bounds may be farther apart than asked, and then say so",
        source="Doroshenko et al. 2022; Koskela et al. 2020; Gopi et al. 2021",
        epsilon=refinement.large_epsilon_bounds,
        delta=refinement.delta_bounds,
    ),
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
    if not parts:
        return Bounds(0.0, 0.0)
    asked = Asked(delta, tolerance)
    found = _first(route.epsilon(parts, asked) for route in WHOLE if route.epsilon)
    if found is not None:
        return found
    bounds, refusal = _of_directions(_epsilon_directions(parts, asked), lambda route: route.epsilon)
    if refusal is not None:
        raise ToleranceNotReached(str(refusal), best=bounds) from refusal
    return bounds


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
        bounds, refusal = _of_directions(_delta_directions(parts, asked), lambda route: route.delta)
        if refusal is None or asked.met_by(bounds):
            return bounds
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
    directions: Iterable[Direction], which: Callable[[Route[OfDirection]], OfDirection | None]
) -> tuple[Bounds, ToleranceNotReached | None]:
    """Around the larger of what the directions need, and the first refusal that left bounds farther apart than asked.

    Raises what left none.
    """
    bounds, refusal = None, None
    for direction in directions:
        asking = direction if bounds is None else direction._replace(known=bounds.upper)
        try:
            found = _first(tell(asking) for tell in map(which, ONE_DIRECTION) if tell is not None)
            assert found is not None, "the last route answers or raises"
        except ToleranceNotReached as refused:
            if refused.best is None:
                raise
            found, refusal = refused.best, refusal or refused
        bounds = found if bounds is None else of_larger(bounds, found)
    assert bounds is not None
    return bounds, refusal


def _symmetric(parts: Parts) -> bool:
    return all(pair.symmetric for pair, _ in parts)


def _epsilon_directions(parts: Parts, asked: Asked) -> list[Direction]:
    """The direction that seems to need more first: the other then often only has to hold at its epsilon."""
    ahead = saddle_point.direction_at_delta(parts, asked, tail_for(asked.at, parts), forward=True)
    if _symmetric(parts):
        return [ahead]
    cumulants = ahead.cumulants.mirrored()
    saddle = saddle_point.at_delta(cumulants, math.log(asked.at), near=ahead.saddle.tilt)
    back = Direction(parts, False, cumulants, saddle, asked)
    return [ahead, back] if ahead.saddle.epsilon >= back.saddle.epsilon else [back, ahead]


def _delta_directions(parts: Parts, asked: Asked) -> Iterator[Direction]:
    """One after the other; without the second where no loss of it is as large as the epsilon asked."""
    for forward in (True,) if _symmetric(parts) else (True, False):
        if not forward and asked.at >= max(0.0, saddle_point.largest_add_loss(parts)) * (1 + 1e-9):
            continue
        cumulants = saddle_point.cumulants(parts, tail_for(1e-12, parts), forward=forward)
        most = sum(c * float(loss.max()) for loss, c in zip(cumulants.losses, cumulants.counts, strict=True))
        # Beyond the largest loss the tilt has no saddle; just below it the bound is already tiny.
        saddle = saddle_point.at_epsilon(cumulants, min(asked.at, most - 0.02 * abs(most)))
        tail = tail_for(math.exp(max(min(saddle.log_delta, 0.0), -600.0)), parts)
        yield Direction(parts, forward, saddle_point.cumulants(parts, tail, forward=forward), saddle, asked)
