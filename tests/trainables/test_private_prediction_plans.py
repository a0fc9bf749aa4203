"""Four systems: their plans against exact composition, and what no plan is made of."""

import math
from dataclasses import replace

import pytest

from dpcore.accountants.composition import eps_pure
from dpcore.checks import InvalidValue
from dpcore.events import ApproximateDP, Gaussian, PureDP
from dpcore.gdp import eps_gdp
from dpcore.guarantee import Status
from dpcore.mechanisms import noisy_vote
from tests.trainables.private_prediction_cases import (
    ADD,
    CASES,
    DELTA,
    FACTS,
    IDS,
    REPLACE,
    planned,
    target,
)
from tests.trainables.recording import counted
from trainables.registry import SYSTEMS
from trainables.system import InputSpec, PrivacyPlan, Refusal, Task
from trainables.systems.vandermaaten2020.minimisers import (
    LOSS_PERTURBATION,
    MODEL_SENSITIVITY,
    PREDICTION_SENSITIVITY,
    certificate,
)
from trainables.systems.vandermaaten2020.subsample_and_aggregate import SUBSAMPLE_AND_AGGREGATE


def test_all_four_are_registered():
    for system in (MODEL_SENSITIVITY, PREDICTION_SENSITIVITY, LOSS_PERTURBATION, SUBSAMPLE_AND_AGGREGATE):
        assert SYSTEMS[system.name] is system


@pytest.mark.parametrize(("system", "knobs"), CASES, ids=IDS)
@pytest.mark.parametrize("epsilon", [0.1, 2.0, 20.0])
def test_plans_meet_their_budget_and_are_counted_independently(system, knobs, epsilon):
    plan = planned(system, knobs, epsilon=epsilon)
    claim = plan.guarantee
    assert (claim.delta, claim.adjacency) == (DELTA, REPLACE)
    assert claim.epsilon <= epsilon
    ((each, count),) = counted(plan)
    if isinstance(each, Gaussian):
        exact = eps_gdp(math.sqrt(count) / each.noise_multiplier, DELTA)
        # The closed form is rounded up too: which of the two lies higher is rounding.
        assert exact * (1 - 1e-12) <= claim.epsilon <= exact * (1 + 1e-6)
    elif isinstance(each, ApproximateDP):
        assert count == 1
        assert (claim.epsilon, claim.delta) == (each.epsilon, each.delta)
    else:
        assert isinstance(each, PureDP)
        exact = eps_pure(each.epsilon, count, DELTA)
        assert claim.epsilon <= exact
        assert claim.epsilon == exact or claim.accountant == "zcdp"
    if knobs.get("composition", "joint") == "joint":
        # Pure releases at one shot have nothing to trade for delta.
        assert claim.epsilon > epsilon * (1 - 1e-2)
    assert PrivacyPlan.from_dict(plan.to_dict()) == plan
    assert any("floating-point" in line for line in claim.assumptions)


def test_minimisers_are_certified_to_a_hundredth_of_the_sensitivity():
    """0.01 K/n with K = sqrt 2: 2.36e-7 at MNIST's 60,000 records."""
    assert certificate(60_000) == pytest.approx(2.36e-7, abs=5e-10)


def test_status_says_what_is_proved():
    assert planned(*CASES[0]).guarantee.status is Status.PROVED
    assert planned(PREDICTION_SENSITIVITY, {"noise": "pure"}).guarantee.status is Status.PROVED
    assert planned(SUBSAMPLE_AND_AGGREGATE, {}).guarantee.status is Status.PROVED
    assert planned(LOSS_PERTURBATION, {}).guarantee.status is Status.PROVED_UNDER_ASSUMPTIONS


def test_the_papers_claim_stands_beside_the_exact_one():
    plan = planned(PREDICTION_SENSITIVITY, {"composition": "advanced"}, epsilon=1.0)
    (paper,) = plan.beside
    assert (paper.accountant, paper.epsilon, paper.delta) == ("advanced", 1.0, DELTA)
    assert plan.guarantee.epsilon < 0.5
    pure = planned(PREDICTION_SENSITIVITY, {"noise": "pure", "composition": "standard"}, epsilon=1.0).beside[0]
    assert (pure.accountant, pure.delta) == ("naive", 0.0)
    assert pure.epsilon == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("how", ["joint", "advanced", "standard"])
