"""The standard error of a share: by hand, where all are right, and by drawing records."""

from __future__ import annotations

import math

import numpy as np
import pytest

from trainables.validation.declaration import share_error


def test_by_hand_and_where_all_are_right() -> None:
    """Agresti & Coull 1998: two more right and two more wrong."""
    for share in (1.0, 0.0):
        assert share_error({"accuracy": share}, 10)["accuracy"] == pytest.approx(math.sqrt(12 / 14 * 2 / 14 / 14))
    noised = share_error({"accuracy": 1.02, "accuracy_noise_sd": 0.3}, 10)["accuracy"]
    assert noised == pytest.approx(math.hypot(0.3, math.sqrt(12 / 14 * 2 / 14 / 14)))
    assert share_error({"accuracy": 0.5}, 0) == {}
    assert share_error({"loss": 0.5}, 10) == {}


@pytest.mark.parametrize(("true", "n"), [(0.95, 20), (0.5, 100), (0.99, 50)])
def test_two_of_them_hold_the_truth_as_often_as_they_should(true: float, n: int) -> None:
    """Around the share moved to the middle; with the share's own error (the mutant) it is said of too few."""
    right = np.random.default_rng(0).binomial(n, true, 4000)
    errors = np.array([share_error({"accuracy": one / n}, n)["accuracy"] for one in right])
    held = np.abs((right + 2) / (n + 4) - true) <= 1.96 * errors
    naive = np.abs(right / n - true) <= 1.96 * np.sqrt(right / n * (1 - right / n) / n)
    assert held.mean() > 0.93
    assert naive.mean() < 0.7 or true == 0.5
