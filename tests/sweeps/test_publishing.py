"""What leaves a sweep: a number of the training records that no claim covers is in no byte of what others see."""

from __future__ import annotations

import json
import sqlite3

import pandas
import pytest

import sweeps as python
from sweeps.privacy.release import Release
from sweeps.search.proposer import Proposer
from sweeps.spec.parse import load_spec
from sweeps.store.records import TrialRecord, TrialState
from sweeps.store.store import open_store
from tests.sweeps.published_sweeps import (
    NAME,
    PLANTED,
    REASON,
    DeclaringMean,
    LeakyMean,
    attacked,
    holding,
    leaky,
    planted_in,
    swept,
)
from trainables.registry import SYSTEMS
from trainables.worker import trial

PUBLIC = {"data": {"source": "digits", "records_are_public": REASON}}
ALLOWED = {"privacy": {"epsilon": 1.0, "delta": 1e-5, "allow_raw_measures": REASON}}


def printed(said, folder):
    """Everything that people and programs can ask of the sweep `NAME`, by what they asked."""
    asked = {
        "show": ["show", NAME],
        "show --why": ["show", NAME, "--why"],
        "show --json": ["show", NAME, "--json"],
        "show --format csv": ["show", NAME, "--format", "csv"],
        "show --curves": ["show", NAME, "--curves", "--format", "csv"],
        **{f"show {number}": ["show", NAME, str(number)] for number in range(2)},
        "show 0 --json": ["show", NAME, "0", "--json"],
        **{f"pareto --format {form}": ["pareto", NAME, "--format", form] for form in ("table", "csv", "json")},
        "pareto --mlflow": ["pareto", "--mlflow", f"sqlite:///{folder}/mlflow.db", NAME, "--format", "csv"],
    }
    return {name: said(*arguments) for name, arguments in asked.items()} | {"import sweeps": from_python(folder)}


def from_python(folder):
    """The same, as Python has it."""
    sweep = python.open(NAME, root=folder)
    with pandas.option_context("display.max_columns", None, "display.precision", 17, "display.width", None):
        tables = [str(sweep.trials()), str(sweep.ledger()), str(sweep.front("epsilon:minimize").table(everything=True))]
    numbers = range(len(sweep.trials()))
    trials = [repr((one.metrics, one.reports)) for one in map(sweep.trial, numbers)]
    tables += [str(sweep.curves())]
    tables += [str(sweep.describe(number)) + str(sweep.describe(number).to_dict()) for number in numbers]
    return "\n".join([*tables, *trials, repr(sweep), str(sweep), sweep._repr_html_()])


# -- what a spec may ask ----------------------------------------------------------------------------------------


# -- a number that nobody may see -------------------------------------------------------------------------------


@pytest.fixture
def declaring(monkeypatch):
    monkeypatch.setitem(SYSTEMS, "leaky-mean", DeclaringMean())


def test_a_raw_number_is_in_no_byte_that_leaves_a_trial(tmp_path, said, declaring):
    told = []
    workspace = swept(tmp_path, leaky(), told)
    assert {one.state for one in open_store(workspace.store_url).trials(NAME)} == {TrialState.COMPLETE}
    assert planted_in(tmp_path) == set()
    assert all("planted" not in record.metrics for record in told)
    for asked, answer in printed(said, tmp_path).items():
        assert "planted" not in answer, asked
        assert repr(PLANTED)[:12] not in answer, asked


def test_a_number_that_is_declared_by_nobody_fails_its_trial_by_name(tmp_path, monkeypatch):
    monkeypatch.setitem(SYSTEMS, "leaky-mean", LeakyMean())
    workspace = swept(tmp_path, leaky(), views=False)
    for record in open_store(workspace.store_url).trials(NAME):
        assert record.state is TrialState.FAILED
        assert "planted" in record.reason
        assert "metrics that leaky-mean declares" in record.reason
    assert planted_in(tmp_path) == set()


def test_the_controller_refuses_it_too(tmp_path, monkeypatch):
    monkeypatch.setitem(SYSTEMS, "leaky-mean", LeakyMean())
    monkeypatch.setattr(trial, "published", lambda metrics, *rest: dict(metrics))
    workspace = swept(tmp_path, leaky(), views=False)
    assert {one.state for one in open_store(workspace.store_url).trials(NAME)} == {TrialState.FAILED}


def test_a_sweep_learns_nothing_raw_from_the_sweep_it_starts_from(declaring):
    raw = leaky(search={"sampler": "tpe", "trials": 2})
    spec = load_spec(raw)
    told = {"estimate": 0.5, "planted": PLANTED}
    record = TrialRecord.of(NAME, Proposer(spec).propose(), TrialState.COMPLETE, metrics=told)
    assert "planted" not in Release.of(spec).seen(record).metrics
    public = load_spec({**raw, "data": {**raw["data"], "records_are_public": REASON}})
    assert Release.of(public).seen(record).metrics["planted"] == PLANTED


# -- headings ----------------------------------------------------------------------------------------------------


def test_where_raw_measures_leave_nothing_is_called_proved(tmp_path, said):
    workspace = swept(tmp_path, attacked(**ALLOWED))
    assert {one.state for one in open_store(workspace.store_url).trials(NAME)} == {TrialState.COMPLETE}
    answers = printed(said, tmp_path)
    answers["resume"] = said("resume", NAME)
    answers["check"] = said("check", str(spec_file(tmp_path, attacked(**ALLOWED))), "--no-rehearsal")
    for asked, answer in answers.items():
        assert "proved" not in answer, asked
        assert "NOT COVERED" in answer, asked
        assert REASON in answer, asked
    assert not holding(tmp_path, "proved")
    assert "all trials together: not counted (not covered" in answers["show --why"]
    assert "NOT COVERED" in workspace.report(NAME).read_text()


def test_claims_on_public_records_are_headed_as_a_demonstration(tmp_path, said):
    workspace = swept(tmp_path, attacked(**PUBLIC))
    answers = printed(said, tmp_path)
    answers["resume"] = said("resume", NAME)
    answers["check"] = said("check", str(spec_file(tmp_path, attacked(**PUBLIC))), "--no-rehearsal")
    answers["check --json"] = said("check", str(spec_file(tmp_path, attacked(**PUBLIC))), "--json", "--no-rehearsal")
    for asked, answer in answers.items():
        assert f"DEMONSTRATION ON PUBLIC RECORDS: {REASON}" in answer, asked
        assert "covers all results" not in answer, asked
    page = workspace.report(NAME).read_text()
    assert "covers all results" not in page
    assert page.index("DEMONSTRATION ON PUBLIC RECORDS") < page.index("What is guaranteed")
    (record, _) = open_store(workspace.store_url).trials(NAME)
    assert any("demonstration" in one for one in record.guarantee.assumptions)
    with sqlite3.connect(f"file:{tmp_path}/mlflow.db?mode=ro", uri=True) as connection:
        (runs,) = connection.execute("SELECT count(*) FROM tags WHERE value LIKE 'DEMONSTRATION%'").fetchone()
    connection.close()
    assert runs >= 6


def test_a_heading_stands_over_finished_trials_too_and_cannot_change(tmp_path, said):
    swept(tmp_path, attacked(objectives=[{"metric": "accuracy"}]), views=False)
    changed = spec_file(tmp_path, attacked(**PUBLIC, objectives=[{"metric": "accuracy"}]))
    refused = said("resume", NAME, "--spec", str(changed), "--accept", "spec", code=2)
    assert "cannot change" in refused


def spec_file(folder, raw):
    path = folder / "given.json"
    path.write_text(json.dumps(raw))
    return path
