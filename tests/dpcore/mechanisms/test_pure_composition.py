"""Optimal composition of pure DP against the weaker theorems, and inverted on the safe side."""

from hypothesis import given, settings
from hypothesis import strategies as st

from dpcore.accountants.composition import AdvancedAccountant, NaiveAccountant, delta_pure, each_pure, eps_pure
from dpcore.events import PureDP


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
