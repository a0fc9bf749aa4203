"""How sure a test score is: of records that say nothing of how others differ, nothing is said."""

from __future__ import annotations

import numpy as np
import pytest
from torch import nn

from tests.trainables.recording import facts_of
from trainables.system import Split, Task
from trainables.validation.evaluate import score

FACTS = facts_of((1,), task=Task.REGRESSION, classes=None, target_high=9.0)


def scored(targets: list[float]):
    model = nn.Linear(1, 1)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    return score(model, Split({"x": np.zeros((len(targets), 1), np.float32)}, np.array(targets, np.float32)), FACTS)


def test_the_error_of_a_mean_is_that_of_its_records():
    """Squared errors 1, 4, 9, 16 deviate by 6.557 (of one record less): 3.279 of the mean, .599 of its root."""
    found = scored([1, 2, 3, 4])
    assert found == pytest.approx({"loss": 7.5, "rmse": 7.5**0.5, "loss_se": 3.2787, "rmse_se": 0.59861}, abs=1e-4)


@pytest.mark.parametrize("targets", [[2], [2, 2, 2]])
def test_of_one_record_or_of_equal_ones_nobody_is_sure(targets):
    found = scored(targets)
    assert found == {"loss": 4, "rmse": 2}


def test_many_samples_differ_by_as_much_as_is_said():
    rng = np.random.default_rng(0)
    found = [scored(list(rng.exponential(1, 8).clip(0, 9))) for _ in range(400)]
    losses = [one["loss"] for one in found]
    squares = np.mean([one["loss_se"] ** 2 for one in found])
    assert np.std(losses) ** 2 == pytest.approx(squares, rel=0.2)
