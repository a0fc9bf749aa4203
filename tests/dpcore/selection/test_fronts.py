"""Fronts and holdouts: printed digits, and an adversary over exact laws."""

import itertools
import math

import numpy as np
import pytest

from dpcore.calibrate import sampled_gaussian
from dpcore.checks import InvalidValue
from dpcore.events import Adjacency, Gaussian, Repeated
from dpcore.selection import price as penalties
from dpcore.selection.counts import Capped, PoissonCount, geometric, logarithmic, with_mean
from dpcore.selection.first import price_threshold
from dpcore.selection.front import price_front
from dpcore.selection.ladder import Ladder, price_ladder
from dpcore.selection.profiles import EventProfile, WorstProfile, split_by_coin, split_in_public
from tests.dpcore.selection.finite import FiniteProfile, climb, laws, ratio, share, start


def gauss(sigma, count=1):
    return EventProfile(Repeated(event=Gaussian(noise_multiplier=sigma), count=count))


def replaced(r):
    return EventProfile(gauss(2.0, r).event, Adjacency.REPLACE_ONE)


def test_every_price_says_its_adjacency():
    assert price_front(geometric(9), replaced, (1e-5,)).adjacency is Adjacency.REPLACE_ONE
    assert price_threshold(geometric(9), replaced(1), 1e-5, 1e-5, points=8).adjacency is Adjacency.REPLACE_ONE
    ladder = Ladder(law=geometric(9), rungs=(replaced(1),), weights=(1.0,))
    assert price_ladder(ladder, (1e-5,), 1e-5, points=8).adjacency is Adjacency.REPLACE_ONE


def mixed_up(r):
    """One trial under one adjacency, several under another."""
    return replaced(1) if r == 1 else gauss(2.0, r)


def test_prices_under_different_adjacencies_do_not_add():
    for price in (lambda: price_front(geometric(9), mixed_up, (1e-5, 1e-5)),):
        with pytest.raises(InvalidValue, match="under one adjacency"):
            price()


def test_a_front_of_two():
    """private_search.md section 1g: Gauss 2, geometric 27, delta 1e-5; separate searches for comparison."""
    assert price_front(geometric(27), lambda r: gauss(2.0, r), (1e-5, 1e-5)).epsilon == pytest.approx(
        5.867310, abs=1e-6
    )


def together(p, q):
    """r independent trials of a pair of laws."""

    def of(r):
        return FiniteProfile(*(np.array([math.prod(c) for c in itertools.product(one, repeat=r)]) for one in (p, q)))

    return of


UNRESOLVED = 1e-12
"""What differences of four generating functions do not tell from 0: far below every delta asked for here."""


def front_law(law, p, second):
    """Exact masses of (winner by rank, winner by a second order), those of one winner first, then those of two.

    second  the place of each output in the second order
    """
    one, two, outputs = [], [], range(len(p))
    for a, b in itertools.product(outputs, repeat=2):
        # Nothing above a by rank or b by the second order came up, but both did.
        allowed = [o for o in outputs if o <= a and second[o] <= second[b]]
        if a not in allowed or b not in allowed:
            continue

        def f(without, allowed=allowed):
            return law.pgf(min(1.0, float(sum(p[o] for o in allowed if o not in without))))

        if a == b:
            one.append(f(()) - f((a,)))
        else:
            two.append(max(UNRESOLVED, f(()) - f((a,)) - f((b,)) + f((a, b))))
    return np.array(one), np.array(two)


def front_score(law, delta, weaker=0.0):
    def score(theta):
        p, q = laws(theta)
        second = np.argsort(theta[: len(p)])
        prices = price_front(law, together(p, q), (delta, delta)).winners
        shift = penalties.tight(law, FiniteProfile(p, q)).e1
        found = zip(front_law(law, p, second), front_law(law, q, second), prices, strict=True)
        return max(ratio(a, b, price - weaker * shift, delta) for a, b, price in found if len(a))

    return score


