"""Settings that once broke the loss distributions: coarse grids, mixed steps, negative epsilon, tight tolerances."""

import math

import pytest

from dpcore.accountants.pld import PLDAccountant, convolution, laws, routes
from dpcore.accountants.pld.bounds import Asked
from dpcore.accountants.pld.pairs import SampledGaussianPair
from dpcore.accountants.pld.saddle_point import direction_at_delta
from dpcore.events import Adjacency, Gaussian, PoissonSampled, PureDP


def sampled(rate, noise_multiplier):
    return PoissonSampled(rate=rate, event=Gaussian(noise_multiplier=noise_multiplier))


@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-9])
def test_coarse_grids_keep_the_mean_and_stay_bounds(delta):
    # Rounding every loss outward would cost up to T * spacing = 5 nats here; keeping the mean costs hundredths.
    pair, steps, spacing = SampledGaussianPair(0.01, 1.0), 1000, 0.005
    exact = routes.epsilon_bounds(((pair, steps),), delta, 1e-4)
    law = laws.Discretised(pair, spacing, 1e-15).law(upper=True, forward=True)
    tilt = direction_at_delta(((pair, steps),), Asked(delta), 1e-15, forward=True).saddle.tilt
    window = convolution.Window(4096, 2048, 0.3 * tilt, 0.3 * tilt)
    composed = convolution.TiltedComposition([law], [steps], tilt, window)
    assert composed.log_delta_upper(exact.lower) >= math.log(delta) - 1e-9
    assert composed.log_delta_upper(exact.upper + 0.1) <= math.log(delta)


@pytest.mark.parametrize(
    ("rate", "noise", "steps", "delta", "golden"),
    [
        (0.0002245964459453063, 0.9475798796705653, 58546, 9.836154528033122e-10, (0.424567, 0.424719)),
        (0.00012776290724914253, 0.7147116713726951, 34, 1.1415609749466069e-05, (0.0101155, 0.010124)),
        (0.001, 0.4, 100, 1e-9, (10.15, 10.17)),
    ],
)
def test_rare_large_losses_are_met_from_both_sides(rate, noise, steps, delta, golden):
    # Golden: certified without locating first, every frequency kept. The central limit's spread is useless here.
    lower, upper = PLDAccountant().compose(sampled(rate, noise), steps).epsilon_bounds(delta)
    assert lower <= golden[1]
    assert golden[0] <= upper
    assert upper - lower <= 1e-3 * upper


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


@pytest.mark.parametrize(("rate", "noise", "steps"), [(0.01, 1.0, 100), (0.1, 3.0, 1000), (0.001, 0.6, 10)])
def test_replacing_lies_between_one_change_and_two(rate, noise, steps):
    def both(adjacency):
        return PLDAccountant(adjacency=adjacency).compose(sampled(rate, noise), steps)

    add_remove, replaced = both(Adjacency.ADD_REMOVE), both(Adjacency.REPLACE_ONE)
    assert replaced.epsilon(1e-6) >= add_remove.epsilon_lower(1e-6)
    # Group privacy of two, by the triangle inequality of hockey-stick divergences.
    half = add_remove.epsilon(1e-9)
    assert replaced.delta_lower(2 * half) <= 1e-9 * (1 + math.exp(half))


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


@pytest.mark.parametrize(
    ("rate", "noise", "steps", "delta"),
    [(1e-3, 0.5, 20, 1e-5), (2e-4, 0.9, 100, 1e-7), (0.1, 0.4, 5, 1e-12), (0.01, 20.0, 1, 1e-3), (1e-4, 0.4, 1, 1e-12)],
)
def test_tight_tolerances_are_reached(rate, noise, steps, delta):
    lower, upper = PLDAccountant(tolerance=1e-4).compose(sampled(rate, noise), steps).epsilon_bounds(delta)
    assert 0 <= lower <= upper
    assert upper - lower <= max(1e-4 * upper, 1e-6)
