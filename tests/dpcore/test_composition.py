"""Naive and advanced composition against their formulas."""

import math
from decimal import Decimal, localcontext

import pytest

from dpcore.accountants.composition import AdvancedAccountant, NaiveAccountant, ZCDPAccountant, delta_pure
from dpcore.accountants.pld import Bounds, PLDAccountant
from dpcore.accountants.pld import accountant as pld
from dpcore.accountants.rdp import RDPAccountant
from dpcore.calibrate import sampled_gaussian
from dpcore.events import (
    Adjacency,
    ApproximateDP,
    Composed,
    Gaussian,
    PoissonSampled,
    PureDP,
    UnsupportedEvent,
    from_dict,
    to_dict,
)
from dpcore.gdp import eps_gdp


def test_naive_shares_delta_equally():
    accountant = NaiveAccountant().compose(Gaussian(noise_multiplier=4.0), 10)
    assert accountant.epsilon(1e-5) == pytest.approx(10 * eps_gdp(0.25, 1e-6), rel=1e-9)


def test_pure_steps_need_no_delta():
    accountant = NaiveAccountant().compose(PureDP(epsilon=0.1), 10)
    assert accountant.epsilon(1e-5) == pytest.approx(1.0, rel=1e-9)


def test_sampling_amplifies_each_step():
    """(eps, delta) -> (ln(1 + q (exp(eps) - 1)), q delta): Balle, Barthe & Gaboardi (2018), Theorem 8."""
    one = NaiveAccountant().compose(sampled_gaussian(2.0, 0.1, 1)).epsilon(1e-6)
    assert one == pytest.approx(math.log1p(0.1 * math.expm1(eps_gdp(0.5, 1e-5))), rel=1e-9)


def test_advanced_on_many_small_pure_steps():
    """100 steps at 0.1, delta 1e-6: T eps tanh(eps/2) + eps sqrt(2 T ln(1/delta')), best share 0.99 of delta."""
    found = AdvancedAccountant().compose(PureDP(epsilon=0.1), 100).epsilon(1e-6)
    exact = 100 * 0.1 * math.tanh(0.05) + 0.1 * math.sqrt(200 * math.log(1 / 0.99e-6))
    assert found == pytest.approx(exact, rel=1e-9)
    assert found < 10 / 1.5  # far below the naive sum


@pytest.mark.parametrize("steps", [1, 3, 100, 10_000])
def test_advanced_never_exceeds_naive(steps):
    event = sampled_gaussian(1.5, 0.01, steps)
    naive = NaiveAccountant().compose(event).epsilon(1e-5)
    assert AdvancedAccountant().compose(event).epsilon(1e-5) <= naive * (1 + 1e-9)


class TestApproximateDP:
    """A release known only to be (epsilon, delta)-DP."""

    event = ApproximateDP(epsilon=0.5, delta=1e-6)

    def test_one_release_claims_what_it_is_known_for(self):
        assert NaiveAccountant().compose(self.event).epsilon(1.1e-6) == pytest.approx(0.5)
        assert PLDAccountant().compose(self.event).epsilon(1.1e-6) == pytest.approx(0.5, abs=1e-4)

    @pytest.mark.parametrize("make", [NaiveAccountant, AdvancedAccountant, PLDAccountant])
    def test_a_smaller_delta_has_no_epsilon(self, make):
        accountant = make().compose(self.event, 3)
        assert accountant.epsilon(2.9e-6) == math.inf
        assert accountant.epsilon(3.1e-6) < math.inf

    @pytest.mark.parametrize("count", [1, 4, 60])
    def test_pld_meets_optimal_composition(self, count):
        """Kairouz, Oh & Viswanath (2015), Theorem 3.3: delta = 1 - (1 - d)^k (1 - delta of the pure part)."""
        accountant = PLDAccountant().compose(self.event, count)
        for epsilon in (0.3, 1.0, 2.5):
            exact = 1 - (1 - 1e-6) ** count * (1 - delta_pure(0.5, count, epsilon))
            found = accountant.delta_bounds(epsilon)
            assert found.lower <= exact * (1 + 1e-8)
            assert exact * (1 - 1e-8) <= found.upper
            assert found.upper <= found.lower * 1.01 + 1e-9

    def test_mixed_with_gaussians_the_rest_is_asked_at_what_is_left(self):
        rest = Composed(events=(sampled_gaussian(1.0, 0.01, 500), PureDP(epsilon=0.2)))
        mixed = PLDAccountant().compose(rest).compose(ApproximateDP(epsilon=0.0, delta=4e-6))
        left = (1e-5 - 4e-6) / (1 - 4e-6)
        plain = PLDAccountant().compose(rest).epsilon_bounds(left)
        found = mixed.epsilon_bounds(1e-5)
        assert found.lower <= plain.upper
        assert plain.lower <= found.upper
        assert found.upper == pytest.approx(plain.upper, rel=2e-3)

    def test_replacing_costs_two_neighbouring_steps(self):
        accountant = NaiveAccountant(Adjacency.REPLACE_ONE).compose(self.event)
        assert accountant.epsilon(1e-5) == pytest.approx(1.0)
        assert accountant.epsilon(1e-6 * (1 + math.exp(0.5)) * 0.999) == math.inf
        with pytest.raises(UnsupportedEvent, match="replace-one"):
            NaiveAccountant().compose(ApproximateDP(epsilon=0.5, delta=1e-6, adjacency=Adjacency.REPLACE_ONE))

    def test_others_refuse_it_and_it_survives_a_round_trip(self):
        assert from_dict(to_dict(self.event)) == self.event
        for make in (RDPAccountant, ZCDPAccountant):
            assert not make(Adjacency.ADD_REMOVE).supports(self.event)
        assert not PLDAccountant().supports(PoissonSampled(rate=0.1, event=self.event))

    def test_a_forgotten_failure_would_be_noticed(self, monkeypatch):
        """Mutant: the delta of the release counted as nothing."""
        monkeypatch.setattr(pld, "failure_of", lambda phases, adjacency: Bounds(0.0, 0.0))
        assert PLDAccountant().compose(self.event, 3).epsilon(2.9e-6) < math.inf


# zCDP written out by hand: rho adds up, sampling does not amplify.


def test_rho_of_gaussians_is_half_the_squared_ratio_per_step():
    """Bun & Steinke (2016), Propositions 1.3 and 1.6: rho = T / (2 s^2), eps = rho + 2 sqrt(rho ln(1/delta))."""
    accountant = ZCDPAccountant().compose(Gaussian(noise_multiplier=20.0), 100)
    assert accountant.rho == pytest.approx(0.125)
    assert accountant.epsilon(1e-5) == pytest.approx(0.125 + 2 * math.sqrt(0.125 * math.log(1e5)))
    assert ZCDPAccountant().compose(sampled_gaussian(20.0, 0.01, 100)).rho == pytest.approx(0.125)


@pytest.mark.parametrize("noise", [0.7, 3.0, 50.0])
def test_epsilon_of_rho_is_never_below_its_formula(noise):
    """In 60 digits: rho + 2 sqrt(rho ln(1/delta))."""
    delta = 1e-5
    with localcontext(prec=60):
        rho = 1 / (2 * Decimal(noise) ** 2)
        exact = rho + 2 * (rho * -Decimal(delta).ln()).sqrt()
        found = Decimal(ZCDPAccountant().compose(Gaussian(noise_multiplier=noise)).epsilon(delta))
        assert exact <= found <= exact * (1 + Decimal("1e-12"))
