"""The PLD accountant: published intervals, closed forms, oracles, properties, and known bugs put back in."""

import math
import random

import mpmath
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as theirs
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcore.accountants.pld import DiscretisationInvalid, PLDAccountant, closed_forms, convolution, grid, laws
from dpcore.accountants.pld import accountant as routes
from dpcore.accountants.pld.closed_forms import total_variation
from dpcore.accountants.pld.laws import Law
from dpcore.accountants.pld.pairs import Asked, ReplacedSampledGaussian, SampledGaussianPair, SampledRandomisedResponse
from dpcore.accountants.pld.saddle_point import direction_at_delta
from dpcore.events import Adjacency, Gaussian, PoissonSampled, PureDP
from dpcore.gdp import delta_gdp, eps_gdp, relative_error
from tests.dpcore import oracles


def sampled(rate, noise_multiplier):
    return PoissonSampled(rate=rate, event=Gaussian(noise_multiplier=noise_multiplier))


def one_direction(parts, delta, tail):
    return grid.epsilon_bounds(direction_at_delta(parts, Asked(delta), tail, forward=True))


# Bu et al. 2020, Tables 1 to 4: noise, rate, steps, delta, the upper end of an independent PLD as it was printed.
PRINTED = [
    (1.3, 256 / 60000, 3516, 1e-5, 0.8646, 1e-4),
    (1.1, 256 / 60000, 14063, 1e-5, 2.3817, 1e-4),
    (0.7, 256 / 60000, 10547, 1e-5, 5.640, 1e-3),
    (0.6, 256 / 60000, 14532, 1e-5, 10.950, 1e-3),
    (0.55, 256 / 60000, 15938, 1e-5, 15.717, 1e-3),
    (0.5, 256 / 60000, 23438, 1e-5, 28.05, 1e-2),
    (0.55, 256 / 29305, math.ceil(18 * 29305 / 256), 1e-5, 11.81, 1e-2),
    (0.56, 512 / 25000, math.ceil(9 * 25000 / 512), 1e-5, 12.15, 1e-2),
    (0.6, 1 / 80, 1600, 1e-6, 12.75, 1e-2),
]


@pytest.mark.parametrize(("s", "q", "steps", "delta", "printed", "digit"), PRINTED)
def test_bounds_hold_the_printed_epsilon(s, q, steps, delta, printed, digit):
    """To the printed digits, and a ten-thousandth of it for the other grid's own pessimism."""
    lower, upper = PLDAccountant().compose(sampled(q, s), steps).epsilon_bounds(delta)
    assert upper == pytest.approx(printed, abs=digit + 1e-4 * printed)
    assert upper - 1e-3 * upper <= lower <= upper


def test_never_below_the_optimistic_estimate_of_dp_accounting():
    for q, s, steps, delta in [(0.01, 1.0, 500, 1e-5), (0.002, 0.6, 100, 1e-6)]:
        lower, upper = PLDAccountant().compose(sampled(q, s), steps).epsilon_bounds(delta)
        for pessimistic in (True, False):
            other = theirs.from_gaussian_mechanism(
                s, sampling_prob=q, pessimistic_estimate=pessimistic, use_connect_dots=pessimistic
            ).self_compose(steps)
            value = other.get_epsilon_for_delta(delta)
            if pessimistic:
                assert lower <= value * (1 + 1e-9)
            else:
                assert value <= upper


@settings(max_examples=25)
@given(
    q=st.floats(1e-3, 0.3),
    s=st.floats(0.6, 8.0),
    steps=st.integers(1, 3000),
    delta=st.floats(1e-9, 1e-3),
)
def test_more_noise_fewer_steps_or_larger_delta_never_cost_more(q, s, steps, delta):
    accountant = PLDAccountant(tolerance=0.02)
    lower, upper = accountant.compose(sampled(q, s), steps).epsilon_bounds(delta)
    assert lower <= upper
    assert upper - lower <= max(0.02 * upper, 1e-6)
    assert accountant.compose(sampled(q, 1.2 * s), steps).epsilon_lower(delta) <= upper
    assert accountant.compose(sampled(q, s), 2 * steps).epsilon(delta) >= lower
    assert accountant.compose(sampled(q, s), steps).epsilon_lower(2 * delta) <= upper


