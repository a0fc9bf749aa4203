"""Attacks on the convexified-loss systems: shadow models, and neighbours that refute what is published."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import softmax

from dpcore.audit import Audit, AuditOutcome, AuditVerdict, MultiRun, ThreatModel
from dpcore.audit.attacks import attack_examples, disjoint_splits
from dpcore.mechanisms.output_perturbation import OutputPerturbation
from dpcore.papers import lu2021 as mathematics
from tests.trainables.recording import audited
from tests.trainables.test_convexified import ADD, DELTA, REPLACE, SECRET, planned, target
from trainables.data.packaged import DIGITS
from trainables.hyperparameters import read
from trainables.measures import audits
from trainables.registry import SYSTEMS
from trainables.system import DatasetSpec, InputSpec, PrivacyPlan, PrivacyTarget, Task
from trainables.systems.lu2021 import CONVEXIFIED_HEAD, CONVEXIFIED_LOSS, ConvexifiedHeadHyperparameters, head_of
from trainables.systems.lu2021_network import AttackModel, train_attack

CLASSES = 4


# Shadow models: what they must find, and what they must not.


def predictions(labels, inside, rng, confidence):
    """Probabilities of a model that favours the true class by `confidence` for members, and by 1 for others."""
    logits = rng.normal(size=(*inside.shape, CLASSES))
    favour = np.where(inside, confidence, 1.0)[..., None]
    return softmax(logits + favour * np.eye(CLASSES)[labels], axis=-1)


def attack_on(confidence, seed=0, examples=400, shadows=6):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, examples)
    splits = disjoint_splits(examples, examples // 2, shadows, np.random.default_rng(seed + 1))
    said = predictions(labels, splits.inside, rng, confidence)
    return train_attack(attack_examples(said, labels, splits, CLASSES), seed=0, epochs=10)


def leak(attack, confidence, seed, records=4000):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, records)
    sides = [predictions(labels, np.full(records, inside), rng, confidence) for inside in (True, False)]
    return attack.decisions(sides[0], labels, sides[1], labels).advantage


def test_members_are_found_where_they_are_better_predicted_and_nowhere_else():
    """The true class's logit moves by 3 standard deviations: the best threshold on it alone gives 0.86 or more. Where
    members and others are alike TPR - FPR of 4,000 each has a standard error of 0.011; wrong once in 10,000 seeds."""
    assert 0.75 < leak(attack_on(4.0), 4.0, seed=9) < 1
    assert abs(leak(attack_on(4.0), 1.0, seed=10)) < 4 * 0.0112
    assert abs(leak(attack_on(1.0), 1.0, seed=11)) < 4 * 0.0112


def test_the_attack_is_a_function_of_its_seeds_and_survives_a_checkpoint():
    one, same = attack_on(2.0), attack_on(2.0)
    probabilities = softmax(np.random.default_rng(0).normal(size=(50, CLASSES)), axis=1)
    # Probabilities of 0 and 1, as large noise makes them, lie outside what shadows showed.
    probabilities[:3] = np.eye(CLASSES)[[0, 1, 2]]
    labels = np.arange(50) % CLASSES
    scores = one.scores(probabilities, labels)
    assert np.all((scores >= 0) & (scores <= 1))
    assert np.array_equal(scores, same.scores(probabilities, labels))
    assert np.array_equal(scores, AttackModel.from_state(one.state()).scores(probabilities, labels))


# Neighbours: the refutation of convexified-loss from its outputs alone, and the repaired head under the same attacks.

TINY = DatasetSpec(
    dataset="tiny-counterexample",
    task=Task.CLASSIFICATION,
    n=60,
    n_validation=4,
    features={"x": InputSpec(shape=(5,))},
    classes=3,
)
"""Facts of a data set on which one answer refutes the published claim; training takes milliseconds."""
KNOBS = {"hidden": 8, "batch_size": 60, "epochs": 20, "learning_rate": 0.05, "queries": 1}


def tiny_plan(epsilon, noise="laplace", facts=TINY, **knobs):
    """A plan of `convexified-loss` for one answer on `facts`, calibrated to the claimed epsilon at delta 1e-5."""
    config = {**KNOBS, "noise": noise, **knobs}
    plan = CONVEXIFIED_LOSS.plan(config, facts, PrivacyTarget(epsilon=epsilon, delta=1e-5), {})
    assert isinstance(plan, PrivacyPlan), plan
    return plan


def scores_of(plan, facts, runs):
    """The attack's scores [runs] of independent releases with the record, and of as many without it.

    Every run is the system's own `fit` on synthetic neighbours; the attack sees what it released and nothing else.
    """
    pair, numbers = SYSTEMS[plan.system].neighbours(plan, facts), itertools.count(1)
    setting = audited(plan, pair.with_it, secret=SECRET)
    return [audits.outcomes(setting, data, runs, pair.score, numbers) for data in (pair.with_it, pair.without_it)]


def verdict(plan, inside, outside, adjacency):
    evidence = MultiRun(
        true_positives=int((inside > 0).sum()),
        runs_in=len(inside),
        false_positives=int((outside > 0).sum()),
        runs_out=len(outside),
    )
    audit = Audit(evidence=evidence, threat_model=ThreatModel.BLACK_BOX, adjacency=adjacency, delta=DELTA)
    return AuditVerdict(audit=audit, guarantee=plan.guarantee)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_one_answer_of_three_classes_refutes_the_published_claim(noise):
    """Claimed epsilon 0.01: a right claim would be refuted with probability at most 5%, this one always is."""
    plan = tiny_plan(epsilon=0.01, noise=noise)
    inside, outside = scores_of(plan, TINY, runs=150)
    assert np.all(inside > 0)
    assert np.all(outside < 0)
    found = verdict(plan, inside, outside, ADD)
    assert found.outcome is AuditOutcome.REFUTED
    assert found.audit.epsilon_lower > 3.5


@pytest.mark.parametrize(
    ("system", "outcome"), [(CONVEXIFIED_LOSS, AuditOutcome.REFUTED), (CONVEXIFIED_HEAD, AuditOutcome.CONSISTENT)]
)
def test_the_audit_of_any_trial_finds_it_by_itself(system, outcome):
    """What `sweeps audit` does with a trial on digits: the system's own neighbours, its released answers, a verdict."""
    plan = planned(system, {"queries": 3}, epsilon=1.0)
    setting = audited(plan, DIGITS.load({}), secret=SECRET)
    assert audits.methods(system, plan.guarantee)[0] == "multi-run"
    found = audits.gather(setting, "multi-run", runs=100, curve=None)
    assert found.audit.adjacency is system.adjacencies[0]
    assert AuditVerdict(audit=found.audit, guarantee=plan.guarantee).outcome is outcome


