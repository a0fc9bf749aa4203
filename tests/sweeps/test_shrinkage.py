"""Shrunk scores: golden numbers, properties, and by simulation what the chosen one is worth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeps.reporting.shrinkage import FEWEST, shrink, shrink_alike
from tests.benchmarks.chosen import compare

SCORES = st.lists(st.tuples(st.floats(-5, 5), st.floats(0.001, 2)), min_size=FEWEST, max_size=12)


def test_equal_errors_give_the_rule_of_efron_and_morris():
    """With one error s for all, t^2 = S / (n - 1) - s^2: of 0, 1, 2, 3 it is 5/3 - 1, and B = 3/5."""
    shrunk, errors = shrink(np.array([0.0, 1, 2, 3]), np.ones(4))
    assert shrunk == pytest.approx(0.6 * 1.5 + 0.4 * np.arange(4), abs=1e-9)
    assert errors == pytest.approx(np.sqrt(0.4 + 0.36 * (5 / 3) / 4), abs=1e-9)


def test_scores_that_spread_no_more_than_their_errors_are_one():
    shrunk, _ = shrink(np.array([0.50, 0.51, 0.49, 0.5]), np.full(4, 0.1))
    assert shrunk == pytest.approx(0.5)


@given(SCORES)
def test_shrunk_scores_lie_between_their_own_and_the_mean_and_are_no_less_sure(listed):
    scores, errors = np.array(listed).T
    shrunk, left = shrink(scores, errors)
    assert (shrunk >= scores.min() - 1e-9).all()
    assert (shrunk <= scores.max() + 1e-9).all()
    assert (left <= errors + 1e-9).all()
    # A shift moves all alike.
    assert shrink(scores + 1, errors)[0] == pytest.approx(shrunk + 1, abs=1e-6)


def test_a_noisy_score_of_few_like_it_is_held_against_all_and_infinities_stay():
    scores, errors = [0.9, 0.5, 0.5, 0.52, 0.51, np.inf], [0.3, 0.01, 0.01, 0.01, 0.01, 0.1]
    shrunk, _ = shrink_alike(scores, errors, ["lonely", *"abcd", "e"])
    assert shrunk[0] < 0.6
    assert shrunk[5] == np.inf
    assert list(shrink_alike([0.9, 0.5], [0.3, 0.01], ["a", "b"])[0]) == [0.9, 0.5]


def test_what_the_chosen_trial_is_said_to_score_is_within_its_error_of_what_it_is_worth():
    """300 sweeps of 12 trials on Adult at n = 500, where luck is largest: raw scores overstate three times as much."""
    found = compare("adult", 500, np.random.default_rng(0))
    assert abs(found["shrunk"][2]) < 1
    assert found["raw"][1] > 2 * abs(found["shrunk"][1])
    assert found["shrunk"][0] < found["raw"][0] + 0.002
