"""The front door of accounting: an event goes in, claims come out."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from dpcore import checks
from dpcore.accountants.pld import Bounds, DiscretisationInvalid, PLDAccountant, ToleranceNotReached
from dpcore.accountants.pld.dominating import failure_of
from dpcore.accountants.protocol import Accountant
from dpcore.accountants.registry import ACCOUNTANTS, TOLERANCE, make
from dpcore.adjacency import Adjacency
from dpcore.events import ApproximateDP, Event, Gaussian, PoissonSampled, PureDP, phases
from dpcore.guarantee import FLOATING_POINT, Guarantee, Status

HEADLINE = "pld"

POISSON = "Every batch is a fresh Poisson sample at the stated rate, and every empty batch counts as a step."
FIXED_COUNT = "The number of steps was fixed before the first step."
NOT_BOUNDED = (
    "Counted by {}: the privacy-loss accountant could not bound this composition as closely as asked, so {} is "
    "larger than need be."
)
APART = "The privacy-loss accountant's bounds are farther apart here than asked: {} is the upper one."
ASYMPTOTIC = "A limit for many steps, not a bound: the true epsilon may be larger."


def headline(
    event: Event, delta: float, adjacency: Adjacency, unit: str = "record", tolerance: float = TOLERANCE
) -> Guarantee:
    """The claim to publish: the certified upper bound of the privacy-loss distribution, with its lower bound.

    Where that distribution cannot be bounded as closely as asked, the smallest of its best upper bound and of the
    epsilons of the other proved accountants that count the event, under that accountant's own name; an assumption says
    so.

    delta      in (0, 1)
    tolerance  relative gap between the two bounds; calibration asks for the same by default, so that a calibrated
               event's claim meets its target exactly as it was checked
    Infinite for an event with a NonPrivate part. Raises UnsupportedEvent, naming the part, InvalidValue, and, where
    nothing bounds the event, ToleranceNotReached or DiscretisationInvalid.
    """
    found = _counted(
        event, adjacency, tolerance, "epsilon", lambda pld: pld.epsilon_bounds(delta), lambda one: one.epsilon(delta)
    )
    return Guarantee(
        epsilon=found.upper,
        delta=delta,
        adjacency=adjacency,
        unit=unit,
        accountant=found.by.name,
        status=found.by.status,
        theorem=found.by.theorem,
        assumptions=(*found.notes, *_assumptions(event, found.by.status)),
        epsilon_lower=found.lower,
    )


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
    """What `headline` is for epsilon, for delta: at an `epsilon` of at least 0. Raises as `headline` does."""
    checks.non_negative_finite(epsilon=epsilon)
    found = _counted(
        event, adjacency, tolerance, "delta", lambda pld: pld.delta_bounds(epsilon), lambda one: one.delta(epsilon)
    )
    return _delta_claim(event, epsilon, found)


def delta_claim(accountant: str, event: Event, epsilon: float, adjacency: Adjacency) -> DeltaClaim:
    """What `accountant`, by its name in the registry, claims for delta. Raises UnsupportedEvent, InvalidValue."""
    composed = make(accountant, adjacency).compose(event)
    return _delta_claim(event, epsilon, _Counted(composed, composed.delta(epsilon), None))


def _delta_claim(event: Event, epsilon: float, found: _Counted) -> DeltaClaim:
    return DeltaClaim(
        epsilon=epsilon,
        delta=found.upper,
        delta_lower=found.lower,
        adjacency=found.by.adjacency,
        accountant=found.by.name,
        status=found.by.status,
        theorem=found.by.theorem,
        assumptions=(*found.notes, *_assumptions(event, found.by.status)),
    )


@dataclass(frozen=True, slots=True)
class _Counted:
    """Certified ends of epsilon or delta, by whom, and what is to be said of it. lower: None if unknown."""

    by: Accountant
    upper: float
    lower: float | None
    notes: tuple[str, ...] = ()


def _counted(
    event: Event,
    adjacency: Adjacency,
    tolerance: float,
    word: str,
    bounds: Callable[[PLDAccountant], Bounds],
    spent: Callable[[Accountant], float],
) -> _Counted:
    """The privacy-loss accountant's `bounds`; where they are not as close as asked, the least upper end of its best
    ones and of what the other proved accountants find `spent`."""
    pld = PLDAccountant(adjacency=adjacency, tolerance=tolerance).compose(event)
    try:
        found = bounds(pld)
        return _Counted(pld, found.upper, found.lower)
    except (ToleranceNotReached, DiscretisationInvalid) as refusal:
        best = refusal.best if isinstance(refusal, ToleranceNotReached) else None
        lower = None if best is None else best.lower
        others = [make(name, adjacency) for name in ACCOUNTANTS if name != HEADLINE]
        counted = [
            _Counted(whole, spent(whole), lower, (NOT_BOUNDED.format(one.name, word),))
            for one in others
            if one.status is Status.PROVED and one.supports(event)
            for whole in (one.compose(event),)
        ]
        if best is not None:
            counted.append(_Counted(pld, best.upper, lower, (APART.format(word),)))
        finite = [one for one in counted if math.isfinite(one.upper)]
        if not finite:
            raise
        return min(finite, key=lambda one: one.upper)


def headline_of_many(event: Event, delta: float, adjacency: Adjacency, unit: str = "record") -> Guarantee:
    """The headline of several releases together, some of which may be known only to be (epsilon, delta)-DP.

    Those have fixed deltas of their own, at or below whose composition no epsilon holds (Kairouz, Oh & Viswanath 2015,
    theorems 3.3 and 3.5): 1 - prod (1 - delta_i) comes on top of `delta`, and the guarantee carries the sum. Where that
    leaves nothing below 1, epsilon is infinite at `delta`. Raises as `headline` does.
    """
    whole = delta + failure_of(phases(event), adjacency).upper
    return headline(event, whole if whole < 1 else delta, adjacency, unit)


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
