"""The rules that the paper prints: each runs, says how firmly it stands, and is charged what is proved to be spent."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from dpcore.accountants.composition import eps_pure
from dpcore.accounting import headline
from dpcore.audit import AuditOutcome, AuditVerdict
from dpcore.checks import InvalidValue
from dpcore.erm import minimise
from dpcore.events import Adjacency, ApproximateDP, PureDP
from dpcore.guarantee import Guarantee, Status
from dpcore.mechanisms import loss_perturbation, noisy_vote
from dpcore.mechanisms.noise_families import GaussianNoise
from tests.trainables.recording import counted, memory_run
from trainables.data import SOURCES
from trainables.measures.audits import AuditSetting, curve_of, gather
from trainables.registry import SYSTEMS
from trainables.system import Dataset, DatasetSpec, PrivacyPlan, PrivacyTarget, Refusal, RunSettings, Scalar

torch.set_num_threads(1)
DELTA = 1e-5
REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
DIGITS = SOURCES["digits"].load({})
KNOBS: dict[str, dict[str, Scalar]] = {
    "subsample-and-aggregate": {"regularisation": 0.01, "models": 3, "queries": 1},
    "loss-perturbation": {"regularisation": 0.01},
}


def target(epsilon: float = 1.0, adjacency: Adjacency = REPLACE, solve: str = "noise") -> PrivacyTarget:
    return PrivacyTarget(epsilon=epsilon, delta=DELTA, adjacency=adjacency, solve=solve)


def planned(
    name: str,
    epsilon: float = 1.0,
    adjacency: Adjacency = REPLACE,
    solve: str = "noise",
    facts: DatasetSpec = DIGITS.facts,
    **knobs: Scalar,
) -> PrivacyPlan:
    plan = SYSTEMS[name].plan({**KNOBS[name], **knobs}, facts, target(epsilon, adjacency, solve), {})
    assert isinstance(plan, PrivacyPlan), plan
    return plan


def outcome(plan: PrivacyPlan, claim: Guarantee, runs: int = 4000, data: Dataset = DIGITS) -> AuditOutcome:
    setting = AuditSetting(
        system=SYSTEMS[plan.system],
        plan=plan,
        claim=claim,
        data=data,
        rng=np.random.default_rng(0),
        secret=b"a secret of tests, never of a sweep",
    )
    curve = curve_of(setting)
    found = gather(setting, "multi-run", curve=curve, runs=runs)
    return AuditVerdict(audit=found.audit, guarantee=claim, curve=curve).outcome


# ---- votes


def test_votes_run_at_the_largest_budget_and_the_lowest_temperature():
    """beta of 1000: exp(beta) is beyond a float."""
    cold = planned("subsample-and-aggregate", epsilon=1e4, solve="none", temperature=0.001)
    for plan in (planned("subsample-and-aggregate", epsilon=1000.0), cold):
        run = memory_run(plan)
        SYSTEMS[plan.system].fit([run], DIGITS, RunSettings())
        assert run.final[0] == 1
    assert counted(cold)[0][0].epsilon == pytest.approx(2000)


@pytest.mark.parametrize(("models", "queries", "spent"), [(2, 1, 1.2), (3, 1, 1.474), (32, 1, 2.0), (256, 10, 2.0)])
def test_the_published_vote_claims_epsilon_and_is_charged_its_exact_loss(models, queries, spent):
    plan = planned("subsample-and-aggregate", composition="published", models=models, queries=queries)
    claim = plan.guarantee
    assert plan.config["temperature"] == pytest.approx(queries, rel=1e-8)
    assert (claim.status, claim.accountant, claim.delta) == (Status.REFUTED, "as-published", DELTA)
    assert claim.epsilon == pytest.approx(1.0, rel=1e-8)
    assert claim.epsilon <= 1.0
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
    assert PrivacyPlan.from_dict(plan.to_dict()) == plan


def test_one_model_loses_what_the_paper_says():
    plan = planned("subsample-and-aggregate", composition="published", models=1)
    assert plan.guarantee.status is Status.PROVED
    assert counted(plan)[0][0].epsilon == pytest.approx(1.0, rel=1e-8)


def test_the_published_rule_also_solves_queries_and_judges_a_given_temperature():
    solved = planned("subsample-and-aggregate", composition="published", temperature=30.5, solve="steps")
    assert solved.steps == 30
    given = planned("subsample-and-aggregate", **{**solved.config}, solve="none")
    assert given.guarantee == solved.guarantee
    over = SYSTEMS["subsample-and-aggregate"].plan(
        {**solved.config, "queries": 31}, DIGITS.facts, target(solve="none"), {}
    )
    assert isinstance(over, Refusal)


def test_published_votes_are_answered_at_their_temperature(monkeypatch):
    seen = []
    right = noisy_vote.sample
    monkeypatch.setattr(noisy_vote, "sample", lambda beta, *rest: (seen.append(beta), right(beta, *rest))[1])
    plan = planned("subsample-and-aggregate", epsilon=2.0, composition="published", queries=4)
    run = memory_run(plan)
    SYSTEMS[plan.system].fit([run], DIGITS, RunSettings())
    assert run.final[0] == 4
    assert seen == [pytest.approx(0.5, rel=1e-8)] * 4


@pytest.mark.parametrize("models", [3, 32])
def test_the_published_vote_is_refuted_from_its_answers(models):
    plan = planned("subsample-and-aggregate", composition="published", models=models)
    assert outcome(plan, plan.guarantee) is AuditOutcome.REFUTED
    # What is proved to be spent stands beside it, and these answers do not contradict that.
    assert outcome(plan, plan.beside[0]) is AuditOutcome.CONSISTENT


# ---- a perturbed loss


@pytest.mark.parametrize("epsilon", [0.3, 3.0])
def test_the_printed_gaussian_perturbation_is_held_up_by_the_repaired_proof(epsilon):
    plan = planned("loss-perturbation", epsilon, ADD, noise="gaussian-published")
    claim, (repaired,) = plan.guarantee, plan.beside
    assert claim.epsilon == pytest.approx(epsilon, rel=1e-6)
    assert claim.epsilon <= epsilon
    assert (claim.status, claim.accountant) == (Status.PROVED_UNDER_ASSUMPTIONS, "as-published")
    assert (repaired.status, repaired.accountant) == (Status.PROVED_UNDER_ASSUMPTIONS, "tail-bound")
    assert repaired.epsilon < claim.epsilon
    # Less than printed is proved to be spent, and that is what the ledger counts.
    assert counted(plan) == ((ApproximateDP(epsilon=repaired.epsilon, delta=DELTA, adjacency=ADD), 1),)


def test_the_printed_scale_is_that_of_the_paper():
    """theory.md section 1, golden for epsilon 1 on the objective and delta 1e-5; K = sqrt(2)."""
    plan = planned("loss-perturbation", 1 / 0.99, ADD, noise="gaussian-published")
    assert plan.config["noise_multiplier"] * np.sqrt(2) == pytest.approx(14.25823, rel=1e-6)


def test_what_no_proof_establishes_is_refuted_and_charged_what_is_established():
    facts = replace(DIGITS.facts, classes=100)
    plan = planned("loss-perturbation", 1.0, ADD, facts=facts, noise="gaussian-published")
    claim, (repaired,) = plan.guarantee, plan.beside
    assert claim.status is Status.REFUTED
    assert "proof is refuted: delta=2.97e-05 is established for c=100" in claim.theorem
    assert repaired.status is Status.PROVED_UNDER_ASSUMPTIONS
    assert 1.0 < repaired.epsilon < 1.1
    assert counted(plan) == ((ApproximateDP(epsilon=repaired.epsilon, delta=DELTA, adjacency=ADD), 1),)


def test_the_printed_perturbation_counts_a_record_more_or_less_alone():
    knobs = {**KNOBS["loss-perturbation"], "noise": "gaussian-published"}
    with pytest.raises(InvalidValue, match=r"gaussian or pure under replace-one.*add-remove") as refused:
        SYSTEMS["loss-perturbation"].plan(knobs, DIGITS.facts, target(), {})
    assert refused.value.name == "noise"


def test_the_printed_perturbation_runs_at_its_own_scale_and_modulus(monkeypatch):
    scales, risks = [], []
    right = GaussianNoise.sample
    monkeypatch.setattr(GaussianNoise, "sample", lambda self, *rest: (scales.append(self.sigma), right(self, *rest))[1])
    monkeypatch.setattr(loss_perturbation, "minimise", lambda risk, tau: (risks.append(risk), minimise(risk, tau))[1])
    plan = planned("loss-perturbation", 1.0, ADD, noise="gaussian-published", jacobian="rank", regularisation=1e-6)
    run = memory_run(plan)
    SYSTEMS[plan.system].fit([run], DIGITS, RunSettings())
    assert run.final[0] == 1
    assert scales == [pytest.approx(plan.config["noise_multiplier"] * np.sqrt(2), rel=1e-9)]
    # (c - 1)/(n epsilon) at the printed epsilon of the objective.
    assert risks[0].modulus == pytest.approx(9 / (DIGITS.facts.n * 0.99), rel=1e-6)


def test_the_printed_perturbation_withstands_the_audit_and_less_noise_does_not():
    few = replace(DIGITS, facts=replace(DIGITS.facts, n=120))
    plan = planned("loss-perturbation", 1.0, ADD, facts=few.facts, noise="gaussian-published")
    assert outcome(plan, plan.guarantee, runs=30, data=few) is AuditOutcome.CONSISTENT
    quieter = replace(plan.mechanism, noise_multiplier=plan.mechanism.noise_multiplier * 1e-3)
    assert outcome(replace(plan, mechanism=quieter), plan.guarantee, runs=30, data=few) is AuditOutcome.REFUTED
