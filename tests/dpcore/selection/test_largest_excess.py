"""By how much a configuration exceeds its limits: what is not worked out is what could not count."""

import math
from dataclasses import dataclass

import pytest

from dpcore.accountants.pld import DeltaCurve, routes
from dpcore.calibrate import sampled_gaussian
from dpcore.events import PureDP
from dpcore.selection import EventProfile, MixtureProfile, WorstProfile
from dpcore.selection.profiles import OneByOne
from dpcore.selection.two_point import largest_excess, log_ratio

CONFIGURATIONS = {
    "many small steps": EventProfile(sampled_gaussian(1.6, 0.01, 1000)),
    "rare and loud": EventProfile(sampled_gaussian(0.74712, 0.0037619574363088226, 560)),
    "few large steps": EventProfile(sampled_gaussian(2.0, 0.2, 20)),
    "a response": EventProfile(PureDP(epsilon=0.4)),
}
CONFIGURATIONS |= {
    "worst of two": WorstProfile((CONFIGURATIONS["many small steps"], CONFIGURATIONS["few large steps"])),
    "a mixture": MixtureProfile((0.3, 0.7), (CONFIGURATIONS["many small steps"], CONFIGURATIONS["rare and loud"])),
}


def one_by_one(configuration, limits):
    return max(log_ratio(configuration.delta(epsilon), allowed) for epsilon, allowed in limits)


@pytest.mark.parametrize(
    "shares", [(1.0, 1.0), (1.0, 1.05), (1.05, 1.0), (0.2, 0.9), (0.9, 0.2), (3.0, 2.0), (0.5, 50.0)]
)
@pytest.mark.parametrize("configuration", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_it_is_that_of_all_limits_worked_out_whichever_counts(configuration, shares):
    """To the last digit: a noise multiplier that was found once is found again."""
    points = (0.49, 2.0194)
    limits = [(at, max(configuration.delta(at) / share, 1e-12)) for at, share in zip(points, shares, strict=True)]
    for order in (limits, limits[::-1]):
        assert largest_excess(configuration, order) == pytest.approx(one_by_one(configuration, order), abs=1e-15)


def test_the_first_limit_is_told_as_the_profile_tells_it():
    for configuration in CONFIGURATIONS.values():
        assert configuration.along().delta(0.49) == configuration.delta(0.49)


@dataclass(frozen=True)
class Boasting:
    """The mutant: shows whatever it is asked."""

    profile: EventProfile

    def delta(self, epsilon):
        return self.profile.delta(epsilon)

    def along(self):
        return self

    def shows(self, epsilon, bound):
        return True


def test_a_profile_that_shows_too_much_lets_a_configuration_pass():
    configuration = CONFIGURATIONS["many small steps"]
    limits = [(0.49, 2 * configuration.delta(0.49)), (2.0194, 0.5 * configuration.delta(2.0194))]
    assert largest_excess(configuration, limits) == pytest.approx(math.log(2))
    assert largest_excess(Boasting(configuration), limits) < 0


@pytest.mark.parametrize("configuration", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_what_is_shown_holds(configuration):
    """After any number of other questions."""
    along = configuration.along()
    for at in (0.49, 2.0194, 1.0, 0.0, 1.5, 3.0):
        exact = configuration.delta(at)
        for factor in (0.5, 0.99, 1.0, 1.01, 2.0, 20.0, 1e3):
            if along.shows(at, factor * exact):
                assert factor > 0.998, (at, factor)
        along.delta(at)


def test_a_sum_that_is_laid_shows_what_it_tells():
    along = CONFIGURATIONS["many small steps"].along()
    told = along.delta(1.0)
    assert along.shows(1.0, told)
    assert not along.shows(1.0, 0.998 * told)


def test_a_configuration_whose_other_limit_is_far_away_lays_two_sums(monkeypatch):
    """One for each direction: half a millisecond each."""
    routes.forget()
    laid, lay = [], DeltaCurve._sum
    monkeypatch.setattr(
        DeltaCurve, "_sum", lambda self, direction: laid.append(direction.forward) or lay(self, direction)
    )
    configuration = CONFIGURATIONS["many small steps"]
    largest_excess(configuration, [(0.49, 0.0243), (2.0194, 1e-3)])
    assert laid == [True, False]
    assert not routes.delta_bounds.cache_info().misses


def test_a_profile_that_keeps_nothing_is_asked_as_it_is():
    configuration = CONFIGURATIONS["many small steps"]
    along = OneByOne(configuration)
    exact = configuration.delta(0.49)
    assert along.delta(0.49) == exact
    assert along.shows(0.49, exact)
    assert not along.shows(0.49, exact * (1 - 1e-12))
