"""The front door: one headline with both bounds, and every other notion under its own name."""

from __future__ import annotations

import math

import pytest

from dpcore.accounting import (
    ACCOUNTANTS,
    ASYMPTOTIC,
    FLOATING_POINT,
    POISSON,
    group_epsilon_lower,
    guarantee,
    headline,
    headline_of_parts,
    larger_of_parts,
    make,
)
from dpcore.calibrate import sampled_gaussian
from dpcore.events import Adjacency, Composed, Gaussian, NonPrivate, PoissonSampled, Repeated, Unknown, UnsupportedEvent
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


# Two parts of one population: the larger claim in parallel, and both where the parts add.

ADD_REMOVE, REPLACE_ONE = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
TRAINING = Repeated(event=PoissonSampled(rate=0.1, event=Gaussian(noise_multiplier=2.0)), count=50)
DELTA = 1e-5


def parts(z: float, adjacency: Adjacency = ADD_REMOVE, parallel: bool = True):
    other = Gaussian(noise_multiplier=z, adjacency=adjacency)
    return other, headline_of_parts(TRAINING, other, parallel=parallel, delta=DELTA, adjacency=adjacency)


@pytest.mark.parametrize("z", [1.0, 30.0])
def test_in_parallel_the_larger_claim_stands(z):
    other, claim = parts(z)
    alone = [headline(event, DELTA, ADD_REMOVE) for event in (TRAINING, other)]
    assert claim.epsilon == max(one.epsilon for one in alone)
    assert claim.epsilon_lower == max(one.epsilon_lower for one in alone)
    assert "McSherry 2009" in claim.theorem


def test_at_two_deltas_no_lower_bound_is_left():
    """The one of the smaller delta is none at the larger."""
    gaussian = Gaussian(noise_multiplier=1.0)
    strict, loose = (headline(gaussian, delta, ADD_REMOVE) for delta in (DELTA, 1e-3))
    claim = larger_of_parts(strict, loose)
    assert (claim.epsilon, claim.delta, claim.epsilon_lower) == (strict.epsilon, 1e-3, None)


@pytest.mark.parametrize(("adjacency", "parallel"), [(ADD_REMOVE, False), (REPLACE_ONE, True), (REPLACE_ONE, False)])
def test_otherwise_the_parts_add(adjacency, parallel):
    other, claim = parts(3.0, adjacency, parallel)
    both = headline(Composed(events=(TRAINING, other)), DELTA, adjacency)
    assert claim.epsilon == both.epsilon > max(headline(one, DELTA, adjacency).epsilon for one in (TRAINING, other))
    assert "McSherry" not in claim.theorem


# What a claim per record leaves to a person with many records.


def sampled(rate: float, noise: float, steps: int) -> Repeated:
    return Repeated(event=PoissonSampled(rate=rate, event=Gaussian(noise_multiplier=noise)), count=steps)


@pytest.mark.parametrize(("size", "noise", "steps"), [(1, 1.0, 1), (5, 10.0, 4), (50, 40.0, 9)])
def test_without_sampling_it_is_the_exact_gaussian(size: int, noise: float, steps: int) -> None:
    """k records move the sum by k clip norms: mu = k sqrt(T) / z (Dong, Roth & Su 2022, Corollary 1)."""
    exact = eps_gdp(size * math.sqrt(steps) / noise, 1e-5)
    event = Repeated(event=Gaussian(noise_multiplier=noise), count=steps)
    found = group_epsilon_lower(event, 1e-5, size)
    assert found is not None
    # A test has one threshold, and the grid of thresholds a step: below the exact epsilon, and not by much.
    assert 0.93 * exact < found <= exact


@pytest.mark.parametrize("rate", [0.001, 0.02, 0.3])
@pytest.mark.parametrize("noise", [0.7, 2.0])
@pytest.mark.parametrize("steps", [1, 30, 1000])
def test_for_one_record_it_is_below_the_claim(rate: float, noise: float, steps: int) -> None:
    event = sampled(rate, noise, steps)
    claim = headline(event, 1e-5, Adjacency.ADD_REMOVE).epsilon
    found = group_epsilon_lower(event, 1e-5, 1)
    assert found is not None
    assert found <= claim
    sizes = [group_epsilon_lower(event, 1e-5, size) for size in (1, 2, 5, 20, 50)]
    assert sizes == sorted(sizes)


def test_fifty_rows_a_patient() -> None:
    """A claim of 1.2 per record, and at least 78 per patient."""
    event = sampled(0.01, 0.9, 200)
    assert headline(event, 1e-5, Adjacency.ADD_REMOVE).epsilon < 1.24
    assert group_epsilon_lower(event, 1e-5, 50) > 78
