"""The front door of accounting: an event goes in, claims come out."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from dpcore import checks
from dpcore.accountants.pld import DiscretisationInvalid, PLDAccountant, ToleranceNotReached
from dpcore.accountants.pld.accountant import failure_of
from dpcore.accountants.protocol import Accountant
from dpcore.accountants.registry import ACCOUNTANTS, TOLERANCE, make
from dpcore.adjacency import Adjacency
from dpcore.events import ApproximateDP, Event, Gaussian, PoissonSampled, PureDP, phases
from dpcore.guarantee import FLOATING_POINT, Guarantee, Status

HEADLINE = "pld"

POISSON = "Every batch is a fresh Poisson sample at the stated rate, and every empty batch counts as a step."
FIXED_COUNT = "The number of steps was fixed before the first step."
NOT_BOUNDED = (
    "Counted by {}: the privacy-loss accountant could not bound this composition as closely as asked, so epsilon is "
    "larger than need be."
)
NOT_BOUNDED_DELTA = NOT_BOUNDED.replace("epsilon", "delta")
ASYMPTOTIC = "A limit for many steps, not a bound: the true epsilon may be larger."


def headline(
    event: Event, delta: float, adjacency: Adjacency, unit: str = "record", tolerance: float = TOLERANCE
) -> Guarantee:
    """The claim to publish: the certified upper bound of the privacy-loss distribution, with its lower bound.

    Where that distribution cannot be bounded as closely as asked, the smallest epsilon of the other proved accountants
    that count the event, under that accountant's own name.

    delta      in (0, 1)
    tolerance  relative gap between the two bounds; calibration asks for the same by default, so that a calibrated
               event's claim meets its target exactly as it was checked
    Infinite for an event with a NonPrivate part. Raises UnsupportedEvent, naming the part, InvalidValue, and, where no
    other accountant counts the event, ToleranceNotReached or DiscretisationInvalid.
    """
    try:
        return guarantee(HEADLINE, event, delta, adjacency, unit, tolerance)
    except (ToleranceNotReached, DiscretisationInvalid):
        least = _least_of_others(event, adjacency, lambda one: one.epsilon(delta))
        if least is None:
            raise
        claim = guarantee(least.name, event, delta, adjacency, unit, tolerance)
        return replace(claim, assumptions=(NOT_BOUNDED.format(least.name), *claim.assumptions))


def _least_of_others(event: Event, adjacency: Adjacency, spent: Callable[[Accountant], float]) -> Accountant | None:
    """Of the proved accountants besides the headline's that count `event`, the one that finds the least finite
    `spent`."""
    empty = [make(name, adjacency) for name in ACCOUNTANTS if name != HEADLINE]
    counted = [one.compose(event) for one in empty if one.status is Status.PROVED and one.supports(event)]
    return min((one for one in counted if math.isfinite(spent(one))), key=spent, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaClaim:
    """The delta of an event at an epsilon, with who counted it.

    delta        upper bound, in [0, 1]
    delta_lower  certified lower bound on the exact delta of the same event's worst-case pair; None if unknown
    """

    epsilon: float
    delta: float
    adjacency: Adjacency
    accountant: str
    status: Status
    theorem: str
    assumptions: tuple[str, ...] = ()
    delta_lower: float | None = None


def headline_delta(event: Event, epsilon: float, adjacency: Adjacency, tolerance: float = TOLERANCE) -> DeltaClaim:
    """What `headline` is for epsilon, for delta: the privacy-loss accountant's bounds at `epsilon`, at least 0 and
    finite, or the smallest delta of the other proved accountants under that accountant's own name. Raises as
    `headline` does."""
    checks.non_negative_finite(epsilon=epsilon)
    pld = PLDAccountant(adjacency=adjacency, tolerance=tolerance).compose(event)
    try:
        bounds = pld.delta_bounds(epsilon)
        return _delta_claim(pld, event, epsilon, bounds.upper, bounds.lower)
    except (ToleranceNotReached, DiscretisationInvalid):
        least = _least_of_others(event, adjacency, lambda one: one.delta(epsilon))
        if least is None:
            raise
        claim = _delta_claim(least, event, epsilon, least.delta(epsilon), None)
        return replace(claim, assumptions=(NOT_BOUNDED_DELTA.format(least.name), *claim.assumptions))


def _delta_claim(
    counted: Accountant, event: Event, epsilon: float, delta: float, delta_lower: float | None
) -> DeltaClaim:
    return DeltaClaim(
        epsilon=epsilon,
        delta=delta,
        delta_lower=delta_lower,
        adjacency=counted.adjacency,
        accountant=counted.name,
        status=counted.status,
        theorem=counted.theorem,
        assumptions=_assumptions(event, counted.status),
    )


def headline_of_many(event: Event, delta: float, adjacency: Adjacency, unit: str = "record") -> Guarantee:
    """The headline of several releases together, some of which may be known only to be (epsilon, delta)-DP.

    Those have fixed deltas of their own, at or below whose composition no epsilon holds (Kairouz, Oh & Viswanath 2015,
    theorems 3.3 and 3.5): 1 - prod (1 - delta_i) comes on top of `delta`, and the guarantee carries the sum. Where that
    leaves nothing below 1, epsilon is infinite at `delta`. Raises as `headline` does.
    """
    whole = delta + failure_of(phases(event), adjacency).upper
    return headline(event, whole if whole < 1 else delta, adjacency, unit)


def side_by_side(
    event: Event, delta: float, adjacency: Adjacency, unit: str = "record", tolerance: float = TOLERANCE
) -> tuple[Guarantee, ...]:
    """The same event under every notion that can count it, each under its own name and status, the headline first.

    An accountant whose theorem does not reach the event (exact GDP of sampled Gaussians, the limit theorem under
    replace-one) has no row. Raises UnsupportedEvent when the headline itself cannot count the event.
    """
    rows = [headline(event, delta, adjacency, unit, tolerance)]
    for name in ACCOUNTANTS:
        if name not in (HEADLINE, rows[0].accountant) and make(name, adjacency, tolerance).supports(event):
            rows.append(guarantee(name, event, delta, adjacency, unit, tolerance))
    return tuple(rows)


def guarantee(
    accountant: str,
    event: Event,
    delta: float,
    adjacency: Adjacency,
    unit: str = "record",
    tolerance: float = TOLERANCE,
) -> Guarantee:
    """What `accountant`, by its name in the registry, claims for `event`. Raises UnsupportedEvent, InvalidValue."""
    composed = make(accountant, adjacency, tolerance).compose(event)
    return Guarantee(
        epsilon=composed.epsilon(delta),
        delta=delta,
        adjacency=adjacency,
        unit=unit,
        accountant=composed.name,
        status=composed.status,
        theorem=composed.theorem,
        assumptions=_assumptions(event, composed.status),
        epsilon_lower=_lower(composed, delta),
    )


def _lower(accountant: Accountant, delta: float) -> float | None:
    """A certified lower bound on the exact epsilon, from an accountant that has one."""
    bound = getattr(accountant, "epsilon_lower", None)
    return None if bound is None else float(bound(delta))


def _assumptions(event: Event, status: Status) -> tuple[str, ...]:
    parts = phases(event)
    lines = []
    if any(isinstance(part, PoissonSampled) for part in parts):
        lines.append(POISSON)
    if sum(parts.values()) > 1:
        lines.append(FIXED_COUNT)
    if status is Status.ASYMPTOTIC:
        lines.append(ASYMPTOTIC)
    if any(isinstance(part, Gaussian | PureDP | ApproximateDP | PoissonSampled) for part in parts):
        lines.append(FLOATING_POINT)
    return tuple(lines)
