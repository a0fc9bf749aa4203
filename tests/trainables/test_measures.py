"""Measures that a spec may ask of any system: what they say of a plan that is kept and of one that is not."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.trainables.recording import audited
from trainables.data import SOURCES
from trainables.measures.membership import Attacked, likelihood_ratio_attack
from trainables.measures.objectives import MEASURES, measure, missing
from trainables.measures.quality import GROUPED, QUALITY
from trainables.measures.retraining import Twin, streams
from trainables.registry import SYSTEMS
from trainables.system import Launch, PrivacyPlan, PrivacyTarget, RunSettings, Scalar, TrialRun
from trainables.worker.files import Folder
from trainables.worker.trial import run_launch

torch.set_num_threads(1)
DIGITS = SOURCES["digits"].load({})
MEMBERSHIP = ("membership_auc", "membership_accuracy", "membership_f1", "priv_leak")
KNOBS: dict[str, dict[str, Scalar]] = {
    "noisy-sgd": {"model": "linear", "learning_rate": 0.5, "clip_norm": 1.0, "batch_size": 200, "epochs": 3.0},
    "model-sensitivity": {"regularisation": 0.01},
    "prediction-sensitivity": {"regularisation": 0.01, "queries": 60},
    "subsample-and-aggregate": {"regularisation": 0.01, "queries": 60, "models": 8},
}


def planned(name: str, epsilon: float = 1.0, **knobs) -> PrivacyPlan:
    system = SYSTEMS[name]
    target = PrivacyTarget(epsilon=epsilon, delta=1e-5, adjacency=system.adjacencies_on(DIGITS.facts)[0])
    plan = system.plan({**KNOBS.get(name, {}), **knobs}, DIGITS.facts, target, {})
    assert isinstance(plan, PrivacyPlan)
    return plan


def member(plan: PrivacyPlan) -> TrialRun:
    return TrialRun(key="measured-0", attempt=1, seed=3, plan=plan, from_step=0, to_step=plan.steps)


def run(plan: PrivacyPlan, tmp_path, measures: tuple[str, ...]) -> dict[str, float]:
    group = Launch(members=(member(plan),), measures=measures, withheld=frozenset())
    [result] = run_launch(group, DIGITS, Folder(str(tmp_path)), bytes(32))
    metrics: dict[str, float] = result["metrics"]
    return metrics


def test_a_system_that_attacks_itself_is_measured_without_its_attack(tmp_path):
    """Its shadows keep validation records back, and a twin's validation records are the few that are asked about."""
    plan = planned("convexified-loss", epochs=1, queries=20, shadows=2, attack_epochs=1)
    metrics = run(plan, tmp_path, ("priv_leak",))
    assert {"priv_leak", "shadow_leak"} <= set(metrics)


@pytest.mark.parametrize("name", KNOBS)
def test_every_measure_is_reported_where_it_is_asked_for(name, tmp_path):
    asked = ("audited_epsilon", "membership_auc", "priv_leak", "queries")
    metrics = run(planned(name), tmp_path, asked)
    assert {*asked, "accuracy", *MEMBERSHIP} <= set(metrics)
    # Of guesses on as many members as others, an area's is sqrt((2 n + 1) / 12 n^2) (Mann & Whitney 1947), and less
    # where scores are labels, and tie.
    n = 30 if "queries" in KNOBS[name] else 360
    assert 0.2 < metrics["membership_auc_se"] / math.sqrt((2 * n + 1) / (12 * n * n)) < 2
    assert 0.2 < metrics["priv_leak_se"] / math.sqrt(0.5 / n) < 2
    assert 0 <= metrics["audited_epsilon"] <= 1
    # Epsilon 1 allows an advantage of 0.46; 60 answers, or 360 records, leave sampling noise.
    assert abs(metrics["priv_leak"]) < 0.35
    assert abs(metrics["membership_auc"] - 0.5) < 0.2
    assert metrics["queries"] == (60 if "queries" in KNOBS[name] else 360)


def test_a_model_that_memorises_shows_it():
    """Without any noise to speak of, an unregularised linear model fits its records and not the others."""
    system, plan = SYSTEMS["model-sensitivity"], planned("model-sensitivity", regularisation=1e-6)
    few = replace(DIGITS, train=replace_rows(DIGITS.train, 60), facts=replace(DIGITS.facts, n=60))
    loud = drawn_at(plan, 1e-9)
    one = Twin(member(loud), streams(1, bytes(32)))
    system.fit([one], few, RunSettings())
    found = measure(("membership_auc", "priv_leak"), system, member(loud), one.outcome(), few, RunSettings())
    assert found["membership_auc"] > 0.75
    assert found["priv_leak"] > 0.2
    assert found["membership_accuracy"] == pytest.approx(0.5 + found["priv_leak"] / 2)
    quiet = measure(
        ("membership_auc",), system, member(plan), {"theta": np.zeros_like(one.outcome()["theta"])}, few, RunSettings()
    )
    assert quiet["membership_auc"] == 0.5


def drawn_at(plan, noise_multiplier: float):
    """The plan with other noise, on rows of another length."""
    noise = replace(plan.mechanism, noise_multiplier=noise_multiplier)
    return replace(plan, mechanism=noise, config={**plan.config, "clip_norm": 0.1})


def replace_rows(split, count: int):
    return type(split)({name: array[:count] for name, array in split.inputs.items()}, split.targets[:count])


def test_every_measure_can_be_asked_of_every_system_that_says_something_of_records():
    for name, system in SYSTEMS.items():
        # Of which systems the quality of a released model may be asked, test_quality.py says.
        said = {
            measure: missing(measure, system, DIGITS.facts)
            for measure in MEASURES
            if measure not in {*QUALITY, *GROUPED}
        }
        assert name == "noisy-mean" or not any(said.values()), said


def test_the_likelihood_ratio_attack_finds_members_where_noise_is_forgotten():
    plan = planned("model-sensitivity", regularisation=1e-6)
    few = replace(DIGITS, train=replace_rows(DIGITS.train, 200), facts=replace(DIGITS.facts, n=200))

    def online(noise_multiplier: float) -> Attacked:
        setting = audited(drawn_at(plan, noise_multiplier), few, seed=1)
        first, *_ = likelihood_ratio_attack(setting, shadows=16)
        return first

    without = online(1e-9)
    assert without.auc > 0.7
    assert without.accuracy is not None
    assert without.accuracy > 0.6
    assert online(plan.mechanism.noise_multiplier).auc < 0.65
