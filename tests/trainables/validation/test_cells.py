"""Each layout: one cell for each record, what its counts say without noise, and with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score

from dpcore.mechanisms.noisy_histogram import NoisyHistogram
from tests.dpcore.audited_releases import noise
from trainables.system import Feature, PublicFacts, Task
from trainables.validation.evaluate import area_under_curve
from trainables.validation.histogram_bins import ErrorCells, Judgements, LossCells, ScoreCells, cells_for

N = 4000
WIDE = (1.0, 1e9)


def facts(task: Task, **changes: Any) -> PublicFacts:
    classes = {"classes": None if task is Task.REGRESSION else 3}
    features = {"x": Feature(shape=(2,))}
    return PublicFacts(dataset="made", task=task, n=9, n_validation=N, features=features, **(classes | changes))


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
    assert isinstance(cells, ScoreCells)
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
    assert found["auc"] == pytest.approx(area, abs=0.005)
    rests = [
        roc_auc_score(own.labels == one, np.where(own.predictions == one, own.confidences, -own.confidences))
        for one in range(classes)
    ]
    assert area == pytest.approx(np.mean(rests), rel=1e-12)


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


LAYOUTS = [ScoreCells(2), ScoreCells(4), LossCells(), ErrorCells(2.0, sides=1), ErrorCells(3.0, sides=2)]


@pytest.mark.parametrize("cells", LAYOUTS, ids=repr)
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
    [(ScoreCells(2), 2), (ScoreCells(4), 4), (LossCells(), 4), (ErrorCells(2.0, sides=2), 3)],
    ids=repr,
)
def test_stated_errors_are_those_of_the_noise(cells, classes):
    """400 releases: the ratio of error to stated error has a deviation of 1, within what has probability 1e-4 (5
    binomial-like deviations of sqrt(1/2000)) and 10% for the first order. Areas of several classes state a bound."""
    mechanism = NoisyHistogram(cells=cells.size, noise_multiplier=5.0)
    of, truth, source = cells.of(judged(classes)), exact(cells, judged(classes)), noise(f"errors {cells!r}")
    draws = [cells.estimates(mechanism.release(of, source), mechanism.deviation, (N / 2, 2 * N)) for _ in range(400)]
    for name in cells.metrics:
        ratios = np.array([(one[name].value - truth[name]) / one[name].standard_error for one in draws])
        bound = stats.chi2.ppf([1e-4, 1 - 1e-4], 399) / 399
        assert ratios.std() < np.sqrt(bound[1]) * 1.1, name
        if not (name == "auc" and classes > 2):
            assert ratios.std() > np.sqrt(bound[0]) * 0.9, name
            assert abs(ratios.mean()) < 0.3, name
