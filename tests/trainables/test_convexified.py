"""The convexified-loss systems: their claims, what they release, their counters."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy import stats
from scipy.special import softmax

from dpcore.audit.attacks import attack_examples, disjoint_splits
from dpcore.audit.audit import Audit, AuditOutcome, AuditVerdict, ThreatModel
from dpcore.audit.evidence import count_at
from dpcore.events import Adjacency, Gaussian, NonPrivate
from dpcore.gdp import eps_gdp
from dpcore.guarantee import Status
from dpcore.mechanisms.output_perturbation import OutputPerturbation
from dpcore.papers import lu2021 as mathematics
from tests.trainables.recording import audited, counted, facts_of, memory_run
from trainables.data import SOURCES
from trainables.hyperparameters import read
from trainables.measures import audits
from trainables.metrics import scores_of
from trainables.registry import SYSTEMS
from trainables.system import InputSpec, PrivacyTarget, RunSettings, Split
from trainables.systems import lu2021 as repaired_fit
from trainables.systems.lu2021 import (
    CONVEXIFIED_HEAD,
    CONVEXIFIED_LOSS,
    ConvexifiedHeadHyperparameters,
    ConvexifiedLossHyperparameters,
    flat_inputs,
    head_of,
    question_order,
    train_group,
    under_attack,
)
from trainables.systems.lu2021_network import AttackModel, logits_of, train, train_attack

DELTA = 1e-4
SECRET = b"a secret of tests, never of a sweep"
FACTS = SOURCES["digits"].facts({})
ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
SHORT = {"epochs": 3, "hidden": 16, "learning_rate": 0.01}
HEAD = {"alpha": 0.1, "regularisation": 0.02}


def target(system, epsilon=2.0, solve="noise", adjacency=None):
    return PrivacyTarget(epsilon=epsilon, delta=DELTA, adjacency=adjacency or system.adjacencies[0], solve=solve)


def planned(system, knobs, facts=FACTS, **settings):
    base = SHORT if system is CONVEXIFIED_LOSS else HEAD
    plan = system.plan({**base, **knobs}, facts, target(system, **settings), {})
    return plan


# Claims


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("queries", [1, 100])
def test_the_published_claim_is_made_for_all_queries_and_marked_refuted(noise, queries):
    plan = planned(CONVEXIFIED_LOSS, {"noise": noise, "queries": queries})
    each = 1 / plan.config["noise_multiplier"]
    claimed = queries * each if noise == "laplace" else eps_gdp(math.sqrt(queries) * each, DELTA)
    assert plan.guarantee.epsilon == pytest.approx(claimed, rel=1e-9)
    assert 2.0 * (1 - 1e-6) < plan.guarantee.epsilon <= 2.0
    assert (plan.guarantee.status, plan.guarantee.delta) == (Status.REFUTED, DELTA)
    assert any("logits' difference exactly" in line for line in plan.guarantee.assumptions)
    # The ledger must not add up a refuted epsilon as if it were one.
    assert counted(plan) == ((NonPrivate(), queries),)


@pytest.mark.parametrize("queries", [1, 50])
@pytest.mark.parametrize("epsilon", [0.1, 2.0, 20.0])
def test_the_repaired_claim_is_exact_and_proved(queries, epsilon):
    plan = planned(CONVEXIFIED_HEAD, {"queries": queries}, epsilon=epsilon)
    noise = plan.config["noise_multiplier"]
    assert counted(plan) == ((Gaussian(noise_multiplier=noise, adjacency=REPLACE), queries),)
    exact = eps_gdp(math.sqrt(queries) / noise, DELTA)
    # The closed form is rounded up too: which of the two lies higher is rounding.
    assert exact * (1 - 1e-12) <= plan.guarantee.epsilon <= min(epsilon, exact * (1 + 1e-6))
    assert plan.guarantee.epsilon > epsilon * (1 - 1e-4)
    assert (plan.guarantee.status, plan.guarantee.adjacency) == (Status.PROVED, REPLACE)
    assert mathematics.CERTIFIED in plan.guarantee.assumptions


# Training


def network(**knobs):
    return read(ConvexifiedLossHyperparameters, {"noise_multiplier": 1.0, **knobs})


def test_networks_side_by_side_are_the_networks_alone(digits):
    """Two networks with their own weights and batches; alone, the first one repeats itself."""
    inputs, labels = flat_inputs(digits.facts, digits.train), digits.train.targets
    recipe = network(alpha=1.0, regularisation=1e-4, hidden=32, learning_rate=0.005, batch_size=100, epochs=15)
    rows = np.stack([np.arange(600), np.arange(600, 1200)])
    both = train(inputs, labels, rows, 10, recipe, seed=1).logits(inputs)
    assert both.shape == (2, len(inputs), 10)
    for k in range(2):
        outside = np.setdiff1d(np.arange(len(labels)), rows[k])
        assert (both[k][rows[k]].argmax(axis=1) == labels[rows[k]]).mean() > 0.93
        assert (both[k][outside].argmax(axis=1) == labels[outside]).mean() > 0.85
    assert np.array_equal(train(inputs, labels, rows, 10, recipe, seed=1).logits(inputs), both)
    assert not np.allclose(train(inputs, labels, rows, 10, recipe, seed=2).logits(inputs), both)


@pytest.mark.parametrize("alpha", [1e-6, 1.0, 20.0])
def test_one_adam_step_follows_the_risk_averse_gradient(alpha):
    """Adam's first step moves every weight by the rate, against the gradient's sign; the gradient is autograd's."""
    rng = np.random.default_rng(0)
    inputs, labels = rng.normal(size=(30, 4)).astype(np.float32), rng.integers(0, 3, 30)
    recipe = network(alpha=alpha, regularisation=0.01, hidden=5, learning_rate=1e-4, batch_size=30, epochs=1)
    rows = np.arange(30)[None]
    start = train(inputs, labels, rows, 3, replace(recipe, learning_rate=1e-30), seed=3)
    moved = train(inputs, labels, rows, 3, recipe, seed=3)

    x, y = torch.from_numpy(inputs).double(), torch.from_numpy(labels)
    weights = [one[0].detach().double().requires_grad_() for one in (start.first, start.second)]
    losses = F.cross_entropy(torch.tanh(x @ weights[0]) @ weights[1], y, reduction="none")
    mean = torch.log(torch.exp(alpha * losses).mean()) / alpha
    slopes = torch.autograd.grad(mean + 0.02 * sum(one.square().sum() for one in weights), weights)
    steps = [(new - old)[0] for new, old in ((moved.first, start.first), (moved.second, start.second))]
    agree = [(step.sign() == -one.sign())[one.abs() > 1e-4] for one, step in zip(slopes, steps, strict=True)]
    assert torch.cat(agree).all()
    assert len(torch.cat(agree)) > 25


