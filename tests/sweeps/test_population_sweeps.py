"""Sweeps over a population: launches that its budget holds happen, others do not, and what ran was always reserved."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

import sweeps
from dpcore.checks import InvalidValue
from dpcore.events import Adjacency
from dpcore.gdp import mu_of_pure_dp
from dpcore.mechanisms.noisy_histogram import NoisyHistogram
from dpcore.selection.filters import DPCharge, GDPCharge
from sweeps.api import places
from sweeps.audit import attack_trial, audit_trial, audits_of
from sweeps.execution import session
from sweeps.execution.resume import check_budget_left
from sweeps.planning.estimate import before, next_sweep
from sweeps.privacy.heldout import DeclaredTest
from sweeps.privacy.population import account, charge_audit, charge_reading, check_not_refuted, reserve_whole
from sweeps.privacy.release import PublishedStore
from sweeps.spec.parse import load_spec, public_facts
from sweeps.spec.problems import SpecErrors
from sweeps.store.errors import PopulationSpent
from sweeps.store.population import Population, Row, RowKind, charges_of, spent
from sweeps.store.records import Extension, Refutation, SweepState
from sweeps.store.store import open_store
from tests.sweeps.fake_workers import ASHA, NAME, SPEC, FakeSweep, memory_folder
from tests.sweeps.specs import (
    N,
    people,  # noqa: F401  the fixture
    recorded,
    spec_of,
)
from tests.sweeps.stores import of_population, plan, record
from tests.sweeps.test_audit import SGD, finished
from trainables.data import SOURCES, splits

DATA = {"data": {**SPEC["data"], "population": "people"}}
PEOPLE = Population.of("people", "linear", 3.5, 1e-3)
COVERED = Population.of("people", "gdp", 2.0, 1e-5)


def charged(fake):
    return [row.what for row in fake.store.charges("people")]


def attempts(fake):
    return [f"{entry.key}/{entry.attempt}" for entry in fake.store.ledger(NAME)]


@pytest.mark.parametrize("population", [PEOPLE, COVERED], ids=["linear", "gdp"])
def test_a_sweep_ends_where_its_populations_budget_does(folder, population):
    fake = FakeSweep(folder, change=DATA, population=population)
    fake.finish()
    assert fake.controller.decide() is SweepState.OUT_OF_BUDGET
    assert "exceed what is left of its budget" in fake.controller.budget.over
    assert 0 < len(charged(fake)) < 5
    assert sorted(charged(fake)) == attempts(fake)
    fake.lease.release()
    fake.start()
    assert fake.controller.decide() is SweepState.OUT_OF_BUDGET
    with pytest.raises(InvalidValue, match="the budget of population 'people' is spent"):
        ask_for_more(fake)


def ask_for_more(fake):
    known = {one.key: one for one in fake.store.trials(NAME)}
    wish = Extension(trials=len(known) + 1, launched=len(known), at=0.0)
    check_budget_left(fake.store, fake.store.sweep(NAME), fake.spec, known, wish)


@pytest.mark.parametrize("seed", range(3))
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


# What audits refuted, and records that are declared public, in the ledger of a population and in its forecasts.

AMPLE = Population.of("people", "linear", 30.0, 1e-2)
SYSTEM = "noisy-mean"


@pytest.fixture
def sweep():
    with memory_folder() as folder:
        fake = FakeSweep(folder, change=DATA, population=AMPLE)
        fake.finish()
        yield fake


def test_more_trials_may_be_asked_for_where_their_population_holds_them(sweep):
    ask_for_more(sweep)


def refute(fake, system=SYSTEM):
    trial = fake.store.trials(NAME)[0]
    fake.store.ask(NAME, Refutation(trial=trial.key, system=system, audit=1), "somebody@here")


def test_what_a_population_spent_is_not_known_where_an_audit_refuted_it(sweep):
    whole = account(PublishedStore(sweep.store), "people")
    assert (whole.not_known, whole.to_dict()["not_known"]) == ("", None)
    refute(sweep)
    found = account(PublishedStore(sweep.store), "people")
    said = "rows rest on a claim that an audit refuted: what is spent is not known (noisy-mean (audit 1) in fake)"
    assert found.not_known == said
    assert f"spent    {said}" in str(found)
    told = json.loads(json.dumps(found.to_dict()))
    assert (told["spent"], told["left"], told["not_known"], len(told["rows"])) == (None, None, said, 5)


def test_a_refuted_system_is_launched_over_that_population_no_more(sweep):
    spec, facts = load_spec({**SPEC, **DATA}), public_facts(load_spec(SPEC))
    plan = sweep.store.trials(NAME)[0].plan
    refute(sweep)
    with pytest.raises(InvalidValue, match=r"systems\.noisy-mean.*audit 1 of fake refuted a claim of it"):
        before(spec, facts, sweep.store.url)
    with pytest.raises(InvalidValue, match="no audit refuted over population 'people'"):
        charge_audit(sweep.store, sweep.store.sweep(NAME), "twins", plan, plan.steps, 2)
    sweep.lease.release()
    with pytest.raises(InvalidValue, match="Leave that system out"):
        sweep.start()
    check_not_refuted(PublishedStore(sweep.store), "people", ["noisy-sgd"])
    assert len(sweep.store.charges("people")) == 5


def over(people, **data):  # noqa: F811
    spec = spec_of(people)
    return {**spec, "data": {**spec["data"], "population": "people", **data}}


def test_records_of_ones_own_are_private_and_a_file_apart_may_be_public(tmp_path, people):  # noqa: F811
    apart = {"records": "public", "path": str(tmp_path / "others.parquet"), "n": N}
    for part in ("validation", "test"):
        with pytest.raises(SpecErrors, match=rf"data\.{part}\.records.*private beside data\.population"):
            load_spec(over(people, **{part: {"records": "public", "share": 0.2, "id": "id"}}))
        load_spec(over(people, **{part: apart}))
    raw = over(people, validation=apart)
    shown = sweeps.population_budget("people", epsilon=8.0, delta=1e-3, rule="linear", spec=raw, root=tmp_path)
    assert str(shown).count("declared public, as people outside of the population") == 1
    store = places(tmp_path, None).open_store()
    name = session.create(load_spec(raw), places(tmp_path, None))
    assert sweeps.population_budget("people", root=tmp_path).public == ()
    store.charge("people", Row(kind=RowKind.AUDIT, what="twins", sweep=name, charge=DPCharge(0.5, 1e-6)))
    (said,) = sweeps.population_budget("people", root=tmp_path).public
    assert said.startswith(f"of {name} the validation records in ")


# Audits and readings of private test records are charged to the population before they begin, or do not begin.

FEW = Population.of("people", "linear", 3.0, 1e-2)
PRIVATE = DeclaredTest(
    counted="records",
    held=splits.TestSplit(n=100, private=True, share=0.2, id="id", key="test"),
    histogram=NoisyHistogram(cells=4, noise_multiplier=5.0, adjacency=Adjacency.ADD_REMOVE, unit_records=1),
)


@pytest.fixture
def store(tmp_path):
    found = open_store(f"sqlite:///{tmp_path}/store.db")
    found.make_population(FEW)
    found.make_population(Population.of("covered", "gdp", 3.0, 1e-2, tau=1e-7))
    return found


def recorded_over(name, population="people"):
    sweep = of_population(name, population)
    privacy = {**sweep.spec.canonical()["privacy"], "delta": 1e-5}
    return replace(sweep, spec=recorded({**sweep.spec.canonical(), "privacy": privacy}))


def test_each_twin_costs_what_its_steps_cost_the_trial(store):
    charge_audit(store, recorded_over("a"), "a-0 one-run 1", plan(), 100, 2)
    charge_audit(store, record("b"), "b-0 one-run 1", plan(), 100, 2)
    (row,) = store.charges("people")
    assert (row.kind, row.sweep, row.charge) == (RowKind.AUDIT, "a", DPCharge(2.0, 2e-4))
    with pytest.raises(PopulationSpent, match="audit a-0 multi-run"):
        charge_audit(store, recorded_over("a"), "a-0 multi-run 2", plan(), 100, 2)


def test_a_reading_of_private_test_records_costs_its_histogram(store):
    charge_reading(store, recorded_over("a", "covered"), "a-0 1", PRIVATE)
    charge_reading(store, recorded_over("a", "covered"), "a-0 2", PRIVATE)
    charge_reading(store, recorded_over("a", "covered"), "a-0 3", replace(PRIVATE, histogram=None))
    rows = store.charges("covered")
    assert [one.kind for one in rows] == [RowKind.READING] * 2
    for row in rows:
        assert isinstance(row.charge, GDPCharge)
        assert row.charge.mu == pytest.approx(0.2, rel=2e-3)
    charge_reading(store, recorded_over("b"), "b-0 1", PRIVATE)
    (row,) = store.charges("people")
    assert row.charge.epsilon == pytest.approx(0.7237, abs=1e-2)


def test_an_audit_that_the_budget_does_not_hold_trains_nothing(tmp_path, people):  # noqa: F811
    data = {**spec_of(people)["data"], "population": FEW.name}
    workspace, name = finished(tmp_path, "noisy-sgd", SGD, epsilon=2.0, data=data, population=FEW), "audited"
    with pytest.raises(PopulationSpent, match="exceed what is left"):
        audit_trial(workspace, name, "0")
    with pytest.raises(PopulationSpent, match="exceed what is left"):
        attack_trial(workspace, name, "0", 4)
    assert audits_of(workspace.folder(name)) == []
    assert len(workspace.open_store().charges("people")) == 1
