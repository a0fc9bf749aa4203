"""The three lower bounds: goldens, independent recomputations, and what must move which way."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpcore import gdp
from dpcore.audit.evidence import Guesses, MultiRun, OneRun, OneRunFDP, rate_lower, rate_upper
from dpcore.gdp import eps_gdp

LEVEL, DELTA = 0.05, 1e-5


def multi_run(tp: int, runs_in: int, fp: int, runs_out: int, tried: int = 1) -> MultiRun:
    return MultiRun(true_positives=tp, runs_in=runs_in, false_positives=fp, runs_out=runs_out, tried=tried)


def one_run(m: int, r: int, v: int, tried: int = 1) -> OneRun:
    return OneRun(observed=Guesses(canaries=m, guesses=r, correct=v, tried=tried))


def fdp(m: int, r: int, v: int, tried: int = 1) -> OneRunFDP:
    return OneRunFDP(observed=Guesses(canaries=m, guesses=r, correct=v, tried=tried))


# Goldens: the project's theory notes, recomputed there from the published algorithms; 95%, delta 1e-5.


@pytest.mark.parametrize(
    ("counts", "epsilon"), [((300, 1000, 10, 1000), 2.6971), ((500, 500, 0, 500), 4.9056), ((60, 100, 5, 100), 1.4831)]
)
def test_multi_run_goldens(counts, epsilon):
    assert multi_run(*counts).epsilon_lower(DELTA, LEVEL) == pytest.approx(epsilon, abs=5e-5)


def test_multi_run_golden_of_mu():
    assert multi_run(300, 1000, 10, 1000).mu_lower(LEVEL) == pytest.approx(1.4823, abs=5e-5)


ROWS = [
    ((1000, 100, 95), 2.1652, 0.7868, 3.323),
    ((1000, 100, 100), 3.4654, 1.2255, 5.549),
    ((1000, 100, 60), 0.0496, 0.0153, 0.044),
    ((1000, 1000, 600), 0.2972, 0.1639, 0.584),
    ((5000, 500, 450), 1.9414, 0.6715, 2.776),
]


@pytest.mark.parametrize(("mrv", "epsilon", "mu", "gaussian"), ROWS)
def test_one_run_goldens(mrv, epsilon, mu, gaussian):
    """Steinke, Nasr & Jagielski (2023); Mahloujifar, Melis & Chaudhuri (2025)."""
    assert one_run(*mrv).epsilon_lower(DELTA, LEVEL) == pytest.approx(epsilon, abs=6e-5)
    assert fdp(*mrv).mu_lower(LEVEL) == pytest.approx(mu, abs=6e-5)
    assert eps_gdp(fdp(*mrv).mu_lower(LEVEL), DELTA) == pytest.approx(gaussian, abs=6e-4)


@pytest.mark.parametrize(("epsilon", "p"), [(1.0, 6.64e-4), (2.0, 0.0178), (3.0, 0.665)])
def test_one_run_goldens_of_p(epsilon, p):
    assert one_run(1000, 100, 95).p_value(epsilon, DELTA) == pytest.approx(p, rel=3e-3)


@pytest.mark.parametrize(("epsilon", "least"), [(3.0, 62), (5.0, 447)])
def test_a_perfect_attacker_needs_this_many_guesses(epsilon, least):
    assert one_run(1000, least, least).epsilon_lower(0.0, LEVEL) >= epsilon
    assert one_run(1000, least - 1, least - 1).epsilon_lower(0.0, LEVEL) < epsilon
    assert least == math.ceil(math.log(LEVEL) / math.log(1 / (1 + math.exp(-epsilon))))


# Oracles.


@pytest.mark.parametrize(("k", "n", "level"), [(0, 20, 0.05), (20, 20, 0.025), (7, 20, 0.025), (300, 1000, 0.01)])
def test_limits_are_where_the_binomial_tail_is_the_level(k, n, level):
    low, high = float(rate_lower(k, n, level)), float(rate_upper(k, n, level))
    assert low == 0 if k == 0 else stats.binom.sf(k - 1, n, low) == pytest.approx(level, rel=1e-9)
    assert high == 1 if k == n else stats.binom.cdf(k, n, high) == pytest.approx(level, rel=1e-9)


def slow_p_value(m: int, r: int, v: int, epsilon: float, delta: float) -> float:
    q = 1 / (1 + math.exp(-epsilon))
    beta = stats.binom.sf(v - 1, r, q)
    between = [stats.binom.cdf(v - 1, r, q) - stats.binom.cdf(v - i - 1, r, q) for i in range(1, v + 1)]
    return min(1.0, beta + 2 * m * delta * max(mass / (i + 1) for i, mass in enumerate(between)))


@pytest.mark.parametrize(("m", "r", "v"), [(10, 5, 4), (50, 50, 31), (1000, 100, 95), (1000, 100, 1), (400, 37, 37)])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 2.0, 6.0])
@pytest.mark.parametrize("delta", [0.0, 1e-5, 1e-3])
def test_p_values_against_the_formula_in_scipy_stats(m, r, v, epsilon, delta):
    found = one_run(m, r, v).p_value(epsilon, delta)
    assert found == pytest.approx(slow_p_value(m, r, v, epsilon, delta), rel=1e-8, abs=1e-13)


@pytest.mark.parametrize("hypothesis", [gdp.gaussian_tradeoff(0.7), gdp.dp_tradeoff(1.2, 1e-3)])
def test_the_f_dp_test_agrees_with_its_recursion_written_out(hypothesis):
    """The published recursion with lists, once more, from the top count of right guesses to none."""
    for m, r, v in [(50, 20, 18), (50, 20, 15), (200, 200, 140), (1000, 100, 90)]:
        right, wrong = [LEVEL * v / m], [LEVEL * (r - v) / m]
        for i in reversed(range(v)):
            wrong.append(max(wrong[-1], hypothesis(1 - min(1.0, right[-1]))))
            right.append(right[-1] + i / (r - i) * (wrong[-1] - wrong[-2]))
        assert fdp(m, r, v).rejects(hypothesis, LEVEL) == (right[-1] + wrong[-1] > r / m)


# What must move which way.


@given(
    r=st.integers(1, 150),
    silent=st.integers(0, 100),
    share=st.floats(0, 1),
    epsilon=st.floats(0, 5),
    delta=st.sampled_from([0.0, 1e-6, 1e-3]),
)
@settings(max_examples=80)
def test_one_run_bounds_grow_with_right_guesses_and_shrink_with_delta(r, silent, share, epsilon, delta):
    v = round(share * (r - 1))
    fewer, more = one_run(r + silent, r, v), one_run(r + silent, r, v + 1)
    assert more.p_value(epsilon, delta) <= fewer.p_value(epsilon, delta) * (1 + 1e-9)
    assert fewer.p_value(epsilon, delta) <= fewer.p_value(epsilon, 2 * delta) + 1e-15
    assert fewer.epsilon_lower(delta, LEVEL) <= more.epsilon_lower(delta, LEVEL)
    assert fdp(r + silent, r, v).mu_lower(LEVEL) <= fdp(r + silent, r, v + 1).mu_lower(LEVEL)


@given(r=st.integers(20, 150), silent=st.integers(0, 400), share=st.floats(0.5, 1))
@settings(max_examples=40)
def test_what_the_f_dp_test_rejects_it_rejects_below_and_at_larger_levels(r, silent, share):
    """The bisection and the verdict lean on this; the published text does not state it."""
    evidence = fdp(r + silent, r, round(share * r))
    for family in (gdp.gaussian_tradeoff, lambda epsilon: gdp.dp_tradeoff(epsilon, 1e-4)):
        rejected = [evidence.rejects(family(x), LEVEL) for x in np.linspace(0, 4, 33)]
        assert rejected == sorted(rejected, reverse=True)
    by_level = [evidence.rejects(gdp.gaussian_tradeoff(0.4), level) for level in np.geomspace(1e-6, 0.5, 33)]
    assert by_level == sorted(by_level)


@given(n=st.integers(1, 60), tp=st.floats(0, 1), fp=st.floats(0, 1), delta=st.sampled_from([0.0, 1e-3, 0.2]))
@settings(max_examples=80)
def test_a_multi_run_bound_is_what_the_trade_off_function_of_dp_rejects(n, tp, fp, delta):
    evidence = multi_run(round(tp * n), n, round(fp * n), n)
    bound = evidence.epsilon_lower(delta, LEVEL)
    assert 0 <= bound < math.inf
    if bound > 1e-6:
        assert evidence.rejects(gdp.dp_tradeoff(bound * (1 - 1e-7), delta), LEVEL)
    assert not evidence.rejects(gdp.dp_tradeoff(bound + 1e-7, delta), LEVEL)
    mu = evidence.mu_lower(LEVEL)
    if mu > 1e-6:
        assert evidence.rejects(gdp.gaussian_tradeoff(mu * (1 - 1e-7)), LEVEL)
    assert not evidence.rejects(gdp.gaussian_tradeoff(mu + 1e-7), LEVEL)


def test_picking_the_best_of_several_is_charged():
    for make in (one_run, fdp):
        assert make(1000, 100, 95, tried=5).epsilon_lower(DELTA, LEVEL) == pytest.approx(
            make(1000, 100, 95).epsilon_lower(DELTA, LEVEL / 5), abs=1e-7
        )
    assert multi_run(60, 100, 5, 100, tried=5).epsilon_lower(DELTA, LEVEL) == pytest.approx(
        multi_run(60, 100, 5, 100).epsilon_lower(DELTA, LEVEL / 5)
    )


def test_an_audit_that_saw_nothing_bounds_nothing():
    assert multi_run(0, 10, 10, 10).epsilon_lower(0.0, LEVEL) == 0
    assert multi_run(0, 10, 10, 10).mu_lower(LEVEL) == 0
    assert one_run(10, 10, 0).epsilon_lower(0.0, LEVEL) == 0
    assert one_run(10, 10, 0).p_value(0.0, 0.0) == 1
    assert fdp(10, 10, 0).mu_lower(LEVEL) == 0
    assert fdp(10, 10, 0).epsilon_lower(0.0, LEVEL) == 0
    assert not fdp(500, 500, 500).rejects_dp(math.inf, 0.0, LEVEL)
    assert not one_run(500, 500, 500).rejects_dp(math.inf, 0.0, LEVEL)
    assert not multi_run(500, 500, 0, 500).rejects_dp(math.inf, 0.0, LEVEL)


def test_very_many_guesses_keep_their_digits():
    """The bound of a perfect attacker is the logit of level^(1/r), also where 1 - q has lost all of its digits."""
    for r in (10**4, 10**5):
        q = LEVEL ** (1 / r)
        exact = math.log(q) - math.log(-math.expm1(math.log(LEVEL) / r))
        assert one_run(r, r, r).epsilon_lower(0.0, LEVEL) == pytest.approx(exact, abs=1e-6)