# What a run releases


def test_runs_end_with_their_metrics_and_keep_no_model(digits):
    plan = planned(CONVEXIFIED_LOSS, {"queries": 90, "reference": True, "epochs": 20}, epsilon=1e6)
    run = memory_run(plan)
    CONVEXIFIED_LOSS.fit([run], digits, RunSettings())
    step, state, metrics = run.final
    assert (step, run.horizons) == (90, [90])
    assert set(state) == {"answered", "correct", "members_called", "others_called"}
    assert metrics["accuracy"] == metrics["baseline_accuracy"] > 0.8
    assert metrics["accuracy_loss"] == 0
    assert set(scores_of(metrics)) <= {one.name for one in CONVEXIFIED_LOSS.metrics}
    plain = memory_run(planned(CONVEXIFIED_LOSS, {"queries": 90}, epsilon=1e6))
    CONVEXIFIED_LOSS.fit([plain], digits, RunSettings())
    assert set(plain.final[2]) == {"accuracy", "accuracy_se", "stability"}


def test_under_an_attack_members_and_others_take_turns(digits):
    plan = planned(CONVEXIFIED_LOSS, {"queries": 41, "shadows": 2, "attack_epochs": 1})
    knobs = read(ConvexifiedLossHyperparameters, plan.config)
    trained = train_group(knobs, digits, attacked=False)
    assert np.array_equal(trained.inside, np.arange(240) % 2)
    members, others = trained.rows[trained.inside], trained.rows[~trained.inside]
    assert np.array_equal(trained.labels[1::2], digits.train.targets[members])
    # What the attacker trains on is never asked.
    assert np.array_equal(others, question_order(knobs.draw, len(digits.validation))[:120])


def test_the_attack_rides_in_the_state(digits):
    plan = planned(CONVEXIFIED_LOSS, {"queries": 40, "shadows": 2, "attack_epochs": 2})
    run = memory_run(plan)
    CONVEXIFIED_LOSS.fit([run], digits, RunSettings())
    assert -1 <= run.final[2]["shadow_leak"] <= 1
    probabilities = softmax(np.random.default_rng(0).normal(size=(8, 10)), axis=1)
    scores = AttackModel.from_state(run.final[1]).scores(probabilities, np.arange(8) % 10)
    assert np.all((scores >= 0) & (scores <= 1))
    # Another system's model is judged on the first questions of draw 0, where the attacker's own records are not.
    rng, widths = np.random.default_rng(1), (flat_inputs(digits.facts, digits.train).shape[1], 128, 10)
    state = {
        f"parameter.body.{layer}.{kind}": rng.normal(size=(out, into) if kind == "weight" else out)
        for layer, into, out in ((0, *widths[:2]), (2, *widths[1:]))
        for kind in ("weight", "bias")
    }
    accuracy, leak = under_attack(digits, run.final[1], 50)(state)
    asked_first = question_order(0, len(digits.validation))[:50]
    called = logits_of(state, flat_inputs(digits.facts, digits.validation)[asked_first]).argmax(axis=1)
    assert accuracy == np.mean(called == digits.validation.targets[asked_first])
    assert -1 <= leak <= 1


