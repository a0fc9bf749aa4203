"""The first success of configurations that differ, of the cheapest budget: their points cover every end."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpcore.calibrate import Target
from dpcore.checks import InvalidValue
from dpcore.events import Gaussian
from dpcore.selection import (
    Capped,
    Climbing,
    EventProfile,
    Ladder,
    LadderPoints,
    LadderRelease,
    PoissonCount,
    WorstProfile,
    geometric,
    logarithmic,
    price_ladder,
    with_mean,
)
from dpcore.selection.price import least_noise, least_shift
from dpcore.selection.profiles import epsilon_at
from tests.dpcore.selection.finite import climb, ratio, share
from tests.dpcore.selection.test_first import Rungs, fixed_ten, released, start_rungs, tries_seen

DELTAS = (1e-6, 0.01)
LAWS = [geometric(6), logarithmic(9), with_mean(0.5, 8), Capped(geometric(20), 40)]
UP = 1 + 1e-9


def gauss(noise):
    return EventProfile(Gaussian(noise_multiplier=noise))


def points_of(law, trials, delta, weights=None):
    """The points that these trials, one of each rung, meet with equality, where budgets rise with them."""
    climbing = Climbing(law=law, weights=weights or (1 / len(trials),) * len(trials), delta=delta)
    epsilons, left = [], []
    for trial in trials:
        own = climbing.price(trial) * UP + 1e-12
        epsilons.append(max([own, *(one * UP for one in epsilons)]))
        climbing = climbing.with_rung(trial)
    shifts = [0.0, *climbing.shifts]
    eta = law.priced.shape
    left = [e - (high + eta * low) for e, low, high in zip(epsilons, shifts, shifts[1:], strict=False)]
    # Word of none is no dearer than the dearest budget: mechanisms at random may need a larger one for it.
    epsilons[-1] = max(epsilons[-1], (max(left) + (1 + eta) / 2 * shifts[-1]) * UP)
    return climbing.points(epsilons)


def promised(points, trials, delta):
    """Epsilon of each end."""
    return [*points.epsilons, points.failure]


def end_deltas(points):
    return [*(points.priced.mean * weight * points.d_hat for weight in points.weights), points.d_hat]


def of_rung(laws, split):
    """One trial of a rung: no success, then the successes of each of its configurations, drawn by a secret split."""
    none = sum(share_ * one[0] for share_, one in zip(split, laws, strict=True))
    return np.concatenate([[none], *(share_ * one[1:] for share_, one in zip(split, laws, strict=True))])


def searched(law, delta, claims=promised, rungs=2, law_of=released):
    """The largest, over the ends, of the exact epsilon at the end's delta over what is claimed of it.

    Each rung has two configurations, whose split no price knows.
    """

    def score(theta):
        trial = Rungs(theta, 2 * rungs, (1.0,) * (2 * rungs))
        places = [slice(2 * rung, 2 * rung + 2) for rung in range(rungs)]
        trials = [WorstProfile(trial.profiles[place]) for place in places]
        points = points_of(law, trials, delta)
        outs = []
        for laws in (trial.p, trial.q):
            ends, none = law_of(
                law, [of_rung(laws[one], (0.3, 0.7)) for one in places], points.weights, LadderRelease.FIRST_IN_LOWEST
            )
            outs.append([*ends, np.array([none])])
        claimed = zip(*outs, claims(points, trials, delta), end_deltas(points), strict=True)
        return max(ratio(p, q, epsilon, own) for p, q, epsilon, own in claimed)

    return score


def climbed(score, rungs=2, mechanisms=8, seed=5):
    rng = np.random.default_rng(seed)
    return max(climb(score, start_rungs(rng, 2 * rungs), rng) for _ in range(mechanisms))


@pytest.mark.parametrize("rungs", [1, 2, 3])
@pytest.mark.parametrize("law", LAWS, ids=str)
def test_no_configurations_exceed_what_is_claimed_of_any_end(law, rungs):
    for delta in DELTAS:
        assert climbed(searched(law, delta, rungs=rungs), rungs, share(24)) <= 1


def half_of_the_shift(points, trials, delta):
    return [epsilon - shift / 2 for epsilon, shift in zip(points.epsilons, points.shifts, strict=True)] + [
        points.failure
    ]


def cheaper_rungs_forgotten(points, trials, delta):
    """The shift of the second rung from its own trials alone, as if those below were no successes before it."""
    alone = points_of(points.law, [trials[1]], delta, (1.0,))
    own = least_shift(lambda e: points.weights[1] * trials[1].delta(e), points.priced.odds)
    assert len(alone.epsilons) == 1
    return [points.epsilons[0], points.e_hat(1) + own, points.failure]


def failure_as_the_cheapest(points, trials, delta):
    return [*points.epsilons, points.epsilons[0]]


def delta_not_shared(points, trials, delta):
    own = [epsilon_at(one, delta) + points.penalty(rung) for rung, one in enumerate(trials)]
    return [*own, points.failure]


MUTANTS = {
    "half of the shift": (geometric(6), half_of_the_shift, 2, released),
    "cheaper rungs forgotten": (geometric(30), cheaper_rungs_forgotten, 2, released),
    "failure as the cheapest": (geometric(6), failure_as_the_cheapest, 2, released),
    "delta not shared": (geometric(6), delta_not_shared, 1, released),
    "tries are visible": (geometric(30), promised, 1, tries_seen),
    "a fixed number of tries": (geometric(10), promised, 1, fixed_ten),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_the_adversary_refutes_what_is_wrong(name):
    law, claims, rungs, law_of = MUTANTS[name]
    found = (climbed(searched(law, delta, claims, rungs, law_of), rungs) for delta in DELTAS)
    assert any(one > 1.005 for one in found)


def test_noise_of_a_gaussian_trial():
    """private_search.md section 1g: 1.991220 for (3, 1e-5) at geometric 27, of a success alone, at all of delta. Word
    of none has its 28th part here."""
    law, target = geometric(27), Target(epsilon=3.0, delta=1e-5)
    start = Climbing(law=law, weights=(1.0,), delta=1e-5)
    noise = least_noise(target, lambda noise: start.price(gauss(noise)))
    assert 1.991220 < noise < 1.991220 * 1.005


def test_prices_are_those_of_the_ladder_with_the_same_deltas():
    """Four budgets, private_search.md 1g: there with a fifth of delta each, here in proportion to the weights."""
    law, trials = geometric(108.0), [gauss(noise) for noise in (8.0, 4.0, 2.0, 1.0)]
    points = points_of(law, trials, 1e-5)
    ladder = Ladder(law=law, rungs=tuple(trials), weights=(0.25,) * 4)
    price = price_ladder(ladder, end_deltas(points)[:-1], points.d_hat, 2)
    assert points.epsilons == pytest.approx(price.rungs, rel=1e-7)
    assert price.failure_by_theorem <= points.failure <= points.epsilon
    assert price.delta == pytest.approx(1e-5, rel=1e-9)
    assert points.epsilons == pytest.approx([0.733304, 1.676333, 3.474952, 7.276244], rel=0.02)


def test_a_configuration_of_a_cheap_rung_is_held_to_the_shifts_above():
    """One that is calibrated to its own rung alone adds to the penalties of the dearer ones."""
    law, trials = geometric(27.0), [gauss(4.0), gauss(1.0)]
    points = points_of(law, trials, 1e-5)
    assert all(points.exceeds(rung, trial) <= 1e-9 for rung, trial in enumerate(trials))
    assert points.exceeds(0, trials[1]) > 0.1
    # At its own two points alone it would do.
    wide = points.deltas[1][0] * 0.5
    stricter = LadderPoints(
        law=law, weights=points.weights, epsilons=points.epsilons, delta=1e-5, shifts=points.shifts,
        deltas=(points.deltas[0], (wide, points.deltas[1][1])),
    )  # fmt: skip
    assert stricter.exceeds(0, trials[0]) == pytest.approx(math.log(2), rel=1e-6)


@pytest.mark.parametrize("law", [with_mean(3, 27), PoissonCount(27.0), with_mean(-0.5, 27)], ids=str)
def test_a_law_without_a_rule_is_refused(law):
    with pytest.raises(InvalidValue, match="shape in"):
        LadderPoints(law=law, weights=(1.0,), epsilons=(3.0,), delta=1e-5, shifts=(1.0,), deltas=((0.01,),))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"deltas": ((math.expm1(1) / 26 * 1.001,),)}, "odds"),
        ({"shifts": (3.5,), "deltas": ((0.01,),)}, "penalty"),
        ({"epsilons": (3.0, 3.0), "weights": (0.5, 0.5)}, "rise"),
        ({"shifts": (1.0, 0.9), "epsilons": (2.0, 3.0), "weights": (0.5, 0.5)}, "never falling"),
        ({"deltas": ((0.01, 0.01),)}, "up to its own"),
    ],
)
def test_points_that_are_no_ladder_are_refused(changes, named):
    good = {"weights": (1.0,), "epsilons": (3.0,), "delta": 1e-5, "shifts": (1.0,), "deltas": ((0.01,),)}
    LadderPoints(law=geometric(27), **good)
    with pytest.raises(InvalidValue, match=named):
        LadderPoints(law=geometric(27), **(good | changes))


def test_word_of_none_may_be_no_dearer_than_the_dearest_budget():
    """Two budgets that are nearly one, of which the cheap one is all spent on its trials: word costs more."""
    shifts, deltas = (0.1, 2.0), ((1e-3,), (1e-3, 0.2))
    ladder = {"law": geometric(27), "weights": (0.5, 0.5), "delta": 1e-5, "shifts": shifts, "deltas": deltas}
    assert LadderPoints(epsilons=(3.0, 5.0), **ladder).failure == pytest.approx(2.9 + 2.0)
    with pytest.raises(InvalidValue, match="word costs"):
        LadderPoints(epsilons=(3.0, 4.8), **ladder)
