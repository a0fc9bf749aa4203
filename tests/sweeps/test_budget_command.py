"""`sweeps budget`, and what `check` and `show` say of a population, on both faces."""

from __future__ import annotations

import json

import pytest
import yaml

import sweeps
from dpcore.checks import InvalidValue
from dpcore.selection.filters import DPCharge
from sweeps.api import places
from sweeps.execution import session
from sweeps.selection.run import ANNOUNCED
from sweeps.spec.parse import load_spec
from sweeps.store.errors import StoreOlder
from sweeps.store.population import Row, RowKind
from tests.sweeps.fake_workers import SPEC
from tests.sweeps.stores import plan, proposal

OVER = {**SPEC, "data": {**SPEC["data"], "population": "people"}}
LINEAR = {"epsilon": 3.0, "delta": 1e-4, "rule": "linear"}


@pytest.fixture
def spec(tmp_path):
    path = tmp_path / "spec.yaml"
    path.write_text(yaml.safe_dump(OVER))
    return str(path)


def test_a_ledger_is_made_once_shown_and_listed(said, tmp_path):
    made = said("budget", "people", "--epsilon", "3", "--delta", "1e-4", "--rule", "linear")
    assert "rule linear, fixed for ever" in made
    assert said("budget", "people") == made
    refused = said("budget", "people", "--epsilon", "4", "--delta", "1e-4", "--rule", "linear", code=2)
    assert "Its terms never change" in refused
    said("budget", "covered", "--epsilon", "3", "--delta", "1e-4", "--rule", "gdp")
    found = json.loads(said("budget", "--json"))
    assert [one["population"] for one in found] == ["covered", "people"]
    assert found[0]["tau"] == pytest.approx(1e-8)
    assert found[1]["left"] == pytest.approx({"epsilon": 3.0, "delta": 1e-4})


def test_a_ledger_made_anew_names_what_the_lost_one_knew(said, tmp_path):
    """Its file was deleted: the whole budget is there again, beside the trials that spent it."""
    assert "does not know of them" not in said(
        "budget", "people", "--epsilon", "3", "--delta", "1e-4", "--rule", "linear"
    )
    for place in ("open/trials/open-0", "never-ran"):
        (tmp_path / place).mkdir(parents=True)
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / ANNOUNCED).write_text("{}")
    assert "note     open, secret left files here, and this store does not know of them" in said("budget", "people")
    assert json.loads(said("budget", "--json"))[0]["unknown"] == ["open", "secret"]


def test_a_ledger_that_was_restored_names_trials_that_it_forgot(said, tmp_path):
    """Those that were launched after the backup, whose charges went with it."""
    workspace = places(tmp_path, None)
    said("budget", "people", "--epsilon", "3", "--delta", "1e-4", "--rule", "linear")
    name = session.create(load_spec(OVER), workspace)
    store = workspace.open_store()
    lease = store.acquire(name)
    store.launch(lease, proposal(0), plan(), 1, charge=DPCharge(0.1, 1e-9))
    for number in range(3):
        (workspace.folder(name) / "trials" / f"{name}-{number}" / "1").mkdir(parents=True)
    assert f"note     {name}-1, {name}-2 left files here, and this store does not know of them" in said(
        "budget", "people"
    )
    assert sweeps.population_budget("people", root=tmp_path).unknown == (f"{name}-1", f"{name}-2")
    lease.release()
    # An extension that is refused is none: it would cost the total its promise.
    with pytest.raises(StoreOlder):
        session.resume(name, workspace, session.RunOptions(trials=99))
    assert store.sweep(name).extensions == ()


def test_what_each_sweep_spent_is_shown(said, spec, tmp_path):
    sweeps.population_budget("people", **LINEAR, root=tmp_path)
    store = places(tmp_path, None).open_store()
    for number in range(2):
        row = Row(kind=RowKind.ATTEMPT, what=f"a-{number}/1", sweep="a", charge=DPCharge(0.25, 1e-6), at=1.7e9)
        store.charge("people", row)
    store.charge("people", Row(kind=RowKind.AUDIT, what="twin", sweep="a", charge=DPCharge(0.5, 1e-6), at=1.7e9))
    text = said("budget", "people", "--spec", spec)
    assert "a  2 launches, 1 audit: epsilon 1 at delta 0.000003" in text.replace("3e-06", "0.000003")
    assert "what is left holds about 2 of them" in text
    found = json.loads(said("budget", "people", "--spec", spec, "--json"))
    assert found["spent"]["epsilon"] == 1.0
    assert len(found["rows"]) == 3
    assert found["next"]["fits"] == 2
    other = {**OVER, "data": {**SPEC["data"], "population": "others"}}
    with pytest.raises(InvalidValue, match=r"a spec with data\.population: people"):
        sweeps.population_budget("people", spec=other, root=tmp_path)
