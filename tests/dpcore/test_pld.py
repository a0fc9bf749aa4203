"""The PLD accountant: published intervals, closed forms, oracles, properties, and known bugs put back in."""

import math
import random

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as theirs
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from dpcore.accountants.pld import (
    DiscretisationInvalid,
    PLDAccountant,
    convolution,
    gaussian,
    inversion,
    laws,
    refinement,
    routes,
)
from dpcore.accountants.pld.bounds import DELTA_FLOOR, Asked
from dpcore.accountants.pld.pairs import ReplacedSampledGaussian, SampledGaussianPair
from dpcore.accountants.pld.saddle_point import direction_at_delta
from dpcore.events import Adjacency, Composed, Gaussian, PoissonSampled, PureDP
from dpcore.gdp import eps_gdp


def sampled(rate, noise_multiplier):
    return PoissonSampled(rate=rate, event=Gaussian(noise_multiplier=noise_multiplier))


def exact_delta(rate, s, epsilon):
    """Both directions of one sampled step, in closed form."""
    k = math.exp(epsilon)
    out = []
    for ratio, sign in ((k, 1), (1 / k, -1)):
        y = (ratio - 1 + rate) / rate
        if y <= 0:
            out.append(0.0 if sign < 0 else 1 - k)
            continue
        x = s * s * math.log(y) + 0.5
        if sign > 0:
            out.append((1 - rate - k) * norm.sf(x / s) + rate * norm.sf((x - 1) / s))
        else:
            out.append((1 - k * (1 - rate)) * norm.cdf(x / s) - k * rate * norm.cdf((x - 1) / s))
    return max(out)


def one_direction(parts, delta, tail):
    return refinement.refined(direction_at_delta(parts, Asked(delta), tail, forward=True))


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


@pytest.mark.parametrize(("mu", "epsilon"), [(0.5, 1.993091), (1.0, 4.377178), (2.0, 9.997256)])
def test_gaussians_compose_exactly(mu, epsilon):
    accountant = PLDAccountant().compose(Gaussian(noise_multiplier=10 / mu), 100)
    assert accountant.epsilon(1e-5) == pytest.approx(epsilon, abs=1e-6)
    assert accountant.epsilon_lower(1e-5) == pytest.approx(epsilon, abs=1e-6)
    # Replace-one counts an add-remove sensitivity twice.
    replaced = PLDAccountant(adjacency=Adjacency.REPLACE_ONE).compose(Gaussian(noise_multiplier=20 / mu), 100)
    assert replaced.epsilon(1e-5) == pytest.approx(epsilon, abs=1e-6)


def test_discretised_gaussian_encloses_the_closed_form():
    # Rate 1 through the grid, as in a mixed composition.
    pair = SampledGaussianPair(1.0, 20.0)
    for delta in (1e-3, 1e-6, 1e-12):
        exact = gaussian.epsilon_of(0.5, delta).lower
        found = one_direction(((pair, 100),), delta, 1e-25)
        assert found.lower <= exact * (1 + 1e-9)
        assert exact <= found.upper * (1 + 1e-9)


def test_single_steps_enclose_the_closed_form_at_random():
    rng = random.Random(11)
    for _ in range(40):
        q, s = 10 ** rng.uniform(-3, -0.1), rng.uniform(0.5, 5)
        delta = 10 ** rng.uniform(-10, -3)
        lower, upper = PLDAccountant(tolerance=1e-2).compose(sampled(q, s)).epsilon_bounds(delta)
        assert exact_delta(q, s, upper) <= delta * (1 + 1e-9)
        if lower > 0:
            assert exact_delta(q, s, lower) >= delta * (1 - 1e-9)


