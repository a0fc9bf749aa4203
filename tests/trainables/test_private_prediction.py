"""Four systems: their noise against its stated scale, their counters, and what they release."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from dpcore.checks import InvalidValue
from dpcore.erm import LogisticRisk, minimise, unit_inputs
from dpcore.mechanisms.loss_perturbation import least_modulus
from dpcore.mechanisms.noise_families import GaussianNoise, RadialNoise
from dpcore.mechanisms.output_perturbation import MinimiserSensitivity
from tests.trainables.private_prediction_cases import (
    ADD,
    CASES,
    DELTA,
    FACTS,
    IDS,
    NETWORK,
    REPLACE,
    planned,
    small,
    target,
)
from tests.trainables.recording import memory_run
from trainables import models
from trainables.data.packaged import DIGITS
from trainables.registry import SYSTEMS
from trainables.system import InputSpec, PrivacyPlan, PrivacyTarget, RunSettings, Split
from trainables.systems.answering import QueriesSpent
from trainables.systems.linear import rows, width_of
from trainables.systems.vandermaaten2020 import minimisers as minimiser
from trainables.systems.vandermaaten2020 import subsample_and_aggregate as voters
from trainables.systems.vandermaaten2020.minimisers import (
    LOSS_PERTURBATION,
    MODEL_SENSITIVITY,
    PREDICTION_SENSITIVITY,
    certificate,
)
from trainables.systems.vandermaaten2020.subsample_and_aggregate import SUBSAMPLE_AND_AGGREGATE, MemberHyperparameters
from trainables.training import private_sgd


@pytest.fixture(scope="module")
def data():
    return DIGITS.load({})


@pytest.mark.parametrize(("system", "knobs"), CASES, ids=IDS)
def test_runs_end_with_an_accuracy_and_keep_no_model_beside_the_answers(system, knobs, data):
    plan = planned(system, knobs, epsilon=50.0)
    run = memory_run(plan)
    system.fit([run], data, RunSettings())
    step, state, metrics = run.final
    assert step == plan.steps
    assert run.horizons == [plan.steps]
    assert 0.15 < metrics["accuracy"] <= 1
    kept = {"theta"} if plan.steps == 1 else {"answered", "correct"}
    assert set(state) == kept


def noise_only(data, plan, count):
    """Released models minus the certified minimiser, over independent attempts."""
    config = plan.config
    risk = LogisticRisk(
        inputs=rows(data.facts, data.train, float(config["clip_norm"]), False),
        labels=data.train.targets,
        classes=data.facts.classes,
        divisor=data.facts.n,
        modulus=config["regularisation"],
    )
    exact = minimise(risk, 1e-12).theta
    runs = [memory_run(plan, key=f"t-{k}") for k in range(count)]
    SYSTEMS[plan.system].fit(runs, data, RunSettings())
    return np.stack([run.final[1]["theta"] for run in runs]) - exact


def test_the_released_model_has_the_planned_noise():
    """Gaussian: chi-square of 1,200 coordinates; pure: Gamma radii of 400 draws. Each wrong once in 10,000 seeds."""
    data = small()
    sensitivity = MinimiserSensitivity(n=40, modulus=0.5, adjacency=REPLACE, tau=certificate(40)).value
    for noise in ("gaussian", "pure"):
        plan = MODEL_SENSITIVITY.plan({"regularisation": 0.5, "noise": noise}, data.facts, target(), {})
        assert isinstance(plan, PrivacyPlan)
        scale = plan.config["noise_multiplier"] * sensitivity
        found = noise_only(data, plan, 100 if noise == "gaussian" else 400)
        law, values = (
            (stats.norm(scale=scale), found.ravel())
            if noise == "gaussian"
            else (stats.gamma(12, scale=scale), np.linalg.norm(found.reshape(len(found), -1), axis=1))
        )
        assert stats.kstest(values, law.cdf).pvalue > 1e-4
        # The same test finds the sensitivity that forgets the factor 2 of replace-one.
        assert stats.kstest(2 * values, law.cdf).pvalue < 1e-6


def test_every_query_gets_noise_of_its_own_at_the_planned_scale(monkeypatch):
    """All logits of all queries are noised afresh; radii of the noise are Gamma (pure)."""
    data = small(n_validation=300)
    plan = PREDICTION_SENSITIVITY.plan(
        {"regularisation": 0.5, "noise": "pure", "queries": 300}, data.facts, target(), {}
    )
    assert isinstance(plan, PrivacyPlan)
    seen = []
    true_sample = RadialNoise.sample

    def sample(self, shape, normals):
        seen.append(true_sample(self, shape, normals))
        return seen[-1]

    monkeypatch.setattr(RadialNoise, "sample", sample)
    PREDICTION_SENSITIVITY.fit([memory_run(plan)], data, RunSettings())
    assert len(seen) == 300
    assert all(one.shape == (3,) for one in seen)
    sensitivity = MinimiserSensitivity(n=40, modulus=0.5, adjacency=REPLACE, tau=certificate(40)).value
    scale = plan.config["noise_multiplier"] * sensitivity
    radii = [np.linalg.norm(one) for one in seen]
    assert stats.kstest(radii, stats.gamma(3, scale=scale).cdf).pvalue > 1e-4


def test_perturbed_minimisers_solve_the_perturbed_objective(monkeypatch):
    """Gradient zero at the planned modulus, with the divisor n and the noise that was drawn."""
    data = small()
    plan = LOSS_PERTURBATION.plan({"regularisation": 1e-6, "noise": "pure"}, data.facts, target(), {})
    assert isinstance(plan, PrivacyPlan)
    drawn = []
    true_sample = RadialNoise.sample

    def sample(self, shape, normals):
        drawn.append((self.beta, true_sample(self, shape, normals)))
        return drawn[-1][1]

    monkeypatch.setattr(RadialNoise, "sample", sample)
    run = memory_run(plan)
    LOSS_PERTURBATION.fit([run], data, RunSettings())
    (beta, linear), (_, output) = drawn
    objective = 2.0 * 0.99
    modulus = least_modulus(objective, 40, 3, "trace")
    assert beta == pytest.approx(objective / (4 * math.sqrt(2)))
    risk = LogisticRisk(
        rows(data.facts, data.train, 1.0, False), data.train.targets, 3, 40, modulus * (1 + 1e-9), linear / 40
    )
    _, gradient = risk.value_and_gradient(run.final[1]["theta"] - output)
    assert np.linalg.norm(gradient) < 1e-7
    assert np.linalg.norm(output) < 1e-3


@pytest.mark.parametrize(("adjacency", "sigma"), [(ADD, 13.53216), (REPLACE, 27.84111)])
def test_gaussian_perturbation_has_the_repaired_scale(adjacency, sigma):
    """theory.md section 1, golden for c = 10, epsilon 1 on the objective, delta 1e-5; K = sqrt(2)."""
    privacy = PrivacyTarget(epsilon=1 / 0.99, delta=1e-5, adjacency=adjacency)
    plan = LOSS_PERTURBATION.plan({"regularisation": 1e-6}, FACTS, privacy, {})
    assert isinstance(plan, PrivacyPlan)
    shift = math.sqrt(2) * (2 if adjacency is REPLACE else 1)
    assert plan.config["noise_multiplier"] * shift == pytest.approx(sigma, rel=1e-6)
    assert plan.guarantee.epsilon == pytest.approx(1 / 0.99, rel=1e-6)


def test_gaussian_noise_of_the_objective_is_drawn_at_the_planned_scale(monkeypatch):
    data = small()
    plan = LOSS_PERTURBATION.plan({"regularisation": 1e-6}, data.facts, target(), {})
    assert isinstance(plan, PrivacyPlan)
    scales = []
    true_sample = GaussianNoise.sample
    monkeypatch.setattr(
        GaussianNoise, "sample", lambda self, *rest: (scales.append(self.sigma), true_sample(self, *rest))[1]
    )
    LOSS_PERTURBATION.fit([memory_run(plan)], data, RunSettings())
    assert scales == [pytest.approx(plan.config["noise_multiplier"] * 2 * math.sqrt(2), rel=1e-9)]
    assert scales[0] >= plan.config["noise_multiplier"] * 2 * math.sqrt(2)


def test_parts_are_disjoint_complete_and_decided_by_n_alone():
    parts = voters.parts_of(101, 7, seed=0)
    assert sorted(np.concatenate(parts).tolist()) == list(range(101))
    assert {len(part) for part in parts} == {14, 15}
    assert all(np.array_equal(a, b) for a, b in zip(parts, voters.parts_of(101, 7, seed=0), strict=True))


@pytest.mark.parametrize("model", ["linear", "mlp"])
def test_one_record_changes_one_vote(model):
    data = small()
    knobs = MemberHyperparameters(regularisation=0.01, clip_norm=1.0, bias=False, models=8, model=model, **NETWORK)
    targets = data.train.targets.copy()
    targets[11] = (targets[11] + 1) % 3
    changed = replace(data, train=replace(data.train, targets=targets))
    before, after = (voters.winners(knobs, one, RunSettings()) for one in (data, changed))
    assert before.shape == (8, len(data.validation))
    assert sum(not np.array_equal(a, b) for a, b in zip(before, after, strict=True)) == 1


def test_networks_vote_as_well_as_linear_models_on_separated_classes():
    data = small(n=120, n_validation=60)
    plan = SUBSAMPLE_AND_AGGREGATE.plan(
        {"models": 6, "queries": 60, "model": "mlp", **NETWORK}, data.facts, target(50.0), {}
    )
    assert isinstance(plan, PrivacyPlan)
    assert "mlp" in plan.group
    run = memory_run(plan)
    SUBSAMPLE_AND_AGGREGATE.fit([run], data, RunSettings())
    assert run.final[2]["accuracy"] > 0.9


def test_networks_know_no_regularisation_and_linear_members_have_a_default():
    knobs = {"models": 6, "model": "mlp", **NETWORK}
    first, second = (
        SUBSAMPLE_AND_AGGREGATE.plan({**knobs, "regularisation": weight}, FACTS, target(), {}) for weight in (1e-6, 1.0)
    )
    assert isinstance(first, PrivacyPlan)
    assert isinstance(second, PrivacyPlan)
    assert (first.group, first.work) == (second.group, second.work)
    assert first.work == FACTS.n * NETWORK["epochs"]
    linear = SUBSAMPLE_AND_AGGREGATE.plan({"models": 6}, FACTS, target(), {})
    assert isinstance(linear, PrivacyPlan)
    assert linear.config["regularisation"] == 1e-4
    assert linear.group != planned(SUBSAMPLE_AND_AGGREGATE, {"models": 6}).group


def test_networks_train_where_and_as_wide_as_the_execution_says(monkeypatch):
    data, devices, threads = small(seed=7), [], []
    right, build = private_sgd.device_named, models.build
    monkeypatch.setattr(private_sgd, "device_named", lambda name: (devices.append(name), right("cpu"))[1])
    monkeypatch.setattr(
        models, "build", lambda *args, **knobs: (threads.append(torch.get_num_threads()), build(*args, **knobs))[1]
    )
    knobs = {"models": 2, "queries": 5, "model": "mlp", **NETWORK, "epochs": 1}
    plan = SUBSAMPLE_AND_AGGREGATE.plan(knobs, data.facts, target(50.0), {})
    assert isinstance(plan, PrivacyPlan)
    SUBSAMPLE_AND_AGGREGATE.fit([memory_run(plan)], data, RunSettings(device="cuda", threads=2))
    assert (devices, threads) == (["cuda"], [2, 2])


def test_a_network_that_cannot_see_the_data_is_refused_before_training():
    with pytest.raises(InvalidValue, match="model"):
        SUBSAMPLE_AND_AGGREGATE.plan({"regularisation": 0.01, "model": "two-branch"}, FACTS, target(), {})


# ---- counting queries


@pytest.mark.parametrize("system", [PREDICTION_SENSITIVITY, SUBSAMPLE_AND_AGGREGATE])
def test_a_restart_goes_on_where_the_count_stands_with_fresh_noise(system, data):
    knobs = {"queries": 90} | ({"models": 10} if system is SUBSAMPLE_AND_AGGREGATE else {})
    plan = planned(system, knobs, epsilon=5.0)
    first = memory_run(plan, to_step=30)
    system.fit([first], data, RunSettings())
    second = memory_run(plan, from_step=30, attempt=2, state=first.final[1])
    system.fit([second], data, RunSettings())
    assert int(second.final[1]["answered"]) == 90
    assert second.horizons == [90]
    assert int(second.final[1]["correct"]) >= int(first.final[1]["correct"])


def test_query_b_plus_one_is_refused_before_its_noise(data):
    plan = planned(PREDICTION_SENSITIVITY, {"queries": 20}, epsilon=5.0)
    run = memory_run(plan)
    PREDICTION_SENSITIVITY.fit([run], data, RunSettings())
    again = memory_run(plan, from_step=20, to_step=21, state=run.final[1], attempt=2)
    with pytest.raises(QueriesSpent, match="20 of 20"):
        PREDICTION_SENSITIVITY.fit([again], data, RunSettings())
    assert again.horizons == []
    assert again.checkpoints == []


def test_a_count_that_disagrees_with_the_ledger_is_refused(data):
    plan = planned(PREDICTION_SENSITIVITY, {"queries": 20}, epsilon=5.0)
    state = {"answered": np.asarray(3), "correct": np.asarray(1)}
    with pytest.raises(ValueError, match="3 queries answered in its records, expected 5"):
        PREDICTION_SENSITIVITY.fit([memory_run(plan, from_step=5, state=state)], data, RunSettings())


def test_no_validation_record_is_asked_twice(data):
    asked = []
    plan = planned(PREDICTION_SENSITIVITY, {"queries": 100})

    def watched(**span):
        run = memory_run(plan, **span)
        run.released = lambda shown: asked.extend(shown["asked"].tolist())
        PREDICTION_SENSITIVITY.fit([run], data, RunSettings())
        return run

    first = watched(to_step=40)
    watched(from_step=40, state=first.final[1], attempt=2)
    assert len(asked) == len(set(asked)) == 100


# ---- groups, sources of randomness, inputs


def test_one_training_serves_every_epsilon_of_a_group(monkeypatch):
    data, trainings = small(), []
    monkeypatch.setattr(minimiser, "minimise", lambda *args: trainings.append(args) or minimise(*args))
    plans = [
        MODEL_SENSITIVITY.plan({"regularisation": 0.1, "noise": noise}, data.facts, target(epsilon=epsilon), {})
        for noise in ("gaussian", "pure")
        for epsilon in (0.5, 1.0, 2.0)
    ]
    assert len({plan.group for plan in plans}) == 1
    MODEL_SENSITIVITY.fit([memory_run(plan, key=f"t-{k}") for k, plan in enumerate(plans)], data, RunSettings())
    assert len(trainings) == 1


@pytest.mark.parametrize(("system", "knobs"), [CASES[1], CASES[-1]], ids=["model", "vote"])
def test_cryptographic_noise_serves_too_and_never_repeats(system, knobs):
    data = small()
    plan = system.plan({"regularisation": 0.1, **knobs, **({"queries": 20} if "models" in knobs else {})}, data.facts,
                       target(epsilon=1.0), {})  # fmt: skip
    assert isinstance(plan, PrivacyPlan)
    runs = [memory_run(plan), memory_run(plan)]
    system.fit(runs, data, RunSettings(noise_source="secure"))
    if system is MODEL_SENSITIVITY:
        assert not np.array_equal(runs[0].final[1]["theta"], runs[1].final[1]["theta"])
    else:
        assert [run.final[0] for run in runs] == [20, 20]


def test_replace_one_refuses_another_number_of_records():
    data = small()
    plan = MODEL_SENSITIVITY.plan({"regularisation": 0.1}, data.facts, target(), {})
    assert isinstance(plan, PrivacyPlan)
    shorter = replace(data, train=Split({"x": data.train.inputs["x"][1:]}, data.train.targets[1:]))
    with pytest.raises(InvalidValue, match="under replace-one"):
        MODEL_SENSITIVITY.fit([memory_run(plan)], shorter, RunSettings())


def test_categories_become_columns():
    facts = replace(
        FACTS, features={"real": InputSpec(shape=(2,)), "code": InputSpec(shape=(), cardinality=3)}, classes=2
    )
    split = Split(inputs={"real": np.array([[0.1, 0.2], [0.0, 0.0]]), "code": np.array([2, 0])}, targets=np.zeros(2))
    found = rows(facts, split, 2.0, bias=True)
    assert width_of(facts, bias=True) == found.shape[1] == 6
    plain = np.array([[0.1, 0.2, 0, 0, 1], [0, 0, 1, 0, 0]])
    assert np.allclose(found, np.hstack([unit_inputs(plain, 2.0), np.ones((2, 1))]) / math.sqrt(2))


# ---- two worlds, told apart from what is released


def best_advantage(plan, worlds, count):
    """Largest (true - false positive rate) of thresholds on the released models' projection onto their difference."""
    released = []
    for name, data in worlds.items():
        runs = [memory_run(plan, key=f"{name}-{k}") for k in range(count)]
        SYSTEMS[plan.system].fit(runs, data, RunSettings())
        released.append(np.stack([run.final[1]["theta"].ravel() for run in runs]))
    # The direction comes from one half, the threshold test from the other: nothing is tested on what chose it.
    direction = released[1][::2].mean(axis=0) - released[0][::2].mean(axis=0)
    zero, one = (half[1::2] @ direction for half in released)
    return stats.ks_2samp(one, zero, alternative="less").statistic


