"""Membership attacks: definitions against other implementations and closed forms, and power on known cases."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics

from dpcore import gdp
from dpcore.audit import attacks
from dpcore.checks import InvalidValue
from tests.dpcore.oracles import least_error_sum

# Curves.

scores = st.lists(st.integers(-5, 5).map(float), min_size=1, max_size=40)


@given(members=scores, others=scores)
@settings(max_examples=100)
def test_areas_agree_with_scikit_learn(members, others):
    truth = [1] * len(members) + [0] * len(others)
    assert attacks.auc(members, others) == pytest.approx(metrics.roc_auc_score(truth, members + others))


@given(members=scores, others=scores, fpr=st.floats(0, 1))
@settings(max_examples=100)
def test_tpr_at_fpr_is_the_best_point_of_the_curve_within_the_limit(members, others, fpr):
    truth = [1] * len(members) + [0] * len(others)
    false, true, _ = metrics.roc_curve(truth, members + others, drop_intermediate=False)
    assert attacks.tpr_at_fpr(members, others, fpr) == pytest.approx(true[false <= fpr + 1e-9 / len(others)].max())


def test_the_threshold_for_an_fpr_counts_exactly():
    others = np.arange(3000.0)
    threshold = attacks.threshold_at_fpr(others, 0.001)
    assert np.count_nonzero(others >= threshold) == 3
    assert np.count_nonzero(others >= attacks.threshold_at_fpr(others, 0.0)) == 0
    assert attacks.threshold_at_fpr(others, 1.0) == -math.inf
    # Fewer than 1/fpr non-members: no false positive at all.
    assert np.count_nonzero(others[:100] >= attacks.threshold_at_fpr(others[:100], 0.001)) == 0


@given(members=scores, others=scores, threshold=st.integers(-6, 6))
@settings(max_examples=100)
def test_decisions_agree_with_scikit_learn(members, others, threshold):
    found = attacks.decide(members, others, threshold)
    truth = [True] * len(members) + [False] * len(others)
    said = [score >= threshold for score in members + others]
    assert found.accuracy == pytest.approx(metrics.accuracy_score(truth, said))
    assert found.f1 == pytest.approx(metrics.f1_score(truth, said, zero_division=0.0))
    assert found.tpr == pytest.approx(np.mean(said[: len(members)]))
    assert found.advantage == pytest.approx(np.mean(said[: len(members)]) - np.mean(said[len(members) :]))


def test_advantage_bounds():
    """Theory notes: exp(eps) - 1 against tanh(eps/2) at 0.5 is 0.6487 against 0.2449; (1, .126937)-DP is 1-GDP's."""
    assert attacks.advantage_bound(0.5) == pytest.approx(0.2449, abs=5e-5)
    for epsilon in (0.0, 0.1, 1.0, 30.0):
        assert attacks.advantage_bound(epsilon) == pytest.approx(math.tanh(epsilon / 2))
    assert attacks.advantage_bound(0.0, 0.3) == pytest.approx(0.3)
    assert attacks.advantage_bound(math.inf) == 1.0
    assert attacks.advantage_bound(1e4, 0.5) == 1.0


@given(epsilon=st.floats(0, 8), delta=st.floats(0, 0.9))
@settings(max_examples=60)
def test_the_advantage_bound_is_the_largest_gap_of_the_trade_off_function(epsilon, delta):
    gap = 1 - least_error_sum(gdp.dp_tradeoff(epsilon, delta))
    assert attacks.advantage_bound(epsilon, delta) == pytest.approx(gap, abs=1e-5)


# LiRA.


def simulated(shadows: int, examples: int, gap: float, seed: int):
    """Confidences of shadow models around an own centre for each example, higher by `gap` for members."""
    rng = np.random.default_rng(seed)
    centre, sd = rng.normal(0, 3, examples), rng.uniform(0.5, 2, examples)
    inside = attacks.balanced_splits(examples, shadows, rng)
    membership = rng.random(examples) < 0.5

    def draw(held):
        return centre + sd * (gap * held + rng.normal(size=held.shape))

    return draw(membership), membership, draw(inside), inside


def test_lira_scores_are_the_densities_written_out():
    target, _, confidences, inside = simulated(12, 6, 1.5, seed=1)
    online, offline = (
        attacks.lira_online(target, confidences, inside),
        attacks.lira_offline(target, confidences, ~inside),
    )
    for n in range(6):
        with_it, without = confidences[inside[:, n], n], confidences[~inside[:, n], n]
        fitted = [stats.norm(one.mean(), one.std(ddof=1)) for one in (with_it, without)]
        assert online[n] == pytest.approx(fitted[0].logpdf(target[n]) - fitted[1].logpdf(target[n]))
        assert stats.norm.cdf(offline[n]) == pytest.approx(fitted[1].cdf(target[n]))


