"""Membership leakage: published bounds, what they say, and what they miss."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcore.guarantee import Status
from dpcore.papers.wu2020 import (
    dp_leakage_bound,
    leakage,
    leave_one_out_constant,
    property_1_counterexample,
    property_1_status,
    published_bound,
    repaired_bound,
    score,
    threshold,
    trivial_bound,
    vacuity_thresholds,
)

LOSSES = st.lists(st.floats(0, 5), min_size=1, max_size=20)


def test_leakage_is_bayes_rule_on_two_finite_posteriors():
    """Parameters on a grid, a record z, D = S + z: P(member | theta) by Bayes from the two posteriors."""
    p_s = np.array([0.2, 0.5, 0.3])
    losses = np.array([0.1, 1.2, 2.5])
    p_d = p_s * np.exp(-losses) / (p_s @ np.exp(-losses))
    draws = np.repeat(losses, [20, 50, 30])
    for prior in (0.5, 0.2):
        for k in range(3):
            posterior = prior * p_d[k] / (prior * p_d[k] + (1 - prior) * p_s[k])
            assert leakage(score(draws, losses[k]), prior) == pytest.approx(max(0.0, posterior - prior), abs=1e-12)


@given(losses=LOSSES, loss=st.floats(0, 5), prior=st.floats(0.01, 0.99))
def test_the_chain_of_bounds(losses, loss, prior):
    s = score(losses, loss)
    # Equation 7, since the sigmoid's slope is at most 1/4; equation 10, by Jensen.
    assert leakage(s, prior) <= max(0.0, s / 4) + 1e-12
    assert s <= np.mean(losses) - loss + 1e-9
    assert leakage(s, prior) <= trivial_bound(5.0, prior) + 1e-12 <= 5.0 / 4 + 2e-12
    assert min(losses) - 1e-9 <= threshold(losses) <= max(losses) + 1e-9


def test_the_theorem_is_vacuous_beyond_small_losses():
    trivial, half, one = vacuity_thresholds()
    assert (round(trivial, 4), round(half, 4), round(one, 4)) == (0.3466, 0.6837, 0.8640)
    assert published_bound(trivial) == pytest.approx(trivial / 4)
    assert math.exp(-trivial) == pytest.approx(0.7071, abs=1e-4)
    assert published_bound(math.log(2)) > 0.5
    assert published_bound(5.0) == pytest.approx(27532, abs=0.5)


@pytest.mark.parametrize("bound", [0.1, 0.3466, 1.0, 3.0, 5.0])
def test_the_exact_constant_is_the_largest_difference_that_any_loss_reaches(bound):
    p = np.linspace(0, 1, 200_001)
    difference = bound * p - bound * p * np.exp(-bound) / (1 - p + p * np.exp(-bound))
    assert difference.max() == pytest.approx(leave_one_out_constant(bound), rel=1e-8)
    rng = np.random.default_rng(1)
    for _ in range(200):
        loss, mass = rng.uniform(0, bound, 6), rng.dirichlet(np.full(6, 0.3))
        tilted = mass * np.exp(-loss) / (mass @ np.exp(-loss))
        assert abs(mass @ loss - tilted @ loss) <= leave_one_out_constant(bound)


def test_the_published_constant_is_far_from_exact():
    assert leave_one_out_constant(1.0) == pytest.approx(0.2449, abs=5e-5)
    assert 4 * published_bound(1.0) == pytest.approx(6.389, abs=5e-4)


def test_the_repaired_bound_covers_the_gap_that_the_theorem_drops():
    """A two-point posterior leaks more than the exact constant alone allows, and no more than the repaired bound."""
    bound, p = 1.0, np.linspace(0, 1, 10_001)
    tilted = p * np.exp(-bound) / (1 - p + p * np.exp(-bound))
    loss_of_mean = -np.log(tilted * np.exp(-bound) + 1 - tilted)
    ensemble = (bound * p - loss_of_mean).max() / 4
    assert leave_one_out_constant(bound) / 4 < ensemble <= repaired_bound(bound)
    # Section 6(e) of the theory notes: (B/4) tanh(B/4) + B^2/32, a quarter of the Jensen gap's B^2/8.
    assert repaired_bound(bound) == pytest.approx(math.tanh(0.25) / 4 + 1 / 32, rel=1e-12)
    assert repaired_bound(2.0) == pytest.approx(math.tanh(0.5) / 2 + 1 / 8, rel=1e-12)


def test_property_1_holds_for_pure_privacy():
    assert property_1_status(0.0) is Status.PROVED
    for epsilon in (0.1, 1.0, 3.0):
        for prior in (0.1, 0.5, 0.9):
            # Randomised response, the extreme pure mechanism: its likelier answer leaks exactly the sharper bound.
            yes, no = 1 / (1 + math.exp(-epsilon)), 1 / (1 + math.exp(epsilon))
            posterior = prior * yes / (prior * yes + (1 - prior) * no)
            assert posterior - prior == pytest.approx(dp_leakage_bound(epsilon, prior), abs=1e-12)
            assert dp_leakage_bound(epsilon, prior) <= epsilon / 4


def test_property_1_is_refuted_for_approximate_privacy():
    assert property_1_status(1e-9) is Status.REFUTED
    found = property_1_counterexample()
    assert found.delta == pytest.approx(0.126937, abs=5e-7)
    assert found.loss_exceeds == pytest.approx(0.308538, abs=5e-7)
    assert found.leakage_exceeds == pytest.approx(0.274716, abs=5e-7)
    # The statement itself fails, not only its proof; run it: members' outputs are N(1, 1), others' N(0, 1).
    outputs = np.random.default_rng(2).normal(1.0, 1.0, 100_000)
    leaks = np.array([leakage(x - 0.5) for x in outputs])
    assert np.mean(leaks > 0.25) == pytest.approx(found.leakage_exceeds, abs=4 * math.sqrt(0.2 / 100_000))
    assert np.mean(leaks > 0.25) > 2 * found.delta
