"""The toy has closed forms for everything: they are what its runs must show."""

import math
from dataclasses import replace

import numpy as np
import pytest

from dpcore.checks import InvalidValue
from dpcore.gdp import eps_gdp
from tests.trainables.recording import memory_run
from trainables.data import SOURCES
from trainables.hyperparameters import read
from trainables.system import InputSpec, PrivacyTarget, RunSettings
from trainables.systems.noisy_mean import NOISY_MEAN, NoisyMeanHyperparameters, expected_error

SECRET = b"0123456789abcdef0123456789abcdef"
CONFIG = {"clip": 0.8, "steps": 4, "shrinkage": 0.9, "prior": 0.4, "step_seconds": 0.0}
FACTS = SOURCES["uniform"].facts({"n": 300})


def planned(epsilon=1.0, delta=1e-5, solve="noise", **config):
    return NOISY_MEAN.plan({**CONFIG, **config}, FACTS, PrivacyTarget(epsilon=epsilon, delta=delta, solve=solve), {})


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("steps", [1, 7, 1000])
def test_the_plan_spends_exactly_its_budget(epsilon, steps):
    plan = planned(epsilon=epsilon, steps=steps)
    exact = eps_gdp(math.sqrt(steps) / plan.config["noise_multiplier"], 1e-5)
    assert epsilon * (1 - 1e-6) <= exact <= epsilon
    assert exact <= plan.guarantee.epsilon <= epsilon * (1 + 1e-9)


def test_steps_are_solved_downwards():
    plan = planned(solve="steps", noise_multiplier=20.0)
    assert eps_gdp(math.sqrt(plan.steps) / 20.0, 1e-5) <= 1.0
    assert eps_gdp(math.sqrt(plan.steps + 1) / 20.0, 1e-5) > 1.0


def test_too_little_noise_is_refused_with_the_way_out():
    refusal = planned(solve="none", noise_multiplier=0.5)
    spent = eps_gdp(math.sqrt(CONFIG["steps"]) / 0.5, 1e-5)
    assert refusal.violations["epsilon"] == pytest.approx(math.log(spent), rel=1e-6)
    assert "Raise noise_multiplier or epsilon" in refusal.reason


@pytest.mark.parametrize(
    "features",
    [
        {"value": InputSpec(shape=(), low=-100.0, high=1.0)},
        {"value": InputSpec(shape=(), low=0.0, high=2.0)},
        {"value": InputSpec(shape=(2,))},
        {"value": InputSpec(shape=(), cardinality=3)},
        {"income": InputSpec(shape=())},
        {"value": InputSpec(shape=()), "income": InputSpec(shape=())},
    ],
)
def test_anything_but_one_value_from_0_to_1_is_refused(features):
    with pytest.raises(InvalidValue, match=r"called 'value', with declared bounds in \[0, 1\]"):
        NOISY_MEAN.plan(CONFIG, replace(FACTS, features=features), PrivacyTarget(epsilon=1, delta=1e-5), {})


def test_estimates_scatter_as_the_closed_form_says():
    """400 runs under independent noise: mean within 4 standard errors, variance within 4 (two-sided, about 1e-4)."""
    plan = planned(epsilon=0.5)
    data, runs = SOURCES["uniform"].load({"n": 300}), [memory_run(plan, key=f"t-{k}") for k in range(400)]
    NOISY_MEAN.fit(runs, data, RunSettings())
    estimates = [one.final[2]["estimate"] for one in runs]
    center = 0.9 * np.minimum(data.train.inputs["value"], 0.8).sum() / 300 + 0.1 * 0.4
    sigma = 0.9 * plan.config["noise_multiplier"] * 0.8 / (math.sqrt(4) * 300)
    assert abs(np.mean(estimates) - center) < 4 * sigma / math.sqrt(400)
    assert abs(np.var(estimates) / sigma**2 - 1) < 4 * math.sqrt(2 / 400)


def test_expected_error_matches_simulation():
    """Closed form against 20,000 simulated data sets; the tolerance is 5 standard errors of a root mean square."""
    config = {**CONFIG, "noise_multiplier": 6.0}
    rng = np.random.default_rng(3)
    values = rng.random((20_000, 50))
    total = np.minimum(values, 0.8).sum(axis=1) + rng.normal(0, 6.0 * 0.8 / 2, 20_000)
    errors = 0.9 * total / 50 + 0.1 * 0.4 - 0.5
    knobs = read(NoisyMeanHyperparameters, config)
    assert expected_error(knobs, 50) == pytest.approx(math.sqrt(np.mean(errors**2)), rel=5 / math.sqrt(2 * 20_000))
