"""Poisson sampling: each record by its own coin, and an event that only this sampler makes."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from dpcore.accountants.pld import PLDAccountant
from dpcore.events import Gaussian, PoissonSampled
from dpcore.noise import Keystream
from dpcore.sampling import PoissonSampling


def test_shuffled_batches_cannot_be_counted_as_poisson_ones():
    """Noise 0.4, one epoch of 10,000 steps, epsilon 4: Poisson delta 1.2e-5, shuffled at least 0.226.

    Chua et al. (2024): in one epoch of shuffled batches some step holds the record twice as far from the others' mean
    as where it is left out, so the event that the largest answer passes c is far likelier with it, at any c.
    """
    noise, steps, epsilon = 0.4, 10_000, 4.0
    poisson = PLDAccountant().compose(PoissonSampled(rate=1 / steps, event=Gaussian(noise_multiplier=noise)), steps)
    assert poisson.delta_bounds(epsilon).upper == pytest.approx(1.17e-5, abs=5e-8)

    def passes(c, mean):
        return 1 - stats.norm.cdf((c - mean) / noise) * stats.norm.cdf(c / noise) ** (steps - 1)

    thresholds = np.linspace(1.5, 3.0, 3001)
    shuffled = passes(thresholds, 2.0) - math.exp(epsilon) * passes(thresholds, 1.0)
    assert shuffled.max() == pytest.approx(0.226, abs=5e-4)


# Each statistical test below fails by chance with probability at most ALARM; seeds are fixed besides.
ALARM = 1e-6


SOURCES = {"generator": lambda: np.random.default_rng(12345), "keystream": lambda: Keystream.derived(bytes(range(32)))}


def inclusions(rate: float, n: int, batches: int, source="generator") -> np.ndarray:
    """{0, 1} of shape [batches, n]."""
    rng = SOURCES[source]()
    draw = PoissonSampling(rate=rate).indices
    out = np.zeros((batches, n), dtype=np.int8)
    for row in out:
        row[draw(n, rng)] = 1
    return out


def probability_is_right(drawn: np.ndarray, rate: float) -> bool:
    """Every record separately, Bonferroni over records."""
    batches, n = drawn.shape
    p = [stats.binomtest(int(k), batches, rate).pvalue for k in drawn.sum(0)]
    return min(p) > ALARM / n


def sizes_are_binomial(drawn: np.ndarray, rate: float) -> bool:
    """Chi-square of batch sizes against Binomial(n, rate): what fixed-size and shuffled batches fail."""
    batches, n = drawn.shape
    cells = np.unique(stats.binom.ppf(np.linspace(0.05, 0.95, 10), n, rate))
    edges = np.concatenate([[-1], cells, [n]])
    expected = batches * np.diff(stats.binom.cdf(edges, n, rate))
    observed = np.histogram(drawn.sum(1), bins=edges + 0.5)[0]
    return stats.chisquare(observed, expected).pvalue > ALARM


def pairs_are_independent(drawn: np.ndarray, rate: float) -> bool:
    """Joint inclusion of neighbouring, far and consecutive-batch pairs against rate^2."""
    joint = [drawn[:, :-1] & drawn[:, 1:], drawn[:, : drawn.shape[1] // 2] & drawn[:, drawn.shape[1] // 2 :]]
    joint.append(drawn[:-1] & drawn[1:])
    for one in joint:
        # A pair shares a record with two others at most: the variance is below 4 times that of disjoint pairs.
        z = (one.sum() - one.size * rate**2) / np.sqrt(4 * one.size * rate**2)
        if abs(z) > stats.norm.isf(ALARM / 6):
            return False
    return True


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(("rate", "n"), [(0.02, 100), (0.15, 40), (0.2, 40), (0.3, 40), (0.9, 30)])
def test_each_record_by_its_own_coin(rate, n, source):
    drawn = inclusions(rate, n, 20_000, source=source)
    assert probability_is_right(drawn, rate)
    assert sizes_are_binomial(drawn, rate)
    assert pairs_are_independent(drawn, rate)


def test_indices_are_increasing_int64_and_may_be_none():
    rng = np.random.default_rng(0)
    for n, rate in [(1000, 0.05), (1000, 0.5), (0, 0.5), (0, 0.01), (5, 1e-9)]:
        found = PoissonSampling(rate=rate).indices(n, rng)
        assert found.dtype == np.int64
        assert np.all(np.diff(found) > 0)
        assert found.size == 0 or (found[0] >= 0 and found[-1] < n)
    assert PoissonSampling(rate=1e-9).indices(5, rng).size == 0


def test_the_sampler_makes_its_event():
    gaussian = Gaussian(noise_multiplier=1.1)
    assert PoissonSampling(rate=0.01).event(gaussian) == PoissonSampled(rate=0.01, event=gaussian)


@pytest.mark.parametrize("rate", [0.01, 0.5])
@pytest.mark.parametrize("cuts", [(0, 300), (0, 100, 300), (0, 1, 1, 299, 300)])
def test_shards_of_one_stream_hold_the_whole_batch_between_them(rate, cuts):
    sampling = PoissonSampling(rate=rate)
    rngs = [np.random.default_rng(5) for _ in cuts]
    for _ in range(50):
        whole = sampling.indices(300, rngs[0])
        parts = [
            sampling.indices(300, rng, range(start, stop)) + start
            for rng, (start, stop) in zip(rngs[1:], pairwise(cuts), strict=True)
        ]
        assert np.array_equal(np.concatenate(parts), whole)