def test_two_steps_enclose_quadrature():
    q, s = 0.2, 0.9
    fine = np.linspace(-14 * s, 14 * s + 1, 8001)
    for epsilon in (0.5, 1.5):
        mixture = (1 - q) * norm.pdf(fine, 0, s) + q * norm.pdf(fine, 1, s)
        first = np.log1p(q * np.expm1((2 * fine - 1) / (2 * s * s)))
        inner = np.array([exact_forward(q, s, epsilon - value) for value in first])
        remove = np.trapezoid(mixture * inner, fine)
        got = PLDAccountant(tolerance=1e-3).compose(sampled(q, s), 2).delta_bounds(epsilon)
        assert got.lower <= remove * (1 + 1e-6)
        assert remove <= got.upper * (1 + 1e-6)
        assert got.upper <= 1.01 * remove


def exact_forward(rate, s, epsilon):
    k = math.exp(epsilon)
    y = (k - 1 + rate) / rate
    if y <= 0:
        return 1 - k
    x = s * s * math.log(y) + 0.5
    return (1 - rate - k) * norm.sf(x / s) + rate * norm.sf((x - 1) / s)


def test_never_below_the_optimistic_estimate_of_dp_accounting():
    for q, s, steps, delta in [(0.01, 1.0, 500, 1e-5), (0.05, 3.0, 2000, 1e-8), (0.002, 0.6, 100, 1e-6)]:
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


def test_replace_one_matches_the_pair_of_dp_accounting_and_dominates_add_remove():
    q, s, steps, delta = 0.02, 1.5, 200, 1e-6
    lower, upper = PLDAccountant(adjacency=Adjacency.REPLACE_ONE).compose(sampled(q, s), steps).epsilon_bounds(delta)
    assert lower > PLDAccountant().compose(sampled(q, s), steps).epsilon(delta)
    x = np.linspace(-12 * s, 12 * s, 40001)
    p = (1 - q) * norm.pdf(x, 0, s) + q * norm.pdf(x, 1, s)
    r = (1 - q) * norm.pdf(x, 0, s) + q * norm.pdf(x, -1, s)
    one = ReplacedSampledGaussian(q, s)
    for epsilon in (0.0, 0.02, 0.1):
        exact = np.trapezoid(np.maximum(p - math.exp(epsilon) * r, 0), x)
        got = routes.delta_bounds(((one, 1),), epsilon, 1e-3)
        assert got.lower <= exact * (1 + 1e-5)
        assert exact <= got.upper * (1 + 1e-5)
    assert upper <= lower * (1 + 2e-3)


def test_pure_dp_composes_as_randomised_response():
    steps, eps0, epsilon = 20, 0.3, 2.0
    p = 1 / (1 + math.exp(-eps0))
    exact = sum(
        math.comb(steps, i) * p**i * (1 - p) ** (steps - i) * max(0.0, -math.expm1(epsilon - (2 * i - steps) * eps0))
        for i in range(steps + 1)
    )
    got = PLDAccountant().compose(PureDP(epsilon=eps0), steps).delta_bounds(epsilon)
    assert got.lower <= exact * (1 + 1e-9)
    assert exact <= got.upper * (1 + 1e-9)
    assert got.upper - got.lower <= 1e-3 * got.upper


def test_mixed_phases_lie_between_their_parts_and_commute():
    a, b = sampled(0.01, 1.0), sampled(0.02, 2.0)
    both = PLDAccountant().compose(a, 300).compose(b, 400)
    turned = PLDAccountant().compose(Composed(events=(b,)), 400).compose(a, 300)
    assert both.epsilon(1e-5) == pytest.approx(turned.epsilon(1e-5), rel=2e-3)
    assert both.epsilon_lower(1e-5) > PLDAccountant().compose(a, 300).epsilon(1e-5)
    gaussian_too = both.compose(Gaussian(noise_multiplier=5.0))
    assert gaussian_too.epsilon_lower(1e-5) > both.epsilon(1e-5)
    halves = PLDAccountant().compose(a, 150).compose(a, 150)
    assert halves.epsilon(1e-5) == PLDAccountant().compose(a, 300).epsilon(1e-5)


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


