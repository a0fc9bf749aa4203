"""By how much a configuration exceeds its limits: what is not worked out is what could not count."""

import math
from dataclasses import dataclass

import pytest

from dpcore.accountants.pld import DeltaCurve, routes
from dpcore.calibrate import sampled_gaussian
from dpcore.events import PureDP
from dpcore.selection import EventProfile, MixtureProfile, WorstProfile
from dpcore.selection.best import largest_excess, log_ratio
from dpcore.selection.profiles import OneByOne

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
    """To the last digits."""
    points = (0.49, 2.0194)
    limits = tuple((at, max(configuration.delta(at) / share, 1e-12)) for at, share in zip(points, shares, strict=True))
    for order in (limits, limits[::-1]):
        assert largest_excess(configuration, order) == pytest.approx(one_by_one(configuration, order), abs=1e-15)


def test_the_first_limit_is_told_as_the_profile_tells_it():
    for configuration in CONFIGURATIONS.values():
        assert configuration.along().delta(0.49) == configuration.delta(0.49)


@dataclass(frozen=True)
class Boasting:
    """The mutant: has no idea what to ask first, and says `enough` whatever it is asked."""

    profile: EventProfile

    def delta(self, epsilon):
        return self.profile.delta(epsilon)

    def along(self):
        return self

    def estimate(self, epsilon):
        return 0.0

    def delta_above(self, epsilon, enough):
        return enough or self.profile.delta(epsilon)


def test_a_profile_that_shows_too_much_lets_a_configuration_pass():
    configuration = CONFIGURATIONS["many small steps"]
    kept, broken = (0.49, 2 * configuration.delta(0.49)), (2.0194, 0.5 * configuration.delta(2.0194))
    assert largest_excess(configuration, (kept, broken)) == pytest.approx(math.log(2))
    assert largest_excess(Boasting(configuration), (kept, broken)) == pytest.approx(-math.log(2))


@pytest.mark.parametrize("configuration", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_what_is_said_holds_and_is_exact_above_what_is_enough(configuration):
    """After any number of other questions."""
    along = configuration.along()
    for at in (0.49, 2.0194, 1.0, 0.0, 1.5, 3.0):
        exact = configuration.delta(at)
        for factor in (20.0, 1.01, 1.0, 0.99, 0.5, 2.0, 1e3, 0.0):
            found = along.delta_above(at, factor * exact)
            # Where both directions need the same, either sum may count: they agree to eight digits.
            close = found == pytest.approx(exact, rel=1e-8)
            assert close or 0.998 * exact <= found <= factor * exact, (at, factor)
        assert along.delta(at) == pytest.approx(exact, rel=1.2e-3)


def test_a_configuration_whose_other_limit_is_far_away_lays_two_sums(monkeypatch):
    """One for each direction: half a millisecond each."""
    routes.forget()
    largest_excess.cache_clear()
    laid, lay = [], DeltaCurve._sum
    monkeypatch.setattr(
        DeltaCurve, "_sum", lambda self, direction: laid.append(direction.forward) or lay(self, direction)
    )
    configuration = CONFIGURATIONS["many small steps"]
    largest_excess(configuration, ((0.49, 0.0243), (2.0194, 1e-3)))
    assert laid == [True, False]
    assert not routes.delta_bounds.cache_info().misses


def test_a_profile_that_keeps_nothing_is_asked_as_it_is():
    configuration = CONFIGURATIONS["many small steps"]
    along = OneByOne(configuration)
    exact = configuration.delta(0.49)
    assert along.delta(0.49) == along.delta_above(0.49, 1.0) == exact
