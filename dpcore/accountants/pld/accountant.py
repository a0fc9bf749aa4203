"""The privacy-loss-distribution accountant: certified bounds on both sides of the exact epsilon."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar

from dpcore import checks
from dpcore.accountants.pld import closed_forms, contour, grid, pure_sums
from dpcore.accountants.pld.pairs import (
    DELTA_FLOOR,
    LARGEST_PURE,
    Asked,
    Bounds,
    DiscretisationInvalid,
    Parts,
    SampledRandomisedResponse,
    ToleranceNotReached,
    dominating_pair,
    failure_of,
    guessing,
    of_larger,
    parts_of,
)
from dpcore.accountants.pld.saddle_point import Direction, delta_directions, epsilon_directions
from dpcore.accountants.protocol import has_no_bound, merge
from dpcore.events import Adjacency, Event, NonPrivate, phases
from dpcore.guarantee import Status

# The ways to epsilon and delta of a composition of dominating pairs, in the order in which they are tried.
#
# A way answers with bounds, or with None where it does not apply; the first answer stands. Exact sums of pure releases
# and closed forms tell both directions at once. Else each direction is told apart, by a sum over frequencies or by a
# grid of losses, and the larger of the two counts. `README.md` beside this file says of each when it applies, what it
# costs, certifies and rests on.


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


DEFAULT_TOLERANCE = 1e-3

MAX_STEPS = 10**9
"""Rounding grows with the number of steps; beyond this it would no longer be small."""

_LEAST_LEFT = 1e-12
"""Of delta: where less is left, lower bounds are asked at this, which only lowers them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PLDAccountant:
    """Privacy loss distributions, composed in both directions and bounded from both sides.

    By the first way in `routes` that applies: exactly where there is a closed form or few sums of losses;
    where the characteristic function decays, by a sum over a few frequencies whose every error is bounded; else
    discretised to both sides and composed by FFT.

    adjacency  neighbouring relation of every number
    tolerance  how far apart upper and lower bound may be: `tolerance` times the upper bound, or 1e-6 nats
               if that is more; in (0, 0.5]. Larger is faster; the bounds hold at any value.
    steps      what was composed so far, as {indivisible event: count} pairs

    Numbers are over the reals; what floating point does to the *accounting* is charged, what it does to
    a mechanism's noise is not covered. Raises InvalidValue.
    """

    adjacency: Adjacency = Adjacency.ADD_REMOVE
    tolerance: float = DEFAULT_TOLERANCE
    steps: tuple[tuple[Event, int], ...] = field(default=())
    name: ClassVar[str] = "pld"
    status: ClassVar[Status] = Status.PROVED
    theorem: ClassVar[str] = (
        "Zhu, Dong & Wang 2022, Theorems 10 and 11 (dominating pairs, composition, sampling); "
        "Trefethen & Weideman 2014, Theorem 5.1 (error of the trapezoidal rule), "
        "or Doroshenko et al. 2022 (pessimistic discretisation), "
        "or Kairouz, Oh & Viswanath 2015, Theorem 3.3 (randomised responses, exactly)"
    )

    def __post_init__(self) -> None:
        checks.positive_finite(tolerance=self.tolerance)
        if self.tolerance > 0.5:
            raise checks.InvalidValue("tolerance", self.tolerance, "a number in (0, 0.5]")

    def supports(self, event: Event) -> bool:
        """Whether every part of `event` has a proved dominating pair under this adjacency, or is NonPrivate."""
        return all(
            isinstance(part, NonPrivate) or dominating_pair(part, self.adjacency) is not None for part in phases(event)
        )

    def compose(self, event: Event, count: int = 1) -> PLDAccountant:
        """This accountant after `count` more runs of `event`. Raises UnsupportedEvent, InvalidValue."""
        checks.count(count=count)
        merged = dict(self.steps)
        released = phases(event)
        parts_of({part: times for part, times in released.items() if not isinstance(part, NonPrivate)}, self.adjacency)
        if count:
            merged = merge(merged, {part: times * count for part, times in released.items()})
        if sum(merged.values()) > MAX_STEPS:
            raise checks.InvalidValue("steps", sum(merged.values()), f"at most {MAX_STEPS} steps in all")
        return PLDAccountant(adjacency=self.adjacency, tolerance=self.tolerance, steps=tuple(merged.items()))

    @property
    def _non_private(self) -> bool:
        return has_no_bound(dict(self.steps))

    def epsilon_bounds(self, delta: float) -> Bounds:
        """(lower, upper) around the exact epsilon of the worst-case pair at `delta` in (0, 1).

        Raises InvalidValue, ToleranceNotReached, with the best bounds there are, and DiscretisationInvalid.
        """
        checks.probability_open(delta=delta)
        if self._non_private:
            return Bounds(math.inf, math.inf)
        parts, failure = self._parts_and_failure()
        if not failure.upper:
            return epsilon_bounds(parts, float(delta), self.tolerance)
        try:
            return self._with_failures(parts, failure, delta)
        except ToleranceNotReached as refusal:
            raise refusal.of_a_part() from refusal

    def _with_failures(self, parts: Parts, failure: Bounds, delta: float) -> Bounds:
        """`epsilon_bounds` where releases may tell all, with a chance of `failure`."""
        # delta(epsilon) = failure + (1 - failure) * delta of the rest, so the rest is asked at what is left.
        left = Bounds(_left(delta, failure.upper) * (1 - 1e-12), _left(delta, failure.lower) * (1 + 1e-12))
        if delta < failure.lower:
            return Bounds(math.inf, math.inf)
        share = max(left.upper, _LEAST_LEFT)
        lower = epsilon_bounds(parts, share, self.tolerance).lower if share < 1 else 0.0
        if left.lower > 0:
            return Bounds(lower, epsilon_bounds(parts, left.lower, self.tolerance).upper)
        # All of delta is the releases' own: what is left of them is pure, if they are all there is.
        pure = delta >= failure.upper and pure_sums.only_responses(parts)
        return Bounds(lower, pure_sums.largest_sum(parts) if pure else math.inf)

    def epsilon(self, delta: float) -> float:
        """Certified upper bound on epsilon at `delta` in (0, 1), in nats; infinite after a NonPrivate event."""
        return self.epsilon_bounds(delta).upper

    def epsilon_lower(self, delta: float) -> float:
        """Certified lower bound on the exact epsilon of the composed worst-case pair at `delta` in (0, 1)."""
        return self.epsilon_bounds(delta).lower

    def delta_bounds(self, epsilon: float) -> Bounds:
        """(lower, upper) around the exact delta at a finite `epsilon`; below 0 for trade-off curves.

        Raises InvalidValue, ToleranceNotReached, whose best bounds
        keep to the distance in total variation, and DiscretisationInvalid.
        """
        if not math.isfinite(epsilon):
            raise checks.InvalidValue("epsilon", epsilon, "a finite number")
        if self._non_private:
            return Bounds(1.0, 1.0)
        parts, failure = self._parts_and_failure()
        if not failure.upper:
            return delta_bounds(parts, float(epsilon), self.tolerance)
        try:
            rest = delta_bounds(parts, float(epsilon), self.tolerance)
        except ToleranceNotReached as refusal:
            raise refusal.of_a_part() from refusal
        return Bounds(
            (failure.lower + (1 - failure.lower) * rest.lower) * (1 - 1e-12),
            min(1.0, (failure.upper + (1 - failure.upper) * rest.upper) * (1 + 1e-12)),
        )

    def _parts_and_failure(self) -> tuple[Parts, Bounds]:
        steps = dict(self.steps)
        return parts_of(steps, self.adjacency), failure_of(steps, self.adjacency)

    def delta(self, epsilon: float) -> float:
        """Certified upper bound on delta at `epsilon` >= 0, in [0, 1]. Raises InvalidValue."""
        checks.non_negative_finite(epsilon=epsilon)
        return self.delta_bounds(epsilon).upper

    def delta_lower(self, epsilon: float) -> float:
        """Certified lower bound on the exact delta at `epsilon` >= 0. Raises InvalidValue."""
        checks.non_negative_finite(epsilon=epsilon)
        return self.delta_bounds(epsilon).lower


def _left(delta: float, failure: float) -> float:
    return (delta - failure) / (1 - failure) if failure < 1 else -1.0
