"""Four systems: their plans against exact composition, and what no plan is made of."""

import math
from dataclasses import replace

import pytest

from dpcore.accountants.composition import eps_pure
from dpcore.accounting import headline
from dpcore.events import ApproximateDP, Gaussian, PureDP
from dpcore.gdp import eps_gdp
from dpcore.guarantee import Status
from dpcore.mechanisms import noisy_vote
from tests.trainables.private_prediction_cases import ADD, CASES, DELTA, FACTS, IDS, REPLACE, planned, target
from tests.trainables.recording import counted
from trainables.system import PrivacyPlan, PrivacyTarget, Refusal
from trainables.systems.vandermaaten2020 import LOSS_PERTURBATION, PREDICTION_SENSITIVITY, SUBSAMPLE_AND_AGGREGATE


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
    assert any("floating-point" in line for line in claim.assumptions)
    named = {LOSS_PERTURBATION: Status.PROVED_UNDER_ASSUMPTIONS}
    assert claim.status is named.get(system, Status.PROVED)


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


def test_add_remove_needs_half_the_noise_for_the_same_ratio():
    one, two = (planned(*CASES[0], adjacency=a).mechanism for a in (ADD, REPLACE))
    assert one.noise_multiplier == pytest.approx(two.noise_multiplier)
    # K/n and 2K/n, each with the same certificate on top.
    assert two.noise.sigma / one.noise.sigma == pytest.approx(2.02 / 1.02)


@pytest.mark.parametrize(
    ("adjacency", "noise", "sigma"),
    [(ADD, "gaussian", 13.53216), (REPLACE, "gaussian", 27.84111), (ADD, "gaussian-published", 14.25823)],
)
def test_gaussian_perturbation_has_the_repaired_scale_or_that_of_the_paper(adjacency, noise, sigma):
    """theory.md section 1, golden for c = 10, epsilon 1 on the objective, delta 1e-5; K = sqrt(2)."""
    privacy = PrivacyTarget(epsilon=1 / 0.99, delta=1e-5, adjacency=adjacency)
    plan = LOSS_PERTURBATION.plan({"regularisation": 1e-6, "noise": noise}, FACTS, privacy, {})
    shift = math.sqrt(2) * (2 if adjacency is REPLACE else 1)
    assert plan.config["noise_multiplier"] * shift == pytest.approx(sigma, rel=1e-6)
    assert plan.guarantee.epsilon == pytest.approx(1 / 0.99, rel=1e-6)


# ---- the rules that the paper prints: each says how firmly it stands, and is charged what is proved to be spent


@pytest.mark.parametrize(("models", "queries", "spent"), [(2, 1, 1.2), (3, 1, 1.474), (32, 1, 2.0), (256, 10, 2.0)])
def test_the_published_vote_claims_epsilon_and_is_charged_its_exact_loss(models, queries, spent):
    knobs = {"composition": "published", "models": models, "queries": queries}
    plan = planned(SUBSAMPLE_AND_AGGREGATE, knobs, epsilon=1.0)
    claim = plan.guarantee
    assert plan.config["temperature"] == pytest.approx(queries, rel=1e-8)
    assert (claim.status, claim.accountant, claim.delta) == (Status.REFUTED, "as-published", DELTA)
    assert 1.0 * (1 - 1e-8) < claim.epsilon <= 1.0
    ((each, count),) = counted(plan)
    assert isinstance(each, PureDP)
    assert each.epsilon == noisy_vote.loss_per_query(1 / plan.config["temperature"], models, 10)
    assert count * each.epsilon == pytest.approx(spent, abs=0.002)
    assert f"the true epsilon at delta 0 is {count * each.epsilon:.6g}" in claim.assumptions[0]
    assert {one.status for one in plan.beside} == {Status.PROVED}
    at_delta, at_zero = plan.beside[0], plan.beside[-1]
    assert at_delta.epsilon <= eps_pure(each.epsilon, count, DELTA)
    assert (at_delta.delta, at_zero.delta, at_zero.epsilon) == (DELTA, 0.0, count * each.epsilon)
    # The accountant of ledger and total counts the exact loss, whatever is claimed.
    assert headline(plan.event(), DELTA, REPLACE).epsilon > 0.5 * claim.epsilon


def test_the_published_rule_solves_queries_judges_a_temperature_and_holds_for_one_model():
    one = planned(SUBSAMPLE_AND_AGGREGATE, {"composition": "published", "models": 1, "queries": 1}, epsilon=1.0)
    assert one.guarantee.status is Status.PROVED
    assert counted(one)[0][0].epsilon == pytest.approx(1.0, rel=1e-8)
    knobs = {"composition": "published", "models": 3, "temperature": 30.5}
    solved = planned(SUBSAMPLE_AND_AGGREGATE, knobs, epsilon=1.0, solve="steps")
    assert solved.steps == 30
    given = planned(SUBSAMPLE_AND_AGGREGATE, dict(solved.config), epsilon=1.0, solve="none")
    assert given.guarantee == solved.guarantee
    over = {**solved.config, "queries": 31}
    assert isinstance(SUBSAMPLE_AND_AGGREGATE.plan(over, FACTS, target(1.0, solve="none"), {}), Refusal)


@pytest.mark.parametrize(
    ("epsilon", "classes", "status"),
    [
        (0.3, 10, Status.PROVED_UNDER_ASSUMPTIONS),
        (3.0, 10, Status.PROVED_UNDER_ASSUMPTIONS),
        (1.0, 100, Status.REFUTED),
    ],
)
def test_the_printed_perturbation_is_charged_what_the_repaired_proof_establishes(epsilon, classes, status):
    facts = replace(FACTS, classes=classes)
    knobs = {"regularisation": 0.01, "noise": "gaussian-published"}
    privacy = PrivacyTarget(epsilon=epsilon, delta=1e-5, adjacency=ADD)
    plan = LOSS_PERTURBATION.plan(knobs, facts, privacy, {})
    claim, (repaired,) = plan.guarantee, plan.beside
    assert epsilon * (1 - 1e-6) < claim.epsilon <= epsilon
    assert (claim.status, claim.accountant) == (status, "as-published")
    assert (repaired.status, repaired.accountant) == (Status.PROVED_UNDER_ASSUMPTIONS, "tail-bound")
    if status is Status.REFUTED:
        assert "proof is refuted: delta=2.97e-05 is established for c=100" in claim.theorem
        assert epsilon < repaired.epsilon < 1.1 * epsilon
    else:
        assert repaired.epsilon < claim.epsilon
    # Whatever is printed, the ledger counts what is proved to be spent.
    assert counted(plan) == ((ApproximateDP(epsilon=repaired.epsilon, delta=1e-5, adjacency=ADD), 1),)