@pytest.mark.parametrize(
    ("n", "knobs", "outcome"),
    [
        # One mislabelled record among 10,000 outweighs its share: claimed epsilon 1, refuted by one answer.
        (10_000, {"alpha": 5.0, "regularisation": 0.01, "epochs": 150}, AuditOutcome.REFUTED),
        # The same attack, where nearly the mean is trained: the record weighs 1/n and the claim stands.
        (1000, {"alpha": 1e-6, "epochs": 50}, AuditOutcome.CONSISTENT),
    ],
)
def test_of_two_classes_the_claim_falls_where_the_sensitivity_is_none(n, knobs, outcome):
    facts = replace(TINY, n=n, classes=2, features={"x": InputSpec(shape=(1,))})
    plan = tiny_plan(epsilon=1.0, facts=facts, batch_size=n, hidden=4, **knobs)
    assert verdict(plan, *scores_of(plan, facts, runs=150), ADD).outcome is outcome


@pytest.mark.parametrize(
    ("n", "classes", "epsilon", "knobs"),
    [
        (40, 3, 3.0, {"alpha": 2.0, "regularisation": 0.05, "radius": 1.0, "queries": 3}),
        (200, 2, 1.0, {"alpha": 5.0, "regularisation": 0.02, "radius": 2.0, "queries": 1}),
    ],
)
def test_the_repaired_head_withstands_its_worst_neighbours(n, classes, epsilon, knobs):
    """The likelihood ratio over 300 releases a side does not contradict the claim (wrong for one secret in twenty)."""
    facts = replace(TINY, n=n, classes=classes)
    plan = CONVEXIFIED_HEAD.plan(knobs, facts, target(CONVEXIFIED_HEAD, epsilon=epsilon), {})
    assert verdict(plan, *scores_of(plan, facts, runs=300), REPLACE).outcome is AuditOutcome.CONSISTENT
    if classes > 2:
        return
    # Mutant: weight 1/n for the flipped record. Its noise is too small, and the same attack refutes its claim.
    bound = head_of(read(ConvexifiedHeadHyperparameters, plan.config), facts).loss_bound
    assert isinstance(plan.mechanism, OutputPerturbation)
    quieter = plan.mechanism.noise_multiplier / (mathematics.largest_weight(5.0, bound, n) * n)
    shrunk = replace(plan, mechanism=replace(plan.mechanism, noise_multiplier=quieter))
    assert verdict(plan, *scores_of(shrunk, facts, runs=300), REPLACE).outcome is AuditOutcome.REFUTED
