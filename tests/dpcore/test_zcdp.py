"""zCDP written out by hand: rho adds up, sampling does not amplify."""

import math

import pytest

from dpcore.accountants.composition import ZCDPAccountant
from dpcore.calibrate import sampled_gaussian
from dpcore.events import Adjacency, Gaussian, PureDP


def test_rho_of_gaussians_is_half_the_squared_ratio_per_step():
    """Bun & Steinke (2016), Propositions 1.3 and 1.6: rho = T / (2 s^2), eps = rho + 2 sqrt(rho ln(1/delta))."""
    accountant = ZCDPAccountant().compose(Gaussian(noise_multiplier=20.0), 100)
    assert accountant.rho == pytest.approx(0.125)
    assert accountant.epsilon(1e-5) == pytest.approx(0.125 + 2 * math.sqrt(0.125 * math.log(1e5)))
    assert ZCDPAccountant().compose(sampled_gaussian(20.0, 0.01, 100)).rho == pytest.approx(0.125)


def test_pure_dp_and_replacing():
    assert ZCDPAccountant().compose(PureDP(epsilon=0.4)).rho == pytest.approx(0.08)  # epsilon^2 / 2
    assert ZCDPAccountant(Adjacency.REPLACE_ONE).compose(PureDP(epsilon=0.4)).rho == pytest.approx(0.32)
    assert ZCDPAccountant(Adjacency.REPLACE_ONE).compose(Gaussian(noise_multiplier=1.0)).rho == pytest.approx(2.0)


def test_delta_inverts_epsilon():
    accountant = ZCDPAccountant().compose(Gaussian(noise_multiplier=5.0), 10)
    assert accountant.delta(accountant.epsilon(1e-7)) == pytest.approx(1e-7, rel=1e-9)
    assert accountant.delta(0.0) == 1.0
