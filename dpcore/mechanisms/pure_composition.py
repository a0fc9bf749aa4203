"""The exact composition of equal pure-DP releases.

Source  Kairouz, Oh & Viswanath (2015), Theorem 3.3 (optimal for releases known only to be (epsilon, 0)-DP).
"""

from __future__ import annotations

from scipy.optimize import brentq

from dpcore import checks
from dpcore.accountants.pld.bounds import Asked, Bounds
from dpcore.accountants.pld.pairs import Parts, SampledRandomisedResponse
from dpcore.accountants.pld.randomised_response import exact_sums

THEOREM = "Kairouz, Oh & Viswanath 2015, Theorem 3.3 (optimal composition of pure DP)"
ACCOUNTANT = "optimal-pure"
LARGEST_COUNT = exact_sums.MAX_COUNT

_STEP = 1e-12


def delta_pure(each: float, count: int, epsilon: float) -> float:
    """delta at `epsilon` >= 0 of `count` adaptive (each, 0)-DP releases; rounded up. In [0, 1].

    Raises InvalidValue for a count outside 1..LARGEST_COUNT.
    """
    checks.non_negative_finite(each=each, epsilon=epsilon)
    return _found(exact_sums.delta_bounds(_alike(each, count), Asked(epsilon)))


def eps_pure(each: float, count: int, delta: float) -> float:
    """The smallest epsilon >= 0 with `delta_pure` at most `delta` in (0, 1); rounded up, at most count * each."""
    checks.non_negative_finite(each=each)
    checks.probability_open(delta=delta)
    return min(count * each, _found(exact_sums.epsilon_bounds(_alike(each, count), Asked(delta))))


def each_pure(epsilon: float, delta: float, count: int) -> float:
    """The largest per-release epsilon whose `count` releases are (epsilon, delta)-DP, epsilon > 0; rounded down."""
    checks.positive_finite(epsilon=epsilon)
    checks.probability_open(delta=delta)
    checks.count(minimum=1, count=count)
    low = epsilon / count
    high = 2 * low
    while delta_pure(high, count, epsilon) <= delta:
        high *= 2
    root = float(brentq(lambda e: delta_pure(e, count, epsilon) - delta, low, high, xtol=1e-300, rtol=1e-14))
    while delta_pure(root, count, epsilon) > delta:
        root -= root * _STEP
    return max(root, low)


def _alike(each: float, count: int) -> Parts:
    checks.count(minimum=1, count=count)
    if count > LARGEST_COUNT:
        raise checks.InvalidValue("count", count, f"at most {LARGEST_COUNT} releases")
    return ((SampledRandomisedResponse(1.0, float(each)), count),)


def _found(bounds: Bounds | None) -> float:
    assert bounds is not None, "releases of one kind have few sums"
    return bounds.upper