def test_reversing_after_composition_would_drown_in_round_off():
    """The mutant: take the composed remove masses times exp(-loss) for the add direction."""
    pair, steps = SampledGaussianPair(0.05, 0.7), 2000
    law = laws.Discretised(pair, 0.01, 1e-13).law(upper=True, forward=True)
    n = 1 << 15
    composed = np.fft.irfft(np.fft.rfft(law.masses, n) ** steps, n)
    losses = steps * law.origin + law.spacing * np.arange(n)
    mutant = float(np.sum(np.abs(composed) * np.exp(-losses)))
    assert not 0.5 < mutant < 2
    add = laws.Discretised(pair, 0.01, 1e-13).law(upper=True, forward=False)
    assert math.exp(steps * math.log(add.masses.sum() + add.infinite)) == pytest.approx(1.0, abs=1e-9)


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


def test_guard_refuses_an_upper_curve_without_its_infinite_mass(monkeypatch):
    original = laws.upper_masses
    monkeypatch.setattr(laws, "upper_masses", lambda pair, grid: (original(pair, grid)[0], 0.0, 0.0))
    with pytest.raises(DiscretisationInvalid, match="upper"):
        laws.Discretised(SampledGaussianPair(0.01, 1.0), 0.002, 1e-6).law(upper=True, forward=True)


@pytest.mark.parametrize("delta", [1e-10, 1e-12, 1e-20, 1e-100])
def test_tiny_deltas_keep_relative_precision(delta):
    pair = SampledGaussianPair(1.0, 20.0)
    found = one_direction(((pair, 100),), delta, 1e-8 * delta)
    exact = eps_gdp(0.5, delta)
    assert found.lower <= exact <= found.upper
    assert found.upper - found.lower <= 1e-3 * exact


def test_a_short_window_widens_the_bounds_but_never_breaks_them():
    pair, steps, delta = SampledGaussianPair(0.02, 1.0), 1000, 1e-5
    exact = routes.epsilon_bounds(((pair, steps),), delta, 1e-4)
    discrete = laws.Discretised(pair, 0.004, 1e-15)
    for size in (240, 480, 4800):
        window = convolution.Window(size, size // 2, 2.0, 2.0)
        up, low = (
            convolution.TiltedComposition([discrete.law(upper=u, forward=True)], [steps], 3.0, window)
            for u in (True, False)
        )
        assert up.log_delta_upper(exact.lower) >= math.log(delta) - 1e-9
        assert low.log_delta_lower(exact.upper) <= math.log(delta) + 1e-9


def test_small_noise_is_fast_and_tight():
    # Heavy tails: a spacing from the central limit theorem's spread would need millions of losses or miss.
    lower, upper = PLDAccountant().compose(sampled(0.001, 0.4), 100).epsilon_bounds(1e-9)
    assert 10.15 < lower <= upper < 10.17


def test_one_direction_alone_is_not_enough():
    # At rate 1/2 and one step the add direction's delta at negative epsilon differs from remove's.
    pair = SampledGaussianPair(0.5, 1.0)
    directions = routes._delta_directions(((pair, 1),), Asked(-0.4, 1e-3, DELTA_FLOOR))
    sides = [inversion.delta_bounds(one) or refinement.delta_bounds(one) for one in directions]
    assert sides[0].upper < sides[1].lower or sides[1].upper < sides[0].lower
    both = routes.delta_bounds(((pair, 1),), -0.4, 1e-3)
    assert max(s.lower for s in sides) <= both.lower <= both.upper <= max(s.upper for s in sides)


def test_infinite_mass_combines_over_steps():
    law = laws.Law(0.0, 0.1, np.array([0.9]), 0.1, 0.0)
    composition = convolution.TiltedComposition([law], [3], 1.0, convolution.Window(64, 32, 1.0, 1.0))
    assert composition.infinite == pytest.approx(1 - 0.9**3)
