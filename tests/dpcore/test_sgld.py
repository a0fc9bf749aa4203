"""Clipped SGLD as a sampled Gaussian, against printed numbers and against the update itself."""

import math

import numpy as np
import pytest

from dpcore.accountants.pld import PLDAccountant
from dpcore.accountants.rdp import RDPAccountant
from dpcore.papers.wu2020 import (
    Phase,
    clipped_event,
    halving_schedule,
    noise_multiplier,
    published_noise_factor,
    published_noise_variance,
)

GERMAN = {"records": 400, "batch_size": 32}
IDC = {"records": 39952, "batch_size": 128}
GERMAN_SCHEDULE = halving_schedule(1e-3, 5, 30, 13)
IDC_SCHEDULE = halving_schedule(1e-4, 20, 100, 313)


def test_the_schedule_halves_by_blocks():
    assert tuple(Phase(1e-3 / 2**k, 65) for k in range(6)) == GERMAN_SCHEDULE
    assert halving_schedule(0.1, 4, 10, 3) == (Phase(0.1, 12), Phase(0.05, 12), Phase(0.025, 6))


@pytest.mark.parametrize(("facts", "step_size", "expected"), [(GERMAN, 1e-3, 5.0596), (IDC, 1e-4, 0.6408)])
def test_first_noise_multiplier(facts, step_size, expected):
    assert noise_multiplier(step_size, clip_norm=1.0, **facts) == pytest.approx(expected, abs=5e-5)


def test_the_noise_multiplier_is_that_of_the_update():
    """Two runs of one step that differ in one clipped gradient: distance of the means over the noise's deviation."""
    rng = np.random.default_rng(0)
    theta, step_size, clip = rng.normal(size=6), 3e-3, 0.7
    gradients = rng.normal(size=(5, 6))
    gradients *= clip / np.linalg.norm(gradients, axis=1, keepdims=True)

    def mean_after(batch):
        return theta - step_size / 2 * (theta + 400 / 32 * batch.sum(axis=0))

    moved = np.linalg.norm(mean_after(gradients) - mean_after(gradients[:-1]))
    assert math.sqrt(step_size) / moved == pytest.approx(noise_multiplier(step_size, 400, 32, clip), rel=1e-12)


@pytest.mark.parametrize(
    ("facts", "schedule", "clip", "delta", "rdp", "pld"),
    [
        (GERMAN, GERMAN_SCHEDULE, 1.0, 1e-3, 0.478, 0.4058),
        (GERMAN, GERMAN_SCHEDULE, 0.5, 1e-3, 0.209, 0.1739),
        (GERMAN, GERMAN_SCHEDULE, 5.0, 1e-3, 4.37, 3.719),
        (IDC, IDC_SCHEDULE, 1.0, 1e-5, 5.65, 4.881),
        (IDC, IDC_SCHEDULE, 0.1, 1e-5, 0.198, 0.1790),
    ],
)
def test_epsilon_of_the_published_settings(facts, schedule, clip, delta, rdp, pld):
    event = clipped_event(schedule, clip_norm=clip, **facts)
    renyi = RDPAccountant().compose(event).epsilon(delta)
    exact = PLDAccountant(tolerance=1e-2).compose(event)
    assert renyi == pytest.approx(rdp, rel=0.01)
    assert exact.epsilon_lower(delta) <= exact.epsilon(delta) < renyi
    assert exact.epsilon(delta) == pytest.approx(pld, rel=0.012)


def test_the_published_noise_is_far_from_the_sampler():
    assert published_noise_factor(400, 30, 1.0, 32, 1.0, 1e-3) == pytest.approx(5016950.26, abs=0.01)
    assert published_noise_variance(1e-3, 400, 30, 1.0, 32, 1.0, 1e-3) == pytest.approx(5.01695026)
    assert published_noise_variance(1e-9, 400, 30, 1.0, 32, 1.0, 1e-3) == 1e-9
    # At the same epsilon the published step (no half) adds far more noise than the exact account asks for.
    deviation = math.sqrt(5.01695026) / (1e-3 * 400 / 32)
    assert deviation > 30 * noise_multiplier(1e-3, 400, 32, 1.0)
