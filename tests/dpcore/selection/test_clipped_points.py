"""Two points under adaptive proposals: printed digits, and an adversary over mechanisms, policies and rankings."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from dpcore.calibrate import Target, sampled_gaussian
from dpcore.checks import InvalidValue
from dpcore.events import Gaussian
from dpcore.selection import (
    Capped,
    EventProfile,
    HeterogeneousTrials,
    WorstProfile,
    geometric,
    logarithmic,
    price_clipped,
)
from dpcore.selection.best import ByReference, clipped_at_point, clipped_published, heterogeneous_trials
from dpcore.selection.counts import PoissonCount, with_mean
from dpcore.selection.price import at_point, least_shift
from dpcore.selection.profiles import MixtureProfile
from tests.dpcore.selection.finite import FiniteProfile, laws, ratio, share
from tests.dpcore.selection.test_fronts import best_of_proposed, climbed_clipped

TARGET = Target(epsilon=3.0, delta=1e-5)
SGD = (0.01, 1000)
DELTA = 1e-6


def gauss(noise):
    return EventProfile(Gaussian(noise_multiplier=noise))


@pytest.mark.parametrize(("low", "high", "published"), [(1.0, 1.0, 2.19), (0.9, 1.1, 2.51), (0.75, 1.25, 3.24)])
def test_noise_under_two_points_is_at_most_the_published_one(low, high, published):
    """private_search.md section 1d: Gaussian, m = 10, logarithmic, (3, 1e-5). Printed by the published form, which the
    tight one is a little below; at e1 of its own the rule asks what the price does."""
    law = logarithmic(10)
    rule = heterogeneous_trials(law, TARGET, gauss, low, high)
    noise = rule.noise(gauss)
    assert noise <= published
    assert price_clipped(law, gauss(noise), 1e-5, low, high).epsilon <= 3 * (1 + 1e-9)
    assert price_clipped(law, gauss(noise * (1 - 1e-3)), 1e-5, low, high).epsilon > 3
    assert rule.e1 == pytest.approx(least_shift(gauss(noise).delta, high * law.odds, high / low), abs=1e-4)
    assert rule.penalty == pytest.approx(2 * math.log(high / low) + rule.e1, rel=1e-9)
    assert rule.d_hat == pytest.approx(1e-5 / (10 * high), rel=1e-12)
    assert rule.e_hat == pytest.approx(3 - rule.penalty, rel=1e-12)


@pytest.mark.parametrize(("low", "high", "told"), [(1.0, 1.0, 2.39), (0.9, 1.1, 2.85), (0.75, 1.25, 4.16)])
def test_noise_that_the_readme_tells(low, high, told):
    assert heterogeneous_trials(geometric(27), TARGET, gauss, low, high).noise(gauss) == pytest.approx(told, abs=6e-3)


def test_bounds_of_one_are_no_bounds():
    for law in (geometric(10), logarithmic(10)):
        assert heterogeneous_trials(law, TARGET, gauss, 1.0, 1.0) == heterogeneous_trials(law, TARGET, gauss)
        for e1, d1 in ((0.378, 0.0368), (0.2, 0.01), (0.0, 0.5)):
            assert clipped_at_point(law, e1, d1, 1.0, 1.0) == pytest.approx(at_point(law, e1, d1), rel=1e-9, abs=1e-14)


def test_a_first_point_above_the_root_takes_the_published_penalty():
    law = geometric(10)
    e1, much = 0.1, 0.5
    assert clipped_at_point(law, e1, much, 0.8, 1.2) == clipped_published(law, e1, much, 0.8, 1.2)
    most = ((1.5) * math.exp(e1) - 1) / (1.2 * law.odds)
    tight = 3 * math.log(1.5) + 2 * e1
    assert clipped_at_point(law, e1, most * (1 - 1e-11), 0.8, 1.2) == pytest.approx(tight, rel=1e-9)
    assert clipped_at_point(law, e1, most * 1.001, 0.8, 1.2) > tight


def test_a_prior_of_unlike_configurations_costs_what_the_rule_says():
    low, high, law = 0.75, 1.25, geometric(27)
    kinds = [SGD, (0.05, 50), (0.002, 20000)]
    rule = heterogeneous_trials(
        law, Target(epsilon=4.0, delta=1e-5), lambda n: EventProfile(sampled_gaussian(n, *SGD)), low, high
    )
    noises = [rule.noise(lambda n, kind=kind: EventProfile(sampled_gaussian(n, *kind))) for kind in kinds]
    parts = tuple(EventProfile(sampled_gaussian(n, *kind)) for n, kind in zip(noises, kinds, strict=True))
    assert all(map(rule.covers, parts))
    assert not replace(rule, low=1.0, high=1.0, epsilon=rule.e_hat).covers(parts[0])
    # Wider bounds cover less.
    assert not any(replace(rule, high=1.3).covers(one) for one in parts[:1])
    for prior in (WorstProfile(parts), MixtureProfile((0.2, 0.5, 0.3), parts)):
        assert price_clipped(law, prior, 1e-5, low, high).epsilon <= 4.0 * (1 + 1e-9)


# The exact law of what leaves: two unlike configurations, a prior of a half each, a policy for every history, K <= 3.


def honest(law, low, high, hardest):
    """The rule of a reference as dear as either configuration at each point, at the price that it then has."""
    rule = ByReference(law=law, delta=DELTA, low=low, high=high).points(hardest, 100.0)
    rule = replace(rule, d1=hardest.delta(rule.e1))
    return replace(rule, epsilon=(rule.penalty + hardest.epsilon(rule.d_hat)) * (1 + 1e-9))


def plain(law, low, high, hardest):
    """As if no result changed what is proposed."""
    return honest(law, 1.0, 1.0, hardest)


def without_ratio(law, low, high, hardest):
    """d_hat and e1 are those of the bounds; what the bounds themselves cost is left out."""
    rule = honest(law, low, high, hardest)
    return SimpleNamespace(epsilon=rule.epsilon - (2 + law.priced.shape) * math.log(high / low))


def exceeded(law, low, high, rule_of):
    """(score) how much of the rule's epsilon the exact one is, over mechanisms, policies and rankings."""
    most = min(high / 2, 1 - low / 2)

    def score(theta):
        (p0, q0), (p1, q1) = laws(theta[:6]), laws(theta[6:12])
        hardest = WorstProfile((FiniteProfile(p0, q0), FiniteProfile(p1, q1)))
        rule = rule_of(law, low, high, hardest)
        if rule_of is honest:
            assert all(map(rule.covers, hardest.parts))
        chances = 1 - most + (2 * most - 1) / (1 + np.exp(-theta[18:]))
        place = np.argsort(theta[12:18])
        left = [best_of_proposed(law, pair, chances, place) for pair in ((p0, p1), (q0, q1))]
        return ratio(*left, rule.epsilon, DELTA)

    return score