# What broke before.


def test_guard_refuses_a_lower_curve_that_crosses_the_exact_one(monkeypatch):
    original = laws.lower_masses

    def too_high(grid):
        laws, q_only, p_only = original(grid)
        laws = laws.copy()
        laws[len(laws) // 2] += 1e-6
        return laws, q_only, p_only

    monkeypatch.setattr(laws, "lower_masses", too_high)
    with pytest.raises(DiscretisationInvalid, match="lower"):
        laws.Discretised(SampledGaussianPair(0.01, 1.0), 0.002, 1e-15).law(upper=False, forward=True)


@pytest.mark.parametrize("delta", [1e-10, 1e-12, 1e-20, 1e-100])
def test_tiny_deltas_keep_relative_precision(delta):
    pair = SampledGaussianPair(1.0, 20.0)
    found = one_direction(((pair, 100),), delta, 1e-8 * delta)
    exact = eps_gdp(0.5, delta)
    assert found.lower <= exact <= found.upper
    assert found.upper - found.lower <= 1e-3 * exact


# Settings that once broke the loss distributions: coarse grids, mixed steps, negative epsilon, tight tolerances.


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_mixed_steps_agree_with_their_sum_and_bound_their_parts(adjacency):
    parts = [(sampled(0.01, 1.0), 200), (sampled(0.05, 4.0), 50), (Gaussian(noise_multiplier=20.0), 3)]
    parts.append((PureDP(epsilon=0.01), 4))
    whole = PLDAccountant(adjacency=adjacency, tolerance=5e-3)
    for event, count in parts:
        alone = PLDAccountant(adjacency=adjacency, tolerance=5e-3).compose(event, count)
        whole = whole.compose(event, count)
        lower, upper = whole.epsilon_bounds(1e-6)
        assert upper >= alone.epsilon_lower(1e-6)
        assert upper - lower <= 5e-3 * upper
    assert whole.delta_lower(upper) <= 1e-6 <= whole.delta(lower) * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", [-2.0, -0.5, -0.05])
def test_delta_at_negative_epsilon_mirrors_the_positive(epsilon):
    # Over both directions: delta(-e) = 1 - exp(-e) + exp(-e) delta(e), as P and Q change roles.
    for steps in (1, 2, 300):
        accountant = PLDAccountant().compose(sampled(0.05, 1.0), steps)
        here, mirror = accountant.delta_bounds(epsilon), accountant.delta_bounds(-epsilon)
        low, high = (-math.expm1(epsilon) + math.exp(epsilon) * side for side in mirror)
        assert here.lower <= high * (1 + 1e-9)
        assert low <= here.upper * (1 + 1e-9)
        assert here.upper - here.lower <= 1e-3 * here.upper


# Where accounting once refused or rounded badly: borders of epsilon 0, tiny mu, nearly certain answers, delta.


def exact_distance(pair):
    """One step's total variation."""
    if isinstance(pair, SampledRandomisedResponse):
        return pair.rate * math.tanh(pair.epsilon / 2)
    curve = oracles.removed if isinstance(pair, SampledGaussianPair) else oracles.replaced
    return float(curve(0.0, pair.rate, pair.noise_multiplier))


def test_round_off_of_a_long_rare_composition_yields_to_long_double():
    """Tilted to this delta, a step in 1e8 decides: in float64 the bounds of every grid stay 0.15% apart, or more."""
    parts = ((SampledGaussianPair(1.0188e-4, 0.906), 50012),)
    wide = routes.epsilon_bounds(parts, 1.96e-11, 1e-2)
    close = routes.epsilon_bounds(parts, 1.96e-11, 1e-3)
    assert wide.lower <= close.lower <= close.upper <= wide.upper
    assert close.upper - close.lower <= 1e-3 * close.upper


PAIRS = [SampledGaussianPair(1e-3, 0.6), SampledGaussianPair(0.2, 3.0), SampledGaussianPair(1.0, 5.0)]
PAIRS += [ReplacedSampledGaussian(0.05, 1.1), SampledRandomisedResponse(0.3, 0.8)]


@pytest.mark.parametrize("pair", PAIRS)
def test_distance_of_one_step_is_exact_or_above_by_little(pair):
    exact = exact_distance(pair)
    bound = total_variation(((pair, 1),))
    assert exact * (1 - 1e-9) <= bound <= exact * (1 + 1e-9)
    assert routes.delta_bounds(((pair, 1),), 0.0, 1e-3).lower <= bound * (1 + 1e-9)


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_distances_of_many_steps_lie_above_delta_at_zero(adjacency):
    rng = random.Random(2)
    tight = 0
    for _ in range(12):
        accountant = PLDAccountant(adjacency=adjacency, tolerance=1e-2)
        for _ in range(rng.choice([1, 2])):
            event = sampled(10 ** rng.uniform(-3, -1), 10 ** rng.uniform(0, 1))
            accountant = accountant.compose(event, int(10 ** rng.uniform(1, 3.5)))
        parts = accountant._parts_and_failure()[0]
        bound = total_variation(parts)
        exact = accountant.delta_bounds(0.0)
        assert exact.lower <= bound
        tight += bound <= 1.6 * exact.upper
        if bound < 1:
            assert accountant.epsilon_bounds(bound) == (0.0, 0.0)
    # Chi-square holds many similar steps together; a sum of distances alone would be off by the root of their number.
    assert adjacency is Adjacency.REPLACE_ONE or tight >= 8


@pytest.mark.parametrize("mu", [3e-9, 1e-7, 1e-3, 0.5, 6.0])
@pytest.mark.parametrize("share", [0.9, 1e-2, 1e-8])
def test_gaussians_of_any_size_enclose_sixty_digits(mu, share):
    with mpmath.workdps(60):
        delta = share * math.erf(mu / math.sqrt(8))
        lower, upper = closed_forms.gaussian_epsilon(mu, delta)
        assert oracles.gaussian(upper, mu) <= delta
        assert lower == 0 or oracles.gaussian(lower, mu) >= delta
        assert upper - lower <= 2e-3 * upper
        for epsilon in (0.3 * upper, upper, -0.7 * upper):
            low, high = closed_forms.gaussian_delta(mu, epsilon)
            assert low <= oracles.gaussian(epsilon, mu) <= high


def test_the_stated_error_of_closed_form_deltas_covers_the_real_one():
    rng = random.Random(1)
    with mpmath.workdps(60):
        for _ in range(1500):
            mu, x = 10 ** rng.uniform(-10, 1.3), -(10 ** rng.uniform(-4, 1.4))
            epsilon = mu * (mu / 2 - x)
            exact = oracles.gaussian(epsilon, mu)
            error = abs(delta_gdp(epsilon, mu) - exact) / exact
            assert error <= relative_error(mu / 2 - epsilon / mu, mu)


# Infinite loss in some step is infinite loss of the whole: no epsilon, however large, is above it.

FIVE = 5
INFINITE = 0.01


def composition():
    """Two finite losses and a loss at infinity, five times, on a ring that holds every finite sum."""
    finite = np.array([0.59, 0.4])
    law = Law(origin=-0.5, spacing=1.0, masses=finite, infinite=INFINITE, slack=0.0)
    return convolution.TiltedComposition([(law, FIVE)], 1.0, convolution.Window(64, 32, 1.0, 1.0))


def exact_delta(epsilon):
    """By enumeration of the sums of five losses."""
    finite = sum(
        math.comb(FIVE, k) * 0.59 ** (FIVE - k) * 0.4**k * max(0.0, -math.expm1(epsilon - (k - 0.5 * FIVE)))
        for k in range(FIVE + 1)
    )
    return finite + 1 - (1 - INFINITE) ** FIVE


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 2.4, 2.6, 10.0, 30.0])
def test_the_upper_bound_is_the_enumerated_curve(epsilon):
    """From 2.5 on only the infinite loss is left: a composition that drops it would answer 0."""
    upper = math.exp(composition().log_delta_upper(epsilon))
    assert exact_delta(epsilon) * (1 - 1e-12) <= upper <= exact_delta(epsilon) * (1 + 1e-6)
