"""Bayesian accounting against printed numbers, the moments accountant, mpmath, and where it fails."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats
from scipy.special import logsumexp, ndtr

from dpcore.accountants.bayesian import (
    BayesianAccountant,
    BayesianFilter,
    attack_success,
    estimated_cost,
    left_cost,
    right_cost,
)
from dpcore.accountants.rdp import RDPAccountant
from dpcore.checks import InvalidValue
from dpcore.events import Gaussian, PoissonSampled
from dpcore.guarantee import Notion, Status

EIGHT = np.arange(1, 9) / 10


def composed_cost(costs, steps):
    """Equation 10: one step's share (1/T) ln mean exp(T * cost) of T steps against the same unknown record."""
    return (logsumexp(steps * np.asarray(costs)) - math.log(np.size(costs))) / steps


# Theorem 3


@pytest.mark.parametrize(
    ("u", "rate", "order", "expected"),
    [(1.0, 0.01, 8, 0.014253296), (0.5, 0.01, 8, 0.0010451305), (1.0, 1024 / 60000, 16, 66.799434)],
)
def test_left_cost_has_the_recomputed_digits(u, rate, order, expected):
    assert left_cost([u], rate, 1.0, order)[0] == pytest.approx(expected, rel=5e-8)


def test_the_reverse_bound_of_the_theorem_is_crude():
    assert right_cost([1.0], 0.01, 1.0, 8)[0] == pytest.approx(0.59569951, rel=1e-8)
    true_reverse = reverse_cost_by_integration(1.0, 0.01, 8)
    assert true_reverse <= left_cost([1.0], 0.01, 1.0, 8)[0]
    assert right_cost([1.0], 0.01, 1.0, 8)[0] > 40 * true_reverse


def reverse_cost_by_integration(u: float, rate: float, order: int) -> float:
    """ln E_{x ~ N(0,1)} (1 - q + q exp(u x - u^2/2))^-order."""

    def integrand(x: float) -> float:
        return stats.norm.pdf(x) * (1 - rate + rate * math.exp(u * x - u * u / 2)) ** -order

    return math.log(integrate.quad(integrand, -12, 12, epsabs=1e-14)[0])


@given(u=st.floats(0.01, 3), rate=st.floats(1e-4, 1), sigma=st.floats(0.3, 5), order=st.integers(1, 40))
def test_left_cost_is_the_renyi_curve_of_the_moments_accountant(u, rate, sigma, order):
    event = PoissonSampled(rate=rate, event=Gaussian(noise_multiplier=sigma / u))
    renyi = RDPAccountant().compose(event).rdp((float(order + 1),))[0]
    assert left_cost([u], rate, sigma, order)[0] == pytest.approx(order * renyi, rel=1e-7)


@pytest.mark.parametrize(("u", "epsilon", "order"), [(1.0, 10.440152, 5), (0.2, 1.400786, 33)])
def test_epsilon_over_orders_is_sharply_u_shaped(u, epsilon, order):
    curve = [(10000 * left_cost([u], 0.01, 1.0, k)[0] - math.log(1e-10)) / k for k in range(1, 129)]
    best = int(np.argmin(curve))
    assert (curve[best], best + 1) == (pytest.approx(epsilon, abs=1e-6), order)
    assert curve[0] > 1.5 * epsilon
    assert curve[127] > 1.5 * epsilon


# Theorem 4


def test_estimator_has_the_recomputed_digits():
    costs = left_cost(EIGHT, 0.02, 1.0, 8)
    h = np.exp(100 * costs)
    assert (h.mean(), h.std()) == (pytest.approx(1.950534, abs=1e-6), pytest.approx(1.216397, abs=1e-6))
    for failure, expected in ((1e-3, 0.01423252), (1e-6, 0.02139845), (1e-15, 0.04869694)):
        assert estimated_cost(costs, 100, failure) == pytest.approx(expected, abs=1e-8)
    assert composed_cost(costs, 100) == pytest.approx(0.00668103, abs=1e-8)


def test_estimates_stay_finite_where_the_moments_do_not():
    costs = np.array([0.1, 1.0, 2.0, 5.0])
    estimate = estimated_cost(costs, 10_000, 1e-6)
    with mpmath.workdps(60):
        h = [mpmath.exp(10_000 * mpmath.mpf(float(c))) for c in costs]
        mean = sum(h) / 4
        spread = mpmath.sqrt(sum((x - mean) ** 2 for x in h) / 4)
        expected = mpmath.log(mean + float(stats.t.isf(1e-6, 3)) * spread / mpmath.sqrt(3)) / 10_000
    assert estimate == pytest.approx(float(expected), rel=1e-12)


# Where the estimator fails (average-case, not more)


def failures(sample, true_cost, trials, steps=1000):
    return sum(estimated_cost(left_cost(sample(), 0.01, 1.0, 8), steps, 1e-15) < true_cost for _ in range(trials))


