"""Measures that a spec may ask of any system: what they say of a plan that is kept and of one that is not."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.trainables.recording import audited
from tests.trainables.registry_cases import CANDIDATES, data_of
from trainables.data import SOURCES
from trainables.hooks import Twin
from trainables.measures import quality
from trainables.measures.audits import Attacked, likelihood_ratio_attack
from trainables.measures.quality import COMPUTED, QUALITY, value_of
from trainables.metrics import Task
from trainables.publishing import measure, missing
from trainables.registry import SYSTEMS
from trainables.reports import PrivateValidation
from trainables.system import Launch, PrivacyPlan, PrivacyTarget, RunSettings, Scalar, TrialRun
from trainables.validation.evaluate import UncountedReport
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
    one = Twin.of(loud, 1, bytes(32))
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


# Metrics of a released model that are asked for: values by hand, degenerate records, and who may be asked.


CLASSES = sorted(name for name, one in QUALITY.items() if one.tasks == {Task.CLASSIFICATION})
LABELS = np.array([0, 0, 1, 1])
SHARES = np.array([[0.9, 0.1], [0.4, 0.6], [0.35, 0.65], [0.8, 0.2]])


def of_classes(name: str, labels: np.ndarray = LABELS, shares: np.ndarray = SHARES) -> float:
    return value_of(name, labels, shares)


def test_two_classes_by_hand() -> None:
    # By falling score of class 1: right, wrong, right, wrong.
    assert of_classes("average_precision") == pytest.approx((1 + 2 / 3) / 2)
    assert of_classes("f1") == pytest.approx(0.5)
    assert of_classes("balanced_accuracy") == pytest.approx(0.5)
    assert of_classes("log_loss") == pytest.approx(-np.log([0.9, 0.4, 0.65, 0.2]).mean())
    # Confidences .9 right, .6 wrong, .65 right, .8 wrong: each alone in a bin of width 1/15.
    assert of_classes("calibration_error") == pytest.approx((0.1 + 0.6 + 0.35 + 0.8) / 4)


def test_of_more_classes_those_that_occur_are_averaged() -> None:
    labels, shares = np.array([0, 0, 1]), np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.2, 0.7, 0.1]])
    assert of_classes("balanced_accuracy", labels, shares) == pytest.approx((0.5 + 1) / 2)
    assert of_classes("f1", labels, shares) == pytest.approx((2 / 3 + 2 / 3) / 2)
    assert of_classes("average_precision", labels, shares) == pytest.approx((np.mean([1, 2 / 3]) + 0.5) / 2)


def test_confidences_in_one_bin_are_held_against_their_accuracy_together() -> None:
    shares = np.array([[0.75, 0.25]] * 4)
    assert of_classes("calibration_error", np.array([0, 0, 0, 1]), shares) == pytest.approx(0.0)


def test_numbers_by_hand() -> None:
    targets, values = np.array([0.0, 1.0, 2.0]), np.array([0.0, 2.0, 2.0])
    assert value_of("mae", targets, values) == pytest.approx(1 / 3)
    assert value_of("r2", targets, values) == pytest.approx(0.5)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("label", [0, 1])
@pytest.mark.parametrize("name", CLASSES)
def test_records_of_one_class_give_a_number_or_what_the_metric_says(name: str, label: int) -> None:
    shares = np.array([[0.9, 0.1], [0.8, 0.2]])
    found = of_classes(name, np.full(2, label), shares)
    undefined = name == "average_precision" or (name == "f1" and label == 0)
    assert math.isnan(found) == undefined
    assert not undefined or "left out where" in QUALITY[name].doc


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("targets", [np.array([1.0]), np.array([1.0, 1.0])])
def test_targets_that_are_one_value_have_no_r2(targets: np.ndarray) -> None:
    assert math.isnan(value_of("r2", targets, targets + 0.5))
    assert value_of("mae", targets, targets + 0.5) == pytest.approx(0.5)


@pytest.mark.parametrize("name", sorted(n for n, one in SYSTEMS.items() if not missing("f1", one)))
def test_what_is_asked_is_of_the_model_that_reported_the_accuracy(name: str, tmp_path, monkeypatch) -> None:
    """A metric that is the accuracy by another name says what the system says, to the last record."""
    monkeypatch.setitem(COMPUTED, "f1", lambda labels, shares: float((shares.argmax(1) == labels).mean()))
    candidate, data = CANDIDATES[name], data_of(name)
    plan = candidate.plan
    group = Launch(members=(member(plan),), measures=tuple(CLASSES))
    [result] = run_launch(group, data, Folder(str(tmp_path)), bytes(32))
    metrics = result["metrics"]
    assert set(CLASSES) <= set(metrics)
    assert metrics["f1"] == metrics["accuracy"]
    if "loss" in metrics:
        assert metrics["log_loss"] == pytest.approx(metrics["loss"], rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("broken", [False, True])
def test_what_the_records_leave_undefined_is_left_out_and_a_broken_model_is_not(tmp_path, monkeypatch, broken) -> None:
    """A trial whose validation records are of one class failed for it, after its training, and lost what it told."""
    data = data_of("noisy-sgd")
    held = replace(data, validation=replace(data.validation, targets=np.zeros_like(data.validation.targets)))
    if broken:
        monkeypatch.setattr(quality, "predicted", lambda *any_: np.full((len(data.validation), 2), np.nan))
    group = Launch(members=(member(CANDIDATES["noisy-sgd"].plan),), measures=("average_precision", "log_loss"))
    [result] = run_launch(group, held, Folder(str(tmp_path)), bytes(32))
    told = result["metrics"]
    assert {"loss", "accuracy"} <= told.keys()
    assert ("average_precision" in told) == broken
    assert math.isfinite(told["log_loss"]) != broken


@pytest.mark.parametrize("name", QUALITY)
def test_private_records_are_not_looked_at(name: str) -> None:
    data = data_of("noisy-sgd")
    private = PrivateValidation(parts="", assumption="")
    hidden = replace(data, facts=replace(data.facts, private_validation=private))
    with pytest.raises(UncountedReport, match=name):
        measure([name], SYSTEMS["noisy-sgd"], member(planned("noisy-sgd")), {}, hidden, RunSettings())
