"""Plans are fitted to a rule of the whole sweep: never beyond it, and near to it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcore.calibrate import Target
from dpcore.checks import InvalidValue
from dpcore.events import Gaussian
from dpcore.guarantee import Status
from dpcore.selection import EventProfile, covering_mu, geometric, heterogeneous_trials
from sweeps.privacy.charge import trial_profile
from sweeps.privacy.privacy_filter import NEAR, fitted
from trainables.data.uniform import UNIFORM
from trainables.registry import SYSTEMS
from trainables.system import PrivacyPlan, PrivacyTarget, Refusal

TOY = SYSTEMS["noisy-mean"]
FACTS = UNIFORM.facts({"n": 1000})
TARGET = PrivacyTarget(epsilon=1.0, delta=1e-5)


def toy(epsilon: float, **config: float) -> PrivacyPlan | Refusal:
    return TOY.plan({"steps": 4} | config, FACTS, replace(TARGET, epsilon=epsilon), {})


def mu(plan: PrivacyPlan) -> float:
    return covering_mu(trial_profile(plan), 1e-7, tolerance=1e-2)


@settings(max_examples=8, deadline=None)
@given(allowed=st.floats(0.05, 3.0), start=st.floats(0.1, 10.0))
def test_a_plan_meets_a_mu_from_below_wherever_the_search_begins(allowed: float, start: float) -> None:
    plan = fitted(toy, lambda one: math.log(mu(one) / allowed), start)
    assert isinstance(plan, PrivacyPlan)
    assert -NEAR <= math.log(mu(plan) / allowed) <= 0


def test_two_points_are_met_with_the_noise_that_is_solved_directly() -> None:
    rule = heterogeneous_trials(
        geometric(27), Target(epsilon=3.0, delta=1e-5), lambda s: EventProfile(Gaussian(noise_multiplier=s))
    )
    least = rule.noise(lambda s: EventProfile(Gaussian(noise_multiplier=s)))
    plan = fitted(lambda e: toy(e, steps=1), lambda one: rule.exceeds(trial_profile(one)), 1.0)
    assert isinstance(plan, PrivacyPlan)
    assert rule.covers(trial_profile(plan))
    assert least <= plan.config["noise_multiplier"] <= least * 1.01


def test_a_system_that_solves_nothing_is_taken_or_refused_as_it_is() -> None:
    target = replace(TARGET, solve="none")

    def given_noise(epsilon: float) -> PrivacyPlan | Refusal:
        return TOY.plan({"steps": 4, "noise_multiplier": 4.0}, FACTS, replace(target, epsilon=epsilon), {})

    spent = mu(given_noise(50.0))  # type: ignore[arg-type]
    assert isinstance(fitted(given_noise, lambda one: math.log(mu(one) / (spent * 1.5)), 1.0), PrivacyPlan)
    refused = fitted(given_noise, lambda one: math.log(mu(one) / (spent / 1.5)), 1.0)
    assert isinstance(refused, Refusal)
    assert refused.violations["budget"] == pytest.approx(math.log(1.5), abs=1e-6)


def test_a_claim_that_does_not_stand_has_no_profile() -> None:
    plan = toy(1.0)
    assert isinstance(plan, PrivacyPlan)
    doubtful = replace(plan, guarantee=replace(plan.guarantee, status=Status.AVERAGE_CASE))
    with pytest.raises(InvalidValue, match="average-case"):
        trial_profile(doubtful)
