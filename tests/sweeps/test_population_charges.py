"""What an attempt costs its population: goldens, slices, parts, and what has no place in a ledger."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from dpcore.checks import InvalidValue
from dpcore.events import Adjacency, ApproximateDP, Gaussian, PoissonSampled
from dpcore.gdp import delta_gdp
from dpcore.guarantee import STANDING, Notion, Status
from dpcore.mechanisms.noisy_histogram import NoisyHistogram
from dpcore.mechanisms.protocol import Scheduled
from dpcore.selection import EventProfile
from dpcore.selection.filters import DPCharge, GDPCharge
from sweeps.privacy.charge import charge_of_event, charge_of_steps, repeated
from sweeps.privacy.population import Population, to_charge
from tests.sweeps.stores import guarantee, plan
from trainables.validation.declaration import PrivateReports

LINEAR = Population.of("people", "linear", 3.0, 1e-3)
GDP = Population.of("people", "gdp", 3.0, 1e-3, tau=1e-7)
D1 = replace(plan(1000, noise=1.0, rate=0.01), guarantee=replace(guarantee(1.828), delta=1e-5))


def gaussians(noise: float, steps: int = 4):
    """A plan of plain Gaussians: exactly sqrt(steps)/noise-GDP."""
    return replace(plan(), mechanism=Scheduled(schedule=((Gaussian(noise_multiplier=noise), steps),)))


def with_reports(one, noise: float, parts: str, adjacency=Adjacency.ADD_REMOVE):
    histogram = NoisyHistogram(cells=4, noise_multiplier=noise, adjacency=adjacency, unit_records=1)
    return replace(one, validation=PrivateReports(histogram=histogram, bins="loss", at=(one.steps,), parts=parts))


def test_a_whole_plan_costs_its_claim_by_the_linear_rule():
    assert charge_of_steps(LINEAR, D1, 0, 1000) == DPCharge(1.828, 1e-5)


def test_a_rung_costs_its_own_steps_by_the_linear_rule():
    first, second = (charge_of_steps(LINEAR, D1, *steps) for steps in ((0, 250), (250, 1000)))
    assert 0 < first.epsilon < second.epsilon < 1.828
    assert first.delta == second.delta == 1e-5


def test_the_golden_of_the_gdp_rule_is_no_limit_theorem():
    """private_search: D1's conservative mu is .4741 at tau 1e-7, its limit theorem's .41452 would be too small."""
    charge = charge_of_steps(GDP, D1, 0, 1000)
    assert isinstance(charge, GDPCharge)
    assert charge.mu == pytest.approx(0.4735, abs=1e-3)
    assert charge.mu > 0.4145
    assert charge.tau == 1e-7


def test_plain_gaussians_cost_what_they_are():
    charge = charge_of_steps(GDP, gaussians(10.0, 25), 0, 25)
    assert (charge.mu, charge.tau) == (pytest.approx(0.5, rel=1e-9), 0.0)
    assert charge.mu >= 0.5
    half = charge_of_steps(GDP, gaussians(10.0, 25), 16, 25)
    assert half.mu == pytest.approx(0.3, rel=2e-3)


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 3.0])
def test_the_cover_covers(epsilon):
    charge = charge_of_steps(GDP, D1, 0, 1000)
    covered = charge.tau + (1 - charge.tau) * delta_gdp(epsilon, charge.mu)
    assert EventProfile(D1.event()).delta(epsilon) <= covered


def test_parts_of_one_row_cost_the_larger_and_else_both():
    """Training is 1/2-GDP, the report 1/3: in parallel 1/2, added sqrt(1/4 + 1/9)."""
    training = gaussians(4.0)
    both = math.sqrt(1 / 4 + 1 / 9)
    parallel = charge_of_steps(GDP, with_reports(training, 3.0, "by the hash of id"), 0, 4)
    added = charge_of_steps(GDP, with_reports(training, 3.0, ""), 0, 4)
    assert parallel.mu == pytest.approx(0.5, rel=2e-3)
    assert added.mu == pytest.approx(both, rel=2e-3)
    before = charge_of_steps(GDP, with_reports(training, 3.0, ""), 0, 3)
    assert before.mu == pytest.approx(math.sqrt(3) / 4, rel=2e-3)


def test_hashed_parts_add_under_replace_one():
    exchanged = Population.of("people", "gdp", 3.0, 1e-3, "replace-one", tau=1e-7)
    one = gaussians(4.0)
    schedule = ((Gaussian(noise_multiplier=4.0, adjacency=Adjacency.REPLACE_ONE), 4),)
    one = replace(
        one,
        mechanism=Scheduled(schedule=schedule),
        guarantee=replace(one.guarantee, adjacency=Adjacency.REPLACE_ONE),
    )
    one = with_reports(one, 3.0, "by the hash of id", Adjacency.REPLACE_ONE)
    assert charge_of_steps(exchanged, one, 0, 4).mu > 0.55


def test_what_is_known_as_epsilon_and_delta_enters_by_both():
    released = ApproximateDP(epsilon=0.2, delta=1e-6)
    one = replace(plan(), mechanism=Scheduled(schedule=((released, 1),)), guarantee=replace(guarantee(0.2), delta=1e-6))
    assert charge_of_steps(GDP, one, 0, 1) == to_charge(GDP, 0.2, 1e-6) == GDPCharge.of_dp(0.2, 1e-6)


def test_twins_cost_as_many_as_they_are():
    assert repeated(DPCharge(0.5, 1e-6), 3) == DPCharge(1.5, 3e-6)
    assert repeated(GDPCharge(0.5, 1e-7), 4) == GDPCharge(1.0, 4e-7)
    assert repeated(DPCharge(0.5, 0.4), 3).delta < 1


def test_a_reading_of_test_records_costs_its_histogram():
    event = Gaussian(noise_multiplier=5.0)
    assert charge_of_event(GDP, event, 1e-5).mu == pytest.approx(0.2, rel=2e-3)
    spent = charge_of_event(LINEAR, event, 1e-5)
    assert (spent.epsilon, spent.delta) == (pytest.approx(0.7237, abs=1e-2), 1e-5)


@pytest.mark.parametrize("status", [one for one in Status if one not in STANDING])
def test_a_claim_that_does_not_stand_has_no_place(status):
    by = ("mine",) if status is Status.ASSERTED else ()
    fallen = replace(plan(), guarantee=replace(guarantee(), status=status, asserted_by=by), beside=())
    for population in (LINEAR, GDP):
        with pytest.raises(InvalidValue, match="A budget cannot hold what nothing bounds"):
            charge_of_steps(population, fallen, 0, 100)


def test_a_claim_beside_the_first_stands_for_it():
    average = replace(guarantee(0.1), notion=Notion.BAYESIAN_DP)
    one = replace(plan(), guarantee=average, beside=(guarantee(1.2),))
    assert charge_of_steps(LINEAR, one, 0, 100) == DPCharge(1.2, 1e-4)
    assert charge_of_steps(LINEAR, one, 0, 50) == DPCharge(1.2, 1e-4)
    assert charge_of_steps(GDP, one, 0, 100) == charge_of_steps(GDP, one, 0, 50) == GDPCharge.of_dp(1.2, 1e-4)


@pytest.mark.parametrize("terms", [{"adjacency": "replace-one"}, {"unit": "person"}])
def test_other_neighbours_never_add_up(terms):
    other = Population.of("people", "linear", 3.0, 1e-3, **terms)
    with pytest.raises(InvalidValue, match="never add up"):
        charge_of_steps(other, plan(), 0, 100)


def test_a_sampled_release_is_dearer_than_its_limit():
    event = PoissonSampled(rate=0.01, event=Gaussian(noise_multiplier=1.0))
    assert charge_of_event(GDP, event, 1e-5).mu > 0