def test_no_vote_uses_the_refuted_rule(how):
    plan = planned(SUBSAMPLE_AND_AGGREGATE, {"composition": how, "queries": 1, "models": 100}, epsilon=1.0)
    beta = 1 / plan.config["temperature"]
    assert beta < 0.51
    assert noisy_vote.loss_per_query(beta, 100, 10) <= 1.0 + DELTA * 10


@pytest.mark.parametrize(
    ("system", "knobs"),
    [
        (PREDICTION_SENSITIVITY, {"noise_multiplier": 20.0}),
        (PREDICTION_SENSITIVITY, {"noise_multiplier": 30.0, "noise": "pure"}),
        (SUBSAMPLE_AND_AGGREGATE, {"temperature": 30.0, "models": 40}),
    ],
)
def test_steps_are_the_largest_number_of_queries(system, knobs):
    plan = planned(system, knobs, solve="steps")
    assert plan.solved == ("queries",)
    assert plan.steps == plan.config["queries"] < FACTS.n_validation
    one_more = {**plan.config, "queries": plan.steps + 1}
    refused = system.plan(one_more, FACTS, target(solve="none"), {})
    assert isinstance(refused, Refusal)
    assert refused.violations["epsilon"] > 0
    assert isinstance(system.plan(plan.config, FACTS, target(solve="none"), {}), PrivacyPlan)


def test_queries_end_with_the_validation_records():
    plan = planned(PREDICTION_SENSITIVITY, {"noise_multiplier": 1e6}, solve="steps")
    assert plan.steps == FACTS.n_validation
    with pytest.raises(InvalidValue, match="validation records"):
        planned(PREDICTION_SENSITIVITY, {"queries": FACTS.n_validation + 1})


def test_absurd_noise_is_refused_with_the_way_out():
    refusal = PREDICTION_SENSITIVITY.plan(
        {"regularisation": 0.1, "queries": 360, "noise": "pure", "composition": "standard"},
        FACTS,
        replace(target(), epsilon=1e-8),
        {},
    )
    assert isinstance(refusal, Refusal)
    assert "Raise epsilon" in refusal.reason


@pytest.mark.parametrize(
    ("system", "knobs", "settings", "facts", "name"),
    [
        (SUBSAMPLE_AND_AGGREGATE, {}, {"adjacency": ADD}, FACTS, "privacy.adjacency"),
        (SUBSAMPLE_AND_AGGREGATE, {"models": FACTS.n + 1}, {}, FACTS, "models"),
        (MODEL_SENSITIVITY, {}, {}, replace(FACTS, task=Task.REGRESSION), "data"),
        (MODEL_SENSITIVITY, {}, {}, replace(FACTS, features={"x": InputSpec(shape=(30_000,))}), "data"),
        (MODEL_SENSITIVITY, {}, {"solve": "steps"}, FACTS, "privacy.solve"),
        (PREDICTION_SENSITIVITY, {"noise": "pure", "composition": "advanced"}, {}, FACTS, "composition"),
    ],
)
def test_senseless_configurations_are_refused_by_name(system, knobs, settings, facts, name):
    with pytest.raises(InvalidValue) as refused:
        system.plan({"regularisation": 0.02, **knobs}, facts, target(**settings), {})
    assert refused.value.name == name


def test_add_remove_needs_half_the_noise_for_the_same_ratio():
    one, two = (planned(*CASES[0], adjacency=a).mechanism for a in (ADD, REPLACE))
    assert one.noise_multiplier == pytest.approx(two.noise_multiplier)
    # K/n and 2K/n, each with the same certificate on top.
    assert two.noise.sigma / one.noise.sigma == pytest.approx(2.02 / 1.02)


# ---- what a run releases
