"""The exam that every accountant sits: honest edges, monotone numbers, composition that adds up, nothing mutated."""

import math

import pytest

from dpcore.accounting import ACCOUNTANTS, make
from dpcore.events import (
    Adjacency,
    Composed,
    Gaussian,
    NonPrivate,
    PoissonSampled,
    PureDP,
    Repeated,
    Unknown,
    UnsupportedEvent,
)

EVERY = pytest.mark.parametrize("name", list(ACCOUNTANTS))
BOTH = pytest.mark.parametrize("adjacency", list(Adjacency))
GAUSSIAN = Gaussian(noise_multiplier=5.0)
SAMPLED = PoissonSampled(rate=0.02, event=Gaussian(noise_multiplier=1.5))
REPLACED_PURE = PureDP(epsilon=1.0, adjacency=Adjacency.REPLACE_ONE)
# Two certified bounds of one number may differ by the tolerance asked for; closed forms by rounding only.
SLACK = {"pld": 1.1e-3}


def open_one(name: str, adjacency: Adjacency = Adjacency.ADD_REMOVE):
    return make(name, adjacency)


def events_for(name: str, adjacency: Adjacency):
    events = [
        GAUSSIAN,
        Composed(events=(GAUSSIAN, PureDP(epsilon=0.1))),
        SAMPLED,
        Composed(events=(GAUSSIAN, Repeated(event=SAMPLED, count=50))),
    ]
    return [event for event in events if make(name, adjacency).supports(event)]


@EVERY
@BOTH
def test_nothing_released_costs_nothing(name, adjacency):
    for accountant in (make(name, adjacency), make(name, adjacency).compose(GAUSSIAN, 0)):
        assert accountant.epsilon(1e-5) == 0.0
        assert accountant.delta(0.0) == 0.0


@EVERY
@BOTH
@pytest.mark.parametrize("event", [NonPrivate(), PoissonSampled(rate=0.1, event=NonPrivate())])
def test_non_private_is_infinite(name, adjacency, event):
    if not make(name, adjacency).supports(event):
        with pytest.raises(UnsupportedEvent):
            make(name, adjacency).compose(event)
        return
    accountant = make(name, adjacency).compose(GAUSSIAN).compose(event)
    assert accountant.epsilon(1e-5) == math.inf
    assert accountant.delta(3.0) == 1.0


@EVERY
@BOTH
@pytest.mark.parametrize(
    "event",
    [
        Unknown(description="a mystery"),
        Composed(events=(GAUSSIAN, Unknown(description="a mystery"))),
        PoissonSampled(rate=0.1, event=Unknown(description="a mystery")),
    ],
)
def test_the_unknown_is_refused_by_name(name, adjacency, event):
    accountant = make(name, adjacency)
    assert not accountant.supports(event)
    with pytest.raises(UnsupportedEvent, match="a mystery") as caught:
        accountant.compose(event)
    assert name in str(caught.value)


@EVERY
def test_a_replace_one_sensitivity_never_counts_for_add_remove(name):
    for event in (Gaussian(noise_multiplier=1.0, adjacency=Adjacency.REPLACE_ONE), REPLACED_PURE):
        assert not open_one(name).supports(event)
        with pytest.raises(UnsupportedEvent):
            open_one(name).compose(event)


@EVERY
@BOTH
def test_amplification_needs_the_add_remove_sensitivity(name, adjacency):
    for part in (Gaussian(noise_multiplier=1.0, adjacency=Adjacency.REPLACE_ONE), REPLACED_PURE):
        event, accountant = PoissonSampled(rate=0.1, event=part), make(name, adjacency)
        if accountant.supports(event):
            # Charged as if nobody were left out.
            assert accountant.compose(event).epsilon(1e-6) == accountant.compose(part).epsilon(1e-6)
        else:
            with pytest.raises(UnsupportedEvent, match=name):
                accountant.compose(event)


@EVERY
@BOTH
def test_composing_in_parts_equals_the_whole_and_mutates_nothing(name, adjacency):
    for event in events_for(name, adjacency):
        start = make(name, adjacency).compose(event, 3)
        before = start.epsilon(1e-5)
        whole = make(name, adjacency).compose(event, 10).epsilon(1e-5)
        assert start.compose(event, 7).epsilon(1e-5) == pytest.approx(whole, rel=SLACK.get(name, 1e-12))
        again = make(name, adjacency).compose(Repeated(event=event, count=10)).epsilon(1e-5)
        assert again == pytest.approx(whole, rel=SLACK.get(name, 1e-12))
        assert start.epsilon(1e-5) == before


@EVERY
@BOTH
def test_epsilon_falls_with_delta_and_grows_with_the_count(name, adjacency):
    for event in events_for(name, adjacency):
        once, twice = make(name, adjacency).compose(event, 5), make(name, adjacency).compose(event, 20)
        epsilons = [twice.epsilon(delta) for delta in (1e-10, 1e-6, 1e-3)]
        assert epsilons == sorted(epsilons, reverse=True)
        assert once.epsilon(1e-6) < twice.epsilon(1e-6)


@EVERY
@BOTH
def test_delta_and_epsilon_are_one_curve(name, adjacency):
    for event in events_for(name, adjacency):
        # A loose tolerance: for pld it is relative to delta here, which is far dearer than relative to epsilon.
        accountant = make(name, adjacency, 0.05).compose(event, 20)
        epsilon = accountant.epsilon(1e-6)
        # Far inside and far outside the tolerance of either side.
        assert accountant.delta(1.1 * epsilon) <= 1e-6
        assert accountant.delta(0.85 * epsilon) > 1e-6
        assert accountant.delta(1.1 * epsilon) <= accountant.delta(0.0) <= 1


@EVERY
def test_replacing_costs_at_least_as_much_as_adding(name):
    for event in events_for(name, Adjacency.REPLACE_ONE):
        replace = make(name, Adjacency.REPLACE_ONE).compose(event, 20).epsilon(1e-6)
        assert replace > make(name, Adjacency.ADD_REMOVE).compose(event, 20).epsilon(1e-6)


@EVERY
@BOTH
def test_every_proved_number_is_above_the_certified_lower_bound(name, adjacency):
    for event in events_for(name, adjacency):
        accountant = make(name, adjacency).compose(event, 30)
        exact = make("pld", adjacency, 0.05).compose(event, 30)
        if accountant.status.value == "proved":
            assert accountant.epsilon(1e-6) >= exact.epsilon_lower(1e-6)
            assert accountant.delta(1.0) >= exact.delta_lower(1.0)


@EVERY
@BOTH
def test_a_delta_below_every_float_is_not_zero(name, adjacency):
    for event in (GAUSSIAN, SAMPLED):
        if make(name, adjacency).supports(event):
            assert make(name, adjacency).compose(event, 3).delta(5000.0) > 0
