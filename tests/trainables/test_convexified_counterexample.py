"""The refutation of convexified-loss from its outputs alone, and the repaired head under the same attacks."""

from dataclasses import replace

import numpy as np
import pytest

from dpcore.audit import Audit, AuditOutcome, AuditVerdict, MultiRun, ThreatModel
from dpcore.mechanisms.output_perturbation import OutputPerturbation
from dpcore.papers import convexified as mathematics
from tests.trainables.test_convexified import ADD, DELTA, REPLACE, SECRET, planned, target
from tests.trainables.worst_case_records import TINY, tiny_plan, worst_case_scores
from trainables.data.packaged import DIGITS
from trainables.hyperparameters import read
from trainables.measures import audits
from trainables.system import InputSpec, PrivacyPlan
from trainables.systems.lu2021.convexified_head import CONVEXIFIED_HEAD, ConvexifiedHeadHyperparameters, head_of
from trainables.systems.lu2021.convexified_loss import CONVEXIFIED_LOSS


@pytest.fixture(scope="module")
def data():
    return DIGITS.load({})


def verdict(plan, inside, outside, adjacency):
    audits = MultiRun(
        true_positives=int((inside > 0).sum()),
        runs_in=len(inside),
        false_positives=int((outside > 0).sum()),
        runs_out=len(outside),
    )
    audit = Audit(evidence=audits, threat_model=ThreatModel.BLACK_BOX, adjacency=adjacency, delta=DELTA)
    return AuditVerdict(audit=audit, guarantee=plan.guarantee)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_one_answer_of_three_classes_refutes_the_published_claim(noise):
    """Claimed epsilon 0.01: a right claim would be refuted with probability at most 5%, this one always is."""
    plan = tiny_plan(epsilon=0.01, noise=noise)
    inside, outside = worst_case_scores(plan, TINY, runs=150, secret=SECRET)
    assert np.all(inside > 0)
    assert np.all(outside < 0)
    found = verdict(plan, inside, outside, ADD)
    assert found.outcome is AuditOutcome.REFUTED
    assert found.audit.epsilon_lower > 3.5


@pytest.mark.parametrize(
    ("system", "outcome"), [(CONVEXIFIED_LOSS, AuditOutcome.REFUTED), (CONVEXIFIED_HEAD, AuditOutcome.CONSISTENT)]
)
def test_the_audit_of_any_trial_finds_it_by_itself(system, outcome, data):
    """What `sweeps audit` does with a trial on digits: the system's own neighbours, its released answers, a verdict."""
    plan = planned(system, {"queries": 3}, epsilon=1.0)
    setting = audits.AuditSetting(
        system=system, plan=plan, claim=plan.guarantee, data=data, rng=np.random.default_rng(0), secret=SECRET
    )
    assert audits.methods(system, plan.guarantee)[0] == "multi-run"
    found = audits.gather(setting, "multi-run", runs=100, curve=None)
    assert found.audit.adjacency is system.adjacencies[0]
    assert AuditVerdict(audit=found.audit, guarantee=plan.guarantee).outcome is outcome


def test_two_classes_fall_where_the_sensitivity_is_none():
    """One mislabelled record among 10,000 outweighs its share: claimed epsilon 1, refuted by one answer."""
    facts = replace(TINY, n=10_000, classes=2, features={"x": InputSpec(shape=(1,))})
    knobs = {"alpha": 5.0, "regularisation": 0.01, "batch_size": 10_000, "epochs": 150, "hidden": 4}
    plan = tiny_plan(epsilon=1.0, facts=facts, **knobs)
    inside, outside = worst_case_scores(plan, facts, runs=150, secret=SECRET)
    assert verdict(plan, inside, outside, ADD).outcome is AuditOutcome.REFUTED


def test_two_classes_hide_behind_noise_that_suffices():
    """The same attack, where nearly the mean is trained: the record weighs 1/n and the claim stands."""
    facts = replace(TINY, n=1000, classes=2, features={"x": InputSpec(shape=(1,))})
    knobs = {"alpha": 1e-6, "batch_size": 1000, "epochs": 50, "hidden": 4}
    plan = tiny_plan(epsilon=1.0, facts=facts, **knobs)
    inside, outside = worst_case_scores(plan, facts, runs=150, secret=SECRET)
    assert verdict(plan, inside, outside, ADD).outcome is AuditOutcome.CONSISTENT


def test_the_repaired_head_withstands_its_worst_neighbours():
    """The likelihood ratio over 400 releases a side does not contradict the claim (wrong for one secret in twenty)."""
    facts = replace(TINY, n=40)
    knobs = {"alpha": 2.0, "regularisation": 0.05, "radius": 1.0, "queries": 3}
    plan = CONVEXIFIED_HEAD.plan(knobs, facts, target(CONVEXIFIED_HEAD, epsilon=3.0), {})
    assert isinstance(plan, PrivacyPlan)
    inside, outside = worst_case_scores(plan, facts, runs=400, secret=SECRET)
    assert verdict(plan, inside, outside, REPLACE).outcome is AuditOutcome.CONSISTENT


def test_a_head_with_a_mean_objective_s_sensitivity_would_be_caught(monkeypatch):
    """Mutant: weight 1/n for the flipped record. Its noise is too small, and the same attack refutes its claim."""
    facts = replace(TINY, n=200, classes=2)
    knobs = {"alpha": 5.0, "regularisation": 0.02, "radius": 2.0, "queries": 1}
    plan = CONVEXIFIED_HEAD.plan(knobs, facts, target(CONVEXIFIED_HEAD, epsilon=1.0), {})
    assert isinstance(plan, PrivacyPlan)
    right = worst_case_scores(plan, facts, runs=300, secret=SECRET)
    assert verdict(plan, *right, REPLACE).outcome is AuditOutcome.CONSISTENT
    factor = (
        mathematics.largest_weight(
            5.0, head_of(read(ConvexifiedHeadHyperparameters, plan.config), facts).loss_bound, 200
        )
        * 200
    )
    assert isinstance(plan.mechanism, OutputPerturbation)
    quieter = replace(plan.mechanism, noise_multiplier=plan.mechanism.noise_multiplier / factor)
    shrunk = replace(plan, mechanism=quieter)
    wrong = worst_case_scores(shrunk, facts, runs=300, secret=SECRET)
    assert verdict(plan, *wrong, REPLACE).outcome is AuditOutcome.REFUTED
