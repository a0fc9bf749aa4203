"""Metrics of a released model that are asked for: values by hand, degenerate records, and who may be asked."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.trainables.registry_cases import CANDIDATES, data_of
from tests.trainables.test_measures import member, planned
from trainables.measures import quality
from trainables.measures.objectives import measure, missing
from trainables.measures.quality import COMPUTED, QUALITY, value_of
from trainables.metrics import Task
from trainables.registry import SYSTEMS
from trainables.reports import PrivateValidation
from trainables.system import Launch, RunSettings
from trainables.validation.evaluate import UncountedReport
from trainables.worker.files import Folder
from trainables.worker.trial import run_launch

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


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("broken", [math.nan, math.inf])
@pytest.mark.parametrize("name", QUALITY)
def test_scores_that_are_no_numbers_have_none(name: str, broken: float) -> None:
    scores = SHARES.copy() if name in CLASSES else np.zeros(4)
    scores[0] = broken
    assert math.isnan(value_of(name, LABELS, scores))


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