def test_a_shared_variance_pools_around_each_examples_own_mean():
    target, _, confidences, inside = simulated(8, 5, 1.0, seed=2)
    pooled = np.sqrt(np.mean([np.var(confidences[inside[:, n], n], ddof=1) for n in range(5)]))
    found = attacks.fit_gaussians(confidences, inside, "shared")
    assert found.sd == pytest.approx(np.full(5, pooled))
    assert found.mean == pytest.approx([confidences[inside[:, n], n].mean() for n in range(5)])
    assert np.isfinite(attacks.lira_online(target, confidences, inside, "shared")).all()
    # Two shadows in all: one inside, one outside, and no variance of its own for anybody.
    with pytest.raises(InvalidValue, match="two shadow models"):
        attacks.lira_online(target, confidences[:2], np.array([[True] * 5, [False] * 5]))


def test_online_beats_offline_beats_a_global_threshold():
    """At 1% false positives on examples of very different difficulty; 64 shadows, gap of 2 standard deviations."""
    target, member, confidences, inside = simulated(64, 4000, 2.0, seed=3)
    online, offline = (
        attacks.lira_online(target, confidences, inside),
        attacks.lira_offline(target, confidences, ~inside),
    )
    tpr = [attacks.tpr_at_fpr(s[member], s[~member], 0.01) for s in (online, offline, target)]
    assert tpr[0] > tpr[1] * 0.95
    assert tpr[1] > 3 * tpr[2]
    assert np.array_equal(
        attacks.lira_offline(target, confidences), attacks.lira_offline(target, confidences, inside | ~inside)
    )
    # With the true Gaussians both would reach Phi(2 - 2.326) = 0.372; fitted ones lose a little.
    assert 0.25 < tpr[0] < 0.42
    assert attacks.auc(online[member], online[~member]) == pytest.approx(stats.norm.cdf(2 / math.sqrt(2)), abs=0.02)


# Shadow models.


def test_balanced_splits_put_every_example_into_half_of_the_shadows():
    inside = attacks.balanced_splits(500, 8, np.random.default_rng(0))
    assert (inside.sum(0) == 4).all()
    # Examples are placed independently of each other, so the sizes differ.
    assert len(set(inside.sum(1))) > 1


def test_disjoint_splits_have_the_sizes_asked_for():
    splits = attacks.disjoint_splits(100, 30, 5, np.random.default_rng(0))
    assert (splits.inside.sum(1) == 30).all()
    assert (splits.outside.sum(1) == 30).all()
    assert not (splits.inside & splits.outside).any()
    assert len({tuple(row) for row in splits.inside}) == 5


def test_attack_examples_keep_row_and_label_together():
    rng = np.random.default_rng(1)
    labels, p = rng.integers(0, 3, 20), rng.dirichlet(np.ones(3), size=(4, 20))
    splits = attacks.disjoint_splits(20, 6, 4, rng)
    found = attacks.attack_examples(p, labels, splits)
    assert found.features.shape == (48, 4)
    assert found.members.sum() == 24
    row = 0
    for k in range(4):
        for n in np.flatnonzero(splits.inside[k] | splits.outside[k]):
            assert np.allclose(found.features[row, :3], p[k, n])
            assert found.features[row, 3] == pytest.approx(-math.log(p[k, n, labels[n]]))
            assert found.members[row] == splits.inside[k, n]
            row += 1


def test_sorted_features_carry_over_between_classes():
    p, labels = np.array([[0.2, 0.5, 0.3], [1.0, 0.0, 0.0]]), np.array([0, 1])
    found = attacks.prediction_features(p, labels, top=2)
    assert found[:, :2].tolist() == [[0.5, 0.3], [1.0, 0.0]]
    assert np.isfinite(found).all()


# Gradient canaries.


def test_the_likelihood_ratio_is_that_of_the_mixture():
    x, z, q = np.random.default_rng(0).normal(size=(7, 5)), 0.8, 0.3
    mixture = q * stats.norm.pdf(x, 1, z) + (1 - q) * stats.norm.pdf(x, 0, z)
    expected = np.log(mixture / stats.norm.pdf(x, 0, z)).sum(0)
    assert attacks.sampled_log_likelihood_ratio(x, z, q) == pytest.approx(expected)
    full = attacks.sampled_log_likelihood_ratio(x, z, 1.0)
    assert full == pytest.approx((x.sum(0) - 3.5) / z**2)
