"""The front door of accounting: an event goes in, claims come out, by any accountant."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.special import log_ndtr, ndtri

from dpcore import checks
from dpcore.accountants.composition import AdvancedAccountant, NaiveAccountant, ZCDPAccountant
from dpcore.accountants.gdp import GDPAccountant, GDPCLTAccountant
from dpcore.accountants.pld import DiscretisationInvalid, PLDAccountant, ToleranceNotReached
from dpcore.accountants.pld.pairs import failure_of
from dpcore.accountants.protocol import Composing
from dpcore.accountants.rdp import RDPAccountant
from dpcore.events import Adjacency, ApproximateDP, Composed, Event, Gaussian, PoissonSampled, PureDP, phases
from dpcore.guarantee import FLOATING_POINT, Guarantee, Status

Accountant = PLDAccountant | Composing
TOLERANCE = 1e-3
"""Relative gap between upper and lower bound that claims and calibrations ask of an accountant that knows both."""


HEADLINE = "pld"
_CLOSED = {
    one.name: one
    for one in (GDPAccountant, RDPAccountant, GDPCLTAccountant, ZCDPAccountant, AdvancedAccountant, NaiveAccountant)
}
"""Those whose numbers are exact or bounds of their own: they ask for no tolerance."""
ACCOUNTANTS = (HEADLINE, *_CLOSED)
"""Every accountant by the name that it prints. Adding one is one word above and a row in the contract exam."""


def make(name: str, adjacency: Adjacency, tolerance: float = TOLERANCE) -> Accountant:
    """An empty accountant. Raises InvalidValue for a name that is not in `ACCOUNTANTS`."""
    if name not in ACCOUNTANTS:
        raise checks.InvalidValue("accountant", name, "one of " + ", ".join(ACCOUNTANTS))
    if name == HEADLINE:
        return PLDAccountant(adjacency=adjacency, tolerance=tolerance)
    return _CLOSED[name](adjacency)


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
    return _claim(delta, unit, _counted("epsilon", event, delta, adjacency, tolerance))


def _claim(delta: float, unit: str, found: Counted) -> Guarantee:
    return Guarantee(
        epsilon=found.upper,
        delta=delta,
        adjacency=found.by.adjacency,
        unit=unit,
        accountant=found.by.name,
        status=found.by.status,
        theorem=found.by.theorem,
        assumptions=found.assumptions,
        epsilon_lower=found.lower,
    )


def headline_delta(event: Event, epsilon: float, adjacency: Adjacency, tolerance: float = TOLERANCE) -> Counted:
    """What `headline` is for epsilon, for delta: at an `epsilon` of at least 0. Raises as `headline` does."""
    checks.non_negative_finite(epsilon=epsilon)
    return _counted("delta", event, epsilon, adjacency, tolerance)


def delta_claim(accountant: str, event: Event, epsilon: float, adjacency: Adjacency) -> Counted:
    """What `guarantee` is for epsilon, for delta."""
    if accountant == HEADLINE:
        return headline_delta(event, epsilon, adjacency)
    by = make(accountant, adjacency).compose(event)
    return Counted(by, by.delta(epsilon), None, _assumptions(event, by.status))


@dataclass(frozen=True, slots=True)
class Counted:
    """What was counted of an event: an upper bound on its epsilon or its delta.

    lower  certified lower bound on the exact one of the same event's worst-case pair; None if unknown
    """

    by: Accountant
    upper: float
    lower: float | None
    assumptions: tuple[str, ...]


def _counted(
    word: Literal["epsilon", "delta"], event: Event, at: float, adjacency: Adjacency, tolerance: float
) -> Counted:
    """The privacy-loss accountant's bounds of that word at the other; where they are not as close as asked, the least
    upper end of its best ones and of what the other proved accountants find spent."""
    pld = PLDAccountant(adjacency=adjacency, tolerance=tolerance).compose(event)
    # Of every accountant here, all of which are proved.
    own = _assumptions(event, Status.PROVED)
    try:
        found = pld.epsilon_bounds(at) if word == "epsilon" else pld.delta_bounds(at)
        return Counted(pld, found.upper, found.lower, own)
    except (ToleranceNotReached, DiscretisationInvalid) as refusal:
        best = refusal.best if isinstance(refusal, ToleranceNotReached) else None
        lower = None if best is None else best.lower
        others = [make(name, adjacency) for name in ACCOUNTANTS if name != HEADLINE]
        counted = [
            Counted(
                whole,
                whole.epsilon(at) if word == "epsilon" else whole.delta(at),
                lower,
                (NOT_BOUNDED.format(one.name, word), *own),
            )
            for one in others
            if one.status is Status.PROVED and one.supports(event)
            for whole in (one.compose(event),)
        ]
        if best is not None:
            counted.append(Counted(pld, best.upper, lower, (APART.format(word), *own)))
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


def guarantee(accountant: str, event: Event, delta: float, adjacency: Adjacency, unit: str = "record") -> Guarantee:
    """What `accountant`, by its name in the registry, claims for `event`. Raises UnsupportedEvent, InvalidValue, and
    for the headline's what `headline` raises."""
    if accountant == HEADLINE:
        return headline(event, delta, adjacency, unit)
    by = make(accountant, adjacency).compose(event)
    return _claim(delta, unit, Counted(by, by.epsilon(delta), None, _assumptions(event, by.status)))


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


