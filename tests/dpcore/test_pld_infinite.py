"""Infinite loss in some step is infinite loss of the whole: no epsilon, however large, is above it."""

import math

import numpy as np
import pytest

from dpcore.accountants.pld import convolution
from dpcore.accountants.pld.laws import Law

STEPS = 5
INFINITE = 0.01


def composition():
    """Two finite losses and a loss at infinity, five times, on a ring that holds every finite sum."""
    finite = np.array([0.59, 0.4])
    law = Law(origin=-0.5, spacing=1.0, masses=finite, infinite=INFINITE, slack=0.0)
    return convolution.TiltedComposition([law], [STEPS], 1.0, convolution.Window(64, 32, 1.0, 1.0))


def exact_delta(epsilon):
    """By enumeration of the sums of five losses."""
    finite = sum(
        math.comb(STEPS, k) * 0.59 ** (STEPS - k) * 0.4**k * max(0.0, -math.expm1(epsilon - (k - 0.5 * STEPS)))
        for k in range(STEPS + 1)
    )
    return finite + 1 - (1 - INFINITE) ** STEPS


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 2.4])
def test_the_upper_bound_is_the_enumerated_curve(epsilon):
    upper = math.exp(composition().log_delta_upper(epsilon))
    assert exact_delta(epsilon) <= upper <= exact_delta(epsilon) * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", [2.6, 10.0, 30.0])
def test_beyond_every_finite_loss_only_the_infinite_one_is_left(epsilon):
    """A composition that drops it (a mutant that once survived) would answer delta = 0 here."""
    left = 1 - (1 - INFINITE) ** STEPS
    upper = math.exp(composition().log_delta_upper(epsilon))
    assert left * (1 - 1e-12) <= upper <= left * (1 + 1e-6)
