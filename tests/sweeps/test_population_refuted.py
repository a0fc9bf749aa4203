"""What audits refuted, and records that are declared public, in the ledger of a population and in its forecasts."""

from __future__ import annotations

import json
from contextlib import closing

import pytest
import yaml

import sweeps
from dpcore.checks import InvalidValue
from dpcore.selection.filters import DPCharge
from sweeps.api import places
from sweeps.execution import session
from sweeps.privacy.population import Population, Row, RowKind
from sweeps.privacy.population_account import account, before, now
from sweeps.privacy.population_ledger import charge_audit, check_not_refuted
from sweeps.privacy.published_store import PublishedStore
from sweeps.spec import SpecErrors, load_spec, public_facts
from sweeps.store.records import Refutation
from tests.sweeps.fake_workers import NAME, SPEC, FakeSweep, memory_folder
from tests.sweeps.private_people import N, people, spec_of  # noqa: F401  the fixture
from tests.sweeps.stores import of_population

DATA = {"data": {**SPEC["data"], "population": "people"}}
PEOPLE = Population.of("people", "linear", 30.0, 1e-2)
SYSTEM = "noisy-mean"


@pytest.fixture
def sweep():
    with memory_folder() as folder:
        fake = FakeSweep(folder, change=DATA, population=PEOPLE)
        fake.finish()
        yield fake


def refute(fake, system=SYSTEM):
    trial = fake.store.trials(NAME)[0]
    fake.store.ask(NAME, Refutation(trial=trial.key, system=system, audit=1), "somebody@here")


def test_what_a_population_spent_is_not_known_where_an_audit_refuted_it(sweep):
    whole = account(PublishedStore(sweep.store), "people")
    assert (whole.not_known, whole.to_dict()["not_known"]) == ("", None)
    refute(sweep)
    found = account(PublishedStore(sweep.store), "people")
    said = "5 rows rest on a claim that an audit refuted: what is spent is not known (noisy-mean (audit 1) in fake)"
    assert found.not_known == said
    assert f"spent    {said}" in str(found)
    assert "left     not known" in str(found)
    told = json.loads(json.dumps(found.to_dict()))
    assert (told["spent"], told["left"], told["not_known"]) == (None, None, said)
    assert len(told["rows"]) == 5
    assert said in now(sweep.store.sweep(NAME).spec, PublishedStore(sweep.store))


def test_another_system_of_the_sweep_stands(sweep):
    refute(sweep, "noisy-sgd")
    found = account(PublishedStore(sweep.store), "people")
    assert found.not_known == ""
    assert found.to_dict()["spent"]["epsilon"] == pytest.approx(5.0)


def test_the_row_of_an_audit_rests_on_the_claim_and_that_of_a_reading_on_none(sweep):
    for kind, what in ((RowKind.AUDIT, f"{NAME}-0 multi-run 1"), (RowKind.READING, f"{NAME}-0 1")):
        sweep.store.charge("people", Row(kind=kind, what=what, sweep=NAME, charge=DPCharge(0.5, 1e-6)))
    refute(sweep)
    assert account(PublishedStore(sweep.store), "people").not_known.startswith("6 rows rest")


def test_a_whole_sweep_falls_with_any_of_its_systems(sweep):
    sweep.store.create_sweep(of_population("whole"))
    lease = sweep.store.acquire("whole")
    sweep.store.reserve_block(lease, "people", DPCharge(1.0, 1e-6))
    lease.release()
    sweep.store.ask("whole", Refutation(trial="whole-0", system="one", audit=3), "somebody@here")
    found = account(PublishedStore(sweep.store), "people")
    assert found.not_known.startswith("1 row rests on a claim that an audit refuted")


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


def test_no_sweep_of_a_refuted_system_is_made_and_a_forecast_says_what_is_not_known(tmp_path, people):  # noqa: F811
    workspace = places(tmp_path, None)
    with closing(workspace.open_store(create=True)) as store:
        store.make_population(PEOPLE)
        fallen = session.create(load_spec({**SPEC, **DATA}), workspace)
        lease = store.acquire(fallen)
        store.reserve_block(lease, "people", DPCharge(1.0, 1e-6))
        lease.release()
        store.ask(fallen, Refutation(trial=f"{fallen}-0", system=SYSTEM, audit=1), "somebody@here")
        with pytest.raises(InvalidValue, match="refuted a claim of it"):
            session.create(load_spec({**SPEC, **DATA}), workspace)
        other = over(people)
        said = before(load_spec(other), public_facts(load_spec(other)), store.url)
    assert said[0].startswith("people: 1 row rests on a claim that an audit refuted: what is spent is not known")
    assert "whether what is left holds it is not known" in said[1]
    following = sweeps.population_budget("people", spec=other, root=tmp_path).to_dict()["next"]
    assert following["fits"] is None


def over(people, **data):  # noqa: F811
    spec = spec_of(people)
    return {**spec, "data": {**spec["data"], "population": "people", **data}}


def test_records_of_ones_own_are_private_and_a_file_apart_may_be_public(tmp_path, people):  # noqa: F811
    apart = {"records": "public", "path": str(tmp_path / "others.parquet"), "n": N}
    for part in ("validation", "test"):
        with pytest.raises(SpecErrors, match=rf"data\.{part}\.records.*private beside data\.population"):
            load_spec(over(people, **{part: {"records": "public", "share": 0.2, "id": "id"}}))
        load_spec(over(people, **{part: apart}))
    written = tmp_path / "spec.yaml"
    written.write_text(yaml.safe_dump(over(people, validation=apart)))
    shown = sweeps.population_budget("people", epsilon=8.0, delta=1e-3, rule="linear", spec=written, root=tmp_path)
    sentence = "declared public, as people outside of the population: what leaves of them is not counted here"
    assert str(shown).count(sentence) == 1
    assert len(shown.to_dict()["next"]["public"]) == 1
    store = places(tmp_path, None).open_store()
    spec = load_spec(written)
    assert sum(sentence in one for one in before(spec, public_facts(spec), store.url)) == 1
    name = session.create(spec, places(tmp_path, None))
    assert sweeps.population_budget("people", root=tmp_path).public == ()
    store.charge("people", Row(kind=RowKind.AUDIT, what="twins", sweep=name, charge=DPCharge(0.5, 1e-6)))
    (said,) = sweeps.population_budget("people", root=tmp_path).public
    assert said.startswith(f"of {name} the validation records in ")
    assert sentence in said
