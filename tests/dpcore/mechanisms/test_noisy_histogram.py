"""The noised histogram: its sensitivity by exhaustion, its noise, and estimates from it."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import roc_auc_score

from dpcore.accounting import headline
from dpcore.checks import InvalidValue
from dpcore.events import Adjacency, Composed, Gaussian, Repeated
from dpcore.mechanisms.noisy_histogram import Estimate, NoisyHistogram, area_under_curve, mean, noise_for, several
from tests.dpcore.oracles import noise

ADD_REMOVE, REPLACE_ONE = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
NOBODY = np.zeros(0, dtype=np.int64)


def units(cells: int, k: int):
    """Every count vector that a unit of at most k records can add."""
    return [np.array(one) for one in itertools.product(range(k + 1), repeat=cells) if sum(one) <= k]


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("cells", [2, 3])
def test_the_sensitivity_is_the_largest_over_all_units(cells, k):
    own = units(cells, k)
    added = max(float(np.linalg.norm(one)) for one in own)
    replaced = max(float(np.linalg.norm(one - other)) for one in own for other in own)
    build = {"cells": cells, "noise_multiplier": 1.0, "unit_records": k}
    assert NoisyHistogram(**build, adjacency=ADD_REMOVE).sensitivity == pytest.approx(added, rel=1e-12) == k
    assert NoisyHistogram(**build, adjacency=REPLACE_ONE).sensitivity == pytest.approx(replaced, rel=1e-12)
    assert replaced == pytest.approx(math.sqrt(2) * k)


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_the_event_is_a_gaussian_of_that_sensitivity(adjacency):
    histogram = NoisyHistogram(cells=4, noise_multiplier=2.0, adjacency=adjacency, unit_records=3)
    assert histogram.event() == Gaussian(noise_multiplier=2.0, adjacency=adjacency)
    assert histogram.deviation == 2.0 * histogram.sensitivity
    # delta of mu = 1/2 (Balle & Wang 2018, theorem 8), by 30 digits elsewhere: epsilon 1.9930 at delta 1e-5
    assert headline(histogram.event(), 1e-5, adjacency).epsilon == pytest.approx(1.9930, abs=1e-3)


@pytest.mark.parametrize(("epsilon", "releases", "share"), [(1.0, 1, 1.0), (3.0, 5, 1.0), (0.1, 3, 0.25)])
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_solved_noise_meets_its_budget_and_hardly_more(epsilon, releases, share, adjacency):
    z = noise_for(epsilon, 1e-5, releases, share)
    histogram = NoisyHistogram(cells=8, noise_multiplier=z, adjacency=adjacency)
    spent = [several(histogram, releases)]
    if share < 1:
        spent.append(Gaussian(noise_multiplier=noise_for(epsilon, 1e-5, 1, 1 - share), adjacency=adjacency))
    claim = headline(Composed(events=tuple(spent)), 1e-5, adjacency)
    assert epsilon * (1 - 1e-3) < claim.epsilon <= epsilon


def test_the_noise_is_normal_on_every_cell_and_cells_are_independent():
    """Kolmogorov-Smirnov at 1e-4, twice; the correlation of two cells within what has probability 1e-4."""
    histogram = NoisyHistogram(cells=2, noise_multiplier=1.5, adjacency=REPLACE_ONE, unit_records=2)
    source, cells = noise("histogram"), np.array([0, 0, 0, 1])
    draws = np.array([histogram.release(cells, source) for _ in range(4000)])
    for cell, count in enumerate((3, 1)):
        assert stats.kstest(draws[:, cell], "norm", args=(count, 1.5 * 2 * math.sqrt(2))).pvalue > 1e-4
    assert stats.pearsonr(draws[:, 0], draws[:, 1]).pvalue > 1e-4


def test_a_cell_outside_is_refused_without_naming_it():
    with pytest.raises(InvalidValue, match=r"private") as raised:
        NoisyHistogram(cells=2, noise_multiplier=1.0).release(np.array([7]), noise("outside"))
    assert "7" not in str(raised.value)


def test_nobody_there_is_noise_alone_and_a_number():
    assert np.isfinite(NoisyHistogram(cells=3, noise_multiplier=1.0).release(NOBODY, noise("nobody"))).all()
    assert several(NoisyHistogram(cells=3, noise_multiplier=1.0), 4) == Repeated(
        event=Gaussian(noise_multiplier=1.0), count=4
    )


# Estimates from noised counts: exact without noise, errors as stated with it, and nothing but the counts asked.

COUNTS = st.lists(st.integers(0, 60), min_size=2, max_size=12)


@settings(max_examples=100)
@given(COUNTS.filter(any), st.data())
def test_without_noise_a_mean_is_the_mean_over_the_records(counts, data):
    weights = np.array(data.draw(st.lists(st.floats(0, 9), min_size=len(counts), max_size=len(counts))))
    values = np.repeat(weights, counts)
    found = mean(np.array(counts, float), weights, (1, 1e6), deviation=0.0)
    assert found.value == pytest.approx(values.mean(), rel=1e-12, abs=1e-12)
    assert found.standard_error == pytest.approx(values.std() / len(values) ** 0.5, abs=1e-9)


@settings(max_examples=100)
@given(COUNTS.filter(any), st.data())
def test_without_noise_the_area_is_that_of_the_binned_scores(positives, data):
    negatives = data.draw(st.lists(st.integers(0, 60), min_size=len(positives), max_size=len(positives)).filter(any))
    bins = np.arange(len(positives))
    scores = np.concatenate([np.repeat(bins, positives), np.repeat(bins, negatives)])
    labels = np.repeat([1, 0], [sum(positives), sum(negatives)])
    found = area_under_curve(np.array(positives, float), np.array(negatives, float), 0.0, 0.0)
    assert found.value == pytest.approx(roc_auc_score(labels, scores), rel=1e-12)


def normal_share(errors: np.ndarray, stated: np.ndarray) -> tuple[float, float]:
    """How many of the errors lie within 1.96 stated ones, and the spread of their ratios."""
    return float((np.abs(errors) <= 1.96 * stated).mean()), float((errors / stated).std())


@pytest.mark.parametrize("which", ["accuracy", "loss", "area"])
def test_the_stated_error_is_that_of_the_noise_and_of_the_sample(which):
    """2,000 draws of records and noise: coverage of 95% within what a binomial leaves with probability 1e-4 on either
    side, plus half a percent for the first order; an error that forgot the ratio, or the cells' number, is far out."""
    rng, deviation, n = np.random.default_rng(3), 3.0, 2000
    shares = rng.dirichlet(np.ones(16))
    weights = np.r_[np.ones(8), np.zeros(8)] if which == "accuracy" else np.linspace(0, 5, 16)

    def estimate(counts: np.ndarray, noise: float) -> Estimate:
        if which == "area":
            return area_under_curve(counts[:8], counts[8:], noise, noise)
        return mean(counts, weights, (n / 2, 2 * n), noise)

    exact = estimate(n * shares, 0.0).value
    samples = rng.multinomial(n, shares, 2000)
    found = [estimate(one + deviation * rng.standard_normal(16), deviation) for one in samples]
    share, spread = normal_share(
        np.array([one.value - exact for one in found]), np.array([one.standard_error for one in found])
    )
    low, high = stats.binom.ppf([1e-4, 1 - 1e-4], 2000, 0.95) / 2000
    assert low - 0.005 <= share <= high + 0.005
    assert 0.93 < spread < 1.07


def test_where_noise_is_all_there_is():
    lost = mean(np.array([-30.0, 5.0]), np.array([1.0, 0.0]), (50, 200), 20.0).clipped(0, 1)
    assert lost.value == 0
    assert lost.standard_error > 20.0 / 100
    # A total of noise is held between public bounds.
    assert mean(np.array([900.0, 100.0]), np.array([1.0, 0.0]), (50, 200), 20.0).value == 900 / 200
    for counts in ([-4.0, 2.0], [0.0, 0.0]):
        assert area_under_curve(np.array(counts), np.array([50.0, 50.0]), 1.0, 1.0) == Estimate(0.5, 0.5)
    assert Estimate(4.0, 0.4).root() == Estimate(2.0, pytest.approx(0.1))
    nothing = Estimate(-0.3, 0.01).root()
    assert nothing.value == 0
    assert 0.01 < nothing.standard_error < 0.1
