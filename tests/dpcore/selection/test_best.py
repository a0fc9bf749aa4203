"""The best of K: printed digits, an oracle, and an adversary over exact laws of small mechanisms, with its mutants."""

import math

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.rdp import RdpAccountant

from dpcore.calibrate import NOISE, Target, boldest, sampled_gaussian
from dpcore.checks import InvalidValue
from dpcore.events import Gaussian, NonPrivate, Unknown, UnsupportedEvent
from dpcore.selection import best as penalties
from dpcore.selection.best import ByReference
from dpcore.selection.counts import (
    BinomialCount,
    Capped,
    PoissonCount,
    geometric,
    logarithmic,
    with_mean,
)
from dpcore.selection.profiles import EventProfile, WorstProfile, epsilon_at
from tests.dpcore.selection.finite import FiniteProfile, generating, laws, ratio, share, worst

D1 = sampled_gaussian(1.0, 0.01, 1000)
GAUSS = {sigma: Gaussian(noise_multiplier=sigma) for sigma in (1.0, 2.0, 4.0)}
TARGET = Target(epsilon=3.0, delta=1e-5)
SGD = (0.01, 1000)


def price(law, event, delta=1e-5):
    return ByReference(law=law, delta=delta).price(EventProfile(event))


@pytest.mark.parametrize(
    ("event", "law", "printed"),
    [
        (GAUSS[1.0], logarithmic(10), 6.213),
        (GAUSS[1.0], geometric(10), 6.618),
        (GAUSS[2.0], geometric(100), 4.193),
        (D1, geometric(10), 2.871),
    ],
)
def test_totals_by_the_tight_form(event, law, printed):
    """private_search.md section 1c."""
    assert price(law, event) == pytest.approx(printed, abs=1e-3)


def test_tight_shifts():
    """private_search.md section 1c: e* of Gauss 1, m = 10."""
    gauss = EventProfile(GAUSS[1.0])
    assert penalties.tight(logarithmic(10), gauss).e1 == pytest.approx(1.3265, abs=5.1e-5)
    assert penalties.tight(geometric(10), gauss).e1 == pytest.approx(0.8655, abs=5.1e-5)


def solved(law, event_of):
    def spent(noise):
        return price(law, event_of(noise), TARGET.delta)

    noise = boldest(NOISE, lambda noise: spent(noise) - TARGET.epsilon, 1.0)
    assert spent(noise) <= TARGET.epsilon < spent(noise * (1 - 1e-4))
    return noise


@pytest.mark.parametrize(
    ("law", "printed"),
    [(logarithmic(10), 1.9612), (geometric(10), 2.0915), (geometric(27), 2.3867), (geometric(100), 2.7587)],
)
def test_noise_of_gaussian_trials(law, printed):
    """private_search.md section 1c: sigma for (3, 1e-5), printed to nearest; solved ones round up."""
    assert solved(law, lambda noise: Gaussian(noise_multiplier=noise)) == pytest.approx(printed, abs=1.1e-4)


@pytest.mark.parametrize(("mean", "printed"), [(10, 0.9786), (27, 1.0526), (100, 1.1501)])
def test_noise_of_dp_sgd_trials(mean, printed):
    """private_search.md section 1c: q = .01, T = 1000."""
    found = solved(geometric(mean), lambda noise: sampled_gaussian(noise, *SGD))
    assert found == pytest.approx(printed, abs=2e-4)


def test_a_prior_of_unlike_configurations_costs_what_the_rule_says():
    """Calibrated to two points, any mixture is within the target; calibrated to one epsilon each, it is not."""
    law, kinds = geometric(27), [SGD, (0.05, 50), (0.002, 20000)]
    reference = ByReference(law=law, delta=TARGET.delta)

    def profile(kind, noise):
        return EventProfile(sampled_gaussian(noise, *kind))

    first = boldest(NOISE, lambda noise: reference.price(profile(SGD, noise)) - TARGET.epsilon, 1.0)
    rule = reference.points(profile(SGD, first), TARGET.epsilon)
    noises = [boldest(NOISE, lambda noise, kind=kind: rule.exceeds(profile(kind, noise)), 1.0) for kind in kinds]
    parts = tuple(map(profile, kinds, noises))
    assert all(rule.exceeds(part) <= 0 for part in parts)
    assert rule.exceeds(profile(kinds[1], noises[1] * 0.999)) > 0
    assert reference.price(WorstProfile(parts)) <= 3.0 * (1 + 1e-9)


@pytest.mark.parametrize("mean", [5, 40])
@pytest.mark.parametrize("shape", [0.0, 1.0, 2.5])
def test_dp_accounting_asks_for_more(shape, mean):
    """RepeatAndSelectDpEvent (dp_accounting): theorem 2 of Papernot & Steinke (2022), by Renyi divergences."""
    event = dp_event.RepeatAndSelectDpEvent(dp_event.GaussianDpEvent(2.0), mean, shape)
    theirs = RdpAccountant().compose(event).get_epsilon(1e-6)
    assert 0.6 * theirs < price(with_mean(shape, mean), GAUSS[2.0], 1e-6) < theirs


# What is released, exactly. Outputs are in the order of rank; `default` is what stands where K is 0.


