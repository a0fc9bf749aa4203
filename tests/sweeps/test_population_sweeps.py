"""Sweeps over a population: launches that its budget holds happen, others do not, and what ran was always reserved."""

from __future__ import annotations

import math
import random

import pytest

from dpcore.checks import InvalidValue
from dpcore.gdp import mu_of_pure_dp
from dpcore.selection.filters import DPCharge
from sweeps.execution.controller import Done
from sweeps.privacy.charge import charge_of_steps
from sweeps.privacy.population import Population, charges_of, spent
from sweeps.privacy.population_account import next_sweep
from sweeps.privacy.population_ledger import ledger_of, reserve_block, reserve_whole, settle_block
from sweeps.spec import load_spec
from sweeps.store.errors import PopulationSpent, UnknownPopulation
from sweeps.store.store import open_store
from tests.sweeps.fake_workers import ASHA, NAME, SPEC, FakeSweep, Killed, memory_folder
from tests.sweeps.stores import of_population
from trainables.data import SOURCES

DATA = {"data": {**SPEC["data"], "population": "people"}}
PEOPLE = Population.of("people", "linear", 3.5, 1e-3)
COVERED = Population.of("people", "gdp", 2.0, 1e-5)


@pytest.fixture
def folder():
    with memory_folder() as place:
        yield place


def charged(fake):
    return [row.what for row in fake.store.charges("people")]


def attempts(fake):
    return [f"{entry.key}/{entry.attempt}" for entry in fake.store.ledger(NAME)]


@pytest.mark.parametrize("population", [PEOPLE, COVERED], ids=["linear", "gdp"])
def test_a_sweep_ends_where_its_populations_budget_does(folder, population):
    fake = FakeSweep(folder, change=DATA, population=population)
    fake.finish()
    assert fake.controller.decide() == Done(over_budget=True)
    assert "exceed what is left of its budget" in fake.controller.budget.over
    assert 0 < len(charged(fake)) < 5
    assert sorted(charged(fake)) == attempts(fake)
    fake.lease.release()
    fake.start()
    fake.controller.look_ahead()
    assert fake.controller.budget.over
    assert fake.controller.decide() == Done(over_budget=True)


def test_by_the_linear_rule_each_trial_costs_its_claim(folder):
    fake = FakeSweep(folder, change=DATA, population=PEOPLE)
    fake.finish()
    claims = [one.guarantee.epsilon for one in fake.store.trials(NAME)]
    assert spent(PEOPLE, charges_of(fake.store.charges("people"))).epsilon == pytest.approx(math.fsum(claims))
    assert len(claims) == 3


def test_a_rung_is_charged_when_it_is_run(folder):
    ample = Population.of("people", "linear", 30.0, 1e-2)
    fake = FakeSweep(folder, early_stopping=ASHA, change=DATA, population=ample)
    fake.finish()
    rows, plans = fake.store.charges("people"), {one.key: one.plan for one in fake.store.trials(NAME)}
    entries = fake.store.ledger(NAME)
    assert any(one.from_step for one in entries), "a trial was promoted"
    expected = {f"{one.key}/{one.attempt}": (one.from_step, one.to_step) for one in entries}
    for row in rows:
        plan = plans[row.what.rpartition("/")[0]]
        assert row.charge == charge_of_steps(ample, plan, *expected[row.what])


@pytest.mark.parametrize("after", [False, True])
def test_a_controller_killed_around_a_reservation_leaves_it_whole(folder, after):
    """Killed before its transaction nothing is charged or there; killed after it both, and the launch is made again."""
    fake = FakeSweep(folder, change=DATA, population=PEOPLE)
    fake.kill_at, fake.kill_after_write = 1, after
    with pytest.raises(Killed):
        fake.controller.decide()
    assert charged(fake) == attempts(fake) == ([f"{NAME}-0/1"] if after else [])
    fake.lease.release()
    fake.start()
    fake.finish()
    assert sorted(charged(fake)) == attempts(fake)
    assert (f"{NAME}-0/2" in charged(fake)) is after


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("population", [PEOPLE, COVERED], ids=["linear", "gdp"])
def test_whatever_happens_the_budget_holds_and_what_ran_was_reserved(population, seed):
    """Random launches in parallel, losses, kills around writes, rungs: one charge an attempt, and never too many."""
    rng = random.Random(seed)
    with memory_folder() as folder:
        fake = FakeSweep(folder, early_stopping=ASHA if seed % 2 else None, change=DATA, population=population)
        for _ in range(30):
            act = rng.random()
            if act < 0.15:
                fake.kill_at, fake.kill_after_write = rng.randint(1, 3), rng.random() < 0.5
            if act < 0.5 or not fake.workers:
                fake.alive(fake.decide)
            elif act < 0.65:
                fake.alive(lambda: fake.lose(rng.choice(fake.workers)))
            else:
                worker = rng.choice(fake.workers)
                worker.execute(rng.randint(1, 2), 2, stop_inside=rng.random() < 0.3)
                if worker.result is not None:
                    fake.alive(lambda it=worker: fake.deliver(it))
            rows = fake.store.charges("people")
            assert sorted(charged(fake)) == sorted(attempts(fake))
            assert spent(population, charges_of(rows)).epsilon <= population.epsilon
            costs = {row.what: row.charge for row in rows}
            for key, attempt in fake.executed:
                assert f"{key}/{attempt}" in costs, "steps were executed that nobody paid for"


