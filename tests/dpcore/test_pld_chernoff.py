"""Chernoff's bound on delta: above the exact one at every tilt and epsilon, and enough where it says so."""

import math
from dataclasses import replace

import pytest

from dpcore.accountants.pld import PLDAccountant, chernoff, gaussian
from dpcore.accountants.pld.bounds import DELTA_FLOOR, Asked
from dpcore.accountants.pld.pairs import ReplacedSampledGaussian, SampledGaussianPair, SampledRandomisedResponse
from dpcore.accountants.pld.routes import delta_bounds
from dpcore.accountants.pld.saddle_point import direction_at_epsilon
from dpcore.events import Gaussian, PoissonSampled, Repeated

SAMPLED = (SampledGaussianPair(0.02, 1.1), 400)
COMPOSITIONS = {
    "sampled": (SAMPLED,),
    "rare and loud": ((SampledGaussianPair(0.0037619574363088226, 0.74712), 560),),
    "replaced": ((ReplacedSampledGaussian(0.02, 1.1), 400),),
    "and a plain Gaussian": (SAMPLED, (SampledGaussianPair(1.0, 6.0), 1)),
    "and responses": (SAMPLED, (SampledRandomisedResponse(0.1, 1.0), 3)),
}


def moments(parts, epsilon, forward):
    """At tilts around the saddle's own."""
    direction = direction_at_epsilon(parts, Asked(epsilon, 1e-3, DELTA_FLOOR), forward=forward)
    return [chernoff.chernoff(direction, share * direction.saddle.tilt) for share in (0.1, 0.5, 1.0, 1.5)]


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.5])
@pytest.mark.parametrize("parts", COMPOSITIONS.values(), ids=COMPOSITIONS)
def test_one_moment_bounds_delta_at_every_epsilon(parts, epsilon):
    laid = {forward: moments(parts, epsilon, forward) for forward in (True, False)}
    for at in (-0.5, 0.0, 0.3, epsilon, 2.0, 4.0):
        exact = delta_bounds(parts, at, 1e-3)
        for least in range(4):
            most = max(laid[forward][least].log_delta(at) for forward in (True, False))
            assert most >= math.log(exact.lower)


def test_at_the_saddle_it_is_above_by_a_small_factor():
    found = moments((SAMPLED,), 1.5, True)[2]
    assert 1 < math.exp(found.log_delta(1.5)) / delta_bounds((SAMPLED,), 1.5, 1e-3).upper < 8


def test_of_a_plain_gaussian_it_is_the_closed_form():
    """K(t) = mu^2 t (t + 1) / 2, in double precision."""
    mu, epsilon, tilt = 0.5, 1.0, 4.0
    parts = ((SampledGaussianPair(1.0, 1 / mu), 1),)
    direction = direction_at_epsilon(parts, Asked(epsilon, 1e-3, DELTA_FLOOR), forward=True)
    wanted = mu**2 * tilt * (tilt + 1) / 2 - tilt * epsilon + tilt * math.log(tilt) - (tilt + 1) * math.log(tilt + 1)
    found = chernoff.chernoff(direction, tilt).log_delta(epsilon)
    assert wanted <= found <= wanted + 1e-12
    assert found >= math.log(gaussian.delta_bounds(parts, Asked(epsilon, 1e-3, DELTA_FLOOR)).lower)


def test_what_lies_beyond_the_ends_counts_in_full():
    """Far out the moment vanishes, and what the quadrature left out does not."""
    found = chernoff.Chernoff(tilt=3.0, log_mgf=0.1, outside=1e-9).log_delta(50.0)
    assert math.log(1e-9) <= found <= math.log(1e-9) + 1e-12


def test_where_the_law_does_not_vanish_at_the_ends_it_tells_nothing():
    """A law that is cut where a tenth of it is left: its own moment would be too small."""
    parts = ((SampledGaussianPair(0.5, 0.3), 1),)
    direction = direction_at_epsilon(parts, Asked(6.0, 1e-3, DELTA_FLOOR), forward=True)
    rough = replace(direction.cumulants, tail=0.1)
    assert chernoff.chernoff(direction._replace(cumulants=rough), 3.0).log_delta(6.0) == 0.0


def test_a_direction_that_is_known_to_need_more_is_told_by_nobody_here():
    direction = direction_at_epsilon((SAMPLED,), Asked(1.5, 1e-3, DELTA_FLOOR), forward=False)
    exact = delta_bounds((SAMPLED,), 1.5, 1e-3).upper
    assert chernoff.delta_bounds(direction) is None
    assert chernoff.delta_bounds(direction._replace(known=0.01 * exact)) is None
    told = chernoff.delta_bounds(direction._replace(known=exact))
    assert told is not None
    assert told.lower == 0.0
    assert told.upper <= exact


def test_the_direction_that_needs_less_changes_no_digit(monkeypatch):
    """What both directions allow is what the first one needs, whoever tells the second."""
    event = Repeated(event=PoissonSampled(rate=0.02, event=Gaussian(noise_multiplier=1.1)), count=400)
    asked = [0.5, 1.0, 2.0, 4.0, 6.0]
    found = [PLDAccountant().compose(event).delta_bounds(one) for one in asked]
    delta_bounds.cache_clear()
    monkeypatch.setattr(chernoff, "_SHARES", chernoff._SHARES[:0])
    assert [PLDAccountant().compose(event).delta_bounds(one) for one in asked] == found
    delta_bounds.cache_clear()
