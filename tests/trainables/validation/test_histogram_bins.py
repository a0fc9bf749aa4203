"""Each layout: one cell for each record, what its counts say without noise, and with it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score

from dpcore.mechanisms.noisy_histogram import NoisyHistogram
from tests.dpcore.oracles import noise
from tests.trainables.recording import facts_of
from trainables.data import SOURCES
from trainables.measures.quality import of_groups
from trainables.metrics import share_error
from trainables.system import DatasetSpec, Groups, Task
from trainables.validation.evaluate import area_under_curve
from trainables.validation.histogram_bins import GroupedCells, Judgements, cells_for, error_cells, score_cells

N = 4000
WIDE = (1.0, 1e9)


def facts(task: Task, **changes: Any) -> DatasetSpec:
    return facts_of(task=task, n_validation=N, **{"classes": None if task is Task.REGRESSION else 3} | changes)


def judged(classes: int, seed: int = 0, sharpness: float = 2.0) -> Judgements:
    """A model that is right more often than not, and calibrated: labels are drawn from its own probabilities."""
    rng = np.random.default_rng(seed)
    logits = sharpness * rng.standard_normal((N, classes))
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = (shares.cumsum(axis=1) < rng.random((N, 1))).sum(axis=1).clip(max=classes - 1)
    expected = shares @ np.arange(classes)
    return Judgements(
        labels.astype(np.int64),
        shares.argmax(axis=1),
        shares.max(axis=1),
        -np.log(shares[np.arange(N), labels]),
        (expected - labels) ** 2,
    )


def exact(cells, judgement: Judgements) -> dict[str, float]:
    counts = np.bincount(cells.of(judgement), minlength=cells.size).astype(float)
    assert len(counts) == cells.size
    assert counts.sum() == N
    return {name: one.value for name, one in cells.estimates(counts, 0.0, WIDE).items()}


def test_two_classes_give_accuracy_area_and_loss():
    cells, own = cells_for(facts(Task.CLASSIFICATION, classes=2), "loss"), judged(2)
    assert cells.size == 2 * 2 * 8
    found = exact(cells, own)
    assert found["accuracy"] == own.right.mean()
    scores = np.where(own.predictions == 1, own.confidences, 1 - own.confidences)
    assert found["auc"] == pytest.approx(roc_auc_score(own.labels, scores), abs=0.003)
    assert found["loss"] == pytest.approx(own.losses.mean(), rel=0.05)


@pytest.mark.parametrize("classes", [3, 10])
def test_more_classes_give_loss_or_area(classes):
    own = judged(classes)
    found = exact(cells_for(facts(Task.CLASSIFICATION, classes=classes), "loss"), own)
    assert found["accuracy"] == own.right.mean()
    assert found["loss"] == pytest.approx(own.losses.mean(), rel=0.05)
    found = exact(cells_for(facts(Task.CLASSIFICATION, classes=classes), "score"), own)
    assert found["accuracy"] == own.right.mean()
    area = area_under_curve(own.labels, own.predictions, own.confidences, classes)
    assert area is not None
    assert found["auc"] == pytest.approx(area.value, abs=0.005)
    rests = [
        roc_auc_score(own.labels == one, np.where(own.predictions == one, own.confidences, -own.confidences))
        for one in range(classes)
    ]
    assert area.value == pytest.approx(np.mean(rests), rel=1e-12)


def test_ratings_and_regressions_give_a_root_mean_square():
    own = judged(3)
    found = exact(cells_for(facts(Task.RATING), "loss"), own)
    assert found["accuracy"] == own.right.mean()
    assert found["rmse"] == pytest.approx(np.sqrt(own.squared_errors.mean()), rel=0.02)
    far = facts(Task.REGRESSION, target_low=-10.0, target_high=30.0)
    errors = np.random.default_rng(1).normal(0, 3, N)
    codes = np.zeros(N, dtype=np.int64)
    own = Judgements(codes, codes, np.zeros(N), errors**2, errors**2)
    found = exact(cells_for(far, "loss"), own)
    assert found["rmse"] == pytest.approx(3.0, rel=0.04)
    assert found["loss"] == pytest.approx(found["rmse"] ** 2)


LOSSES, TOKENS = (cells_for(facts(task), "loss") for task in (Task.CLASSIFICATION, Task.TOKENS))
RATINGS = error_cells(2.0, "rmse", "accuracy")
LAYOUTS = [score_cells(2), score_cells(4), LOSSES, error_cells(2.0, "rmse", "loss"), RATINGS, TOKENS]


@pytest.mark.parametrize("cells", LAYOUTS, ids=["two", "four", "loss", "regression", "rating", "tokens"])
def test_outputs_that_are_no_numbers_have_a_cell_too_and_it_is_wrong(cells):
    nothing = np.full(3, np.nan)
    wild = Judgements(np.array([0, 1, 1]), np.array([0, 1, 0]), nothing, nothing, nothing)
    found = cells.of(wild)
    assert ((found >= 0) & (found < cells.size)).all()
    counts = np.bincount(found, minlength=cells.size).astype(float)
    estimates = cells.estimates(counts, 1.0, (1.0, 10.0))
    assert set(estimates) == set(cells.metrics)
    assert all(np.isfinite([one.value, one.standard_error]).all() for one in estimates.values())
    if "accuracy" in estimates:
        assert estimates["accuracy"].value == 0


@pytest.mark.parametrize(
    ("cells", "classes"),
    [(score_cells(2), 2), (score_cells(4), 4), (LOSSES, 4), (RATINGS, 3), (TOKENS, 4)],
    ids=["two", "four", "loss", "rating", "tokens"],
)
def test_stated_errors_are_those_of_the_noise_and_of_the_sample(cells, classes):
    """400 releases, each of as many records drawn from those: the ratio of error to stated error has a deviation of 1,
    within what has probability 1e-4 and 10% for the first order. Areas of several classes state a bound."""
    mechanism = NoisyHistogram(cells=cells.size, noise_multiplier=5.0)
    of, truth = cells.of(judged(classes)), exact(cells, judged(classes))
    source = noise(f"errors {cells.metrics} {cells.size}")
    rng = np.random.default_rng(7)
    samples = [rng.choice(of, N) for _ in range(400)]
    draws = [cells.estimates(mechanism.release(one, source), mechanism.deviation, (N / 2, 2 * N)) for one in samples]
    for name in cells.metrics:
        ratios = np.array([(one[name].value - truth[name]) / one[name].standard_error for one in draws])
        bound = stats.chi2.ppf([1e-4, 1 - 1e-4], 399) / 399
        assert ratios.std() < np.sqrt(bound[1]) * 1.1, name
        if not (name == "auc" and classes > 2):
            assert ratios.std() > np.sqrt(bound[0]) * 0.9, name
            assert abs(ratios.mean()) < 0.3, name


# Accuracy of the worst group: from public records, and from one noised histogram that counts groups apart.

GROUPS = Groups(column="group", categories=("a", "b", "c"))


def grouped(classes: int) -> tuple[Any, Any]:
    own = judged(classes)
    codes = np.random.default_rng(3).choice(3, size=N, p=[0.6, 0.39, 0.01])
    return cells_for(facts(Task.CLASSIFICATION, classes=classes, groups=GROUPS), "loss"), replace(own, groups=codes)


@pytest.mark.parametrize("classes", [2, 3])
def test_without_noise_it_is_the_least_accuracy_and_all_else_is_as_it_was(classes: int) -> None:
    cells, own = grouped(classes)
    assert isinstance(cells, GroupedCells)
    counts = np.bincount(cells.of(own), minlength=cells.size).astype(float)
    assert counts.sum() == N
    found = {name: one.value for name, one in cells.estimates(counts, 0.0, WIDE).items()}
    by_group = [own.right[own.groups == one].mean() for one in range(3)]
    assert found["worst_group_accuracy"] == pytest.approx(min(by_group))
    assert found["smallest_group"] == min(np.bincount(own.groups))
    plain = cells.each.estimates(np.bincount(cells.each.of(own), minlength=cells.each.size).astype(float), 0.0, WIDE)
    assert {name: found[name] for name in plain} == {name: one.value for name, one in plain.items()}


def test_a_record_is_in_one_cell_of_its_own_group() -> None:
    """So the sensitivity is that of a histogram: a neighbour moves one count by one."""
    cells, own = grouped(2)
    assert (cells.of(own) // cells.each.size == own.groups).all()
    assert (cells.of(own) % cells.each.size == cells.each.of(own)).all()


def test_noise_is_said_and_a_group_below_it_is_left_out() -> None:
    cells, own = grouped(2)
    histogram = NoisyHistogram(cells=cells.size, noise_multiplier=10.0)
    found = [cells.estimates(histogram.release(cells.of(own), noise(f"{seed}")), 10.0, WIDE) for seed in range(200)]
    worst = np.array([one["worst_group_accuracy"].value for one in found])
    # About 40 records under a noise of 57: mostly left out, and then the two large groups decide.
    smallest = [one["smallest_group"] for one in found]
    assert smallest[0].standard_error == pytest.approx(10.0 * np.sqrt(cells.each.size))
    assert np.std([one.value for one in smallest]) == pytest.approx(smallest[0].standard_error, rel=0.2)
    left_out = np.array([one.value < 2 * one.standard_error for one in smallest])
    assert 0.8 < left_out.mean() < 1
    large = min(own.right[own.groups == one].mean() for one in range(2))
    assert abs(np.median(worst[left_out]) - large) < 0.02
    said = np.median([one["worst_group_accuracy"].standard_error for one in np.array(found, dtype=object)[left_out]])
    # The records stay: what is said of drawing others is not in the spread.
    assert np.std(worst[left_out]) < 1.35 * said
    # A number that is none would have made a trial fail, and kept a sealed search from releasing anything.
    assert "worst_group_accuracy" not in cells.estimates(np.zeros(cells.size), 10.0, WIDE)


def test_public_records_are_counted_as_they_are() -> None:
    data = SOURCES["digits"].load({"limit": 50})
    few = replace(data.validation, **{"targets": data.validation.targets[:4]}, groups=np.array([0, 0, 1, 1]))
    shares = np.eye(10)[few.targets]
    shares[0] = np.roll(shares[0], 1)
    held = replace(data, facts=replace(data.facts, groups=GROUPS), validation=few)
    found = of_groups(held, shares)
    assert (found["worst_group_accuracy"], found["smallest_group"]) == (0.5, 0.0)
    assert found["worst_group_accuracy_se"] == pytest.approx(share_error(0.5, 2))