def released(law, p):
    f = np.array([generating(law, float(min(q, 1.0))) for q in np.concatenate([[0], np.cumsum(p)])])
    return np.concatenate([f[:1], np.diff(f)])


def with_count(law, p, most=60):
    up = np.cumsum(p)
    masses = law.pmf(np.arange(most + 1))
    return np.concatenate([masses[k] * np.diff(np.concatenate([[0], up]) ** k) for k in range(1, most + 1)])


def with_slot(law, p, most=40):
    """Slot s wins with y: earlier ones are below y, later ones at most y."""
    up, masses = np.cumsum(p), law.pmf(np.arange(most + 1))
    below = np.concatenate([[0], up[:-1]])
    later = np.cumsum([masses[k] * up**k for k in range(most, 0, -1)], axis=0)[::-1]
    return np.concatenate([below ** (s - 1) * p * later[s - 1] / up**s for s in range(1, most + 1)])


def at_most(cap):
    def law_of(law, p):
        masses = law.pmf(np.arange(cap))
        f = np.polynomial.Polynomial([*masses, 1 - masses.sum()])
        return np.diff(f(np.concatenate([[0], np.cumsum(p)])))

    return law_of


def own(law, trial, delta):
    return epsilon_at(trial, delta / law.priced.mean)


def tight(law, trial, delta):
    return own(law, trial, delta) + penalties.tight(law, trial).penalty


def violation(law, claim, delta, law_of=released, seed=1, mechanisms=8):
    def score(theta):
        p, q = laws(theta)
        return ratio(law_of(law, p), law_of(law, q), claim(law, FiniteProfile(p, q), delta), delta)

    return worst(score, seed, mechanisms)


LAWS = [
    geometric(5),
    logarithmic(8),
    with_mean(-0.5, 3),
    with_mean(3, 6),
    BinomialCount(6, 0.4),
    PoissonCount(3.0),
    PoissonCount(0.5),
    Capped(geometric(30), 6),
    Capped(PoissonCount(3.0), 3),
    Capped(BinomialCount(6, 0.4), 2),
]


@pytest.mark.chaos
@pytest.mark.parametrize("delta", [1e-6, 0.01])
@pytest.mark.parametrize("law", LAWS, ids=str)
def test_no_mechanism_and_no_ranking_exceeds_the_price(law, delta):
    assert violation(law, tight, delta, mechanisms=share(2 * len(LAWS))) <= 1


MUTANTS = {
    "shape for 1 + shape": (geometric(5), lambda *a: own(*a) + penalties.tight(*a[:2]).penalty / 2, released),
    "half of the logarithmic penalty": (
        logarithmic(8),
        lambda *a: own(*a) + 0.5 * penalties.tight(*a[:2]).penalty,
        released,
    ),
    "a coin less": (BinomialCount(3, 0.4), lambda *a: own(*a) + penalties.tight(*a[:2]).penalty / 2, released),
    "half of Poisson's penalty": (
        PoissonCount(3.0),
        lambda *a: own(*a) + 0.5 * penalties.tight(*a[:2]).penalty,
        released,
    ),
    "delta not divided by the mean": (
        geometric(5),
        lambda law, trial, delta: trial.epsilon(delta) + penalties.tight(law, trial).penalty,
        released,
    ),
    "a profile of one direction": (
        geometric(5),
        lambda law, trial, delta: tight(law, FiniteProfile(trial.p, trial.q, one_way=True), delta),
        released,
    ),
    "the trial's own epsilon": (geometric(5), own, released),
    "the slot is visible": (geometric(30), tight, with_slot),
    "K is visible": (geometric(30), tight, with_count),
    "the smaller of K and cap": (geometric(1000), tight, at_most(10)),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_the_adversary_refutes_what_is_wrong(name):
    law, claim, law_of = MUTANTS[name]
    assert violation(law, claim, 1e-6, law_of) > 1.01


def test_a_point_from_which_no_penalty_follows_is_refused():
    """A larger delta at e1 than (exp(e1) - 1) / odds: a mechanism with it would cost more than the penalty at e1."""
    for law in (geometric(10), BinomialCount(20, 0.3)):
        d1 = math.expm1(0.1) / law.odds
        assert penalties.at_point(law, 0.1, d1 * (1 - 1e-6)) >= 0.2
        with pytest.raises(InvalidValue, match="d1="):
            penalties.at_point(law, 0.1, d1 * (1 + 1e-6))


@pytest.mark.parametrize("law", [geometric(10), logarithmic(10), BinomialCount(20, 0.3), PoissonCount(7.0)])
def test_no_point_is_cheaper_than_the_one_that_is_taken(law):
    """Each point of a profile gives a penalty that holds (Koskela, Redberg & Wang 2024); the taken one is the least."""
    trial = EventProfile(GAUSS[2.0])
    taken = penalties.tight(law, trial)
    for e1 in (taken.e1, taken.e1 + 0.1, taken.e1 + 1.0):
        assert penalties.at_point(law, e1, trial.delta(e1)) >= taken.penalty * (1 - 1e-9)


def test_what_tells_all_costs_everything_and_what_nobody_knows_is_refused():
    assert price(geometric(5), NonPrivate()) == math.inf
    with pytest.raises(UnsupportedEvent):
        price(geometric(5), Unknown(description="a plot"))
