"""Fronts and holdouts: printed digits, and an adversary over exact laws."""

import itertools
import math

import numpy as np
import pytest

from dpcore.calibrate import Target
from dpcore.checks import InvalidValue
from dpcore.events import Gaussian, PoissonSampled, Repeated
from dpcore.gdp import delta_gdp
from dpcore.selection.best import ByReference, least_shift
from dpcore.selection.counts import Capped, PoissonCount, geometric, logarithmic
from dpcore.selection.front import FrontPoints, cover_delta
from dpcore.selection.profiles import EventProfile, WorstProfile, covering_mu
from tests.dpcore.selection.finite import FiniteProfile, _inverse, climb, generating, laws, ratio, share, start

TARGET = Target(epsilon=3.0, delta=1e-5)


def gauss(sigma):
    return EventProfile(Gaussian(noise_multiplier=sigma))


def test_one_order_costs_as_the_best_does_and_the_share_for_tau():
    points = FrontPoints.solved(Capped(geometric(27), 81), 1, TARGET)
    exact = ByReference(law=points.law, delta=(1 - 0.1) * TARGET.delta).price(gauss(1 / points.mu))
    assert points.epsilon == pytest.approx(exact, rel=2e-4)
    assert 1 / points.mu == pytest.approx(2.3936245, abs=1e-6)


@pytest.mark.parametrize(("orders", "sigma"), [(1, 2.3936245), (2, 3.8010905), (3, 5.2010820)])
def test_noise_of_a_gaussian_trial(orders, sigma):
    """Computed here; each needs more than the one before, and k separate searches of k orders need more still."""
    points = FrontPoints.solved(geometric(27), orders, TARGET)
    assert 1 / points.mu == pytest.approx(sigma, abs=1e-6)
    assert points.exceeds(gauss(sigma * 1.001)) <= 0 < points.exceeds(gauss(sigma * 0.999))


def test_configurations_of_other_rates_and_steps_are_covered_by_their_own_noise():
    points = FrontPoints.solved(geometric(27), 2, TARGET)
    for rate, steps in ((0.01, 1000), (0.05, 200)):
        trial = Repeated(event=PoissonSampled(rate=rate, event=Gaussian(noise_multiplier=2.2)), count=steps)
        profile = EventProfile(trial)
        covered = covering_mu(profile, points.tau) <= points.mu
        assert (points.exceeds(profile) <= 0) is covered


def test_the_cover_of_several_is_the_product_of_covers():
    """Against the mixture written out: with chance (1-tau)^r a Gaussian of sqrt(r) mu, else all is told."""
    for count in (1, 2, 3):
        none = (1 - 1e-3) ** count
        exact = 1 - none + none * delta_gdp(0.7, math.sqrt(count) * 0.4)
        assert cover_delta(0.4, 1e-3, count, 0.7) == pytest.approx(exact, rel=1e-9)
        assert cover_delta(0.4, 1e-3, count, 0.7) >= exact
        assert cover_delta(0.0, 1e-3, count, 0.7) == pytest.approx(1 - none)
    assert cover_delta(0.4, 1e-3, 1, -0.1) == 1


def test_trials_that_cost_more_are_no_such_front():
    points = FrontPoints.solved(geometric(27), 2, TARGET)
    with pytest.raises(InvalidValue, match="which trials of mu"):
        FrontPoints(law=points.law, orders=3, epsilon=3.0, delta=1e-5, mu=points.mu, tau=points.tau)
    with pytest.raises(InvalidValue, match="which trials of mu"):
        FrontPoints(law=points.law, orders=2, epsilon=3.0, delta=1e-5, mu=1.001 * points.mu, tau=points.tau)
    with pytest.raises(InvalidValue, match="truncated negative binomial"):
        FrontPoints.solved(PoissonCount(9.0), 2, TARGET)
    with pytest.raises(InvalidValue, match="expected more, for 2 orders"):
        FrontPoints.solved(geometric(27), 2, Target(epsilon=1e-6, delta=1e-300))


# Two configurations in one prior, each with laws of its own; outputs rank by any two orders.


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
            return generating(law, min(1.0, float(sum(p[o] for o in allowed if o not in without))))

        if a == b:
            one.append(f(()) - f((a,)))
        else:
            two.append(max(UNRESOLVED, f(()) - f((a,)) - f((b,)) + f((a, b))))
    return np.array(one), np.array(two)