# Two parts of one population, each released from by itself: the larger claim where they compose in parallel.
#
# Parallel composition (McSherry 2009, theorem 4; adaptively, by the argument below). Let a function h of one record
# alone part the records: x belongs to part h(x), whoever else is there. Mechanisms run in turn, each on one part and
# on everything that was answered before. If all that runs on part i is together (e_i, delta)-DP under add-remove,
# adaptively chosen inputs included, then the whole is (max e_i, delta)-DP under add-remove.
#
# Proof. Neighbours differ in one unit x, and h(x) is the same in both worlds: only that part differs. The answers
# from the other part are then randomised functions of earlier answers and of records that both worlds share, with the
# same distribution in both: steps of an adversary's own between the releases from part h(x), and so post-processing.
# What is left is the composition of those releases, which is (e_h(x), delta)-DP. Which part it is does not matter to
# the maximum.
#
# It needs a part that depends on the record alone. A permutation of the records present, or of their positions, is no
# such function: one record more moves others across. A unit of several records has to be in one part as a whole. Two
# files that are declared to share no unit are parted by that declaration.
#
# Under replace-one it fails: a record of one part may give way to a record of the other, so that both parts change.
# Then each part changes by at most one record's leaving or entering, which is an exchange with a record that
# contributes nothing, and the releases from both compose.

PARALLEL = "parallel composition of two parts of the records (McSherry 2009, theorem 4)"


def headline_of_parts(
    one: Event, other: Event, *, parallel: bool, delta: float, adjacency: Adjacency, unit: str = "record"
) -> Guarantee:
    """What the releases from two parts claim together at `delta`: as for `headline_of_many`, of one event or of both.

    parallel  whether the part of a record is a function of that record alone (or declared so); under replace-one the
              parts add all the same
    Raises as `headline_of_many`.
    """
    if not phases(other):
        return headline_of_many(one, delta, adjacency, unit)
    if not phases(one):
        return headline_of_many(other, delta, adjacency, unit)
    if not (parallel and adjacency is Adjacency.ADD_REMOVE):
        return headline_of_many(Composed(events=(one, other)), delta, adjacency, unit)
    return larger_of_parts(*(headline_of_many(event, delta, adjacency, unit) for event in (one, other)))


