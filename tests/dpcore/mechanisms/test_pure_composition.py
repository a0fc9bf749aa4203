"""Optimal composition of pure DP against enumeration and against the weaker theorems."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcore.accountants.composition import (
    AdvancedAccountant,
    NaiveAccountant,
    delta_pure,
    each_pure,
    eps_pure,
)
from dpcore.events import PureDP


def enumerated(each: float, count: int, epsilon: float) -> float:
    """Hockey-stick divergence of `count` randomised responses, outcome by outcome."""
    keep = math.exp(each) / (1 + math.exp(each))
    total = 0.0
    for flips in itertools.product((0, 1), repeat=count):
        p = math.prod(keep if f == 0 else 1 - keep for f in flips)
        q = math.prod(1 - keep if f == 0 else keep for f in flips)
        total += max(0.0, p - math.exp(epsilon) * q)
    return total


@pytest.mark.parametrize("each", [0.05, 0.7, 3.0])
@pytest.mark.parametrize("count", [1, 2, 7])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 2.0])
def test_delta_is_that_of_enumeration(each, count, epsilon):
    exact = enumerated(each, count, epsilon)
    assert delta_pure(each, count, epsilon) == pytest.approx(exact, rel=1e-7, abs=1e-15)
    assert delta_pure(each, count, epsilon) >= exact - 1e-15


@settings(max_examples=60)
@given(st.floats(1e-3, 3), st.integers(1, 2000), st.floats(1e-9, 1e-2))
def test_never_above_the_weaker_theorems_and_inverted_on_the_safe_side(each, count, delta):
    epsilon = eps_pure(each, count, delta)
    event = PureDP(epsilon=each)
    assert epsilon <= NaiveAccountant().compose(event, count).epsilon(delta)
    assert epsilon <= AdvancedAccountant().compose(event, count).epsilon(delta) * (1 + 1e-9)
    assert delta_pure(each, count, epsilon) <= delta or epsilon == count * each


@settings(max_examples=40)
@given(st.floats(0.01, 20), st.integers(1, 2000), st.floats(1e-9, 1e-2))
def test_the_largest_share_of_one_release(epsilon, count, delta):
    each = each_pure(epsilon, delta, count)
    assert each >= epsilon / count
    assert eps_pure(each, count, delta) <= epsilon * (1 + 1e-9)
    assert delta_pure(each * (1 + 1e-6), count, epsilon) > delta


def test_a_delta_that_covers_all_needs_no_epsilon():
    assert eps_pure(1e-9, 3, 1e-5) == 0.0
