"""Trade-off functions against Bu et al. 2020 and closed forms."""

import math

import pytest
from scipy.stats import norm

from dpcore import gdp
from dpcore.accountants.pld import PLDAccountant
from dpcore.checks import InvalidValue
from dpcore.events import Gaussian, NonPrivate, PoissonSampled, Repeated
from tests.dpcore.trade_off_oracles import SampledGaussianStep, composed, inverse, least_error_sum


def test_single_sampled_step_matches_published_points():
    step = SampledGaussianStep(noise_multiplier=1.0, rate=0.25)
    assert step.turning_point == pytest.approx(0.308538, abs=1e-6)
    assert step.one_direction(step.turning_point) == pytest.approx(0.595731, abs=1e-6)
    for level, value in [(0.05, 0.897622), (0.5, 0.404269), (0.8, 0.121908)]:
        assert step(level) == pytest.approx(value, abs=1e-6)
    other = SampledGaussianStep(noise_multiplier=1.1, rate=256 / 60000)
    assert other.one_direction(0.1) == pytest.approx(0.89891296, abs=1e-8)


@pytest.mark.parametrize("level", [0.02, 0.2, 0.45, 0.7, 0.97])
def test_single_step_is_its_own_inverse_and_below_both_directions(level):
    step = SampledGaussianStep(noise_multiplier=0.8, rate=0.3)
    assert step(step(level)) == pytest.approx(level, abs=1e-9)
    back = inverse(step.one_direction)
    assert step(level) <= min(step.one_direction(level), back(level)) + 1e-12


def test_least_error_sums_of_table_1_row_2():
    mu = 256 / 60000 * math.sqrt(14063 * math.expm1(1 / 1.1**2))
    assert least_error_sum(gdp.gaussian_tradeoff(mu)) == pytest.approx(2 * norm.cdf(-mu / 2), abs=1e-9)
    assert least_error_sum(gdp.gaussian_tradeoff(mu)) == pytest.approx(0.774, abs=5e-4)
    # The paper prints .776, from a rounded mu.
    assert least_error_sum(gdp.gaussian_tradeoff(0.57)) == pytest.approx(0.776, abs=5e-4)
    ma = least_error_sum(gdp.dp_tradeoff(3.01, 1e-5))
    assert ma == pytest.approx(0.0940, abs=5e-5)
    assert ma == pytest.approx(2 * (1 - 1e-5) / (1 + math.exp(3.01)), abs=1e-9)


def test_composed_gaussians_approach_the_closed_form_from_below():
    f = composed(PLDAccountant().compose(Gaussian(noise_multiplier=4.0), 4), epsilons=200)
    exact = gdp.gaussian_tradeoff(0.5)
    for level in (0.01, 0.1, 0.3, 0.5, 0.9):
        assert f(level) <= exact(level) + 1e-9
        assert f(level) == pytest.approx(exact(level), abs=1e-4)


def test_composed_single_sampled_step_stays_below_the_exact_one():
    event = PoissonSampled(rate=0.25, event=Gaussian(noise_multiplier=1.0))
    f = composed(PLDAccountant().compose(event), epsilons=24)
    exact = SampledGaussianStep(noise_multiplier=1.0, rate=0.25)
    for level in (0.05, 0.31, 0.5, 0.8):
        assert f(level) <= exact(level) + 1e-9
        assert f(level) == pytest.approx(exact(level), abs=5e-3)


def test_edges():
    assert composed(PLDAccountant().compose(NonPrivate()))(0.3) == 0.0
    event = Repeated(event=Gaussian(noise_multiplier=1.0), count=0)
    assert composed(PLDAccountant().compose(event))(0.3) == pytest.approx(0.7)
    with pytest.raises(InvalidValue, match="level"):
        gdp.gaussian_tradeoff(1.0)(1.5)
