"""Claims under attack: exact oracles at adversarial corners, text and JSON that must not soften a claim."""

import itertools
import json
import math
from functools import partial

import numpy as np
import pytest
from mpmath import exp, log, mp, mpf, ncdf

from dpcore import calibrate
from dpcore.accountants.pld import DiscretisationInvalid, PLDAccountant, ToleranceNotReached
from dpcore.accountants.pld.laws import Discretised, guard
from dpcore.accountants.pld.pairs import ReplacedSampledGaussian
from dpcore.events import (
    Adjacency,
    Composed,
    Gaussian,
    NonPrivate,
    PoissonSampled,
    PureDP,
    Repeated,
    from_dict,
    to_dict,
)
from dpcore.gdp import eps_gdp, mu_gdp, sigma_gaussian
from dpcore.guarantee import Guarantee, Status


def step(q, s):
    return PoissonSampled(rate=q, event=Gaussian(noise_multiplier=s))


def removed(k, q, s):
    """Exact H_k((1-q) N(0) + q N(1) || N(0))."""
    q, s, k = mpf(q), mpf(s), mpf(k)
    ratio = (k - (1 - q)) / q
    if ratio <= 0:
        return 1 - k
    x = s * s * log(ratio) + mpf(1) / 2
    return (1 - q) * ncdf(-x / s) + q * ncdf((1 - x) / s) - k * ncdf(-x / s)


def added(k, q, s):
    """Exact H_k(N(0) || (1-q) N(0) + q N(1))."""
    q, s, k = mpf(q), mpf(s), mpf(k)
    ratio = (1 / k - (1 - q)) / q
    if ratio <= 0:
        return mpf(0)
    x = s * s * log(ratio) + mpf(1) / 2
    return ncdf(x / s) - k * ((1 - q) * ncdf(x / s) + q * ncdf((x - 1) / s))


def replaced(k, q, s):
    """Exact H_k((1-q) N(0) + q N(1) || (1-q) N(0) + q N(-1)), the crossing by bisection."""
    q, s, k = mpf(q), mpf(s), mpf(k)

    def excess(x):
        first, second = exp((2 * x - 1) / (2 * s * s)), exp((-2 * x - 1) / (2 * s * s))
        return (1 - q) + q * first - k * ((1 - q) + q * second)

    low, high = mpf(-1), mpf(1)
    while excess(high) < 0:
        high *= 2
    while excess(low) > 0:
        low *= 2
    for _ in range(120):
        middle = (low + high) / 2
        low, high = (low, middle) if excess(middle) > 0 else (middle, high)
    above = [ncdf((mean - high) / s) for mean in (0, 1, -1)]
    return (1 - q) * above[0] + q * above[1] - k * ((1 - q) * above[0] + q * above[2])


CORNERS = list(
    itertools.product((1e-5, 1e-3, 0.3, 0.9, 0.999999, 1 - 1e-12), (0.1, 0.5, 3.0, 100.0), (0.9, 1e-3, 1e-7, 1e-12))
)


@pytest.mark.parametrize("adjacency", Adjacency)
def test_one_step_is_bracketed_at_every_corner(adjacency):
    """Against closed forms in 40 digits. A corner may be refused aloud, but no bound may be wrong."""
    answered = add_dominates = 0
    with mp.workdps(40):
        for q, s, delta in CORNERS:
            try:
                bounds = PLDAccountant(adjacency=adjacency).compose(step(q, s)).epsilon_bounds(delta)
            except ToleranceNotReached:
                continue
            answered += 1

            def truth(epsilon, q=q, s=s):
                k = exp(mpf(epsilon))
                if adjacency is Adjacency.REPLACE_ONE:
                    return replaced(k, q, s)
                return max(removed(k, q, s), added(k, q, s))

            assert truth(bounds.upper) <= mpf(delta), (q, s, delta, bounds)
            assert bounds.lower == 0 or truth(bounds.lower) >= mpf(delta), (q, s, delta, bounds)
            k = exp(mpf(bounds.upper))
            add_dominates += added(k, q, s) > removed(k, q, s)
    assert answered >= 0.8 * len(CORNERS)
    # The corners would be no test of the second direction if it never decided.
    assert adjacency is Adjacency.REPLACE_ONE or add_dominates >= 3


