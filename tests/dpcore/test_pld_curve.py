"""One sum over frequencies for a neighbourhood of epsilons: bounds as certain as those that are asked one by one."""

import math

import pytest

from dpcore.accountants.pld import DeltaCurve, PLDAccountant
from dpcore.events import Adjacency, Composed, Gaussian, NonPrivate, PoissonSampled, PureDP, Repeated
from dpcore.gdp import delta_gdp
from dpcore.selection import EventProfile, covering_mu, is_covered

ADD_REMOVE, REPLACE_ONE = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
TAU = 1e-7


def steps(noise, count, rate):
    return Repeated(event=PoissonSampled(rate=rate, event=Gaussian(noise_multiplier=noise)), count=count)


EVENTS = {
    "many small steps": steps(1.6, 1000, 0.01),
    "few large steps": steps(1.1, 20, 0.2),
    "two phases": Composed(events=(steps(1.0, 200, 0.01), steps(2.0, 500, 0.03))),
    "and a plain Gaussian": Composed(events=(steps(1.0, 200, 0.01), Gaussian(noise_multiplier=6.0))),
}


@pytest.mark.parametrize("adjacency", [ADD_REMOVE, REPLACE_ONE])
@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS)
def test_it_is_above_the_certified_lower_bound_and_close_to_the_upper_one_in_any_order(event, adjacency):
    exact = PLDAccountant(adjacency=adjacency, tolerance=1e-4).compose(event)
    curve, last = DeltaCurve.of(event, adjacency, 1e-3), exact.epsilon(TAU)
    shares = [1.0, 0.0, 0.5, 0.25, 0.75, 0.9, 0.1, 0.55]
    for share in shares:
        found, wanted = curve.delta(share * last), exact.delta_bounds(share * last)
        assert found is not None
        assert wanted.lower <= found <= wanted.upper * 1.0012
    assert 0 < sum(len(laid.sums) for laid in curve.laid.values()) < 2 * len(shares), "no sum served two epsilons"


def test_both_directions_count():
    """The mutant: forward alone, which is below the other at epsilons below 0."""
    event = EVENTS["few large steps"]
    curve, exact = DeltaCurve.of(event, ADD_REMOVE, 1e-3), PLDAccountant(tolerance=1e-4).compose(event)
    assert curve.delta(-0.5) == pytest.approx(exact.delta_bounds(-0.5).upper, rel=2e-3)
    forward, backward = (math.exp(curve.laid[way].sums[0].at(-0.5).upper) for way in (True, False))
    assert backward > 1.02 * forward


UNTOLD = {
    "nothing private": NonPrivate(),
    "a randomised response": PureDP(epsilon=0.5),
    "a plain Gaussian": Gaussian(noise_multiplier=2.0),
    "a response among steps": Composed(events=(EVENTS["two phases"], PureDP(epsilon=0.1))),
}


@pytest.mark.parametrize("event", UNTOLD.values(), ids=UNTOLD)
def test_what_sums_do_not_tell_is_left_to_the_accountant(event):
    assert DeltaCurve.of(event, ADD_REMOVE, 1e-3).delta(0.3) is None
    profile = EventProfile(event)
    assert profile.along().delta(0.3) == profile.delta(0.3)


@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS)
def test_what_is_shown_to_cover_is_what_the_least_mu_says(event):
    profile = EventProfile(event)
    least = covering_mu(profile, TAU, 1e-4)
    last = profile.epsilon(TAU)
    assert is_covered(profile.along().delta, last, least * 1.0005, TAU)
    assert not is_covered(profile.along().delta, last, least * 0.999, TAU)
    # A guess costs time alone: one that is too small is moved, and one that is far too small shows nothing.
    assert is_covered(profile.along().delta, last * 0.95, least * 1.0005, TAU)
    assert not is_covered(profile.along().delta, last / 10, least * 1.0005, TAU)


def test_points_alone_would_let_a_smaller_mu_pass():
    """The mutant: comparing at both ends, as if the curve between them were not above."""
    profile = EventProfile(EVENTS["many small steps"])
    last, mu = profile.epsilon(TAU), 0.97 * covering_mu(profile, TAU, 1e-3)
    assert profile.delta(0.0) <= TAU + (1 - TAU) * delta_gdp(0.0, mu)
    assert profile.delta(last) <= TAU * (1 + 1e-3)
    assert not is_covered(profile.along().delta, last, mu, TAU)
