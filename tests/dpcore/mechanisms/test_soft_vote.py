"""The soft vote by exact computation: its worst loss, the refuted rule, its composition, its sampler."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpcore.events import Adjacency
from dpcore.guarantee import Status
from dpcore.mechanisms import noisy_vote
from dpcore.mechanisms.noisy_vote import NoisyVote


def log_probabilities(beta, votes):
    scores = beta * np.asarray(votes, dtype=np.float64)
    return scores - np.logaddexp.reduce(scores)


def neighbours(models, classes):
    """Every count vector with every move of one vote."""
    for votes in itertools.product(range(models + 1), repeat=classes):
        if sum(votes) != models:
            continue
        for source, target in itertools.permutations(range(classes), 2):
            if votes[source]:
                moved = list(votes)
                moved[source] -= 1
                moved[target] += 1
                yield votes, moved


@pytest.mark.parametrize(("models", "classes"), [(1, 2), (2, 2), (3, 3), (5, 3), (4, 4)])
@pytest.mark.parametrize("beta", [0.01, 0.4, 2.0])
def test_the_formula_is_the_worst_case_over_all_neighbours(models, classes, beta):
    worst = max(
        np.abs(log_probabilities(beta, one) - log_probabilities(beta, other)).max()
        for one, other in neighbours(models, classes)
    )
    assert noisy_vote.loss_per_query(beta, models, classes) == pytest.approx(worst, rel=1e-10)


@settings(max_examples=200)
@given(st.floats(-12, 6).map(lambda power: 10**power), st.integers(1, 100_000), st.integers(2, 1000))
def test_the_loss_is_exact_at_any_temperature(beta, models, classes):
    """Against the fraction in 400 digits or more; both the loss and what it adds to beta."""
    with mpmath.workdps(400):
        b = mpmath.mpf(beta)
        above = mpmath.exp(b * models) + classes - 1
        exact = b + mpmath.log(above / (mpmath.exp(b * (models - 1)) + mpmath.exp(b) + classes - 2))
        found = mpmath.mpf(noisy_vote.loss_per_query(beta, models, classes))
        assert abs(found / exact - 1) < 1e-15
        assert b <= found <= 2 * b * (1 + mpmath.mpf(1e-15))


@pytest.mark.parametrize("epsilon", [1e3, 1e6])
def test_every_rule_reaches_large_budgets(epsilon):
    beta = noisy_vote.optimal(epsilon, 1e-5, 1, 32, 10)
    assert beta == pytest.approx(epsilon / 2, rel=1e-4)
    assert noisy_vote.loss_per_query(beta, 32, 10) == pytest.approx(epsilon, rel=1e-4)


def published(queries, models):
    votes = NoisyVote(beta=1.0 / queries, models=models, classes=10, adjacency=Adjacency.REPLACE_ONE, steps=queries)
    return noisy_vote.as_published(1.0, votes)


def test_epsilon_over_b_is_refuted_by_exact_computation():
    """32 models agree; one record moves a vote: the log ratio of that label is 2.000, and epsilon was to be 1."""
    claim = published(1, 32)
    assert claim.status is Status.REFUTED
    before, after = [32, *[0] * 9], [31, 1, *[0] * 8]
    loss = log_probabilities(1.0, after)[1] - log_probabilities(1.0, before)[1]
    assert loss == pytest.approx(2.0, abs=1e-6)
    assert loss > claim.epsilon
    assert "true epsilon at delta 0 is 2" in claim.assumptions[0]


def test_epsilon_over_b_holds_for_a_single_model():
    """Its vote moves without changing what the labels' weights add up to: the loss is beta."""
    assert published(3, 1).status is Status.PROVED
    assert published(3, 2).status is Status.REFUTED


@pytest.mark.parametrize("queries", [1, 7, 100])
@pytest.mark.parametrize("models", [1, 32, 256])
def test_the_standard_rule_keeps_within_its_budget_and_the_exact_loss_fills_it(queries, models):
    found = noisy_vote.standard(1.0, queries)
    assert queries * noisy_vote.loss_per_query(found, models, 10) <= 1.0 + 1e-12
    beta = noisy_vote.beta_for_loss(1.0 / queries, models, 10)
    assert beta >= found * (1 - 1e-11)
    assert queries * noisy_vote.loss_per_query(beta, models, 10) == pytest.approx(1.0, rel=1e-9)


def composed_delta(beta, models, classes, queries, epsilon):
    """delta of `queries` votes, the worst of two pairs (all agree; two classes tie), by convolving exact loss laws.

    Losses are rounded down to a grid, so that the result is a lower bound on the true delta.
    """
    worst, rest = 0.0, [0] * (classes - 2)
    pairs = []
    for first in (models, models // 2):
        one = log_probabilities(beta, [first, models - first, *rest])
        other = log_probabilities(beta, [first - 1, models - first + 1, *rest])
        pairs += [(one, other), (other, one)]
    for p, q in pairs:
        step = 4 * beta / 4000
        cells = np.floor((p - q) / step).astype(int)
        law = np.zeros(8001)
        np.add.at(law, cells + 4000, np.exp(p))
        low, high = np.flatnonzero(law)[[0, -1]]
        law, offset = law[low : high + 1], low - 4000
        size = 1 << math.ceil(math.log2(queries * len(law)))
        total = np.fft.irfft(np.fft.rfft(law, size) ** queries, size)
        losses = (np.arange(size) + queries * offset) * step
        worst = max(worst, float((total * np.maximum(0, -np.expm1(epsilon - losses))).sum()))
    return worst


@pytest.mark.parametrize("models", [8, 32, 256])
def test_composed_votes_keep_their_delta(models):
    """A true lower bound on delta of 100 votes; below what is claimed, and above it when beta is tripled."""
    for beta in (noisy_vote.advanced(2.0, 1e-4, 100), noisy_vote.optimal(2.0, 1e-4, 100, models, 10)):
        assert composed_delta(beta, models, 10, 100, 2.0) <= 1e-4
        assert composed_delta(3 * beta, models, 10, 100, 2.0) > 1e-4


@settings(max_examples=60)
@given(st.floats(1e-9, 50), st.integers(1, 10_000), st.integers(2, 1000))
def test_the_largest_beta_of_a_loss(loss, models, classes):
    beta = noisy_vote.beta_for_loss(loss, models, classes)
    assert loss / 2 * (1 - 1e-11) <= beta <= loss
    assert noisy_vote.loss_per_query(beta, models, classes) <= loss
    assert noisy_vote.loss_per_query(beta * (1 + 1e-6), models, classes) > loss * (1 - 1e-12)


def test_zcdp_epsilon_inverts_the_advanced_rule():
    beta = noisy_vote.advanced(1.5, 1e-5, 40)
    assert noisy_vote.zcdp_epsilon(beta, 40, 1e-5) == pytest.approx(1.5, rel=1e-9)


def test_labels_are_drawn_with_the_softmax_probabilities():
    """Chi-square at level 1e-4, and the same test finds a sampler that leaves out classes without votes."""
    rng, votes, beta = np.random.default_rng(5), np.array([5, 2, 0, 1]), 0.6
    drawn = np.bincount([noisy_vote.sample(beta, votes, rng.standard_normal) for _ in range(20_000)], minlength=4)
    expected = np.exp(log_probabilities(beta, votes)) * 20_000
    assert stats.chisquare(drawn, expected).pvalue > 1e-4
    among_voted = np.where(votes > 0, expected, 0)
    assert stats.chisquare(among_voted / among_voted.sum() * 20_000, expected).pvalue < 1e-10
