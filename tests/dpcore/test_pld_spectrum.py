"""The lowest frequencies of long compositions, and the closed forms of a single step."""

import math
import random

import mpmath
import numpy as np
import pytest
from scipy.fft import rfft

from dpcore.accountants.pld import convolution, single_step
from dpcore.accountants.pld.pairs import SampledGaussianPair

NEGLIGIBLE = -85.0


def bell(size, centre, width, rare=0.0):
    place = np.arange(size)
    masses = np.exp(-0.5 * ((place - centre) / width) ** 2)
    masses /= masses.sum()
    tail = np.exp(-place / (0.2 * size))
    return (1 - rare) * masses + rare * tail / tail.sum()


@pytest.mark.parametrize(
    ("laws", "counts", "size"),
    [
        ([bell(300, 100, 15)], [200_000], 62_500),
        ([bell(9_000, 700, 4, rare=1e-3)], [60_000], 746_496),
        ([bell(300, 100, 15), bell(5_000, 100, 300)], [100_000, 5_000], 186_624),
        ([bell(300_000, 1_000, 300)], [400], 186_624),
    ],
)
def test_lowest_frequencies_are_those_of_the_whole_transform(laws, counts, size):
    found, dropped = convolution.transforms(laws, counts, size, NEGLIGIBLE)
    log_size = np.zeros(size // 2 + 1)
    for transform, law, count in zip(found, laws, counts, strict=True):
        whole = rfft(np.pad(law, (0, -len(law) % size)).reshape(-1, size).sum(axis=0))
        kept = len(transform.values)
        assert kept < size // 8
        assert np.abs(transform.values - whole[:kept]).max() <= transform.error
        log_size += count * np.log(np.abs(whole) + 1e-300)
    assert log_size[kept:].max() <= NEGLIGIBLE
    assert dropped == math.exp(NEGLIGIBLE)


def test_spectra_that_do_not_vanish_are_kept_whole():
    atoms = np.zeros(20_000)
    atoms[[0, -1]] = 0.4, 0.6
    for law, count in ((atoms, 1_000_000), (bell(20_000, 50, 1, rare=0.1), 3)):
        [transform], dropped = convolution.transforms([law], [count], 62_500, NEGLIGIBLE)
        assert len(transform.values) == 31_251
        assert dropped == 0.0


def test_dropping_too_many_frequencies_would_show(monkeypatch):
    """The mutant: half as many frequencies as are needed."""
    law, count, size = bell(300, 100, 15), 200_000, 62_500
    needed = convolution._needed
    monkeypatch.setattr(convolution, "_needed", lambda *arguments: needed(*arguments) // 3)
    [transform], _ = convolution.transforms([law], [count], size, NEGLIGIBLE)
    whole = rfft(law, size)
    assert (count * np.log(np.abs(whole[len(transform.values) :]))).max() > NEGLIGIBLE


def exact_delta(rate, noise, epsilon):
    with mpmath.workdps(60):
        q, s, k = mpmath.mpf(rate), mpmath.mpf(noise), mpmath.exp(mpmath.mpf(epsilon))
        remove, add = 1 - k, mpmath.mpf(0)
        y = (k - 1 + q) / q
        if y > 0:
            x = s * s * mpmath.log(y) + mpmath.mpf(0.5)
            remove = (1 - q - k) * mpmath.ncdf(-x / s) + q * mpmath.ncdf((1 - x) / s)
        y = (1 / k - 1 + q) / q
        if y > 0:
            x = s * s * mpmath.log(y) + mpmath.mpf(0.5)
            add = (1 - k * (1 - q)) * mpmath.ncdf(x / s) - k * q * mpmath.ncdf((x - 1) / s)
        return max(remove, add)


def test_single_steps_enclose_sixty_digits_closely():
    rng = random.Random(1)
    for _ in range(60):
        rate, noise, delta = (10 ** rng.uniform(*span) for span in ((-6, -0.01), (-1, 3), (-15, -0.3)))
        pair = SampledGaussianPair(rate, noise)
        lower, upper = single_step.epsilon_of(pair, delta)
        assert upper - lower <= 1e-6 * upper
        assert exact_delta(rate, noise, upper) <= delta
        assert lower == 0 or exact_delta(rate, noise, lower) >= delta
        epsilon = rng.uniform(-3, 3) / noise
        found = single_step.delta_of(pair, epsilon)
        assert found[0] <= exact_delta(rate, noise, epsilon) <= found[1]
        assert found[1] - found[0] <= 1e-9