def exact_front(law, pairs, second):
    """The laws of what leaves under both neighbours: (winner by rank, winner by the second order) of the mixture."""
    sides = [np.concatenate(one) / len(pairs) for one in zip(*pairs, strict=True)]
    return [np.concatenate(front_law(law, side, second)) for side in sides]


def points_score(law, delta, tau, wrong=None):
    """The exact epsilon over that of the points whose cover both configurations have."""

    def score(theta):
        half = len(theta) - 4
        pairs = [laws(theta[: half // 2]), laws(theta[half // 2 : half])]
        mu = max(covering_mu(FiniteProfile(p, q), tau, 1e-4) for p, q in pairs)
        if not 0 < mu < 20:
            return 0.0
        second = np.argsort(theta[-4:])
        one, other = exact_front(law, pairs, second)
        found = max(_inverse(one, other, delta), _inverse(other, one, delta))
        return found / (claimed(law, delta, mu, tau, wrong) + 1e-6)

    return score


def claimed(law, delta, mu, tau, wrong):
    """The least epsilon of two orders at delta; wrong names a term that is left out."""
    shift = least_shift(lambda e: cover_delta(mu, tau, 1, e), law.priced.odds)
    low, high = 0.0, 60.0
    for _ in range(60):
        middle = (low + high) / 2
        of_one = middle - (law.priced.shape + 1) * shift
        of_two = middle - (law.priced.shape + (1 if wrong == "shift" else 2)) * shift
        terms = law.priced.mean * cover_delta(mu, tau, 1, of_one)
        if wrong != "second":
            terms += law.priced.factorial_moment(2) * cover_delta(mu, tau, 1 if wrong == "root" else 2, of_two)
        low, high = (middle, high) if terms > delta else (low, middle)
    return high


def climbed(score, mechanisms, seed=4):
    rng = np.random.default_rng(seed)
    starts = (np.concatenate([start(rng, 2), start(rng, 2), rng.normal(0, 1, 4)]) for _ in range(mechanisms))
    return max(climb(score, one, rng) for one in starts)


@pytest.mark.chaos
@pytest.mark.parametrize("law", [geometric(6), logarithmic(8), Capped(geometric(20), 6)], ids=str)
def test_no_two_orders_exceed_the_price_of_configurations_that_differ(law):
    assert climbed(points_score(law, 1e-2, 1e-6), share(6)) <= 1
    assert climbed(points_score(law, 1e-4, 1e-8), share(6)) <= 1


def test_a_front_priced_as_its_first_order_is_refuted():
    assert climbed(points_score(geometric(6), 1e-4, 1e-8, "second"), 6) > 1.05


# Holdouts: one record more or less. Tuning tells a result, and the final run depends on it. Parts are public: what is
# released costs the larger of the two phases.


def holdout_score(on_all=False, delta=0.05):
    def score(theta):
        t, t2 = laws(theta[:6])
        finals = [laws(theta[6 + 6 * k : 12 + 6 * k]) for k in range(3)]
        tuning = np.concatenate([t[k] * finals[k][0 if on_all else 1] for k in range(3)])
        final = np.concatenate([t2[k] * finals[k][0] for k in range(3)])
        without = np.concatenate([t2[k] * finals[k][1] for k in range(3)])
        price = WorstProfile((FiniteProfile(t, t2), *(FiniteProfile(*one) for one in finals))).epsilon(delta)
        return max(ratio(one, without, price, delta) for one in (tuning, final))

    return score


def climbed_holdout(score, mechanisms=4):
    rng = np.random.default_rng(12)
    return max(climb(score, np.concatenate([start(rng, 3) for _ in range(4)]), rng) for _ in range(mechanisms))


@pytest.mark.chaos
def test_no_pair_of_phases_exceeds_the_larger_of_their_prices():
    assert climbed_holdout(holdout_score(), share(1)) <= 1 + 1e-9


def test_a_final_run_on_all_records_is_refuted():
    assert climbed_holdout(holdout_score(on_all=True), 4) > 1.01
