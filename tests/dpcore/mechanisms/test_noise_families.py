"""Samplers against their densities. Fixed seeds; each statistical check is wrong about once in 10,000 seeds."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpcore.events import Adjacency, Gaussian, PureDP
from dpcore.mechanisms.output_perturbation import GaussianNoise, NoiseLaw, RadialNoise

ALPHA = 1e-4


def radii(draw, dimension: int, count: int = 4000) -> np.ndarray:
    return np.array([np.linalg.norm(draw(dimension)) for _ in range(count)])


@pytest.mark.parametrize("dimension", [1, 3, 40])
def test_radius_is_gamma(dimension):
    normals, noise = np.random.default_rng(1).standard_normal, RadialNoise(2.5)
    found = radii(lambda m: noise.sample((m,), normals), dimension)
    assert stats.kstest(found, stats.gamma(dimension, scale=1 / 2.5).cdf).pvalue > ALPHA


def test_direction_is_uniform_and_moments_are_known():
    """Mean radius m/beta; variance (m+1)/beta^2 per coordinate; the sign pattern is uniform."""
    rng, m, beta, count = np.random.default_rng(3), 4, 0.7, 20_000
    draws = np.stack([RadialNoise(beta).sample((2, 2), rng.standard_normal).ravel() for _ in range(count)])
    assert np.linalg.norm(draws, axis=1).mean() == pytest.approx(m / beta, rel=4 * math.sqrt(1 / m / count))
    assert np.square(draws).mean() == pytest.approx((m + 1) / beta**2, rel=0.03)
    signs = np.bincount((draws > 0) @ (2 ** np.arange(m)), minlength=16)
    assert stats.chisquare(signs).pvalue > ALPHA


def test_gaussian_has_its_scale():
    draws = GaussianNoise(3.0).sample((20_000,), np.random.default_rng(4).standard_normal)
    assert stats.kstest(draws, stats.norm(scale=3.0).cdf).pvalue > ALPHA


def test_events_carry_ratio_and_adjacency():
    replaced = Adjacency.REPLACE_ONE
    assert NoiseLaw.GAUSSIAN.event(2.0, replaced) == Gaussian(noise_multiplier=2.0, adjacency=replaced)
    assert NoiseLaw.PURE.event(0.5, Adjacency.ADD_REMOVE) == PureDP(epsilon=2.0)


@settings(max_examples=50)
@given(st.integers(0, 2**32 - 1), st.integers(1, 20), st.floats(0.01, 100))
def test_pure_loss_never_exceeds_beta_times_the_shift(seed, dimension, beta):
    """log density(b) - log density(b + v) = beta (||b + v|| - ||b||) <= beta ||v||."""
    rng = np.random.default_rng(seed)
    noise = RadialNoise(beta).sample((dimension,), rng.standard_normal)
    shift = rng.standard_normal(dimension)
    loss = beta * (np.linalg.norm(noise + shift) - np.linalg.norm(noise))
    assert abs(loss) <= beta * float(np.linalg.norm(shift)) + 1e-9
