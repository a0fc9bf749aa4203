"""NoisySGD and NoisyAdam: what a plan counts, solves, claims and refuses."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcore.accounting import headline
from dpcore.events import Adjacency, Repeated
from tests.trainables.noisy_sgd_cases import BOTH, TARGET, config, planned
from trainables.planning import NOISE_MAX, NOISE_MIN
from trainables.system import Dataset, PrivacyPlan, Refusal
from trainables.systems.noisy_sgd import NOISY_SGD, NoisyOptimiser
from trainables.training.hyperparameters import epochs_of, steps_of


@pytest.mark.parametrize(
    ("epochs", "batch_size", "n", "steps"),
    [
        # theory.md section 5, Table 1: ceil(epochs / p) with p = 256/60000
        (15, 256, 60000, 3516),
        (60, 256, 60000, 14063),
        (45, 256, 60000, 10547),
        (62, 256, 60000, 14532),
        (68, 256, 60000, 15938),
        (100, 256, 60000, 23438),
        # int(1 / (1 / 234)) is 233
        (1, 1, 234, 234),
        # 0.1 * 1000 / 10 in floats is above 10
        (0.1, 10, 1000, 10),
        (0.7, 7, 100, 10),
    ],
)
def test_steps_are_counted_exactly(epochs: float, batch_size: int, n: int, steps: int) -> None:
    assert steps_of(epochs, batch_size, n) == steps


@given(st.integers(1, 10**7), st.integers(1, 10**5), st.integers(1, 10**7))
def test_solved_epochs_mean_the_solved_steps(steps: int, batch_size: int, n: int) -> None:
    assert steps_of(epochs_of(steps, batch_size, n), batch_size, n) == steps


@BOTH
def test_solving_steps_spends_the_budget_and_not_more(system: NoisyOptimiser, digits: Dataset) -> None:
    knobs = {name: value for name, value in config(noise_multiplier=1.5).items() if name != "epochs"}
    plan = system.plan(knobs, digits.facts, replace(TARGET, solve="steps"), {})
    assert isinstance(plan, PrivacyPlan)
    assert plan.guarantee.epsilon <= 4.0
    one_more = Repeated(event=plan.mechanism.each, count=plan.steps + 1)
    assert headline(one_more, 1e-4, Adjacency.ADD_REMOVE).epsilon > 4.0


def test_a_budget_beyond_all_noise_gets_the_least_noise(digits: Dataset) -> None:
    plan = planned(NOISY_SGD, digits.facts, replace(TARGET, epsilon=5000.0))
    assert plan.config["noise_multiplier"] == NOISE_MIN
    assert plan.guarantee.epsilon < 5000


def test_refusals_say_how_far_off(digits: Dataset) -> None:
    tight = replace(TARGET, epsilon=1e-4, delta=1e-9)
    refusal = NOISY_SGD.plan(config(), digits.facts, tight, {})
    assert isinstance(refusal, Refusal)
    assert refusal.violations["noise"] > 0
    assert f"{NOISE_MAX:g}" in refusal.reason
    refusal = NOISY_SGD.plan(config(noise_multiplier=0.6), digits.facts, replace(TARGET, solve="none"), {})
    assert isinstance(refusal, Refusal)
    assert refusal.violations["epsilon"] > 0
    worse = NOISY_SGD.plan(config(noise_multiplier=0.5), digits.facts, replace(TARGET, solve="none"), {})
    assert isinstance(worse, Refusal)
    assert worse.violations["epsilon"] > refusal.violations["epsilon"]
    hopeless = NOISY_SGD.plan(config(noise_multiplier=0.2), digits.facts, replace(TARGET, solve="steps"), {})
    assert isinstance(hopeless, Refusal)
    assert hopeless.violations["epsilon"] > 0


def test_replacing_a_record_costs_between_one_and_two_removals(digits: Dataset) -> None:
    """Group privacy: twice epsilon at (1 + exp(epsilon)) delta bounds it; the paper's limit has no word on it."""
    knobs = {k: v for k, v in config().items() if k != "noise_multiplier"}
    replaced = NOISY_SGD.plan(knobs, digits.facts, replace(TARGET, adjacency=Adjacency.REPLACE_ONE), {})
    removed = NOISY_SGD.plan(knobs, digits.facts, TARGET, {})
    assert isinstance(replaced, PrivacyPlan)
    assert isinstance(removed, PrivacyPlan)
    assert replaced.guarantee.adjacency is Adjacency.REPLACE_ONE
    assert replaced.guarantee.epsilon <= TARGET.epsilon
    ratio = float(replaced.config["noise_multiplier"]) / float(removed.config["noise_multiplier"])
    assert 1.3 < ratio < 2
    assert replaced.beside == ()