def test_two_sweeps_share_what_there_is(folder):
    """A block, then trials of another sweep: they have what the block left, and more once it was settled."""
    fake = FakeSweep(folder, change=DATA, population=PEOPLE)
    fake.store.create_sweep(of_population("sealed"))
    lease = fake.store.acquire("sealed")
    whole = reserve_block(fake.store, lease, "people", DPCharge(2.0, 1e-5))
    assert whole == DPCharge(2.0, 1e-5)
    assert reserve_block(fake.store, lease, "people", DPCharge(2.0, 1e-5)) == whole
    assert reserve_block(fake.store, lease, "", DPCharge(9.0, 1e-5)) is None
    fake.finish()
    assert len(attempts(fake)) == 1
    settle_block(fake.store, lease, "people", 0.5)
    settle_block(fake.store, lease, "", 0.5)
    fake.lease.release()
    fake.start()
    fake.finish()
    assert len(attempts(fake)) == 3
    fake.store.create_sweep(of_population("next"))
    following = fake.store.acquire("next")
    with pytest.raises(PopulationSpent):
        reserve_block(fake.store, following, "people", DPCharge(0.1, 0.0))


def test_by_the_gdp_rule_a_block_stands_at_its_dearest(folder):
    store = open_store(f"sqlite:///{folder}/store.db")
    store.make_population(COVERED)
    store.create_sweep(of_population("sealed"))
    lease = store.acquire("sealed")
    charge = reserve_block(store, lease, "people", DPCharge(0.2, 1e-6))
    settle_block(store, lease, "people", 0.05)
    assert [one.counted for one in store.charges("people")] == [charge]


def test_a_population_without_a_ledger_or_of_other_neighbours_begins_nothing(folder):
    store = open_store(f"sqlite:///{folder}/store.db")
    spec = load_spec({**SPEC, **DATA})
    with pytest.raises(UnknownPopulation, match="Make it, once and for ever, with `sweeps budget people --epsilon"):
        ledger_of(store, spec)
    assert ledger_of(store, load_spec(SPEC)) is None
    store.make_population(Population.of("people", "linear", 3.0, 1e-3, "replace-one"))
    with pytest.raises(InvalidValue, match="never add up"):
        ledger_of(store, spec)


ONE_BUDGET = {**DATA, "privacy": {"epsilon": 1.0, "delta": 1e-6, "scope": "sweep"}}


@pytest.mark.parametrize("population", [PEOPLE, COVERED], ids=["linear", "gdp"])
def test_a_sweep_with_one_budget_is_one_row_as_it_was_forecast(folder, population):
    store = open_store(f"sqlite:///{folder}/store.db")
    store.make_population(population)
    store.create_sweep(of_population(NAME))
    lease, spec = store.acquire(NAME), load_spec({**SPEC, **ONE_BUDGET})
    forecast = next_sweep(population, [], spec, SOURCES["uniform"].facts(spec.data.options()))
    for _ in range(2):
        reserve_whole(store, lease, spec)
    (row,) = store.charges("people")
    assert (row.kind, row.what) == ("sweep", NAME)
    assert spent(population, [row.charge]) == forecast.cost
    assert (forecast.whole, forecast.fits) == (True, 5)
    if population is PEOPLE:
        assert row.charge == DPCharge(1.0, 1e-6)
    else:
        # Its own filter's mu: an (epsilon, delta) row would cost about 1.2533 epsilon.
        assert row.charge.mu < mu_of_pure_dp(1.0) / 2
    lease.release()


def test_a_spec_without_a_population_is_the_one_that_it_was():
    assert "population" not in load_spec(SPEC).canonical()["data"]
    assert load_spec({**SPEC, **DATA}).canonical()["data"]["population"] == "people"
    assert load_spec(SPEC).digest != load_spec({**SPEC, **DATA}).digest
