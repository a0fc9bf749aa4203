"""The arithmetic of a population's ledger: goldens of both rules, and that no order of charges exceeds a budget."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from dpcore.checks import InvalidValue
from dpcore.events import Adjacency, ApproximateDP, Gaussian
from dpcore.gdp import delta_gdp
from dpcore.guarantee import STANDING, Notion, Status
from dpcore.mechanisms.noisy_histogram import NoisyHistogram
from dpcore.mechanisms.protocol import Scheduled
from dpcore.selection.filters import DPCharge, GDPCharge
from dpcore.selection.profiles import EventProfile
from sweeps.privacy.charge import ReleasedParts, charge_of_steps
from sweeps.store.population import Population, admits, left, refusal, spent, to_charge, together
from tests.sweeps.stores import guarantee, plan
from trainables.reports import PrivateReports

LINEAR = Population.of("people", "linear", 3.0, 1e-5)
GDP = Population.of("people", "gdp", 3.0, 1e-5)


def test_goldens_of_the_gdp_rule():
    """private_search: mu(3, 1e-5) = .71912 without chances, ten trials of one Gaussian each .2274 times that; an
    (epsilon, delta) row enters as -2 inv_Phi(1/(1+exp(epsilon))), about 1.2533 epsilon, and tau = delta."""
    mu = GDP.filter.mu_total
    assert mu == pytest.approx(0.715364, abs=1e-6)
    profile = ndtr(-3 / mu + mu / 2) - math.exp(3) * ndtr(-3 / mu - mu / 2)
    assert profile == pytest.approx(9e-6, rel=1e-9)
    assert GDP.filter.tau_total == pytest.approx(1e-6)
    assert GDP.tau == pytest.approx(1e-9)
    entered = to_charge(GDP, 0.1, 1e-7)
    assert (entered.mu, entered.tau) == (pytest.approx(0.125309, abs=1e-6), 1e-7)
    assert to_charge(LINEAR, 0.1, 1e-7) == DPCharge(0.1, 1e-7)
    assert to_charge(GDP, 3.0, 1e-6, GDPCharge(0.5, 1e-7)) == GDPCharge(0.5, 1e-7)
    one = GDPCharge(GDP.filter.mu_total / math.sqrt(10) * (1 - 1e-9), 1e-9)
    ten = [one] * 10
    assert all(admits(GDP, ten[:count], one) for count in range(10))
    assert not admits(GDP, ten, GDPCharge(1e-3, 0.0))
    now = spent(GDP, ten)
    assert now.epsilon == pytest.approx(3.0, abs=1e-6)
    assert now.epsilon <= 3.0
    assert now.delta <= 1e-5
    assert spent(GDP, []).epsilon == 0


@pytest.mark.parametrize("population", [LINEAR, GDP], ids=str)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_no_order_of_charges_exceeds_a_budget(population, data):
    """Sweeps of any sizes take turns and choose what they ask next by what was admitted before."""
    charges = []
    for _ in range(data.draw(st.integers(1, 25))):
        share = data.draw(st.floats(0, 1))
        tail = data.draw(st.floats(0, 0.3))
        if population is LINEAR:
            one = DPCharge(share * population.epsilon, tail * population.delta)
        else:
            one = GDPCharge(share * population.filter.mu_total, tail * population.filter.tau_total)
        before = spent(population, charges)
        if admits(population, charges, one):
            charges.append(one)
            after = spent(population, charges)
            assert after.epsilon >= before.epsilon * (1 - 1e-12)
            assert after.epsilon <= population.epsilon
            assert after.delta <= population.delta * (1 + 1e-15)
        else:
            assert "exceed what is left" in refusal(population, charges, one)
    rest = left(population, charges)
    largest = DPCharge(rest.epsilon, rest.delta) if population is LINEAR else GDPCharge(rest.mu, rest.tau)
    assert admits(population, charges, largest)


@given(budget=st.floats(1e-3, 1e3), shares=st.lists(st.floats(0, 1), max_size=12), delta=st.floats(1e-12, 0.5))
def test_a_linear_budget_holds_exactly_what_is_left_of_it(budget, shares, delta):
    """By rational numbers: nothing beyond the budget, and the whole of it where nothing is spent. A factor that once
    stood for rounding refused a sweep of epsilon 2 in an empty ledger of 2."""
    people, charges = Population.of("people", "linear", budget, delta), []
    for share in shares:
        one = DPCharge(share * budget, share * delta)
        fits = all(
            sum(map(Fraction, (getattr(each, name) for each in [*charges, one]))) <= Fraction(limit)
            for name, limit in (("epsilon", budget), ("delta", delta))
        )
        assert admits(people, charges, one) == fits
        charges += [one] if fits else []
    rest = left(people, charges)
    assert admits(people, charges, DPCharge(rest.epsilon, rest.delta))
    assert not admits(people, charges, DPCharge(math.nextafter(rest.epsilon, math.inf) * (1 + 1e-15), 0.0))
    assert charges or (rest.epsilon, rest.delta) == (budget, delta)
    if charges:
        (one,) = together(people, [(each.epsilon, each.delta) for each in charges])
        assert Fraction(one.epsilon) >= sum(Fraction(each.epsilon) for each in charges)


def test_a_charge_of_another_rule_is_refused():
    for population, one in ((LINEAR, GDPCharge(0.1)), (GDP, DPCharge(0.1))):
        with pytest.raises(InvalidValue, match="DPCharge"):
            admits(population, [], one)


# What an attempt costs its population: goldens, slices, parts, and what has no place in a ledger.

PEOPLE = Population.of("people", "linear", 3.0, 1e-3)
COVERED = Population.of("people", "gdp", 3.0, 1e-3, tau=1e-7)
D1 = replace(plan(1000, noise=1.0, rate=0.01), guarantee=replace(guarantee(1.828), delta=1e-5))


def gaussians(noise: float, steps: int = 4):
    """A plan of plain Gaussians: exactly sqrt(steps)/noise-GDP."""
    return replace(plan(), mechanism=Scheduled(schedule=((Gaussian(noise_multiplier=noise), steps),)))


def with_reports(one, noise: float, parts: str, adjacency=Adjacency.ADD_REMOVE):
    histogram = NoisyHistogram(cells=4, noise_multiplier=noise, adjacency=adjacency, unit_records=1)
    return replace(one, validation=PrivateReports(histogram=histogram, bins="loss", at=(one.steps,), parts=parts))


def test_a_whole_plan_costs_its_claim_by_the_linear_rule():
    assert charge_of_steps(PEOPLE, D1, 0, 1000) == DPCharge(1.828, 1e-5)


def test_a_rung_costs_its_own_steps_by_the_linear_rule():
    first, second = (charge_of_steps(PEOPLE, D1, *steps) for steps in ((0, 250), (250, 1000)))
    assert 0 < first.epsilon < second.epsilon < 1.828
    assert first.delta == second.delta == 1e-5


def test_the_golden_of_the_gdp_rule_is_no_limit_theorem():
    """private_search: D1's conservative mu is .4741 at tau 1e-7, its limit theorem's .41452 would be too small."""
    charge = charge_of_steps(COVERED, D1, 0, 1000)
    assert charge.mu == pytest.approx(0.4735, abs=1e-3)
    assert charge.mu > 0.4145
    assert charge.tau == 1e-7


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 3.0])
def test_the_cover_covers(epsilon):
    charge = charge_of_steps(COVERED, D1, 0, 1000)
    covered = charge.tau + (1 - charge.tau) * delta_gdp(epsilon, charge.mu)
    assert EventProfile(D1.event()).delta(epsilon) <= covered


def test_parts_of_one_row_cost_the_larger_and_else_both():
    """Training is 1/2-GDP, the report 1/3: in parallel 1/2, added sqrt(1/4 + 1/9)."""
    training = gaussians(4.0)
    both = math.sqrt(1 / 4 + 1 / 9)
    parallel = charge_of_steps(COVERED, with_reports(training, 3.0, "by the hash of id"), 0, 4)
    added = charge_of_steps(COVERED, with_reports(training, 3.0, ""), 0, 4)
    assert parallel.mu == pytest.approx(0.5, rel=2e-3)
    assert added.mu == pytest.approx(both, rel=2e-3)
    before = charge_of_steps(COVERED, with_reports(training, 3.0, ""), 0, 3)
    assert before.mu == pytest.approx(math.sqrt(3) / 4, rel=2e-3)
    # A record that replaces another may change both parts.
    parts = ReleasedParts.of(with_reports(training, 3.0, "by the hash of id"))
    assert [len(parts.in_parallel(one)) for one in (Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE)] == [2, 1]


def test_what_is_known_as_epsilon_and_delta_enters_by_both():
    released = ApproximateDP(epsilon=0.2, delta=1e-6)
    one = replace(plan(), mechanism=Scheduled(schedule=((released, 1),)), guarantee=replace(guarantee(0.2), delta=1e-6))
    assert charge_of_steps(COVERED, one, 0, 1) == to_charge(COVERED, 0.2, 1e-6) == GDPCharge.of_dp(0.2, 1e-6)


@pytest.mark.parametrize("status", [one for one in Status if one not in STANDING])
def test_a_claim_that_does_not_stand_has_no_place(status):
    by = ("mine",) if status is Status.ASSERTED else ()
    fallen = replace(plan(), guarantee=replace(guarantee(), status=status, asserted_by=by), beside=())
    for population in (PEOPLE, COVERED):
        with pytest.raises(InvalidValue, match="A budget cannot hold what nothing bounds"):
            charge_of_steps(population, fallen, 0, 100)


def test_a_claim_beside_the_first_stands_for_it():
    average = replace(guarantee(0.1), notion=Notion.BAYESIAN_DP)
    one = replace(plan(), guarantee=average, beside=(guarantee(1.2),))
    assert charge_of_steps(PEOPLE, one, 0, 100) == DPCharge(1.2, 1e-4)
    assert charge_of_steps(PEOPLE, one, 0, 50) == DPCharge(1.2, 1e-4)
    assert charge_of_steps(COVERED, one, 0, 100) == charge_of_steps(COVERED, one, 0, 50) == GDPCharge.of_dp(1.2, 1e-4)


@pytest.mark.parametrize("terms", [{"adjacency": "replace-one"}, {"unit": "person"}])
def test_other_neighbours_never_add_up(terms):
    other = Population.of("people", "linear", 3.0, 1e-3, **terms)
    with pytest.raises(InvalidValue, match="never add up"):
        charge_of_steps(other, plan(), 0, 100)