def test_head_answers_carry_the_planned_noise_on_every_logit(digits):
    """All 10 logits of 360 answers (Kolmogorov-Smirnov, wrong once in 10,000 seeds), uncorrelated between classes."""
    plan = planned(CONVEXIFIED_HEAD, {"queries": 360, "features": "random-tanh", "hidden": 32}, epsilon=50.0)
    seen = []
    run = memory_run(plan)
    run.released = lambda **arrays: seen.append(arrays)
    CONVEXIFIED_HEAD.fit([run], digits, RunSettings())
    knobs = read(ConvexifiedHeadHyperparameters, plan.config)
    weights = repaired_fit.minimised(knobs, digits)
    queries = repaired_fit.features_of(knobs, digits.facts, digits.validation)[seen[0]["asked"]]
    head = head_of(knobs, digits.facts)
    sigma = plan.config["noise_multiplier"] * head.sensitivity
    noise = (seen[0]["logits"] - queries @ weights) / sigma
    assert stats.kstest(noise.ravel(), "norm").pvalue > 1e-4
    # The same test finds a quarter more noise.
    assert stats.kstest(1.25 * noise.ravel(), "norm").pvalue < 1e-6
    assert np.abs(np.corrcoef(noise.T) - np.eye(10)).max() < 5 / math.sqrt(360)
    assert head.sensitivity == pytest.approx(head.exact_sensitivity * 1.01)


def test_head_features_are_frozen_and_short(digits):
    plan = planned(CONVEXIFIED_HEAD, {"features": "random-tanh", "hidden": 20})
    knobs = read(ConvexifiedHeadHyperparameters, plan.config)
    features = repaired_fit.features_of(knobs, digits.facts, digits.train)
    assert features.shape == (digits.facts.n, 20)
    assert np.linalg.norm(features, axis=1).max() <= 1
    # A record's features do not depend on the others.
    alone = Split(inputs={"image": digits.train.inputs["image"][5:6]}, targets=digits.train.targets[5:6])
    assert repaired_fit.features_of(knobs, digits.facts, alone) == pytest.approx(features[5:6], rel=1e-12)


# Attacks on the convexified-loss systems: shadow models, and neighbours that refute what is published.


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
    called, miscalled = (attack.called(one, labels).mean() for one in sides)
    return called - miscalled


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

TINY = facts_of((5,), n=60, n_validation=4, classes=3)
"""Facts of a data set on which one answer refutes the published claim; training takes milliseconds."""
KNOBS = {"hidden": 8, "batch_size": 60, "epochs": 20, "learning_rate": 0.05, "queries": 1}


def tiny_plan(epsilon, noise="laplace", facts=TINY, **knobs):
    """A plan of `convexified-loss` for one answer on `facts`, calibrated to the claimed epsilon at delta 1e-5."""
    config = {**KNOBS, "noise": noise, **knobs}
    plan = CONVEXIFIED_LOSS.plan(config, facts, PrivacyTarget(epsilon=epsilon, delta=1e-5), {})
    return plan


def attack_scores(plan, facts, runs):
    """The attack's scores [runs] of independent releases with the record, and of as many without it.

    Every run is the system's own `fit` on synthetic neighbours; the attack sees what it released and nothing else.
    """
    pair, numbers = SYSTEMS[plan.system].neighbours(plan, facts), itertools.count(1)
    setting = audited(plan, pair.with_it, secret=SECRET)
    return [audits.outcomes(setting, data, runs, pair.score, numbers) for data in (pair.with_it, pair.without_it)]


def verdict(plan, inside, outside, adjacency):
    evidence = count_at(inside, outside, 0.0)
    audit = Audit(evidence=evidence, threat_model=ThreatModel.BLACK_BOX, adjacency=adjacency, delta=DELTA)
    return AuditVerdict(audit=audit, guarantee=plan.guarantee)


@pytest.mark.parametrize(
    ("system", "outcome"), [(CONVEXIFIED_LOSS, AuditOutcome.REFUTED), (CONVEXIFIED_HEAD, AuditOutcome.CONSISTENT)]
)
def test_the_audit_of_any_trial_finds_it_by_itself(system, outcome):
    """What `sweeps audit` does with a trial on digits: the system's own neighbours, its released answers, a verdict."""
    plan = planned(system, {"queries": 3}, epsilon=1.0)
    setting = audited(plan, SOURCES["digits"].load({}), secret=SECRET)
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
    assert verdict(plan, *attack_scores(plan, facts, runs=150), ADD).outcome is outcome


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
    assert verdict(plan, *attack_scores(plan, facts, runs=300), REPLACE).outcome is AuditOutcome.CONSISTENT
    if classes > 2:
        return
    # Mutant: weight 1/n for the flipped record. Its noise is too small, and the same attack refutes its claim.
    bound = head_of(read(ConvexifiedHeadHyperparameters, plan.config), facts).loss_bound
    assert isinstance(plan.mechanism, OutputPerturbation)
    quieter = plan.mechanism.noise_multiplier / (mathematics.largest_weight(5.0, bound, n) * n)
    shrunk = replace(plan, mechanism=replace(plan.mechanism, noise_multiplier=quieter))
    assert verdict(plan, *attack_scores(shrunk, facts, runs=300), REPLACE).outcome is AuditOutcome.REFUTED
