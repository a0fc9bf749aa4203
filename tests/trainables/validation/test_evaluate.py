"""Metrics against hand-made outputs."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dpcore.gradients import Refused
from tests.trainables.recording import facts_of
from trainables.metrics import scores_of, share_error
from trainables.system import Split, Task
from trainables.training.losses import record_losses
from trainables.validation.evaluate import judge


class Fixed(nn.Module):
    """Returns its input."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


def judged(task: Task, outputs: np.ndarray, targets: np.ndarray) -> dict[str, float]:
    classes = None if task is Task.REGRESSION else outputs.shape[1]
    facts = facts_of(outputs.shape[1:], task=task, n_validation=len(targets), classes=classes)
    split = Split(inputs={"x": outputs.astype(np.float32)}, targets=targets)
    return dict(judge(Fixed(), split, facts, torch.device("cpu")))


def test_classes() -> None:
    metrics = judged(Task.CLASSIFICATION, np.log([[0.5, 0.25, 0.25], [0.2, 0.2, 0.6]]), np.array([0, 1]))
    # Class 0 against the rest is told apart, class 1 the wrong way round, and of class 2 there is no record.
    scores = {name: metrics[name] for name in scores_of(metrics)}
    assert scores == pytest.approx({"accuracy": 0.5, "loss": (math.log(2) + math.log(5)) / 2, "auc": 0.5})


def test_ratings_are_judged_by_the_expected_class() -> None:
    metrics = judged(Task.RATING, np.log([[0.5, 0.25, 0.25], [0.2, 0.2, 0.6]]), np.array([0, 2]))
    # Expected classes 0.75 and 1.4: errors 0.75 and 0.6.
    assert metrics["rmse"] == pytest.approx(math.sqrt((0.75**2 + 0.6**2) / 2))
    assert metrics["accuracy"] == 1.0


def test_regression_over_several_batches() -> None:
    targets = np.linspace(0, 1, 2500, dtype=np.float32)
    metrics = judged(Task.REGRESSION, (targets + 0.5)[:, None], targets)
    assert {name: metrics[name] for name in scores_of(metrics)} == pytest.approx({"loss": 0.25, "rmse": 0.5}, rel=1e-5)


def test_no_records_no_metrics() -> None:
    assert judged(Task.CLASSIFICATION, np.zeros((0, 3)), np.zeros(0, dtype=np.int64)) == {}


# A record's answer is its own, whichever others it is judged beside.


class Centred(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(0)


class Learning(nn.Module):
    """Writes down what it is asked about."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        self.seen = self.seen + x.mean(0)
        return x - self.seen


def some(size: int) -> Split:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(size, 3)).astype(np.float32)
    x[-1] *= 30
    return Split(inputs={"x": x}, targets=generator.integers(0, 3, size))


FACTS = facts_of((3,), n_validation=9, classes=3)
CPU = torch.device("cpu")


@pytest.mark.parametrize("model", [Centred(), Fixed()], ids=lambda one: type(one).__name__)
def test_a_record_is_judged_by_itself(model: nn.Module) -> None:
    """With the outlier at the end and without it; all together and one at a time."""
    model.register_parameter("unused", nn.Parameter(torch.zeros(())))
    split = some(9)
    rows = [Split({"x": split.inputs["x"][b : b + 1]}, split.targets[b : b + 1]) for b in range(9)]
    alone = [judge(model, one, FACTS, CPU) for one in rows]
    together = judge(model, split, FACTS, CPU)
    assert together["loss"] == pytest.approx(np.mean([one["loss"] for one in alone]), rel=1e-6)
    assert together["accuracy"] == pytest.approx(np.mean([one["accuracy"] for one in alone]))
    losses = record_losses(model, split, FACTS)
    assert losses == pytest.approx([one["loss"] for one in alone], rel=1e-6)
    shorter = Split({"x": split.inputs["x"][:-1]}, split.targets[:-1])
    assert np.array_equal(record_losses(model, shorter, FACTS), losses[:-1])


def test_a_model_that_writes_down_what_it_is_asked_is_refused() -> None:
    model = Learning().train()
    with pytest.raises(Refused, match="seen"):
        judge(model, some(9), FACTS, CPU)
    assert model.training


# The standard error of a share: by hand, where all are right, and by drawing records.


def test_by_hand_and_where_all_are_right() -> None:
    """Agresti & Coull 1998: two more right and two more wrong."""
    for share in (1.0, 0.0):
        assert share_error(share, 10) == pytest.approx(math.sqrt(12 / 14 * 2 / 14 / 14))
        assert share_error(share, 10, alike=4) == pytest.approx(2 * share_error(share, 10))


@pytest.mark.parametrize(("true", "n"), [(0.95, 20), (0.5, 100), (0.99, 50)])
def test_two_of_them_hold_the_truth_as_often_as_they_should(true: float, n: int) -> None:
    """Around the share moved to the middle; with the share's own error (the mutant) it is said of too few."""
    right = np.random.default_rng(0).binomial(n, true, 4000)
    errors = np.array([share_error(one / n, n) for one in right])
    held = np.abs((right + 2) / (n + 4) - true) <= 1.96 * errors
    naive = np.abs(right / n - true) <= 1.96 * np.sqrt(right / n * (1 - right / n) / n)
    assert held.mean() > 0.93
    assert naive.mean() < 0.7 or true == 0.5