def larger_of_parts(first: Guarantee, second: Guarantee) -> Guarantee:
    """What the releases from two parts claim together that compose in parallel, each of which is claimed by itself.

    Both under add-remove, of one unit; where a record belongs is a function of that record alone (or declared so).
    """
    # Fixed deltas of approximate releases may differ: each claim holds at the larger of the two as well.
    larger = max(first, second, key=lambda claim: claim.epsilon)
    lowers = [claim.epsilon_lower for claim in (first, second) if claim.epsilon_lower is not None]
    return replace(
        larger,
        delta=max(first.delta, second.delta),
        epsilon_lower=max(lowers, default=None) if first.delta == second.delta else None,
        theorem=f"{larger.theorem}; {PARALLEL}",
        assumptions=tuple(dict.fromkeys((*first.assumptions, *second.assumptions))),
    )


# What a guarantee for single records leaves to a person with many: far less than its epsilon says.
#
# A mechanism that samples and clips by record lets each of a person's k records into a batch by a coin of its own,
# and each adds up to one clip norm. Whoever reads its claim as one per person can be refuted by a person of k equal
# records, and by how much is known exactly.
#
# Source Group privacy (Vadhan 2017, Lemma 2.2) bounds the loss of k records from above, by k epsilon or more. Here is
# the other side: what no analysis can do better than.

_SAFE = 1e-9
"""Relative allowance for the rounding of sums of probabilities, all of one sign."""
_THRESHOLDS = 400
_SPREAD = 12.0
"""Standard deviations of a binomial beyond which its mass is left out, which only lowers the bound."""


def group_epsilon_lower(event: Event, delta: float, size: int) -> float | None:
    """Below this epsilon no claim at `delta` holds for groups of `size` records, for a mechanism whose event per record
    is `event` (add-remove); in nats. None without a Gaussian step, whose worst case this knows.

    size  k: a group of k records whose gradients all point one way and reach the clip norm. In every step the released
          sum moves by Binomial(k, rate) clip norms.

    The bound is the power of one test, whether the sum over the steps of one kind exceeds a threshold: with T steps,
    z = noise multiplier and K ~ Binomial(k T, rate), P[K + N(0, T z^2) > t] against P[N(0, T z^2) > t] (Kairouz, Oh &
    Viswanath 2015, Theorem 2.1). Of unlike steps the kind that shows most counts. Raises InvalidValue.
    """
    checks.probability_open(delta=delta)
    checks.count(minimum=1, size=size)
    found = [
        _of_sums(rate, gaussian.noise_multiplier, steps, delta, size)
        for part, steps in phases(event).items()
        for rate, gaussian in [(part.rate, part.event) if isinstance(part, PoissonSampled) else (1.0, part)]
        if isinstance(gaussian, Gaussian)
    ]
    return max(found, default=None)


def _of_sums(rate: float, noise_multiplier: float, steps: int, delta: float, size: int) -> float:
    """max over t of ln((P[K + S > t] - delta) / P[S > t]), S ~ N(0, steps z^2)."""
    # It takes longer to import than all else here: not for every plan.
    from scipy.stats import binom

    trials, deviation = size * steps, noise_multiplier * math.sqrt(steps)
    middle, width = trials * rate, _SPREAD * math.sqrt(trials * rate * (1 - rate)) + 1
    counts = np.arange(max(0, math.floor(middle - width)), min(trials, math.ceil(middle + width)) + 1)
    log_masses = binom.logpmf(counts, trials, rate)
    # From where the group is seen for certain to where it is seen with a chance of about delta.
    reach = -float(ndtri(delta / 4))
    low, high = counts[0] - reach * deviation, counts[-1] + reach * deviation
    best = 0.0
    for threshold in np.linspace(low, high, _THRESHOLDS):
        seen = float(np.exp(log_masses + log_ndtr((counts - threshold) / deviation)).sum()) * (1 - _SAFE) - delta
        if seen > 0:
            best = max(best, math.log(seen) - float(log_ndtr(-threshold / deviation)) - _SAFE)
    return best
