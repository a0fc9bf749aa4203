"""Corners of the privacy-loss accountant: what once hung, overflowed, was refused, or was wrong in its last digits."""

import math
import subprocess
import sys

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcore import accounting
from dpcore.accountants.pld import PLDAccountant, ToleranceNotReached, gaussian, laws, refinement
from dpcore.accountants.pld.total_variation import total_variation
from dpcore.accountants.registry import make
from dpcore.events import Adjacency, Composed, Gaussian, PoissonSampled, PureDP, Repeated
from dpcore.guarantee import Status


def composed(*settings):
    """(rate, noise multiplier, steps) each; rate 1 is a plain Gaussian."""
    events = []
    for rate, noise, steps in settings:
        plain = Gaussian(noise_multiplier=noise)
        events.append(Repeated(event=plain if rate == 1 else PoissonSampled(rate=rate, event=plain), count=steps))
    return Composed(events=tuple(events))


def minorant_by_passes(y, put, call, left):
    """The slow oracle: drop every vertex above the chord of its neighbours, until none is."""
    keep = np.arange(len(y))
    while True:
        mass = laws.second_differences(y, put, call, left, keep)
        above = mass < 0
        above[0] = above[-1] = False
        if not above.any():
            out = np.zeros(len(y))
            out[keep] = np.maximum(mass, 0.0)
            return out
        keep = keep[~above]


@given(st.integers(0, 2**32 - 1), st.integers(3, 400))
def test_the_walk_along_the_minorant_finds_what_passes_find(seed, n):
    rng = np.random.default_rng(seed)
    y = np.cumsum(rng.exponential(size=n))
    turn = rng.integers(1, n)
    put = np.maximum(0, y - y[turn]) + rng.exponential(size=n)
    call, left = put - (y - y[turn]), np.arange(n) < turn
    expected = minorant_by_passes(y, put, call, left)
    found = np.zeros(n)
    keep = laws.hull(y, put, call, left, np.arange(n))
    found[keep] = np.maximum(laws.second_differences(y, put, call, left, keep), 0.0)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_a_minorant_whose_passes_drop_one_vertex_each_is_walked_in_linear_time(monkeypatch):
    calls = []
    counted = laws.second_differences
    monkeypatch.setattr(laws, "second_differences", lambda *a: calls.append(1) or counted(*a))
    # A parabola whose last vertex falls to 0: each pass sees only the neighbour of the last vertex stick out.
    y = np.arange(20_000.0)
    put = y**2
    put[-1] = 0.0
    mass = laws.convex_minorant(y, put, put - y, np.ones(len(y), dtype=bool))
    assert len(calls) <= laws._PASSES + 1
    assert np.count_nonzero(mass[1:-1]) == 0