@pytest.mark.parametrize("noise", ["gaussian", "pure"])
def test_neighbours_cannot_be_told_apart_beyond_the_claim_and_a_planted_bug_is_found(noise):
    """Total variation is at most (exp(eps) - 1 + 2 delta)/(exp(eps) + 1) under (eps, delta)-DP.

    2,000 runs of each world, half of them tested; a Kolmogorov-Smirnov statistic exceeds its expectation by 0.07 with
    probability below exp(-2 * 1000 * 0.07^2 / 2) = 0.8%, and the claim leaves room on top: the sensitivity that one
    record can reach is about half of the one that the proof allows.
    """
    base, epsilon = small(n=20), 1.0
    inputs = np.tile(np.eye(4, dtype=np.float32)[0], (20, 1))
    labels = np.zeros(20, dtype=np.int64)
    other = labels.copy()
    other[0] = 1
    worlds = {
        name: replace(base, train=Split({"x": inputs}, targets)) for name, targets in (("a", labels), ("b", other))
    }
    plan = MODEL_SENSITIVITY.plan({"regularisation": 5.0, "noise": noise}, base.facts, target(epsilon=epsilon), {})
    assert isinstance(plan, PrivacyPlan)
    allowed = (math.expm1(epsilon) + 2 * DELTA) / (math.exp(epsilon) + 1)
    assert best_advantage(plan, worlds, 2000) <= allowed + 0.07
    # The bug: a sensitivity that divides by n twice.
    wrong = replace(plan.mechanism, sensitivity=plan.mechanism.sensitivity / 20)
    assert best_advantage(replace(plan, mechanism=wrong), worlds, 400) > allowed + 0.15
