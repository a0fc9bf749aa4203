"""Estimates from noised counts: exact without noise, errors as stated with it, and nothing but the counts asked."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import roc_auc_score

from dpcore.mechanisms.noisy_histogram import Estimate, area_under_curve, mean

COUNTS = st.lists(st.integers(0, 60), min_size=2, max_size=12)


@settings(max_examples=100)
@given(COUNTS.filter(any), st.data())
def test_without_noise_a_mean_is_the_mean_over_the_records(counts, data):
    weights = np.array(data.draw(st.lists(st.floats(0, 9), min_size=len(counts), max_size=len(counts))))
    values = np.repeat(weights, counts)
    found = mean(np.array(counts, float), weights, (1, 1e6), deviation=0.0)
    assert found.value == pytest.approx(values.mean(), rel=1e-12, abs=1e-12)
    assert found.standard_error == 0


@settings(max_examples=100)
@given(COUNTS.filter(any), st.data())
def test_without_noise_the_area_is_that_of_the_binned_scores(positives, data):
    negatives = data.draw(st.lists(st.integers(0, 60), min_size=len(positives), max_size=len(positives)).filter(any))
    bins = np.arange(len(positives))
    scores = np.concatenate([np.repeat(bins, positives), np.repeat(bins, negatives)])
    labels = np.repeat([1, 0], [sum(positives), sum(negatives)])
    found = area_under_curve(np.array(positives, float), np.array(negatives, float), 0.0, 0.0)
    assert found.value == pytest.approx(roc_auc_score(labels, scores), rel=1e-12)


def test_a_golden_area():
    """Two bins, 1 and 3 positives, 2 and 2 negatives: (1*1 + 3*3) / 16 (by hand: pairs won plus half of ties)."""
    assert area_under_curve(np.array([1.0, 3.0]), np.array([2.0, 2.0]), 0.0, 0.0).value == 10 / 16


def normal_share(errors: np.ndarray, stated: np.ndarray) -> tuple[float, float]:
    """How many of the errors lie within 1.96 stated ones, and the spread of their ratios."""
    return float((np.abs(errors) <= 1.96 * stated).mean()), float((errors / stated).std())


@pytest.mark.parametrize("which", ["accuracy", "loss", "area"])
def test_the_stated_error_is_that_of_the_noise(which):
    """2,000 draws of noise: coverage of 95% within what a binomial leaves with probability 1e-4 on either side, plus
    half a percent for the first order; a standard error that forgot the ratio, or the cells' number, is far outside."""
    rng, deviation, n = np.random.default_rng(3), 3.0, 2000
    truth = rng.multinomial(n, rng.dirichlet(np.ones(16))).astype(float)
    weights = np.r_[np.ones(8), np.zeros(8)] if which == "accuracy" else np.linspace(0, 5, 16)

    def estimate(counts: np.ndarray, noise: float) -> Estimate:
        if which == "area":
            return area_under_curve(counts[:8], counts[8:], noise, noise)
        return mean(counts, weights, (n / 2, 2 * n), noise)

    exact = estimate(truth, 0.0).value
    found = [estimate(truth + deviation * rng.standard_normal(16), deviation) for _ in range(2000)]
    share, spread = normal_share(
        np.array([one.value - exact for one in found]), np.array([one.standard_error for one in found])
    )
    low, high = stats.binom.ppf([1e-4, 1 - 1e-4], 2000, 0.95) / 2000
    assert low - 0.005 <= share <= high + 0.005
    assert 0.93 < spread < 1.07


def test_a_total_of_noise_is_held_between_public_bounds():
    lost = mean(np.array([-30.0, 5.0]), np.array([1.0, 0.0]), (50, 200), 20.0).clipped(0, 1)
    assert lost.value == 0
    assert lost.standard_error > 20.0 / 100
    found = mean(np.array([900.0, 100.0]), np.array([1.0, 0.0]), (50, 200), 20.0)
    assert found.value == 900 / 200


@pytest.mark.parametrize("counts", [[-4.0, 2.0], [0.0, 0.0]])
def test_without_positives_the_area_says_that_it_knows_nothing(counts):
    assert area_under_curve(np.array(counts), np.array([50.0, 50.0]), 1.0, 1.0) == Estimate(0.5, 0.5)


def test_the_root_keeps_its_scale_where_noise_is_all_there_is():
    assert Estimate(4.0, 0.4).root() == Estimate(2.0, pytest.approx(0.1))
    nothing = Estimate(-0.3, 0.01).root()
    assert nothing.value == 0
    assert 0.01 < nothing.standard_error < 0.1