def climbed(score, outputs=3, mechanisms=4, seed=6):
    rng = np.random.default_rng(seed)
    return max(climb(score, start(rng, outputs), rng) for _ in range(mechanisms))


@pytest.mark.chaos
@pytest.mark.parametrize("law", [geometric(6), logarithmic(8), with_mean(3, 6), Capped(geometric(20), 6)], ids=str)
def test_no_two_orders_exceed_the_price_of_a_front(law):
    assert climbed(front_score(law, 1e-6), mechanisms=share(8)) <= 1
    assert climbed(front_score(law, 0.01), mechanisms=share(8)) <= 1


def test_a_front_priced_as_one_order_is_refuted():
    assert climbed(front_score(geometric(6), 1e-6, weaker=1.0), mechanisms=6) > 1.005


# Holdouts: one record more or less. Tuning tells a result, and the final run depends on it.


def holdout_score(priced, fixed=False, on_all=False, delta=0.05):
    def score(theta):
        share = 0.3
        t, t2 = laws(theta[:6])
        finals = [laws(theta[6 + 6 * k : 12 + 6 * k]) for k in range(3)]
        tune = FiniteProfile(t, t2)
        hardest = [FiniteProfile(*one) for one in finals]
        with_record = {"tune": np.concatenate([t[k] * finals[k][1] for k in range(3)])}
        with_record["final"] = np.concatenate([t2[k] * finals[k][0] for k in range(3)])
        if on_all:
            with_record["tune"] = np.concatenate([t[k] * finals[k][0] for k in range(3)])
        without = np.concatenate([t2[k] * finals[k][1] for k in range(3)])
        ends = [with_record["tune"], with_record["final"]]
        left = ends if fixed else [share * ends[0] + (1 - share) * ends[1]]
        price = priced(share, tune, WorstProfile(tuple(hardest))).epsilon(delta)
        return max(ratio(one, without, price, delta) for one in left)

    return score


def climbed_holdout(score, mechanisms=4):
    rng = np.random.default_rng(12)
    return max(climb(score, np.concatenate([start(rng, 3) for _ in range(4)]), rng) for _ in range(mechanisms))


@pytest.mark.chaos
def test_no_pair_of_phases_exceeds_the_price_of_a_holdout():
    assert climbed_holdout(holdout_score(split_by_coin), share(1)) <= 1 + 1e-9
    assert (
        climbed_holdout(holdout_score(lambda _, tune, final: split_in_public(tune, final), fixed=True), share(1))
        <= 1 + 1e-9
    )


def test_wrong_holdouts_are_refuted():
    assert climbed_holdout(holdout_score(split_by_coin, fixed=True), 4) > 1.01
    assert climbed_holdout(holdout_score(split_by_coin, on_all=True), 4) > 1.01


def test_total_of_a_holdout():
    """private_search.md section 2: q = .1, tune sigma .8, final sigma 1, of DP-SGD with q = .01, T = 1000."""
    tune, final = (EventProfile(sampled_gaussian(sigma, 0.01, 1000)) for sigma in (0.8, 1.0))
    assert tune.epsilon(1e-5) == pytest.approx(3.141, abs=2e-3)
    assert split_by_coin(0.1, tune, final).epsilon(1e-5) == pytest.approx(2.566, abs=2e-3)
    assert split_in_public(tune, final).epsilon(1e-5) == tune.epsilon(1e-5)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: price_front(PoissonCount(3.0), lambda r: gauss(2.0, r), (1e-5,)), "a truncated negative binomial law"),
        (lambda: price_front(geometric(3), lambda r: gauss(2.0, r), ()), "deltas"),
        (lambda: split_by_coin(1.0, gauss(1.0), gauss(2.0)), "share=1.0"),
    ],
)
def test_bad_values_are_refused_by_name(make, words):
    with pytest.raises(InvalidValue, match=words):
        make()
