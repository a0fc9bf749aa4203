"""The first success of configurations that differ: the two points that they meet cover every end of the search."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpcore.calibrate import Target
from dpcore.checks import InvalidValue
from dpcore.events import Gaussian
from dpcore.selection import (
    Capped,
    EventProfile,
    Ladder,
    LadderRelease,
    PoissonCount,
    ThresholdTwoPoint,
    WorstProfile,
    geometric,
    logarithmic,
    price_ladder,
    with_mean,
)
from dpcore.selection.noise import least_noise
from dpcore.selection.penalties import least_shift
from dpcore.selection.profiles import epsilon_at
from tests.dpcore.selection.finite import climb, ratio, share
from tests.dpcore.selection.test_first import Rungs, fixed_ten, released, start_rungs, tries_seen

WEIGHTS = (0.6, 0.4)
DELTAS = (1e-6, 0.01)


def rule_of(law, trial, delta):
    """The rule that is met with equality at its second point, by the worst of the configurations."""
    odds, mean = law.priced.odds, law.priced.mean
    e1 = least_shift(trial.delta, odds)
    e_hat = epsilon_at(trial, delta / (1 + mean) * (1 - 1e-12))
    d1 = math.expm1(e1) / odds * (1 - 1e-11)
    return ThresholdTwoPoint(law=law, epsilon=(e_hat + e1) * (1 + 1e-12) + 1e-12, delta=delta, e1=e1, d1=d1)


def claimed(law, trial, delta):
    rule = rule_of(law, trial, delta)
    return rule.epsilon


def searched(law, claim, delta, law_of=released, weights=WEIGHTS):
    """Exact epsilon at delta of all that leaves, word of none included, over the claim; a trial's configuration, which
    is drawn by the weights, leaves with it."""

    def score(theta):
        trial = Rungs(theta, len(weights), weights)
        outs = []
        for laws in (trial.p, trial.q):
            ends, none = law_of(law, laws, weights, LadderRelease.FIRST_OF_ANY)
            outs.append(np.append(np.concatenate(ends), none))
        return ratio(*outs, claim(law, WorstProfile(trial.profiles), delta), delta)

    return score


def climbed(score, configurations=2, mechanisms=8, seed=5):
    rng = np.random.default_rng(seed)
    return max(climb(score, start_rungs(rng, configurations), rng) for _ in range(mechanisms))


@pytest.mark.parametrize("law", [geometric(6), logarithmic(9), with_mean(0.5, 8), Capped(geometric(20), 40)], ids=str)
def test_no_configurations_exceed_the_claim(law):
    for delta in DELTAS:
        assert climbed(searched(law, claimed, delta), mechanisms=share(12)) <= 1


def half_of_the_shift(law, trial, delta):
    rule = rule_of(law, trial, delta)
    return rule.epsilon - rule.e1 / 2


def mean_forgotten(law, trial, delta):
    return epsilon_at(trial, delta) + rule_of(law, trial, delta).e1


MUTANTS = {
    "half of the shift": (geometric(6), half_of_the_shift, released, WEIGHTS),
    "delta not shared by the trials": (geometric(6), mean_forgotten, released, WEIGHTS),
    "tries are visible": (geometric(30), claimed, tries_seen, (1.0,)),
    "a fixed number of tries": (geometric(10), claimed, fixed_ten, (1.0,)),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_the_adversary_refutes_what_is_wrong(name):
    law, claim, law_of, weights = MUTANTS[name]
    found = (climbed(searched(law, claim, delta, law_of, weights), len(weights)) for delta in DELTAS)
    assert any(one > 1.005 for one in found)


def test_noise_of_a_gaussian_trial():
    """private_search.md section 1g: 1.991220 for (3, 1e-5) at geometric 27, of a success alone, at all of delta. Word
    of none has its 28th part here."""
    law, target = geometric(27), Target(epsilon=3.0, delta=1e-5)

    def gauss(noise):
        return EventProfile(Gaussian(noise_multiplier=noise))

    noise = least_noise(target, lambda noise: claimed(law, gauss(noise), 1e-5))
    assert 1.991220 < noise < 1.991220 * 1.005
    rule = rule_of(law, gauss(noise), 1e-5)
    assert rule.noise(gauss) == pytest.approx(noise, rel=1e-6)
    # The ladder's theorem prices both ends of one rung within the claim, and their deltas are all of it.
    price = price_ladder(Ladder(law=law, rungs=(gauss(noise),), weights=(1.0,)), (27 * rule.d_hat,), rule.d_hat, 2)
    assert price.rungs[0] <= 3 + 1e-6
    assert price.failure_by_theorem <= 3 + 1e-6
    assert price.delta == pytest.approx(1e-5, rel=1e-9)


@pytest.mark.parametrize("law", [with_mean(3, 27), PoissonCount(27.0), with_mean(-0.5, 27)], ids=str)
def test_a_law_without_a_rule_is_refused(law):
    with pytest.raises(InvalidValue, match="shape in"):
        ThresholdTwoPoint(law=law, epsilon=3, delta=1e-5, e1=1, d1=0.01)


def test_a_first_point_that_adds_more_than_it_says_is_refused():
    with pytest.raises(InvalidValue, match="odds"):
        ThresholdTwoPoint(law=geometric(27), epsilon=3, delta=1e-5, e1=1, d1=math.expm1(1) / 26 * 1.001)
