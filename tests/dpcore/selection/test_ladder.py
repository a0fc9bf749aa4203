"""The first success of the cheapest budget: printed digits, and an adversary over exact laws of its trials."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpcore.calibrate import NOISE, boldest, sampled_gaussian
from dpcore.checks import InvalidValue
from dpcore.events import Gaussian
from dpcore.selection.best import least_shift
from dpcore.selection.counts import Capped, PoissonCount, geometric, logarithmic, with_mean
from dpcore.selection.ladder import Climbing, LadderPoints
from dpcore.selection.profiles import EventProfile, WorstProfile, epsilon_at
from tests.dpcore.selection.finite import FiniteProfile, climb, generating, ratio, share, softmax

DELTAS = (1e-6, 0.01)
LAWS = [geometric(6), logarithmic(9), with_mean(0.5, 8), Capped(geometric(20), 40)]
UP = 1 + 1e-9


def gauss(noise):
    return EventProfile(Gaussian(noise_multiplier=noise))


def sgd(sigma):
    return EventProfile(sampled_gaussian(sigma, 0.01, 1000))


LADDERS = [
    (geometric(10), (gauss(1.0),), 1e-5, (5.752037,), 1e-6),
    (geometric(27), (gauss(2.0),), 1e-5, (2.985923,), 1e-6),
    # By another accountant's grid.
    (geometric(27), (sgd(1.0),), 1e-5, (2.779487,), 1.5e-3),
    (geometric(108), tuple(map(gauss, (8.0, 4.0, 2.0, 1.0))), 2e-6, (0.733304, 1.676333, 3.474952, 7.276244), 1e-6),
    (geometric(81), tuple(map(sgd, (3.0, 1.5, 0.8))), 2.5e-6, (0.640517, None, 5.370034), 2e-3),
]


@pytest.mark.parametrize(("law", "trials", "delta", "printed", "off"), LADDERS, ids=str)
def test_printed_prices(law, trials, delta, printed, off):
    """private_search.md section 1g, where each of J equally likely rungs has this delta."""
    count = len(trials)
    climbing = Climbing(law=law, weights=(1 / count,) * count, delta=delta * count / law.mean * (1 + law.mean))
    for trial, one in zip(trials, printed, strict=True):
        assert one is None or climbing.price(trial) == pytest.approx(one, abs=off)
        climbing = climbing.with_rung(trial)


# Points that configurations of a rung have to meet.


def points_of(law, trials, delta, weights=None):
    """The points that these trials, one of each rung, meet with equality, where budgets rise with them."""
    climbing = Climbing(law=law, weights=weights or (1 / len(trials),) * len(trials), delta=delta)
    epsilons = []
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


def end_deltas(points):
    return [*(points.priced.mean * weight * points.d_hat for weight in points.weights), points.d_hat]


def test_noise_of_a_gaussian_trial():
    """private_search.md section 1g: 1.991220 for (3, 1e-5) at geometric 27, of a success alone, at all of delta. Word
    of none has its 28th part here."""
    start = Climbing(law=geometric(27), weights=(1.0,), delta=1e-5)
    noise = boldest(NOISE, lambda noise: start.price(gauss(noise)) - 3.0, 1.0)
    assert 1.991220 < noise < 1.991220 * 1.005


def test_a_configuration_of_a_cheap_rung_is_held_to_the_shifts_above():
    """One that is calibrated to its own rung alone adds to the penalties of the dearer ones."""
    law, trials = geometric(27.0), [gauss(4.0), gauss(1.0)]
    points = points_of(law, trials, 1e-5)
    assert all(points.exceeds(rung, trial) <= 1e-9 for rung, trial in enumerate(trials))
    assert points.exceeds(0, trials[1]) > 0.1
    # At its own two points alone it would do.
    deltas = (points.deltas[0], (points.deltas[1][0] * 0.5, points.deltas[1][1]))
    same = {"law": law, "weights": points.weights, "epsilons": points.epsilons, "delta": 1e-5, "shifts": points.shifts}
    assert LadderPoints(**same, deltas=deltas).exceeds(0, trials[0]) == pytest.approx(math.log(2), rel=1e-6)


# Exact laws. A point of the climb is, for each of two configurations of each rung, the law of a trial over outputs
# (first failure, then successes in order of score) and log-ratios to its neighbour.


def start_rungs(rng, parts, outputs=3):
    theta = []
    for _ in range(parts):
        size = rng.uniform(0.1, 1.5)
        theta += [np.append(rng.uniform(0, 7), rng.normal(0, 1, outputs - 1)), size * rng.choice([-1.0, 1.0], outputs)]
    return np.concatenate(theta)


def released(law, trials, weights):
    """Exact masses of what leaves: for each rung those of its outputs, then failure."""
    out, below = [], 0.0
    for mass in (w * t for w, t in zip(weights, trials, strict=True)):
        own = float(mass[1:].sum())
        out.append(mass[1:] / own * (generating(law, 1 - below) - generating(law, max(0.0, 1 - below - own))))
        below += own
    return out, generating(law, max(0.0, 1 - below))


def in_public_order(law, trials, weights):
    """Every rung has its own, independent number of trials: the budgets are tried one after the other."""
    out, reached = [], 1.0
    for mass in trials:
        own = float(mass[1:].sum())
        out.append(reached * mass[1:] / own * law.reach(own))
        reached *= generating(law, 1 - own)
    return out, reached


def tries_seen(law, trials, weights, most=60):
    """How many trials ran before the first success is visible."""
    mass, masses = trials[0], law.pmf(np.arange(most + 1))
    ran = [float(masses[k:].sum()) for k in range(1, most + 1)]
    fail = mass[0]
    seen = np.concatenate([mass[1:] * fail ** (k - 1) * ran[k - 1] for k in range(1, most + 1)])
    return [seen], generating(law, fail)


def fixed_ten(law, trials, weights):
    return [trials[0][1:] / trials[0][1:].sum() * (1 - trials[0][0] ** 10)], trials[0][0] ** 10


def smaller_of_ten(law, trials, weights):
    masses = law.pmf(np.arange(10))
    f = np.polynomial.Polynomial([*masses, 1 - masses.sum()])
    fail = trials[0][0]
    return [trials[0][1:] / (1 - fail) * (1 - f(fail))], float(f(fail))


def promised(points, trials, delta):
    """Epsilon of each end."""
    return [*points.epsilons, points.failure]


def searched(law, delta, claims=promised, rungs=2, law_of=released):
    """The largest, over the ends, of the exact epsilon at the end's delta over what is claimed of it.

    The split between the two configurations of a rung is secret: no price knows it.
    """

    def of_rung(pair):
        first, second = pair
        return np.concatenate([[0.3 * first[0] + 0.7 * second[0]], 0.3 * first[1:], 0.7 * second[1:]])

    def score(theta):
        parts = np.split(theta, 4 * rungs)
        p = [softmax(parts[2 * j]) for j in range(2 * rungs)]
        q = [softmax(parts[2 * j] + parts[2 * j + 1]) for j in range(2 * rungs)]
        places = [slice(2 * rung, 2 * rung + 2) for rung in range(rungs)]
        profiles = tuple(map(FiniteProfile, p, q))
        trials = [WorstProfile(profiles[place]) for place in places]
        points = points_of(law, trials, delta)
        outs = []
        for laws in (p, q):
            ends, none = law_of(law, [of_rung(laws[place]) for place in places], points.weights)
            outs.append([*ends, np.array([none])])
        claimed = zip(*outs, claims(points, trials, delta), end_deltas(points), strict=True)
        return max(ratio(p, q, epsilon, own) for p, q, epsilon, own in claimed)

    return score


def climbed(score, rungs=2, mechanisms=8, seed=5):
    rng = np.random.default_rng(seed)
    return max(climb(score, start_rungs(rng, 2 * rungs), rng) for _ in range(mechanisms))


@pytest.mark.chaos
@pytest.mark.parametrize("rungs", [1, 2, 3])
@pytest.mark.parametrize("law", LAWS, ids=str)
def test_no_configurations_exceed_what_is_claimed_of_any_end(law, rungs):
    for delta in DELTAS:
        assert climbed(searched(law, delta, rungs=rungs), rungs, share(24)) <= 1


def half_of_the_shift(points, trials, delta):
    own = [epsilon - shift / 2 for epsilon, shift in zip(points.epsilons, points.shifts, strict=True)]
    return [*own, points.failure]


def cheaper_rungs_forgotten(points, trials, delta):
    """The shift of the second rung from its own trials alone, as if those below were no successes before it."""
    own = least_shift(lambda e: points.weights[1] * trials[1].delta(e), points.priced.odds)
    return [points.epsilons[0], points.e_hat(1) + own, points.failure]


def failure_as_the_cheapest(points, trials, delta):
    return [*points.epsilons, points.epsilons[0]]


def by_its_own_trials(points, trials, delta):
    """The theorem's price of each rung, which `points_of` may have raised."""
    own = [epsilon_at(one, points.d_hat) + points.penalty(rung) for rung, one in enumerate(trials)]
    return [*own, points.failure]


def delta_not_shared(points, trials, delta):
    own = [epsilon_at(one, delta) + points.penalty(rung) for rung, one in enumerate(trials)]
    return [*own, points.failure]


MUTANTS = {
    "half of the shift": (geometric(6), half_of_the_shift, 2, released),
    "cheaper rungs forgotten": (geometric(30), cheaper_rungs_forgotten, 2, released),
    "failure as the cheapest": (geometric(6), failure_as_the_cheapest, 2, released),
    "delta not shared": (geometric(6), delta_not_shared, 1, released),
    "budgets in public order with coins of their own": (geometric(10), by_its_own_trials, 2, in_public_order),
    "tries are visible": (geometric(30), promised, 1, tries_seen),
    "a fixed number of tries": (geometric(10), promised, 1, fixed_ten),
    "the smaller of K and ten": (geometric(1000), promised, 1, smaller_of_ten),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_the_adversary_refutes_what_is_wrong(name):
    law, claims, rungs, law_of = MUTANTS[name]
    found = (climbed(searched(law, delta, claims, rungs, law_of), rungs) for delta in DELTAS)
    assert any(one > 1.005 for one in found)


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
        ({"weights": (0.9,)}, "weights="),
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
