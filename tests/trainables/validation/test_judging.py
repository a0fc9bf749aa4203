"""Metrics against hand-made outputs."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from trainables.system import Feature, PublicFacts, Split, Task
from trainables.validation.judging import judge


class Fixed(nn.Module):
    """Returns its input."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


def judged(task: Task, outputs: np.ndarray, targets: np.ndarray) -> dict[str, float]:
    facts = PublicFacts(
        dataset="made",
        task=task,
        n=1,
        n_validation=len(targets),
        features={"x": Feature(shape=outputs.shape[1:])},
        classes=None if task is Task.REGRESSION else outputs.shape[1],
    )
    split = Split(inputs={"x": outputs.astype(np.float32)}, targets=targets)
    return dict(judge(Fixed(), split, facts, torch.device("cpu")))


def test_classes() -> None:
    metrics = judged(Task.CLASSIFICATION, np.log([[0.5, 0.25, 0.25], [0.2, 0.2, 0.6]]), np.array([0, 1]))
    # Class 0 against the rest is told apart, class 1 the wrong way round, and of class 2 there is no record.
    assert metrics == pytest.approx({"accuracy": 0.5, "loss": (math.log(2) + math.log(5)) / 2, "auc": 0.5})


def test_ratings_are_judged_by_the_expected_class() -> None:
    metrics = judged(Task.RATING, np.log([[0.5, 0.25, 0.25], [0.2, 0.2, 0.6]]), np.array([0, 2]))
    # Expected classes 0.75 and 1.4: errors 0.75 and 0.6.
    assert metrics["rmse"] == pytest.approx(math.sqrt((0.75**2 + 0.6**2) / 2))
    assert metrics["accuracy"] == 1.0


def test_regression_over_several_batches() -> None:
    targets = np.linspace(0, 1, 2500, dtype=np.float32)
    metrics = judged(Task.REGRESSION, (targets + 0.5)[:, None], targets)
    assert metrics == pytest.approx({"loss": 0.25, "rmse": 0.5}, rel=1e-5)


def test_no_records_no_metrics() -> None:
    assert judged(Task.CLASSIFICATION, np.zeros((0, 3)), np.zeros(0, dtype=np.int64)) == {}