def _normal(x, mean, s):
    return np.exp(-0.5 * ((x - mean) / s) ** 2) / (s * math.sqrt(2 * math.pi))


@pytest.mark.parametrize(("q", "s", "k"), [(0.1, 0.7, 1.5), (0.5, 1.0, 1.1), (0.9, 0.5, 4.0), (0.02, 0.4, 1.02)])
def test_no_replacement_in_the_plane_beats_the_replace_one_pair(q, s, k):
    """200 pairs of gradients g, g' of norm at most 1 in two dimensions, by quadrature: none exceeds the pair."""
    claimed = float(replaced(k, q, s))
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


@pytest.mark.parametrize(("q", "s", "count", "delta"), [(0.01, 0.8, 1000, 1e-6), (0.2, 2.0, 50, 1e-5)])
def test_replace_one_lies_between_add_remove_and_its_group_of_two(q, s, count, delta):
    """A replacement is a removal and an addition: at least one of them, at most both (Vadhan 2017, lemma 2.2)."""
    one = PLDAccountant().compose(step(q, s), count)
    both = PLDAccountant(adjacency=Adjacency.REPLACE_ONE).compose(step(q, s), count)
    single = one.epsilon(delta)
    grouped = (1 + math.exp(single)) * delta
    assert both.epsilon(grouped) <= 2 * single
    assert both.epsilon(delta) >= one.epsilon_lower(delta)


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
    curve = removed if removal else added
    with mp.workdps(20):
        inner = [
            float(curve(math.exp(epsilon) * v / u, *b)) if u > 1e-13 and v > 0 else float(u > 0)
            for u, v in zip(first, second, strict=True)
        ]
    return float(np.trapezoid(first * np.array(inner), x))


@pytest.mark.parametrize("mu", [1e-9, 1e-6, 1e-3, 0.5, 8.0])
@pytest.mark.parametrize("share", [1e-9, 1e-3, 0.5, 1 - 1e-6, 1 - 1e-10])
def test_the_gaussian_dual_rounds_to_the_safe_side(mu, share):
    """Also where delta is close to delta(0), and where both tails nearly cancel. 60 digits."""
    with mp.workdps(60):

        def exact(epsilon, mean):
            e, m = mpf(epsilon), mpf(mean)
            return ncdf(-e / m + m / 2) - exp(e) * ncdf(-e / m - m / 2)

        delta = float(exact(0, mu)) * share
        epsilon = eps_gdp(mu, delta)
        assert exact(epsilon, mu) <= mpf(delta)
        if epsilon > 0:
            assert exact(epsilon, mu_gdp(epsilon, delta)) <= mpf(delta)
            assert exact(epsilon, 1 / mpf(sigma_gaussian(epsilon, delta))) <= mpf(delta)


def test_calibration_keys_tell_the_smallest_differences_apart():
    base = {"epsilon": 1.0, "delta": 1e-5, "adjacency": Adjacency.ADD_REMOVE}
    nearby = [base, base | {"delta": 1e-5 * (1 + 1e-15)}, base | {"epsilon": math.nextafter(1.0, 2.0)}]
    nearby.append(base | {"adjacency": Adjacency.REPLACE_ONE})
    keys = set()
    for fields in nearby:
        for rate in (0.01, 0.01 + 1e-12):
            for steps in (10, 11):
                event_of = partial(calibrate.sampled_gaussian, rate=rate, steps=steps)
                keys.add(calibrate._key(calibrate.Target(**fields), calibrate.NOISE, event_of))
    assert len(keys) == len(nearby) * 4


@pytest.mark.parametrize(
    "event",
    [
        step(1 / 3, 0.1 + 0.2),
        Repeated(event=step(math.nextafter(0.5, 1), 1e-300), count=10**9),
        Composed(events=(PureDP(epsilon=5e-324), NonPrivate(), Gaussian(noise_multiplier=1.7976931348623157e308))),
    ],
)
def test_events_survive_strict_json_to_the_last_bit(event):
    assert from_dict(json.loads(json.dumps(to_dict(event), allow_nan=False))) == event


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


@pytest.mark.parametrize(
    ("rate", "noise_multiplier", "steps"), [(1e-3, 0.2, 100), (1e-3, 0.15, 1), (1e-3, 0.15, 10), (1e-3, 0.1, 1000)]
)
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
