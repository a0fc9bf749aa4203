"""A recorded sweep as Python has it, against the records themselves."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

import sweeps
from dpcore.checks import InvalidValue
from dpcore.rounding import delta_text, epsilon_text
from sweeps.privacy.published_store import PublishedStore
from sweeps.reporting import tables
from sweeps.reporting.tables import render
from sweeps.store.errors import UnknownSweep
from sweeps.store.records import TrialState
from tests.sweeps import specs
from tests.sweeps.published_sweeps import NAME, swept

SPEC = specs.mean(
    NAME,
    trials=12,
    data={"source": "uniform", "n": 100},
    privacy={"epsilon": [0.5, 1.0], "delta": 1e-5},
    objectives=[{"metric": "expected_error"}, {"metric": "epsilon", "goal": "minimize"}],
)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("face")
    swept(root, SPEC, views=False)
    return root


@pytest.fixture
def sweep(root):
    return sweeps.open(NAME, root=root)


@pytest.fixture
def records(sweep):
    return PublishedStore.open(sweep.workspace).trials(NAME)


def test_the_table_of_trials_is_the_records(sweep, records):
    table = sweep.trials()
    assert list(table.index) == [one.number for one in records]
    for number, row in table.iterrows():
        one = records[number]
        assert (row["key"], row["state"], row["system"]) == (one.key, "complete", "noisy-mean")
        assert row["knob.clip"] == one.knobs["clip"]
        assert row["solved.noise_multiplier"] == one.plan.config["noise_multiplier"]
        assert row["metric.expected_error"] == one.metrics["expected_error"]
        assert (row["epsilon"], row["delta"], row["unit"]) == (one.guarantee.epsilon, 1e-5, "record")
        assert row["status"].startswith("proved (")
        assert (row["steps"], row["planned_steps"], row["attempts"]) == (4, 4, 1)
        assert math.isclose(row["finished_at"].timestamp(), one.finished_at, abs_tol=1e-5)
    assert set(table.attrs["assumptions"]) == {line for one in records for line in one.guarantee.assumptions}
    assert not [name for name in table if name.startswith("metric.epsilon")]


def test_the_front_is_that_of_the_command(sweep, tmp_path):
    front = sweep.front()
    table = front.table()
    assert list(table["key"]) == front.keys
    assert table["on_front"].all()
    assert len(front.table(everything=True)) == 12
    assert front.write(tmp_path / "front.json").read_text() == render(front.front, "json")
    assert json.loads((tmp_path / "front.json").read_text())["panels"][0]["hypervolume"] == front.hypervolumes[0]
    assert pd.read_csv(front.write(tmp_path / "front.csv"))["key"].tolist() == front.keys
    with pytest.raises(InvalidValue, match=r"one of table, csv"):
        front.write(tmp_path / "front.pdf")
    with pytest.raises(InvalidValue, match=r"'state'.*notion"):
        sweep.front(mix=["state"])
    assert sweep.front(["expected_error:minimize"], reference={"expected_error": 1.0}).hypervolumes != [None]
    assert len(front.figure().data) > 0


def test_the_best_is_the_best_by_the_first_objective_or_another(sweep, records):
    least = min(records, key=lambda one: one.metrics["expected_error"])
    assert sweep.best().key == least.key
    assert sweep.best("expected_error:maximize").metrics["expected_error"] == max(
        one.metrics["expected_error"] for one in records
    )
    with pytest.raises(InvalidValue, match="accuracy"):
        sweep.best("accuracy:maximize")


def test_a_trial_is_found_by_number_and_key(sweep):
    assert sweep.trial(3) == sweep.trial(f"{NAME}-3") == sweep.trial("3")
    with pytest.raises(InvalidValue, match="0 to 11"):
        sweep.trial(12)


def test_what_it_costs(sweep, records):
    ledger = sweep.ledger()
    assert ledger["charged"].sum() == sum(one.planned_steps for one in records)
    assert sweep.claim.procedure.is_claim
    assert sweep.claim.claims[0].guarantee.epsilon == max(one.guarantee.epsilon for one in records)
    assert f"epsilon {sweep.claim.procedure.guarantee.epsilon:.3f}"[:12] in str(sweep)


def test_a_claim_is_printed_with_all_that_stands_beside_it(sweep):
    claim, total = sweep.claim, sweep.claim.procedure.guarantee
    assert repr(claim) == (
        f"<SweepClaim of '{NAME}': {len(claim.claims)} kind{'s' * (len(claim.claims) != 1)} of claim; total epsilon "
        f"{epsilon_text(total.epsilon)} at delta {delta_text(total.delta)}, {total.standing}>"
    )
    whole, said = str(sweep).splitlines(), str(claim).splitlines()
    assert said == [line for line in whole if line in said], "the words of `show`, in its order"
    assert {line for line in whole if line.startswith(("claim", "total"))} <= set(said)
    assert total.assumptions[0] in str(claim)
    # What may not be quoted is no number of it.
    refuted = replace(claim.procedure, refuted=("its system",))
    assert repr(replace(claim, procedure=refuted)).endswith("no total that may be quoted>")


def test_what_a_notebook_shows_is_no_markup_of_a_spec(tmp_path):
    reason = "<script>alert(1)</script> benchmark"
    swept(tmp_path, {**SPEC, "data": {**SPEC["data"], "records_are_public": reason}}, views=False)
    sweep = sweeps.open(NAME, root=tmp_path)
    for page in (sweep._repr_html_(), sweep.front()._repr_html_(), sweep.claim._repr_html_()):
        assert "&lt;script&gt;" in page
        assert "<script>" not in page
    assert "What the statuses rest on" in sweep.front()._repr_html_()


def printed(sweep):
    """{column: what a notebook prints of the front}"""
    page = sweep.front()._repr_html_()
    table = ElementTree.fromstring(page[page.index("<table") : page.index("</table>") + len("</table>")])
    head, *rows = [[cell.text for cell in row] for row in table.iter("tr")]
    return dict(zip(head, zip(*rows, strict=True), strict=True))


def test_a_notebook_never_prints_less_than_is_claimed(sweep, monkeypatch):
    claimed = sweep.front().table()["epsilon"]
    assert (np.array(printed(sweep)["epsilon ↓"], dtype=float) >= claimed).all()
    assert not {"notion", "delta", "assumptions", "steps"} & printed(sweep).keys(), "what all rows share"
    # The mutant rounds down.
    monkeypatch.setattr(tables, "epsilon_text", lambda epsilon: f"{epsilon - 1e-3:.3f}")
    assert not (np.array(printed(sweep)["epsilon ↓"], dtype=float) >= claimed).all()


def test_the_list_of_sweeps(sweep):
    listed = sweeps.list_sweeps(root=sweep.workspace.root)
    counts = {str(state): 12 * (state == "complete") for state in TrialState}
    assert listed.to_dict("records") == [{"sweep": NAME, "state": "finished", **counts, "tags": {}, "notes": []}]


def test_charts_and_the_report(sweep, tmp_path):
    assert len(sweep.plots.progress("expected_error").data) > 0
    assert len(sweep.plots.parallel(sweep.front().front).data) > 0
    with pytest.raises(InvalidValue, match="accuracy"):
        sweep.plots.progress("accuracy")
    assert sweep.report(tmp_path / "page.html").read_text().startswith("<!doctype html>")


def test_an_unknown_sweep_and_a_store_that_is_not_there(root, tmp_path):
    with pytest.raises(UnknownSweep, match="publshed") as unknown:
        sweeps.open("publshed", root=root)
    assert NAME in str(unknown.value)
    with pytest.raises(Exception, match=r"sweeps\.db"):
        sweeps.open(NAME, root=tmp_path)
