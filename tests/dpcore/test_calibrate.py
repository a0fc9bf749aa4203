"""Solved values are on the private side of their target, bold to their last digit, cached, and refused honestly."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcore import calibrate
from dpcore.accounting import ACCOUNTANTS, make
from dpcore.calibrate import CannotCalibrate, Target, sampled_gaussian
from dpcore.events import Adjacency, Gaussian, PureDP, Repeated

NAMES = [name for name in ACCOUNTANTS if name != "gdp"]
TARGET = Target(epsilon=2.0, delta=1e-5)


def spent(value_event, target, tolerance=None):
    return make(target.accountant, target.adjacency, tolerance or target.tolerance).compose(value_event)


@pytest.mark.parametrize("name", NAMES)
def test_noise_meets_the_target_and_hardly_less_does(name):
    target = Target(epsilon=2.0, delta=1e-5, accountant=name)
    noise = calibrate.noise_multiplier(target, rate=0.01, steps=500)
    assert spent(sampled_gaussian(noise, 0.01, 500), target).epsilon(1e-5) <= 2.0
    assert spent(sampled_gaussian(noise * 0.997, 0.01, 500), target).epsilon(1e-5) > 2.0
    assert float(f"{noise:.4e}") == noise  # five digits


@settings(max_examples=2)
@given(
    epsilon=st.floats(0.3, 12),
    log_delta=st.floats(-10, -4),
    log_rate=st.floats(-3, -1),
    log_steps=st.floats(1, 4),
)
def test_a_calibrated_noise_never_exceeds_its_target(epsilon, log_delta, log_rate, log_steps):
    target = Target(epsilon=epsilon, delta=10**log_delta)
    rate, steps = 10**log_rate, int(10**log_steps)
    noise = calibrate.noise_multiplier(target, rate=rate, steps=steps)
    event = sampled_gaussian(noise, rate, steps)
    assert spent(event, target).epsilon(target.delta) <= epsilon
    # Re-accounted at a finer tolerance, as everything that is published.
    finer = spent(event, target, tolerance=2e-4)
    assert finer.epsilon(target.delta) <= epsilon
    if noise > calibrate.NOISE_RANGE[0]:
        bolder = sampled_gaussian(noise * 0.99, rate, steps)
        assert spent(bolder, target).epsilon(target.delta) > epsilon * 0.999


@pytest.mark.parametrize("name", NAMES)
def test_steps_are_the_largest_integer(name):
    target = Target(epsilon=2.0, delta=1e-5, accountant=name)
    noise = {"zcdp": 40.0, "naive": 10.0, "advanced": 4.0}.get(name, 1.0)
    steps = calibrate.steps(target, rate=0.01, noise_multiplier=noise)
    assert isinstance(steps, int)
    assert spent(sampled_gaussian(noise, 0.01, steps), target).epsilon(1e-5) <= 2.0
    assert spent(sampled_gaussian(noise, 0.01, steps + 1), target).epsilon(1e-5) > 2.0


def test_steps_of_any_event():
    for accountant, epsilon, event, most in (
        ("naive", 2.05, PureDP(epsilon=0.1), 20),
        ("gdp", 4.377179, Gaussian(noise_multiplier=10.0), 100),  # mu = 1 and a little
    ):
        target = Target(epsilon=epsilon, delta=1e-5, accountant=accountant)
        found = calibrate.solve(target, calibrate.STEPS, lambda count, one=event: Repeated(event=one, count=int(count)))
        assert found == most


def test_the_cache_is_asked_and_keyed_by_everything(monkeypatch):
    cache: dict[str, float] = {}
    noise = calibrate.noise_multiplier(TARGET, rate=0.01, steps=100, cache=cache)
    (key,) = cache
    cache[key] = 123.0
    assert calibrate.noise_multiplier(TARGET, rate=0.01, steps=100, cache=cache) == 123.0
    others = [
        Target(epsilon=2.1, delta=1e-5),
        Target(epsilon=2.0, delta=1e-6),
        Target(epsilon=2.0, delta=1e-5, tolerance=2e-3),
        Target(epsilon=2.0, delta=1e-5, accountant="gdp-clt"),
        Target(epsilon=2.0, delta=1e-5, adjacency=Adjacency.REPLACE_ONE),
    ]
    for other in others:
        assert calibrate.noise_multiplier(other, rate=0.01, steps=100, cache=cache) != 123.0
    assert calibrate.noise_multiplier(TARGET, rate=0.01, steps=101, cache=cache) != 123.0
    assert calibrate.noise_multiplier(TARGET, rate=0.011, steps=100, cache=cache) != 123.0
    assert len(cache) == len(others) + 3
    monkeypatch.setattr(calibrate, "_VERSION", calibrate._VERSION + 1)
    assert calibrate.noise_multiplier(TARGET, rate=0.01, steps=100, cache=cache) == noise


def test_unreachable_targets_name_the_nearest_value():
    with pytest.raises(CannotCalibrate, match="even noise_multiplier=1e") as noise:
        calibrate.noise_multiplier(Target(epsilon=1e-9, delta=1e-12), rate=1.0, steps=10**6)
    assert noise.value.nearest == calibrate.NOISE_RANGE[1]
    assert noise.value.nearest_epsilon > 1e-9
    with pytest.raises(CannotCalibrate, match="even steps=1 spends") as steps:
        calibrate.steps(Target(epsilon=0.1, delta=1e-5), rate=0.5, noise_multiplier=0.5)
    assert steps.value.nearest == 1


@given(value=st.floats(0.06, 9e5))
def test_rounding_is_to_the_safe_side_and_idempotent(value):
    noise = calibrate.NOISE
    assert value * (1 - 1e-9) <= noise.rounded(value) <= value * (1 + 1.01e-4)
    assert noise.rounded(noise.rounded(value)) == noise.rounded(value)
