"""What one trial costs, as a curve: the input of every price of a search.

A profile is an upper bound in *both* directions (a record added and a record removed): delta at each epsilon of at
least 0, its inverse, and Renyi divergences. One direction alone bounds nothing here.

    EventProfile    of an event, by the accountants
    WorstProfile    the largest at every point: of a prior whose weights are left open
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtri

from dpcore import checks
from dpcore.accountants.rdp import RDPAccountant
from dpcore.accounting import TOLERANCE, headline, headline_delta
from dpcore.events import Adjacency, Event, UnsupportedEvent
from dpcore.gdp import delta_gdp, relative_error

ROUND_UP = 1 + 1e-12
"""Allowance for the rounding of a few operations on certified numbers."""
_CLOSE = 1e-10


class TrialProfile(Protocol):
    """Upper bounds on what one trial reveals, in both directions of `adjacency`."""

    @property
    def adjacency(self) -> Adjacency:
        """The neighbouring relation of all its numbers."""

    def delta(self, epsilon: float) -> float:
        """Upper bound on delta at `epsilon` >= 0, in [0, 1]; does not rise with epsilon."""

    def epsilon(self, delta: float) -> float:
        """Upper bound on the least epsilon >= 0 at `delta` in (0, 1)."""

    def __hash__(self) -> int:
        """Profiles are values: what was worked out for one is known for its equals."""


@dataclass(frozen=True, slots=True)
class EventProfile:
    """The profile of an event, by the headline: training and scoring together, where both touch the private records.

    tolerance  relative gap between the bounds that the accountant is asked for

    Raises UnsupportedEvent, naming the part, InvalidValue, and as the accountant does.
    """

    event: Event
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    tolerance: float = TOLERANCE

    def delta(self, epsilon: float) -> float:
        """See `TrialProfile.delta`."""
        return headline_delta(self.event, epsilon, self.adjacency, self.tolerance).upper

    def epsilon(self, delta: float) -> float:
        """See `TrialProfile.epsilon`."""
        return headline(self.event, delta, self.adjacency, tolerance=self.tolerance).epsilon

    def renyi(self, orders: tuple[float, ...]) -> NDArray[np.float64]:
        """Upper bounds on the Renyi divergences of these orders, each above 1, in nats; infinite where unknown."""
        return _renyi(self.event, self.adjacency, orders)


@lru_cache(maxsize=1024)
def _renyi(event: Event, adjacency: Adjacency, orders: tuple[float, ...]) -> NDArray[np.float64]:
    try:
        found = RDPAccountant(adjacency).compose(event).rdp(orders)
    except UnsupportedEvent:
        found = np.full(len(orders), math.inf)
    found.setflags(write=False)
    return found


@dataclass(frozen=True, slots=True)
class WorstProfile:
    """The largest of several profiles at every point: bounds every mixture of them. Raises InvalidValue."""

    parts: tuple[TrialProfile, ...]

    def __post_init__(self) -> None:
        if len(found := sorted({str(part.adjacency) for part in self.parts})) != 1:
            raise checks.InvalidValue("parts", found, "profiles under one adjacency, one at least")

    @property
    def adjacency(self) -> Adjacency:
        """Of all parts."""
        return self.parts[0].adjacency

    def delta(self, epsilon: float) -> float:
        """See `TrialProfile.delta`."""
        return max(part.delta(epsilon) for part in self.parts)

    def epsilon(self, delta: float) -> float:
        """See `TrialProfile.epsilon`."""
        return max(part.epsilon(delta) for part in self.parts)


def distribution(name: str, weights: tuple[float, ...], length: int) -> None:
    """Refuse what is not `length` numbers above 0 whose sum is 1. Raises InvalidValue."""
    for weight in weights:
        checks.positive_finite(**{name: weight})
    if len(weights) != length or abs(math.fsum(weights) - 1) > 1e-12:
        raise checks.InvalidValue(name, weights, f"{length} numbers above 0 whose sum is 1")


def epsilon_at(profile: TrialProfile, delta: float) -> float:
    """`profile.epsilon`, and 0 at a delta of 1 or more, where everything holds."""
    return profile.epsilon(delta) if delta < 1 else 0.0


# The least mu whose Gaussian covers a mechanism up to a small chance tau: not asymptotic, for the GDP filter.
#
# A mechanism whose profile satisfies, for all epsilon >= 0 and in both directions,
#
# delta(epsilon) <= tau + (1 - tau) delta_mu(epsilon), delta_mu that of mu-Gaussian DP,
#
# reveals no more than one that tells all with chance tau and else releases N(0, 1) or N(mu, 1) (Dong, Roth & Su 2022,
# theorem 2: the larger divergence at every order is the harder test). Both directions at epsilon >= 0 are all that is
# needed, since delta(-epsilon) = 1 - exp(-epsilon) + exp(-epsilon) delta_reversed(epsilon); one direction is not.
#
# The condition is checked between points e_0 = 0 < e_1 < ...; beyond the last, delta(e_last) <= tau covers all, since
# delta does not rise. In between, both sides are convex in t = exp(e): each is a supremum of P(S) - t P'(S) over
# events S. So the exact delta lies below the chord of two bounds at the ends, and the right side comes nearest to a
# chord at an end, or where it has the chord's slope:
#
# -(1 - tau) Phi(-e/mu - mu/2) = (delta_right - delta_left) / (t_right - t_left).
#
# One comparison there covers the interval, with a gap that falls with the square of its length.

COVER_TOLERANCE = 1e-3
_FIRST = 16
_MOST_POINTS = 2000
_LARGEST = 600.0
_LEAST_LOG = -30.0
_ENOUGH = 700.0


def covering_mu(profile: TrialProfile, tau: float, tolerance: float = COVER_TOLERANCE) -> float:
    """The least mu that covers the profile up to chance `tau`, in (0, 1), from above to about `tolerance` relative.

    Infinite where no mu does: an epsilon that stays infinite at tau, or a delta that is 1 in floating point. The CLT's
    mu is no such number: it may lie below. Raises InvalidValue, and as the profile does.
    """
    checks.probability_open(tau=tau)
    checks.positive_finite(tolerance=tolerance)
    last = profile.epsilon(tau)
    if math.isinf(last):
        return math.inf
    while profile.delta(last) > tau:
        last = last * (1 + 1e-6) + 1e-9
    if last == 0:
        return 0.0
    ends = [last * k / _FIRST for k in range(_FIRST + 1)]
    deltas = {point: profile.delta(point) for point in ends}
    known = max(_mu_for(deltas[point], point, tau) for point in ends[:-1])
    if math.isinf(known):
        return math.inf

    def bound(left: float, right: float) -> tuple[float, float, float]:
        """Minus a mu that covers the interval, for a heap whose first entry is the largest; and the interval."""
        return -_mu_between((left, right), (deltas[left], deltas[right]), tau, known), left, right

    needed = [bound(left, right) for left, right in pairwise(ends)]
    heapq.heapify(needed)
    for _ in range(_MOST_POINTS):
        most, left, right = needed[0]
        if -most <= known * (1 + tolerance) or right - left <= 1e-12 * last:
            break
        middle = (left + right) / 2
        deltas[middle] = profile.delta(middle)
        known = max(known, _mu_for(deltas[middle], middle, tau))
        if math.isinf(known):
            return math.inf
        heapq.heapreplace(needed, bound(left, middle))
        heapq.heappush(needed, bound(middle, right))
    return -needed[0][0]


def is_covered(delta: Callable[[float], float], last: float, mu: float, tau: float) -> bool:
    """Whether it is shown that this mu covers a profile up to chance `tau`; False where it is not shown.

    delta  upper bound at each epsilon of at least 0, in both directions
    last   an epsilon above 0 at which delta may be below tau: a guess, which costs time alone

    For a given mu this is much less work than `covering_mu`: an interval is halved only where its chord is above the
    curve of mu. Raises InvalidValue, and as `delta` does.
    """
    checks.probability_open(tau=tau)
    checks.positive_finite(last=last, mu=mu)
    for _ in range(_FIRST):
        at_last = delta(last)
        if at_last <= tau:
            break
        last *= 1.02
    else:
        return False
    open_intervals = [((0.0, last), (delta(0.0), at_last))]
    for _ in range(_MOST_POINTS):
        if not open_intervals:
            return True
        (left, right), ends = open_intervals.pop()
        if right <= _LARGEST:
            held = _short_of_chord((left, right), ends, tau)(mu) >= 0
        else:
            # exp(epsilon) leaves double precision: a step is above the chord.
            held = _short(ends[0], right, mu, tau) >= 0
        if held:
            continue
        middle = (left + right) / 2
        between = delta(middle)
        if _short(between, middle, mu, tau) < 0 or right - left <= 1e-12 * last:
            return False
        open_intervals += [((left, middle), (ends[0], between)), ((middle, right), (between, ends[1]))]
    return False


def _mu_for(delta: float, epsilon: float, tau: float) -> float:
    """The least mu with tau + (1 - tau) delta_mu(epsilon) >= delta, rounded up."""
    return _least_mu(lambda mu: _short(delta, epsilon, mu, tau))


def _mu_between(ends: tuple[float, float], deltas: tuple[float, float], tau: float, at_least: float) -> float:
    """The least mu whose right side is above the chord of `deltas` over all epsilons between `ends`, rounded up; or
    `at_least` where that is enough."""
    right = ends[1]
    if right > _LARGEST:
        # exp(epsilon) leaves double precision: a step is above the chord.
        return max(at_least, _mu_for(deltas[0], right, tau))
    short = _short_of_chord(ends, deltas, tau)
    return at_least if at_least > 0 and short(at_least) >= 0 else _least_mu(short)


def _short_of_chord(ends: tuple[float, float], deltas: tuple[float, float], tau: float) -> Callable[[float], float]:
    """Of mu: at least 0 exactly where its right side is above the chord of `deltas` between `ends`, which are at most
    `_LARGEST`."""
    left, right = ends
    slope = (deltas[0] - deltas[1]) / ((1 - tau) * math.exp(left) * math.expm1(right - left))

    def short(mu: float) -> float:
        nearest = right if slope <= 0 else left if slope >= 1 else -mu * (float(ndtri(slope)) + mu / 2)
        return min(at(epsilon, mu) for epsilon in {left, min(max(nearest, left), right), right})

    def at(epsilon: float, mu: float) -> float:
        # Weights of the ends on the chord, each to full relative precision.
        of_left = math.expm1(epsilon - right) / math.expm1(left - right)
        of_right = math.exp(epsilon - right) * math.expm1(left - epsilon) / math.expm1(left - right)
        return _short(of_left * deltas[0] + of_right * deltas[1], epsilon, mu, tau)

    return short


def _short(delta: float, epsilon: float, mu: float, tau: float) -> float:
    """At least 0 exactly where tau + (1 - tau) delta_mu(epsilon) >= delta, all rounding counted against it."""
    share = (delta * ROUND_UP - tau) / (1 - tau)
    if share <= 0:
        return _ENOUGH
    found = delta_gdp(epsilon, mu) * (1 - relative_error(mu / 2 - epsilon / mu, mu))
    return math.log(found / share) if found > 0 else -_ENOUGH


def _least_mu(short: Callable[[float], float]) -> float:
    """The least mu at which `short`, which rises with mu, is at least 0, from above; infinite where none is."""
    low, high = _LEAST_LOG, 0.0
    if short(math.exp(low)) >= 0:
        return 0.0 if short(math.exp(low)) == _ENOUGH else math.exp(low)
    while short(math.exp(high)) < 0:
        if high > 10:
            return math.inf
        low, high = high, high + 1
    mu = math.exp(float(brentq(lambda log_mu: short(math.exp(log_mu)), low, high, xtol=1e-12, rtol=1e-12)))
    step = 1e-11
    while short(mu) < 0:
        mu, step = mu * (1 + step), 2 * step
    return mu
