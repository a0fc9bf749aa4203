"""What the privacy-loss accountant reaches by less tilted sums, by overlaps, and by grids coarser than asked."""

import math

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcore import accounting, calibrate
from dpcore.accountants.pld import PLDAccountant, ToleranceNotReached, inversion, refinement, routes
from dpcore.accountants.pld.overlap import nearly_one
from dpcore.accountants.pld.pairs import ReplacedSampledGaussian, SampledGaussianPair, SampledRandomisedResponse
from dpcore.accountants.registry import make
from dpcore.events import Adjacency, Composed, PureDP, Repeated
from dpcore.guarantee import Status
from tests.dpcore.test_pld_corners import composed, exact_delta


def with_pure(event, epsilon, count):
    return Composed(events=(event, Repeated(event=PureDP(epsilon=epsilon), count=count)))


MANY_PLAIN = [
    # Once refused: 436.4441 by exact GDP of all, 331.1026 and 121.4512 by Renyi.
    (with_pure(composed((1, 10.7382, 64227)), 0.00485311, 32), 8.50889e-12, 436.4441209758371),
    (composed((1, 44.499, 722186), (1.65768e-06, 0.283568, 16)), 2.95167e-14, 331.10256570269286),
    (
        with_pure(composed((1, 39.654, 187688), (1.9589e-08, 2.25621, 804010)), 0.0335911, 27),
        4.38282e-08,
        121.45115435054947,
    ),
]


@pytest.mark.parametrize(("event", "delta", "another"), MANY_PLAIN)
def test_many_plain_gaussians_beside_a_little_else_are_told_by_a_less_tilted_sum(event, delta, another):
    lower, upper = PLDAccountant().compose(event).epsilon_bounds(delta)
    assert lower <= upper <= lower * (1 + 1e-3)
    assert lower <= another
    # The plain Gaussians alone, which the rest can only add to, exactly.
    mu = mpmath.sqrt(
        sum(part.count / mpmath.mpf(part.event.noise_multiplier) ** 2 for part in flat(event) if plain(part))
    )
    with mpmath.workdps(40):
        assert exact_delta(upper, mu) <= delta


def flat(event):
    for one in event.events:
        yield from flat(one) if isinstance(one, Composed) else (one,)


def plain(part):
    return hasattr(part.event, "noise_multiplier")


def test_one_tilt_alone_would_refuse_them(monkeypatch):
    monkeypatch.setattr(inversion, "TILTS", (1.0,))
    routes.forget()
    for event, delta, _ in MANY_PLAIN:
        with pytest.raises(ArithmeticError):
            PLDAccountant().compose(event).epsilon_bounds(delta)


@given(st.floats(0.05, 60), st.floats(-30, 600))
def test_overlaps_bound_delta_from_below(mu, epsilon):
    with mpmath.workdps(60):
        assert nearly_one(((SampledGaussianPair(1.0, 1 / mu), 1),), epsilon) <= exact_delta(epsilon, mpmath.mpf(mu))


@given(st.floats(0.01, 6), st.integers(1, 40), st.floats(-5, 200))
def test_overlaps_of_randomised_responses_bound_delta_from_below(each, count, epsilon):
    parts = ((SampledRandomisedResponse(1.0, each), count),)
    with mpmath.workdps(40):
        odds = mpmath.exp(mpmath.mpf(each))
        likely = odds / (1 + odds)
        exact = sum(
            mpmath.binomial(count, flips)
            * likely ** (count - flips)
            * (1 - likely) ** flips
            * max(0, 1 - mpmath.exp(epsilon - (count - 2 * flips) * mpmath.mpf(each)))
            for flips in range(count + 1)
        )
        assert nearly_one(parts, epsilon) <= exact


@pytest.mark.parametrize(
    ("parts", "epsilon"),
    [
        (((SampledGaussianPair(1.0, 0.001), 1),), 37.0),
        (((SampledGaussianPair(0.78, 0.3), 17_000), (SampledRandomisedResponse(1.0, 0.006), 3)), 0.015),
        (((ReplacedSampledGaussian(0.14, 0.84), 2_976_870),), 0.6),
    ],
)
def test_delta_of_laws_that_hardly_overlap_is_almost_one(parts, epsilon):
    assert 1 - 1e-14 <= nearly_one(parts, epsilon) <= 1


