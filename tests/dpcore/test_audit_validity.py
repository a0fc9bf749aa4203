"""Are the bounds true, and do they find anything? Mechanisms of known epsilon, audited exactly or many times over.

Where an observation has few values, its distribution is summed and the error probability is exact. Elsewhere a bound
may exceed the truth in a share LEVEL of the repetitions; a test fails by chance with probability below ALARM, and
seeds are fixed.
"""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy import stats

from dpcore import gdp
from dpcore.audit.evidence import Guesses, MultiRun, OneRun, OneRunFDP, guess
from dpcore.gdp import eps_gdp

LEVEL, ALARM = 0.05, 1e-6


def few_enough(violations: int, repetitions: int) -> bool:
    return violations <= stats.binom.isf(ALARM, repetitions, LEVEL)


def right_guess(epsilon: float) -> float:
    return 1 / (1 + math.exp(-epsilon))


# Exact error and power: randomised response, the worst (epsilon, 0)-DP mechanism, on every coin.


def rejection_probability(evidence_of, pmf: np.ndarray) -> float:
    return float(sum(pmf[v] for v in range(len(pmf)) if pmf[v] > 1e-15 and evidence_of(v)))


@pytest.mark.parametrize("method", [OneRun, OneRunFDP])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0, 3.0])
@pytest.mark.parametrize(("m", "r"), [(60, 60), (200, 200), (200, 80)])
def test_one_run_rejects_the_truth_at_most_as_often_as_stated(method, epsilon, m, r):
    pmf = stats.binom.pmf(np.arange(r + 1), r, right_guess(epsilon))

    def rejected(claim: float):
        return lambda v: method(observed=Guesses(canaries=m, guesses=r, correct=v)).rejects_dp(claim, 0.0, LEVEL)

    error = rejection_probability(rejected(epsilon), pmf)
    assert error <= LEVEL
    # Without delta the test is exact up to one right guess: a looser one would waste canaries.
    assert error > 0.01 or right_guess(epsilon) ** r > 0.01


@pytest.mark.parametrize("method", [OneRun, OneRunFDP])
def test_one_run_has_the_power_that_its_counts_allow(method):
    """200 guesses at true epsilon 2 refute a claim of 1 nearly always, and of 1.9 rarely."""
    pmf = stats.binom.pmf(np.arange(201), 200, right_guess(2.0))
    power = [
        rejection_probability(
            lambda v, c=claim: method(observed=Guesses(canaries=200, guesses=200, correct=v)).rejects_dp(
                c, 1e-5, LEVEL
            ),
            pmf,
        )
        for claim in (1.0, 1.9)
    ]
    assert power[0] > 0.99
    assert LEVEL / 10 < power[1] < 0.3


@pytest.mark.parametrize("method", [OneRun, OneRunFDP])
@pytest.mark.parametrize("delta", [1e-4, 1e-2, 0.04])
def test_one_run_is_true_for_mechanisms_that_fail_with_probability_delta(method, delta):
    """Two (epsilon, delta)-DP mechanisms: each answer truthful by its own coin of probability delta, or all at once."""
    epsilon, m = 0.8, 100
    each = stats.binom.pmf(np.arange(m + 1), m, delta + (1 - delta) * right_guess(epsilon))
    together = (1 - delta) * stats.binom.pmf(np.arange(m + 1), m, right_guess(epsilon))
    together[m] += delta
    for pmf in (each, together):
        error = rejection_probability(
            lambda v: method(observed=Guesses(canaries=m, guesses=m, correct=v)).rejects_dp(epsilon, delta, LEVEL), pmf
        )
        assert error <= LEVEL


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (0.5, 0.0), (2.0, 0.0), (0.5, 0.1)])
def test_multi_run_bounds_the_truth_as_often_as_stated(epsilon, delta):
    n = 40
    # The pair at the kink of the trade-off function: randomised response, truthful by another coin of bias delta.
    tpr = delta + (1 - delta) * right_guess(epsilon)
    fpr = (1 - delta) * right_guess(-epsilon)
    in_, out = (stats.binom.pmf(np.arange(n + 1), n, rate) for rate in (tpr, fpr))
    violation = 0.0
    for tp in range(n + 1):
        for fp in range(n + 1):
            if in_[tp] * out[fp] > 1e-9:
                evidence = MultiRun(true_positives=tp, runs_in=n, false_positives=fp, runs_out=n)
                violation += in_[tp] * out[fp] * evidence.rejects_dp(epsilon, delta, LEVEL)
    assert violation <= LEVEL


# Repeated audits of one Gaussian release: mu = 1, epsilon 4.38 at delta 1e-5.

MU, DELTA = 1.0, 1e-5


def gaussian_scores(rng: np.random.Generator, coins: np.ndarray) -> np.ndarray:
    return rng.normal(MU * coins, 1.0)


def test_one_run_audits_of_a_gaussian():
    """The simulation of the project's theory notes: 1.67 by (epsilon, delta), 2.53 by f-DP, no violation in 200."""
    rng, audits, truth = np.random.default_rng(2), 200, eps_gdp(MU, DELTA)

    @cache
    def bounds(observed: Guesses) -> tuple[float, float]:
        dp = OneRun(observed=observed).epsilon_lower(DELTA, LEVEL)
        return dp, eps_gdp(OneRunFDP(observed=observed).mu_lower(LEVEL), DELTA)

    found = []
    for _ in range(audits):
        coins = rng.random(1000) < 0.5
        found.append(bounds(guess(gaussian_scores(rng, coins), coins, 50, 50)))
    by_dp, by_fdp = np.array(found).T
    assert few_enough(int((by_dp > truth).sum()), audits)
    assert few_enough(int((by_fdp > truth).sum()), audits)
    # The standard deviation of one audit is about 0.3, of a mean over 200 about 0.02.
    assert by_dp.mean() == pytest.approx(1.67, abs=0.1)
    assert by_fdp.mean() == pytest.approx(2.53, abs=0.13)


def test_the_f_dp_test_of_the_true_curve_rejects_rarely_and_a_third_of_it_often():
    rng, audits = np.random.default_rng(3), 150
    right = wrong = 0
    for _ in range(audits):
        coins = rng.random(500) < 0.5
        evidence = OneRunFDP(observed=guess(gaussian_scores(rng, coins), coins, 50, 50))
        right += evidence.rejects(gdp.gaussian_tradeoff(MU), LEVEL)
        wrong += evidence.rejects(gdp.gaussian_tradeoff(MU / 3), LEVEL)
    assert few_enough(right, audits)
    assert wrong > 0.9 * audits


# Picking after looking. The mechanism reveals nothing: every positive bound is a violation.


def test_the_best_of_many_attacks_is_paid_for():
    """A thousand attacks that toss a coin: the best of them, unpaid, proves something far too often."""
    rng, audits, attacks, n = np.random.default_rng(8), 200, 1000, 60
    paid = unpaid = 0
    for tp, fp in rng.binomial(n, 0.5, size=(audits, 2, attacks)):
        best = int(np.argmax(tp - fp))
        evidence = MultiRun(true_positives=int(tp[best]), runs_in=n, false_positives=int(fp[best]), runs_out=n)
        unpaid += evidence.rejects_dp(0.0, 0.0, LEVEL)
        paid += replace(evidence, tried=attacks).rejects_dp(0.0, 0.0, LEVEL)
    assert few_enough(paid, audits)
    assert not few_enough(unpaid, audits)
