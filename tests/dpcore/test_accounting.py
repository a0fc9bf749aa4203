"""The front door: one headline with both bounds, and every other notion under its own name."""

import math

import pytest

from dpcore import calibrate
from dpcore.accountants.registry import ACCOUNTANTS, make
from dpcore.accounting import ASYMPTOTIC, FLOATING_POINT, POISSON, guarantee, headline
from dpcore.calibrate import Target, sampled_gaussian
from dpcore.events import Adjacency, Gaussian, NonPrivate, Repeated, Unknown, UnsupportedEvent
from dpcore.gdp import eps_gdp
from dpcore.guarantee import Guarantee, Status

EVENT = sampled_gaussian(1.3, 256 / 60000, 3516)


def test_the_headline_is_the_certified_bound():
    """Row 1 of Bu et al.'s Table 1: the published interval is [0.8557, 0.8646]."""
    claim = headline(EVENT, 1e-5, Adjacency.ADD_REMOVE, unit="user")
    assert claim.accountant == "pld"
    assert claim.unit == "user"
    assert claim.status is Status.PROVED
    assert 0.8557 < claim.epsilon_lower <= claim.epsilon < 0.8657
    assert (claim.epsilon - claim.epsilon_lower) <= 1e-3 * claim.epsilon
    assert POISSON in claim.assumptions
    assert FLOATING_POINT in claim.assumptions


def test_a_calibrated_event_claims_what_was_asked():
    for epsilon in (0.5, 1.0, 4.0):
        noise = calibrate.noise_multiplier(Target(epsilon=epsilon, delta=1e-5), rate=0.01, steps=300)
        assert headline(sampled_gaussian(noise, 0.01, 300), 1e-5, Adjacency.ADD_REMOVE).epsilon <= epsilon


def test_unsampled_gaussians_are_exact():
    claim = headline(Repeated(event=Gaussian(noise_multiplier=10.0), count=100), 1e-5, Adjacency.ADD_REMOVE)
    assert claim.epsilon == pytest.approx(eps_gdp(1.0, 1e-5), rel=1e-9)
    assert POISSON not in claim.assumptions


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_every_notion_stands_under_its_own_name(adjacency):
    counting = [name for name in ACCOUNTANTS if make(name, adjacency).supports(EVENT)]
    by_name = {name: guarantee(name, EVENT, 1e-5, adjacency) for name in counting}
    expected = ["pld", "rdp", "gdp-clt", "zcdp", "advanced", "naive"]
    if adjacency is Adjacency.REPLACE_ONE:
        expected.remove("gdp-clt")
    assert list(by_name) == expected
    for name, row in by_name.items():
        assert row.accountant == name
        assert row.adjacency is adjacency
        if row.status is Status.PROVED:
            assert row.epsilon >= by_name["pld"].epsilon_lower, name
        assert Guarantee.from_dict(row.to_dict()) == row
    if "gdp-clt" in by_name:
        assert by_name["gdp-clt"].status is Status.ASYMPTOTIC
        assert ASYMPTOTIC in by_name["gdp-clt"].assumptions


def test_the_edges_of_knowledge():
    assert headline(NonPrivate(), 1e-5, Adjacency.ADD_REMOVE).epsilon == math.inf
    with pytest.raises(UnsupportedEvent, match="a mystery"):
        headline(Unknown(description="a mystery"), 1e-5, Adjacency.ADD_REMOVE)