def test_a_composition_of_three_scales_is_bounded_in_seconds_and_little_memory():
    # Four minutes and 4.9 GB, when the convex minorant peeled a few vertices a pass and all grids were kept.
    program = (
        "from tests.dpcore.test_pld_corners import THREE_SCALES, composed\n"
        "from dpcore.accountants.pld import PLDAccountant\n"
        "from trainables.worker.memory import peak_mb\n"
        "bounds = PLDAccountant().compose(composed(*THREE_SCALES)).epsilon_bounds(2.29384e-14)\n"
        "print(bounds.lower, bounds.upper, peak_mb())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    lower, upper, megabytes = map(float, done.stdout.split())
    assert lower <= 288.588 * (1 + 1e-4)
    assert upper == pytest.approx(288.588, rel=1e-4)
    assert upper - lower <= 1e-3 * upper
    assert megabytes < 1000


THREE_SCALES = ((1.96043e-8, 0.246692, 38), (4.10028e-5, 55.7596, 1987217), (1, 32.8032, 335995))


def test_a_grid_is_never_larger_than_its_bound(monkeypatch):
    sizes = []
    build = laws._grid
    monkeypatch.setattr(laws, "_grid", lambda *a: sizes.append(len((found := build(*a)).ratio)) or found)
    refinement.forget()
    accountant = PLDAccountant(adjacency=Adjacency.REPLACE_ONE).compose(TOO_FINE)
    with pytest.raises(ToleranceNotReached, match="expected at most"):
        accountant.epsilon_bounds(2.21717e-6)
    assert max(sizes) <= refinement.MAX_LOSSES + 2


def test_both_ends_of_plain_gaussians_hold_in_their_last_digits():
    # One mu for both ends left the lower one above the truth, by up to 4e-13 of it.
    rng = np.random.default_rng(5)
    with mpmath.workdps(50):
        for _ in range(150):
            noises = np.exp(rng.uniform(np.log(0.3), np.log(300), size=rng.integers(1, 7)))
            counts = rng.integers(1, 10 ** rng.integers(1, 6), size=len(noises))
            delta = float(10 ** rng.uniform(-14, -1))
            event = composed(*((1, float(z), int(c)) for z, c in zip(noises, counts, strict=True)))
            lower, upper = PLDAccountant().compose(event).epsilon_bounds(delta)
            mu = mpmath.sqrt(
                sum(mpmath.mpf(int(c)) / mpmath.mpf(float(z)) ** 2 for z, c in zip(noises, counts, strict=True))
            )
            if lower > 0:
                assert exact_delta(lower, mu) >= delta
            assert exact_delta(upper, mu) <= delta
            low, high = PLDAccountant().compose(event).delta_bounds(upper)
            assert low <= exact_delta(upper, mu) <= high


def exact_delta(epsilon, mu):
    epsilon = mpmath.mpf(epsilon)
    return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


def test_one_mu_for_both_ends_would_be_seen(monkeypatch):
    monkeypatch.setattr(gaussian, "MU_ROUNDING", 0.0)
    monkeypatch.setattr("dpcore.accountants.pld.pairs.MU_ROUNDING", 1e-13)
    with pytest.raises(AssertionError):
        test_both_ends_of_plain_gaussians_hold_in_their_last_digits()


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("epsilon", [710.0, 1164.07, 5000.0])
@pytest.mark.parametrize(
    "event",
    [composed((0.0498, 4.08, 1)), composed((1, 1.0, 3)), composed((3.9e-6, 0.532, 1725135)), PureDP(epsilon=3.2)],
    ids=["one step", "plain", "many", "pure"],
)
def test_delta_beyond_the_range_of_the_exponential_is_bounded(event, epsilon, adjacency):
    lower, upper = PLDAccountant(adjacency=adjacency).compose(event).delta_bounds(epsilon)
    assert 0 <= lower <= upper <= 1e-14


def test_far_out_on_the_curve_the_renyi_bound_decides():
    event = composed((4.3263e-05, 3.23057, 123751))
    accountant = PLDAccountant(adjacency=Adjacency.REPLACE_ONE).compose(event)
    assert accountant.delta_bounds(22.6859) == (0.0, make("rdp", Adjacency.REPLACE_ONE).compose(event).delta(22.6859))


TOO_FINE = composed((4.16192e-7, 0.475707, 319912))
"""Under replace-one, at delta 2.21717e-6, a grid of 18 million losses."""


def test_where_the_distribution_is_bounded_loosely_its_upper_end_is_still_the_headline_if_it_is_the_least():
    delta, adjacency = 2.21717e-6, Adjacency.REPLACE_ONE
    claim = accounting.headline(TOO_FINE, delta, adjacency)
    least = min(make(name, adjacency).compose(TOO_FINE).epsilon(delta) for name in ("rdp", "advanced", "naive"))
    assert (claim.accountant, claim.status) == ("pld", Status.PROVED)
    assert claim.epsilon_lower <= claim.epsilon < least
    assert claim.assumptions[0] == accounting.APART.format("epsilon")


def rare(rate, epsilon, count):
    """Poisson-sampled pure releases."""
    return Repeated(event=PoissonSampled(rate=rate, event=PureDP(epsilon=epsilon)), count=count)


UNBOUNDED = Composed(
    events=(composed((0.000421219, 0.715616, 46), (0.00862004, 27.8164, 34148)), rare(3.00516e-7, 0.00576421, 2089))
)
"""Under replace-one, at delta 4.3502e-11, a grid of four billion losses."""


def test_where_the_distribution_cannot_be_bounded_the_smallest_other_proof_is_the_headline():
    delta, adjacency = 4.3502e-11, Adjacency.REPLACE_ONE
    claim = accounting.headline(UNBOUNDED, delta, adjacency)
    others = {name: make(name, adjacency).compose(UNBOUNDED).epsilon(delta) for name in ("rdp", "advanced", "naive")}
    assert claim.epsilon == min(others.values())
    assert claim.accountant == min(others, key=others.get)
    assert claim.status is Status.PROVED
    assert claim.assumptions[0] == accounting.NOT_BOUNDED.format(claim.accountant, "epsilon")


def test_pure_releases_beside_sampled_steps_have_a_headline():
    event = Composed(
        events=(
            Repeated(event=PureDP(epsilon=0.488812), count=31),
            Repeated(event=PoissonSampled(rate=0.000359862, event=Gaussian(noise_multiplier=1.44392)), count=15),
        )
    )
    claim = accounting.headline(event, 0.00167, Adjacency.ADD_REMOVE)
    assert 10.2 <= claim.epsilon <= 31 * 0.488812 + 0.1
    assert math.isfinite(claim.epsilon)


def test_where_no_grid_reaches_the_distance_in_total_variation_bounds_delta():
    """Once by naive composition, .81: more than the two laws are apart."""
    event = Composed(
        events=(rare(1.28786e-7, 2.81199, 53), composed((0.000374238, 6.80846, 484), (0.00166211, 0.200889, 4)))
    )
    epsilon, adjacency = 0.0308673, Adjacency.REPLACE_ONE
    accountant = PLDAccountant(adjacency=adjacency).compose(event)
    with pytest.raises(ToleranceNotReached) as refused:
        accountant.delta_bounds(epsilon)
    claim = accounting.headline_delta(event, epsilon, adjacency)
    others = {name: make(name, adjacency).compose(event).delta(epsilon) for name in ("rdp", "advanced", "naive")}
    assert claim.delta == refused.value.best.upper
    assert claim.delta == pytest.approx(total_variation(accountant._parts_and_failure()[0]), rel=1e-11)
    assert claim.delta < min(others.values())
    assert (claim.accountant, claim.status) == ("pld", Status.PROVED)
    assert claim.assumptions[0] == accounting.APART.format("delta")


@pytest.mark.parametrize("epsilon", [-1.0, 0.0])
def test_no_delta_is_larger_than_the_chance_that_the_record_was_drawn(epsilon):
    """.632 is true, and once was 1 by the Renyi accountant."""
    event, drawn = composed((1e-6, 0.06, 10**6)), -math.expm1(10**6 * math.log1p(-1e-6))
    with pytest.raises(ToleranceNotReached) as refused:
        PLDAccountant().compose(event).delta_bounds(epsilon)
    least = max(0.0, -math.expm1(epsilon))
    assert refused.value.best.upper == pytest.approx(least + (1 - least) * drawn, rel=1e-9)
    assert refused.value.best.lower >= least
    if epsilon >= 0:
        assert accounting.headline_delta(event, epsilon, Adjacency.ADD_REMOVE).delta == refused.value.best.upper


def test_just_below_the_largest_loss_of_adding_a_record_it_is_told_and_no_larger_either():
    """Of removing one sums tell it to a thousandth; of adding one, whose losses end at 1.0000005, a moment does."""
    event, drawn = composed((1e-6, 0.06, 10**6)), -math.expm1(10**6 * math.log1p(-1e-6))
    for tolerance in (1e-3, 1e-5):
        found = PLDAccountant(tolerance=tolerance).compose(event).delta_bounds(1.0)
        assert found.upper == pytest.approx(drawn, rel=1e-9)
        assert (1 - tolerance) * drawn <= found.lower < drawn


def test_an_upper_end_below_every_float_is_the_least_of_them():
    """The truth is below 1e-308 and not 0, as was once said."""
    found = PLDAccountant().compose(composed((1.2153572632141099e-05, 1.3576282774747574, 10**9))).delta_bounds(67.2)
    assert found == (0.0, math.ulp(0.0))


@pytest.mark.parametrize(("rate", "noise", "epsilon"), [(1e-8, 0.05, 700.0), (1e-8, 0.05, 695.0), (1e-100, 0.1, 500.0)])
def test_one_step_is_bounded_where_the_exponential_over_the_rate_overflows(rate, noise, epsilon):
    """Delta was once 1e-300 there, at most, where 8e-157 is true."""
    found = PLDAccountant().compose(composed((rate, noise, 1))).delta_bounds(epsilon)
    with mpmath.workdps(60):
        q, s, k = mpmath.mpf(rate), mpmath.mpf(noise), mpmath.exp(mpmath.mpf(epsilon))
        x = s * s * mpmath.log((k - 1 + q) / q) + mpmath.mpf(0.5)
        exact = (1 - q - k) * mpmath.ncdf(-x / s) + q * mpmath.ncdf((1 - x) / s)
        assert 0 <= found.lower <= exact <= found.upper


def test_a_delta_that_the_distribution_tells_is_the_headline():
    event, adjacency = composed((0.01, 1.0, 1000)), Adjacency.ADD_REMOVE
    claim = accounting.headline_delta(event, 1.0, adjacency)
    bounds = PLDAccountant(adjacency=adjacency).compose(event).delta_bounds(1.0)
    assert (claim.accountant, claim.delta, claim.delta_lower) == ("pld", bounds.upper, bounds.lower)
    assert accounting.POISSON in claim.assumptions
    # One claim turned round: what is spent at that delta is at most that epsilon, up to both tolerances.
    assert accounting.headline(event, claim.delta, adjacency).epsilon == pytest.approx(1.0, rel=2e-3)