@pytest.mark.chaos
@pytest.mark.parametrize("law", [Capped(geometric(2), 3), Capped(with_mean(-0.9, 1.2), 3), Capped(logarithmic(2), 3)])
def test_no_policy_over_covered_configurations_exceeds_the_rule(law):
    assert climbed_clipped(exceeded(law, 0.5, 1.5, honest), share(6)) <= 1
    assert climbed_clipped(exceeded(law, 0.02, 1.98, honest), share(6)) <= 1


@pytest.mark.parametrize("wrong", [plain, without_ratio])
def test_the_adversary_refutes_what_leaves_adaptivity_out(wrong):
    assert climbed_clipped(exceeded(Capped(geometric(3), 3), 0.02, 1.98, wrong), 4, 200) > 1.1


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: HeterogeneousTrials(law=geometric(9), epsilon=3.0, delta=1e-5, e1=0.1, d1=0.001, low=1.1, high=1.2),
            "low=1.1",
        ),
        (
            lambda: HeterogeneousTrials(law=geometric(9), epsilon=3.0, delta=1e-5, e1=0.1, d1=0.001, low=0.9, high=0.9),
            "high=0.9",
        ),
        (
            lambda: HeterogeneousTrials(law=PoissonCount(3.0), epsilon=3.0, delta=1e-5, e1=0.1, d1=0.001, low=0.9),
            "law=",
        ),
        # What is fine without bounds has nothing left with these.
        (
            lambda: HeterogeneousTrials(law=geometric(9), epsilon=1.0, delta=1e-5, e1=0.1, d1=0.001, low=0.5, high=1.5),
            "e1=0.1",
        ),
    ],
)
def test_bad_bounds_are_refused_by_name(make, words):
    with pytest.raises(InvalidValue, match=words):
        make()