def test_delta_of_many_plain_gaussians_is_told_where_a_grid_overflowed():
    event = composed((1, 1.10745, 268995))
    event = with_pure(event, 0.166159, 85)
    lower, upper = PLDAccountant(adjacency=Adjacency.REPLACE_ONE).compose(event).delta_bounds(0.0875638)
    assert 1 - 1e-14 <= lower <= upper == 1


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_bounds_of_a_grid_coarser_than_asked_hold(monkeypatch, adjacency):
    event, delta = composed((0.02, 0.7, 3000), (0.3, 6.0, 200)), 1e-7
    known = PLDAccountant(adjacency=adjacency).compose(event).epsilon_bounds(delta)
    for module in (refinement, refinement):
        monkeypatch.setattr(module, "MAX_LOSSES", 1 << 12)
    monkeypatch.setattr(refinement, "SMALL_GRID", 1 << 8)
    monkeypatch.setattr(inversion, "TILTS", ())
    monkeypatch.setattr(refinement.make_ring, "__defaults__", (None, 1 << 12))
    routes.forget()
    with pytest.raises(ToleranceNotReached) as refused:
        PLDAccountant(adjacency=adjacency).compose(event).epsilon_bounds(delta)
    routes.forget()
    best = refused.value.best
    assert best is not None
    assert best.lower <= known.lower
    assert known.upper <= best.upper < 2 * known.upper


def test_rare_large_losses_are_bounded_far_below_what_other_proofs_say():
    # Renyi: 1.749 and 31.28; grids of 3 and of 2.2 million losses.
    found = accounting.headline(
        composed((0.192276, 57.2355, 103), (9.56391e-05, 51.8062, 180181), (0.00059143, 0.915957, 35)),
        6.10921e-11,
        Adjacency.ADD_REMOVE,
    )
    assert (found.accountant, found.status) == ("pld", Status.PROVED)
    assert found.epsilon < 0.4
    assert found.epsilon_lower <= found.epsilon
    assert found.assumptions[0] == accounting.APART.format("epsilon")


@pytest.mark.parametrize(
    ("adjacency", "rate", "steps", "epsilon", "delta"),
    [
        (Adjacency.ADD_REMOVE, 4.99629e-06, 4, 1.69646, 1.36469e-05),
        (Adjacency.ADD_REMOVE, 2.37843e-08, 1816, 3.94603, 6.7295e-14),
        (Adjacency.REPLACE_ONE, 1.50854e-05, 52672, 0.823408, 1.8035e-08),
    ],
)
def test_calibrations_at_the_smallest_rates_are_answered_and_their_claims_keep_the_target(
    adjacency, rate, steps, epsilon, delta
):
    target = calibrate.Target(epsilon=epsilon, delta=delta, adjacency=adjacency)
    noise = calibrate.noise_multiplier(target, rate=rate, steps=steps)
    event = calibrate.sampled_gaussian(noise, rate, steps)
    claim = accounting.headline(event, delta, adjacency)
    assert claim.status is Status.PROVED
    assert 0.97 * epsilon <= claim.epsilon <= epsilon
    # No proof of another accountant asks for less noise.
    renyi = make("rdp", adjacency).compose(event)
    assert claim.epsilon <= renyi.epsilon(delta) * (1 + 1e-9)
    assert math.isfinite(claim.epsilon)


@pytest.mark.parametrize(
    ("event", "delta", "adjacency"),
    [
        (composed((0.01, 1, 1000)), 1e-280, Adjacency.ADD_REMOVE),
        (composed((0.1, 2, 10)), 1e-300, Adjacency.ADD_REMOVE),
    ],
)
def test_what_no_grid_bounds_is_told_by_another_accountant(event, delta, adjacency):
    """The upper end of a grid was infinite, and the search for the lower one began there."""
    claim = accounting.headline(event, delta, adjacency)
    assert math.isfinite(claim.epsilon)
    assert claim.epsilon > 10
