"""The arithmetic of a population's ledger: goldens of both rules, and that no order of charges exceeds a budget."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from dpcore.checks import InvalidValue
from dpcore.gdp import delta_gdp
from dpcore.selection.filters import DPCharge, GDPCharge
from sweeps.privacy.population import (
    Population,
    Row,
    RowKind,
    admits,
    charges_of,
    left,
    refusal,
    spent,
    to_charge,
    together,
)

LINEAR = Population.of("people", "linear", 3.0, 1e-5)
GDP = Population.of("people", "gdp", 3.0, 1e-5)


def test_goldens_of_the_linear_rule():
    charges = [DPCharge(1.0, 1e-6), DPCharge(0.5, 2e-6)]
    now = spent(LINEAR, charges)
    assert (now.epsilon, now.delta, now.rows) == (1.5, pytest.approx(3e-6), 2)
    rest = left(LINEAR, charges)
    assert (rest.epsilon, rest.delta) == (pytest.approx(1.5), pytest.approx(7e-6))
    assert admits(LINEAR, charges, DPCharge(rest.epsilon, rest.delta))
    assert not admits(LINEAR, charges, DPCharge(1.5 + 1e-9, 0.0))
    assert not admits(LINEAR, charges, DPCharge(0.1, 7.1e-6))
    assert not admits(LINEAR, [], DPCharge(math.inf, 0.0))


def test_goldens_of_the_gdp_rule():
    """private_search: mu(3, 1e-5) = .71912 without chances, ten trials of one Gaussian each .2274 times that; an
    (epsilon, delta) row enters as -2 inv_Phi(1/(1+exp(epsilon))), about 1.2533 epsilon, and tau = delta."""
    assert GDP.mu_total == pytest.approx(0.715364, abs=1e-6)
    profile = ndtr(-3 / GDP.mu_total + GDP.mu_total / 2) - math.exp(3) * ndtr(-3 / GDP.mu_total - GDP.mu_total / 2)
    assert profile == pytest.approx(9e-6, rel=1e-9)
    assert GDP.tau_total == pytest.approx(1e-6)
    assert GDP.tau == pytest.approx(1e-9)
    entered = to_charge(GDP, 0.1, 1e-7)
    assert isinstance(entered, GDPCharge)
    assert (entered.mu, entered.tau) == (pytest.approx(0.125309, abs=1e-6), 1e-7)
    assert to_charge(LINEAR, 0.1, 1e-7) == DPCharge(0.1, 1e-7)
    assert to_charge(GDP, 3.0, 1e-6, GDPCharge(0.5, 1e-7)) == GDPCharge(0.5, 1e-7)
    one = GDPCharge(GDP.mu_total / math.sqrt(10) * (1 - 1e-9), 1e-9)
    ten = [one] * 10
    assert all(admits(GDP, ten[:count], one) for count in range(10))
    assert not admits(GDP, ten, GDPCharge(1e-3, 0.0))
    now = spent(GDP, ten)
    assert now.epsilon == pytest.approx(3.0, abs=1e-6)
    assert now.epsilon <= 3.0
    assert now.delta <= 1e-5
    assert spent(GDP, []).epsilon == 0


def test_the_gdp_rule_is_a_promise_at_its_budget():
    assert delta_gdp(3.0, GDP.mu_total) + GDP.tau_total <= 1e-5


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
            one = GDPCharge(share * population.mu_total, tail * population.tau_total)
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


@pytest.mark.parametrize("population", [LINEAR, GDP], ids=str)
def test_many_rows_are_the_charge_that_they_come_to(population):
    kind = DPCharge if population is LINEAR else GDPCharge
    pairs = [(0.001 * (1 + number % 7), 1e-10) for number in range(400)]
    each = [kind(*pair) for pair in pairs]
    (one,) = together(population, pairs)
    assert spent(population, [one]).epsilon == pytest.approx(spent(population, each).epsilon, rel=1e-12)
    rest = left(population, [one])
    assert (rest.epsilon, rest.delta) == pytest.approx((left(population, each).epsilon, left(population, each).delta))
    last = kind(*((rest.epsilon, rest.delta) if population is LINEAR else (rest.mu, rest.tau)))
    assert admits(population, [one], last)
    assert not admits(population, [one], kind(last_of(last) * (1 + 1e-9), 0.0))
    assert together(population, []) == []


def last_of(charge):
    return charge.epsilon if isinstance(charge, DPCharge) else charge.mu


def test_only_a_settled_block_counts_less():
    row = Row(kind=RowKind.SWEEP, what="first", sweep="first", charge=DPCharge(2.0, 1e-6))
    settled = Row(kind=RowKind.SWEEP, what="first", sweep="first", charge=DPCharge(2.0, 1e-6), settled=0.5)
    assert charges_of([row, settled]) == [DPCharge(2.0, 1e-6), DPCharge(0.5, 1e-6)]


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"name": "two words"}, "population"),
        ({"name": ""}, "population"),
        ({"rule": "pld"}, "rule"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": math.inf}, "epsilon"),
        ({"epsilon": 1e13}, "epsilon"),
        ({"delta": 0.0}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"adjacency": "neighbours"}, "adjacency"),
        ({"tau": 1e-9}, "tau"),
        ({"rule": "gdp", "tau": 2e-6}, "tau"),
        ({"rule": "gdp", "tau": 0.0}, "tau"),
    ],
)
def test_what_is_no_budget_is_refused(changes, name):
    given = {"name": "people", "rule": "linear", "epsilon": 3.0, "delta": 1e-5} | changes
    with pytest.raises(InvalidValue) as caught:
        Population.of(**given)
    assert caught.value.name == name


def test_a_charge_of_another_rule_is_refused():
    for population, one in ((LINEAR, GDPCharge(0.1)), (GDP, DPCharge(0.1))):
        for ask in (lambda p, c: admits(p, [], c), lambda p, c: spent(p, [c])):
            with pytest.raises(InvalidValue, match="for ever"):
                ask(population, one)


def test_a_refusal_never_says_that_what_is_refused_would_fit():
    """Rounded to the nearest, both ends of this one were 2: "epsilon=2 exceeds what is left, epsilon=2"."""
    people = Population.of("people", "linear", 3.0, 1e-5)
    counted, asked = [DPCharge(1.0000049, 1e-6)], DPCharge(2.0000004, 1.00049e-6)
    assert not admits(people, counted, asked)
    said = refusal(people, counted, asked)
    assert "epsilon=2.00001 and delta=1.00049e-06 exceed" in said
    assert "left of its budget, epsilon=1.99999 and delta=9e-06" in said
    assert admits(people, counted, DPCharge(1.99999, 8.99999e-6))
    squares = Population.of("people", "gdp", 3.0, 1e-5)
    rest = left(squares, [GDPCharge(0.3, 1e-10)])
    words = refusal(squares, [GDPCharge(0.3, 1e-10)], GDPCharge(5.0, 1e-10)).split("budget, mu=")[1]
    assert float(words.split()[0]) <= rest.mu
