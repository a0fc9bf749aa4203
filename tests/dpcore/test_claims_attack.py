"""Claims under attack: exact oracles at adversarial corners, text and JSON that must not soften a claim."""

import json
import math

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.special import ndtr

from dpcore.accountants.pld import DiscretisationInvalid, PLDAccountant
from dpcore.accountants.pld.laws import Discretised, guard
from dpcore.accountants.pld.pairs import ReplacedSampledGaussian
from dpcore.events import Adjacency, Gaussian, PoissonSampled
from dpcore.gdp import eps_gdp, mu_gdp, sigma_gaussian
from dpcore.guarantee import Guarantee, Status
from tests.dpcore.oracles import gaussian, replaced


def step(q, s):
    return PoissonSampled(rate=q, event=Gaussian(noise_multiplier=s))


def _normal(x, mean, s):
    return np.exp(-0.5 * ((x - mean) / s) ** 2) / (s * math.sqrt(2 * math.pi))


@pytest.mark.parametrize(("q", "s", "k"), [(0.1, 0.7, 1.5), (0.5, 1.0, 1.1), (0.9, 0.5, 4.0), (0.02, 0.4, 1.02)])
def test_no_replacement_in_the_plane_beats_the_replace_one_pair(q, s, k):
    """200 pairs of gradients g, g' of norm at most 1 in two dimensions, by quadrature: none exceeds the pair."""
    claimed = float(replaced(math.log(k), q, s))
    axis = np.linspace(-1 - 7 * s, 1 + 7 * s, 241)
    x, y = np.meshgrid(axis, axis)
    cell = (axis[1] - axis[0]) ** 2

    def density(g):
        return q * _normal(x, g[0], s) * _normal(y, g[1], s)

    rng = np.random.default_rng(7)
    none = (1 - q) * _normal(x, 0, s) * _normal(y, 0, s)
    largest = 0.0
    for trial in range(200):
        turns = rng.uniform(0, 2 * math.pi, 2)
        radii = np.ones(2) if trial % 2 else np.sqrt(rng.uniform(0, 1, 2))
        g, other = ((r * math.cos(t), r * math.sin(t)) for r, t in zip(radii, turns, strict=True))
        largest = max(largest, float(np.maximum(none + density(g) - k * (none + density(other)), 0).sum() * cell))
    assert largest <= claimed * (1 + 1e-3)
    opposite = np.maximum(none + density((1, 0)) - k * (none + density((-1, 0))), 0).sum() * cell
    # The pair is attained, by opposite gradients.
    assert float(opposite) == pytest.approx(claimed, rel=2e-3)


def test_two_unlike_steps_against_direct_integration():
    """H_k of a product: the first loss by quadrature in its own variable, the second in closed form."""
    for a, b, delta in [
        ((0.9, 3.0), (0.05, 0.6), 1e-4),
        ((0.01, 0.4), (0.99, 20.0), 1e-2),
    ]:
        bounds = PLDAccountant().compose(step(*a)).compose(step(*b)).epsilon_bounds(delta)
        for epsilon, above in ((bounds.upper, False), (bounds.lower, True)):
            found = max(_two(epsilon, a, b, removal=True), _two(epsilon, a, b, removal=False))
            assert found >= delta * (1 - 1e-6) if above else found <= delta * (1 + 1e-6)


def _two(epsilon, a, b, *, removal):
    q, s = a
    x = np.linspace(-12 * s, 1 + 12 * s, 4001)
    none, mixed = _normal(x, 0, s), (1 - q) * _normal(x, 0, s) + q * _normal(x, 1, s)
    first, second = (mixed, none) if removal else (none, mixed)
    ok = first > 1e-13
    u, v = first[ok], math.exp(epsilon) * second[ok]
    q, s = b
    # H_k of the second step: the chance, under what is tested, of the side of the threshold that it favours.
    ratio = ((v / u - 1 + q) if removal else (u / v - 1 + q)) / q
    z = s * np.log(np.maximum(ratio, 1e-300)) + 1 / (2 * s)
    off, on = (ndtr(-z), ndtr(1 / s - z)) if removal else (ndtr(z), ndtr(z - 1 / s))
    mixture = (1 - q) * off + q * on
    left, lost = (mixture, off) if removal else (off, mixture)
    inner = np.where(ratio <= 0, np.maximum(u - v, 0) if removal else 0, u * left - v * lost)
    return float(np.trapezoid(inner, x[ok]))


@pytest.mark.parametrize("mu", [1e-9, 1e-6, 1e-3, 0.5, 8.0])
@pytest.mark.parametrize("share", [1e-9, 1e-3, 0.5, 1 - 1e-6, 1 - 1e-10])
def test_the_gaussian_dual_rounds_to_the_safe_side(mu, share):
    """Also where delta is close to delta(0), and where both tails nearly cancel. 60 digits."""
    with mp.workdps(60):
        delta = float(gaussian(0, mu)) * share
        epsilon = eps_gdp(mu, delta)
        assert gaussian(epsilon, mu) <= mpf(delta)
        if epsilon > 0:
            assert gaussian(epsilon, mu_gdp(epsilon, delta)) <= mpf(delta)
            assert gaussian(epsilon, 1 / mpf(sigma_gaussian(epsilon, delta))) <= mpf(delta)


@pytest.mark.parametrize("epsilon", [0.0, 0.1 + 0.2, math.inf])
@pytest.mark.parametrize("lower", [None, 0.1, math.inf])
def test_guarantees_survive_strict_json_to_the_last_bit(epsilon, lower):
    before = Guarantee(
        epsilon=epsilon,
        delta=1 / 3e5,
        adjacency=Adjacency.ADD_REMOVE,
        accountant="pld",
        status=Status.PROVED,
        theorem="t",
        assumptions=("a", "b"),
        epsilon_lower=lower,
    )
    assert Guarantee.from_dict(json.loads(json.dumps(before.to_dict(), allow_nan=False))) == before


@pytest.mark.parametrize(("rate", "noise_multiplier", "steps"), [(1e-3, 0.2, 100), (1e-3, 0.15, 10)])
def test_replacing_a_record_is_never_cheaper_than_removing_it(rate, noise_multiplier, steps):
    """Removing is replacing by a record whose gradient is zero. Losses of tens of nats once left the coordinates of
    the replace-one pair, its masses were not numbers, and the guard let them pass as epsilon 0."""
    step = PoissonSampled(rate=rate, event=Gaussian(noise_multiplier=noise_multiplier))
    removed, replaced = (
        PLDAccountant(adjacency=adjacency).compose(step, steps).epsilon_bounds(1e-5)
        for adjacency in (Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE)
    )
    assert 20 < removed.lower <= replaced.upper


def test_the_guard_refuses_what_is_not_a_number():
    pair = ReplacedSampledGaussian(0.01, 1.0)
    discretised = Discretised(pair, 0.01, 1e-12)
    grid, by_direction = discretised._upper
    masses, infinite = by_direction[True]
    guard(pair, grid, masses, infinite, upper=True, forward=True)
    with pytest.raises(DiscretisationInvalid, match="finite"):
        guard(pair, grid, np.where(masses > 0, np.nan, masses), infinite, upper=True, forward=True)
