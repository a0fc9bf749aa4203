"""Where accounting once refused or rounded badly: borders of epsilon 0, tiny mu, nearly certain answers, delta."""

import math
import random

import mpmath
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from dpcore.accountants.pld import PLDAccountant, gaussian, routes
from dpcore.accountants.pld.pairs import ReplacedSampledGaussian, SampledGaussianPair, SampledRandomisedResponse
from dpcore.accountants.pld.total_variation import total_variation
from dpcore.events import Adjacency, Gaussian, PoissonSampled, PureDP
from dpcore.gdp import delta_gdp, relative_error


def sampled(rate, noise_multiplier):
    return PoissonSampled(rate=rate, event=Gaussian(noise_multiplier=noise_multiplier))


def exact_distance(pair):
    """One step's total variation by quadrature of the densities."""
    if isinstance(pair, SampledRandomisedResponse):
        return pair.rate * math.tanh(pair.epsilon / 2)
    q, s = pair.rate, pair.noise_multiplier
    other = norm.pdf if isinstance(pair, SampledGaussianPair) else lambda x: norm.pdf(x, -1, s)

    def difference(x):
        p = q * norm.pdf(x, 1, s)
        return p - q * (norm.pdf(x, 0, s) if isinstance(pair, SampledGaussianPair) else other(x))

    middle = 0.5 if isinstance(pair, SampledGaussianPair) else 0.0
    return quad(difference, middle, middle + 40 * s, epsabs=1e-14, points=[middle + s])[0]


def test_round_off_of_a_long_rare_composition_yields_to_long_double():
    """Tilted to this delta, a step in 1e8 decides: in float64 the bounds of every grid stay 0.15% apart, or more."""
    parts = ((SampledGaussianPair(1.0188e-4, 0.906), 50012),)
    wide = routes.epsilon_bounds(parts, 1.96e-11, 1e-2)
    close = routes.epsilon_bounds(parts, 1.96e-11, 1e-3)
    assert wide.lower <= close.lower <= close.upper <= wide.upper
    assert close.upper - close.lower <= 1e-3 * close.upper


PAIRS = [SampledGaussianPair(1e-3, 0.6), SampledGaussianPair(0.2, 3.0), SampledGaussianPair(1.0, 5.0)]
PAIRS += [ReplacedSampledGaussian(0.05, 1.1), SampledRandomisedResponse(0.3, 0.8)]


@pytest.mark.parametrize("pair", PAIRS)
def test_distance_of_one_step_is_exact_or_above_by_little(pair):
    exact = exact_distance(pair)
    bound = total_variation(((pair, 1),))
    assert exact * (1 - 1e-9) <= bound <= exact * (1 + 1e-9)
    assert routes.delta_bounds(((pair, 1),), 0.0, 1e-3).lower <= bound * (1 + 1e-9)


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_distances_of_many_steps_lie_above_delta_at_zero(adjacency):
    rng = random.Random(2)
    tight = 0
    for _ in range(12):
        accountant = PLDAccountant(adjacency=adjacency, tolerance=1e-2)
        for _ in range(rng.choice([1, 2])):
            event = sampled(10 ** rng.uniform(-3, -1), 10 ** rng.uniform(0, 1))
            accountant = accountant.compose(event, int(10 ** rng.uniform(1, 3.5)))
        parts = accountant._parts_and_failure()[0]
        bound = total_variation(parts)
        exact = accountant.delta_bounds(0.0)
        assert exact.lower <= bound
        tight += bound <= 1.6 * exact.upper
        if bound < 1:
            assert accountant.epsilon_bounds(bound) == (0.0, 0.0)
    # Chi-square holds many similar steps together; a sum of distances alone would be off by the root of their number.
    assert adjacency is Adjacency.REPLACE_ONE or tight >= 8


@pytest.mark.parametrize(("rate", "noise", "steps"), [(1e-4, 0.4, 1000), (1e-6, 0.35, 8), (5e-5, 0.5, 522)])
def test_delta_about_rate_times_steps_is_answered(rate, noise, steps):
    """These once asked for grids of 10^7 losses."""
    delta = steps * rate * math.erf(math.sqrt(0.125) / noise)
    assert PLDAccountant().compose(sampled(rate, noise), steps).epsilon(delta) == 0.0
    replaced = PLDAccountant(adjacency=Adjacency.REPLACE_ONE).compose(sampled(rate, noise), steps)
    assert replaced.epsilon(min(0.99, steps * rate)) == 0.0


@pytest.mark.parametrize("mu", [3e-9, 1e-7, 1e-3, 0.5, 6.0])
@pytest.mark.parametrize("share", [0.9, 1e-2, 1e-8])
def test_gaussians_of_any_size_enclose_sixty_digits(mu, share):
    with mpmath.workdps(60):

        def exact(epsilon):
            e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
            return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)

        delta = share * math.erf(mu / math.sqrt(8))
        lower, upper = gaussian.epsilon_of(mu, delta)
        assert exact(upper) <= delta
        assert lower == 0 or exact(lower) >= delta
        assert upper - lower <= 2e-3 * upper
        for epsilon in (0.3 * upper, upper, -0.7 * upper):
            low, high = gaussian.delta_of(mu, epsilon)
            assert low <= exact(epsilon) <= high


def test_the_stated_error_of_closed_form_deltas_covers_the_real_one():
    rng = random.Random(1)
    with mpmath.workdps(60):
        for _ in range(1500):
            mu, x = 10 ** rng.uniform(-10, 1.3), -(10 ** rng.uniform(-4, 1.4))
            epsilon = mu * (mu / 2 - x)
            e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
            exact = mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)
            error = abs(delta_gdp(epsilon, mu) - exact) / exact
            assert error <= relative_error(mu / 2 - epsilon / mu, mu)


def test_nearly_certain_answers_add_their_whole_epsilon():
    delta = 1e-6
    alone = PLDAccountant().compose(sampled(0.01, 1.0), 500)
    both = alone.compose(PureDP(epsilon=45.0), 2)
    lower, upper = both.epsilon_bounds(delta)
    rest = alone.epsilon_bounds(delta)
    assert lower <= 90 + rest.upper
    assert upper == pytest.approx(90 + rest.upper, rel=1e-12)
    assert upper - lower <= 1e-3 * upper
    assert both.delta_bounds(upper).lower <= delta <= both.delta_bounds(lower).upper * (1 + 1e-6)


@pytest.mark.parametrize(("epsilon", "delta"), [(31.0, 1e-9), (60.0, 1e-3), (400.0, 0.5)])
def test_one_nearly_certain_answer_is_the_closed_form(epsilon, delta):
    with mpmath.workdps(60):
        p = 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon)))
        exact = epsilon + mpmath.log(1 - mpmath.mpf(delta) / p)
        lower, upper = PLDAccountant().compose(PureDP(epsilon=epsilon)).epsilon_bounds(delta)
        assert lower <= exact <= upper
        assert upper - lower <= 1e-9


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("steps", [40, 4000])
def test_delta_is_told_within_the_default_tolerance(steps, epsilon):
    accountant = PLDAccountant().compose(sampled(0.02, 1.1), steps)
    found = accountant.delta_bounds(epsilon)
    assert found.upper - found.lower <= 1e-3 * found.upper
    coarse = PLDAccountant(tolerance=0.3).compose(sampled(0.02, 1.1), steps).delta_bounds(epsilon)
    assert found.lower <= coarse.upper
    assert coarse.lower <= found.upper
