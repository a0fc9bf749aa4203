"""Four systems: their noise against its stated scale, their counters, and what they release."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from dpcore.checks import InvalidValue
from dpcore.erm import LogisticRisk, minimise, unit_inputs
from dpcore.mechanisms import loss_perturbation, noisy_vote
from dpcore.mechanisms.loss_perturbation import least_modulus
from dpcore.mechanisms.output_perturbation import GaussianNoise, MinimiserSensitivity, RadialNoise
from tests.trainables.private_prediction_cases import ADD, FACTS, NETWORK, REPLACE, planned, small, target
from tests.trainables.recording import memory_run
from trainables.data.packaged import DIGITS
from trainables.registry import SYSTEMS
from trainables.system import InputSpec, PrivacyPlan, RunSettings, Split
from trainables.systems import vandermaaten2020 as minimiser
from trainables.systems import vandermaaten2020 as voters
from trainables.systems.answering import QueriesSpent
from trainables.systems.linear import rows, width_of
from trainables.systems.vandermaaten2020 import (
    LOSS_PERTURBATION,
    MODEL_SENSITIVITY,
    PREDICTION_SENSITIVITY,
    SUBSAMPLE_AND_AGGREGATE,
    MemberHyperparameters,
    certificate,
)


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


# ---- counting queries


@pytest.mark.parametrize("system", [PREDICTION_SENSITIVITY, SUBSAMPLE_AND_AGGREGATE])
def test_no_query_is_answered_twice_and_none_beyond_the_claim(system):
    """Whatever a restart finds: a count that disagrees with the ledger, or query B+1, is refused before its noise."""
    data, asked = DIGITS.load({}), []
    plan = planned(system, {"queries": 90} | ({"models": 10} if system is SUBSAMPLE_AND_AGGREGATE else {}))

    def answered(**span):
        run = memory_run(plan, **span)
        run.released = lambda shown: asked.extend(shown["asked"].tolist())
        system.fit([run], data, RunSettings())
        assert set(run.final[1]) == {"answered", "correct"}
        return run.final[1]

    first = answered(to_step=40)
    last = answered(from_step=40, state=first, attempt=2)
    assert len(asked) == len(set(asked)) == int(last["answered"]) == 90
    assert int(last["correct"]) >= int(first["correct"])
    again = memory_run(plan, from_step=90, to_step=91, state=last, attempt=3)
    with pytest.raises(QueriesSpent, match="90 of 90"):
        system.fit([again], data, RunSettings())
    disagreeing = memory_run(plan, from_step=45, state=first, attempt=4)
    with pytest.raises(ValueError, match="40 queries answered in its records, expected 45"):
        system.fit([disagreeing], data, RunSettings())
    assert again.horizons == disagreeing.horizons == []


# ---- groups and inputs


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


# ---- the rules that the paper prints


def test_published_votes_are_answered_at_their_temperature(monkeypatch):
    seen = []
    right = noisy_vote.sample
    monkeypatch.setattr(noisy_vote, "sample", lambda beta, *rest: (seen.append(beta), right(beta, *rest))[1])
    plan = planned(SUBSAMPLE_AND_AGGREGATE, {"composition": "published", "models": 3, "queries": 4}, epsilon=2.0)
    SUBSAMPLE_AND_AGGREGATE.fit([memory_run(plan)], DIGITS.load({}), RunSettings())
    assert seen == [pytest.approx(0.5, rel=1e-8)] * 4


def test_the_printed_perturbation_runs_at_its_own_scale_and_modulus(monkeypatch):
    scales, risks = [], []
    right = GaussianNoise.sample
    monkeypatch.setattr(GaussianNoise, "sample", lambda self, *rest: (scales.append(self.sigma), right(self, *rest))[1])
    monkeypatch.setattr(loss_perturbation, "minimise", lambda risk, tau: (risks.append(risk), minimise(risk, tau))[1])
    knobs = {"noise": "gaussian-published", "jacobian": "rank", "regularisation": 1e-6}
    plan = planned(LOSS_PERTURBATION, knobs, epsilon=1.0, adjacency=ADD)
    LOSS_PERTURBATION.fit([memory_run(plan)], DIGITS.load({}), RunSettings())
    assert scales == [pytest.approx(plan.config["noise_multiplier"] * np.sqrt(2), rel=1e-9)]
    # (c - 1)/(n epsilon) at the printed epsilon of the objective.
    assert risks[0].modulus == pytest.approx(9 / (FACTS.n * 0.99), rel=1e-6)
