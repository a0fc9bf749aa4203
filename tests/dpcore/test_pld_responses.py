"""Compositions of randomised responses against enumeration at 80 digits, and of unlike ones against every subset."""

import math
from itertools import product

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcore.accountants.pld import PLDAccountant, pure_sums
from dpcore.accountants.pld.pairs import Asked, SampledRandomisedResponse
from dpcore.accounting import headline
from dpcore.events import Adjacency, ApproximateDP, Composed, PoissonSampled, PureDP, Repeated

MIXTURES = (
    ((1.0, 0.7, 1),),
    ((1.0, 5.0, 6),),
    ((1.0, 45.0, 3),),
    ((1.0, 0.3, 3), (1.0, 1.1, 2), (1.0, 2.5, 1)),
    ((0.1, 1.0, 5),),
    ((0.02, 20.0, 4),),
    ((0.3, 0.5, 3), (1.0, 0.2, 2)),
)
"""(rate, epsilon, steps) of each kind."""


def parts_of(mixture):
    return tuple((SampledRandomisedResponse(rate, epsilon), steps) for rate, epsilon, steps in mixture)


def exact_delta(mixture, epsilon, forward):
    """sum over all outcomes of (p - exp(epsilon) q)+, p and q being the products of the steps' probabilities."""
    steps = [(rate, each) for rate, each, count in mixture for _ in range(count)]
    total = mpmath.mpf(0)
    for outcome in product((0, 1), repeat=len(steps)):
        p = q = mpmath.mpf(1)
        for high, (rate, each) in zip(outcome, steps, strict=True):
            likely = 1 / (1 + mpmath.exp(-mpmath.mpf(each)))
            base, other = (1 - likely, likely) if high else (likely, 1 - likely)
            p *= (1 - mpmath.mpf(rate)) * base + mpmath.mpf(rate) * other
            q *= base
        if not forward:
            p, q = q, p
        total += max(mpmath.mpf(0), p - mpmath.exp(mpmath.mpf(epsilon)) * q)
    return total


def worst_delta(mixture, epsilon):
    with mpmath.workdps(80):
        return max(exact_delta(mixture, epsilon, forward) for forward in (True, False))


@pytest.mark.parametrize("mixture", MIXTURES, ids=str)
@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-12, 1e-40])
def test_bounds_hold_the_enumerated_epsilon_and_are_as_close_as_float64(mixture, delta):
    found = pure_sums.epsilon_bounds(parts_of(mixture), Asked(delta))
    assert found.upper - found.lower <= 1e-9 * found.upper
    # delta falls in epsilon: at the upper end it is small enough, below the lower end it is not.
    assert worst_delta(mixture, found.upper) <= delta
    if found.lower > 0:
        assert worst_delta(mixture, found.lower * (1 - 1e-15)) >= delta


@pytest.mark.parametrize("mixture", MIXTURES, ids=str)
@pytest.mark.parametrize("epsilon", [-1.0, 0.0, 0.1, 1.0, 4.4])
def test_delta_bounds_hold_the_enumerated_delta(mixture, epsilon):
    found = pure_sums.delta_bounds(parts_of(mixture), Asked(epsilon))
    exact = worst_delta(mixture, epsilon)
    assert found.lower <= exact <= found.upper
    assert found.upper - found.lower <= 1e-9 * found.upper + 1e-280


@pytest.mark.parametrize("each", [0.01, 1.0, 5.0, 20.0, 29.9])
@pytest.mark.parametrize("count", [1, 20, 1000])
@pytest.mark.parametrize("delta", [1e-5, 1e-10, 1e-20])
def test_pure_releases_have_an_epsilon_at_any_delta(each, count, delta):
    """A grid of losses gave none of these at delta of 1e-10: its lower bound stayed 0."""
    claim = headline(Repeated(event=PureDP(epsilon=each), count=count), delta, Adjacency.ADD_REMOVE)
    assert 0 < claim.epsilon_lower <= claim.epsilon <= each * count * (1 + 1e-11)
    assert claim.epsilon - claim.epsilon_lower <= 1e-6 * claim.epsilon


# Unlike releases.


@settings(max_examples=30)
@given(st.lists(st.floats(1e-3, 12), min_size=1, max_size=40), st.floats(1e-14, 1e-2))
def test_unlike_releases_are_between_the_largest_and_all_of_them(epsilons, delta):
    event = Composed(events=tuple(PureDP(epsilon=one) for one in epsilons))
    claim = headline(event, delta, Adjacency.ADD_REMOVE)
    alone = headline(PureDP(epsilon=max(epsilons)), delta, Adjacency.ADD_REMOVE)
    assert claim.epsilon_lower <= claim.epsilon <= math.fsum(epsilons) * (1 + 1e-11)
    assert claim.epsilon >= alone.epsilon_lower
    assert claim.epsilon - claim.epsilon_lower <= max(1.0001e-3 * claim.epsilon, 1e-6)


def test_hundreds_of_unlike_releases_are_counted():
    """A total over a sweep of pure trials; a grid of losses fitted none of its atoms and refused."""
    epsilons = np.exp(np.random.default_rng(1).uniform(np.log(0.5), np.log(8), 150))
    claim = headline(Composed(events=tuple(PureDP(epsilon=float(e)) for e in epsilons)), 1e-5, Adjacency.ADD_REMOVE)
    # The mean and ten deviations of the sum, about where delta of 1e-5 must lie.
    mean = float(np.sum(epsilons * np.tanh(epsilons / 2)))
    deviation = math.sqrt(float(np.sum((epsilons / np.cosh(epsilons / 2)) ** 2)))
    assert mean < claim.epsilon_lower <= claim.epsilon < mean + 10 * deviation


# Releases with deltas of their own, asked where little or nothing is left.

OWN = ApproximateDP(epsilon=1.0, delta=1e-5)


def bounds_at(delta, *events):
    return PLDAccountant().compose(Composed(events=events)).epsilon_bounds(delta)


def test_a_release_at_its_own_delta_has_its_own_epsilon():
    found = bounds_at(1e-5, OWN)
    assert found.lower == pytest.approx(1.0, rel=1e-10)
    assert 1.0 <= found.upper <= 1.0 + 1e-11
    with_pure = bounds_at(1e-5, OWN, PureDP(epsilon=0.5), PureDP(epsilon=0.5))
    assert 2.0 <= with_pure.upper <= 2.0 + 1e-11


def test_below_its_own_delta_no_epsilon_holds():
    assert bounds_at(9.999e-6, OWN) == (math.inf, math.inf)


def test_a_sample_of_a_large_pure_release_counts_as_its_amplified_epsilon():
    event = PoissonSampled(rate=0.01, event=PureDP(epsilon=40.0))
    found = headline(event, 1e-5, Adjacency.ADD_REMOVE)
    assert found.epsilon == pytest.approx(40 + math.log(0.01), rel=1e-6)