def test_rare_outliers_are_missed_nearly_always():
    """Distance near 0.05, but 1 with probability 1e-3: 28 distances contain no outlier in 0.999^28 = 97.2% of samples.

    1000 samples; the count is binomial, the band four standard deviations (error below 1e-4). The stated failure
    probability is 1e-15.
    """
    rng = np.random.default_rng(20)
    common, rare = left_cost([0.05, 1.0], 0.01, 1.0, 8)
    true = float(logsumexp([1000 * common, 1000 * rare], b=[0.999, 0.001])) / 1000

    def sample():
        usual = 0.05 * rng.uniform(0.99, 1.01, size=28)
        return np.where(rng.random(28) < 1e-3, 1.0, usual)

    share = failures(sample, true, 1000) / 1000
    assert share == pytest.approx(0.999**28, abs=4 * math.sqrt(0.999**28 * (1 - 0.999**28) / 1000))


def test_pair_distances_do_not_count_under_poisson_sampling():
    """Contributions 10 and 11, noise 1: replacing one by the other costs far more than a distance of 1 says."""
    rate, order = 0.01, 8

    def log_mixture(x, centre):
        return np.logaddexp(math.log1p(-rate) - x * x / 2, math.log(rate) - (x - centre) ** 2 / 2)

    x = np.linspace(-10, 60, 200_001)
    logs = (order + 1) * log_mixture(x, 11.0) - order * log_mixture(x, 10.0) - 0.5 * math.log(2 * math.pi)
    true = float(logsumexp(logs) + math.log(x[1] - x[0]))
    pair = left_cost([1.0], rate, 1.0, order)[0]
    contribution = left_cost([11.0], rate, 1.0, order)[0]
    assert pair < 0.02 < 20 < true < contribution


# The accountant


def run(steps=50, orders=(4, 8), failure=1e-12, scale=1.0, **kwargs):
    rng = np.random.default_rng(3)
    accountant = BayesianAccountant(steps=steps, orders=orders, failure=failure)
    for _ in range(kwargs.get("taken", steps)):
        accountant = accountant.observe(scale * rng.uniform(0.1, 1.0, 64), 0.02, 1.0)
    return accountant


def test_failures_are_charged_per_step_and_order():
    one, two = run(orders=(8,)), run(orders=(4, 8))
    assert one.failure_probability == pytest.approx(50e-12)
    assert two.failure_probability == pytest.approx(100e-12)
    assert two.epsilons(1e-8)[1] > one.epsilons(1e-8)[0]
    cost = one.costs[0]
    assert one.epsilon(1e-8) == pytest.approx((cost - math.log(1e-8 - 50e-12)) / 8, rel=1e-12)
    for delta in (1e-10, 0.5e-10):
        with pytest.raises(InvalidValue, match="delta_mu"):
            two.epsilon(delta)


@pytest.mark.parametrize(
    ("epsilon", "success"), [(2, 0.8808), (5, 0.99331), (10, 0.99995), (0.95, 0.7211), (0.76, 0.6814), (8, 0.9997)]
)
def test_attack_success_of_the_motivating_example(epsilon, success):
    digits = len(str(success)) - 2
    assert attack_success(epsilon) == pytest.approx(success, abs=0.51 * 10**-digits)


# Distances


# The stopping filter


def test_the_published_composition_fails_when_costs_follow_the_outputs():
    """Two kinds of record, moving the output by +u or -u; the second step is dear for the kind the first points at.

    Along every path the published costs are the same, and the moment generating function exceeds their exponential.
    The filter's bound holds.
    """
    order, u, v = 1, 2.0, 2.5

    def first(k):
        return k * (k + 1) * u * u / 2

    def second(k):
        return k * (k + 1) * v * v / 2

    published = first(order) + composed_cost([0.0, second(order)], 2)
    # E exp(order L): after the first step's tilt its output is N(-order u, 1); below 0 the second step is dear.
    true = first(order) + math.log(ndtr(order * u) * math.exp(second(order)) + ndtr(-order * u))
    k = 2 * order + 1
    filtered = (first(k) + composed_cost([0.0, second(k)], 2)) / 2
    assert published < true - 0.3
    assert true <= filtered


def test_the_filter_stops_before_its_budget_and_claims_its_target():
    rng = np.random.default_rng(5)
    state = BayesianFilter(epsilon=3.0, delta_mu=1e-5, steps=5_000, order=8, failure=1e-12)
    taken = 0
    while (after := state.admit(rng.uniform(0.2, 1.0, 200), 0.02, 2.0)) is not None:
        state, taken = after, taken + 1
    assert 10 < taken == state.taken < 5_000
    assert state.spent <= state.budget
    guarantee = state.guarantee()
    assert (guarantee.epsilon, guarantee.delta, guarantee.status) == (3.0, 1e-5, Status.AVERAGE_CASE)
    assert guarantee.notion is Notion.BAYESIAN_DP
    assert any("outlier" in line for line in guarantee.assumptions)
    # Chernoff at the budget gives back delta_mu less the failures.
    assert math.exp(state.budget / 2 - 8 * 3.0) == pytest.approx(1e-5 - 5e-9, rel=1e-9)
