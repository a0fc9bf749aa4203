"""What files and machine tell before anything runs: schemas, resources, objectives. No record is read."""

from __future__ import annotations

import datetime
import gzip
import json
import re
from contextlib import closing, nullcontext
from functools import partial
from types import SimpleNamespace

import pandas as pd
import pytest
import yaml

import sweeps
from dpcore.checks import InvalidValue
from dpcore.guarantee import epsilon_text
from sweeps.api import created
from sweeps.execution import session
from sweeps.execution.session import RunOptions, resume
from sweeps.planning import preview as planning
from sweeps.planning.preview import before_launch, check_places
from sweeps.spec.parse import load_spec
from sweeps.store.records import SweepState
from sweeps.store.workspace import Workspace
from tests.sweeps import specs, view_sweeps
from tests.sweeps.specs import people, spec_of
from trainables.data import SOURCES, table_file
from trainables.validation.planning import check_defined

__all__ = ["people"]


def refused(raw, *words, error=InvalidValue):
    with pytest.raises(error) as found:
        check_places(load_spec(raw))
    for word in words:
        assert word in str(found.value)


def test_what_is_there_passes_without_reading_a_record(people, monkeypatch):
    def read(*_):
        raise AssertionError("records were read")

    monkeypatch.setattr(table_file, "blocks", read)
    check_places(load_spec(spec_of(people)))


@pytest.mark.parametrize(
    ("value", "words"),
    [(datetime.datetime(2020, 1, 1), ["timestamp[us]", "numbers"]), ("old", ["string'", "`categories`"])],
)
def test_a_column_that_cannot_be_what_is_declared(people, tmp_path, value, words):
    pd.read_parquet(people).assign(a=value).to_parquet(tmp_path / "people.parquet")
    refused(spec_of(tmp_path / "people.parquet"), "data.columns.a", *words)


@pytest.mark.parametrize("name", ["people.csv", "people.csv.gz"])
def test_of_a_csv_file_the_first_line_alone_is_read(tmp_path, name):
    path, opened = tmp_path / name, gzip.open if name.endswith("gz") else open
    with opened(path, "wt") as stream:
        stream.write('a,b,c,rich,"id"\r\nnot a number at all\n')
    check_places(load_spec(spec_of(path)))


@pytest.mark.parametrize("line", ["41,works,0,Ada,persons", "41;work;0;persona", "41\twork\tpersona"])
def test_what_is_said_of_a_broken_csv_file_quotes_no_record(tmp_path, line):
    path = tmp_path / "people.csv"
    path.write_text(f"{line}\n")
    with pytest.raises(InvalidValue, match="names of the columns, separated by commas") as found:
        check_places(load_spec(spec_of(path)))
    assert not {"works", "persons", "persona", "Did"} & set(re.findall(r"\w+", str(found.value)))
    path.write_text("age,work,y,person\n41,private,1,Ada\n42,secret\n")
    with pytest.raises(InvalidValue, match="Expected 4 columns, got 2") as found:
        list(table_file.blocks(str(path), None, ("age", "work", "y", "person")))
    assert "secret" not in str(found.value)


# At the command line: before a sweep is recorded, and before any process is started


@pytest.fixture
def checked(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)

    def child(*_, **__):
        raise AssertionError("a rehearsal was begun")

    monkeypatch.setattr(planning, "Rehearsing", child)

    def run(word, raw, *arguments):
        (tmp_path / "mine.yaml").write_text(yaml.safe_dump(raw))
        return command(word, "mine.yaml", *arguments)

    return run


@pytest.mark.parametrize(("word", "arguments"), [("check", ["--no-rehearsal"]), ("run", [])])
def test_a_space_of_which_nothing_can_run_is_refused(checked, people, tmp_path, word, arguments):
    code, out, err = checked(word, spec_of(people, limits={"work": 1}), *arguments)
    assert (code, out) == (2, "")
    assert "expected a space of which something may be launched: of 200 draws nothing may" in err
    assert "Raise epsilon or `limits`, or narrow the space." in err
    assert not (tmp_path / ".sweeps").exists()


PRIVATE_DOCUMENTS = [
    "Smith,HIV,41\nJones,none,40\n",
    '[{"patient": "Smith", "diagnosis": "HIV"}]',
    '{"Smith": "HIV", "Jones": "none"}',
    '{"name": "Smith", "diagnosis": "HIV"}',
    '{"columns": ["who"], "index": [0], "data": [["Smith", "HIV"]]}',
]


@pytest.mark.parametrize("text", PRIVATE_DOCUMENTS)
def test_a_file_of_records_in_the_place_of_a_spec_is_not_quoted(tmp_path, command, text):
    (tmp_path / "records.json").write_text(text)
    code, *spoken = command("check", tmp_path / "records.json", "--data", ".", "--trials", "3")
    said = "".join(spoken)
    assert code == 2
    assert "document=" in said or "expected valid JSON" in said
    assert not {"Smith", "HIV", "Jones"} & set(re.findall(r"\w+", said))


def test_run_tries_out_models_that_are_not_ours_and_large_batches_and_records_what_fits(people, tmp_path, monkeypatch):
    begun = []

    def fitted(spec, *_):
        return spec.model_copy(update={"execution": spec.execution.model_copy(update={"microbatch": 7})})

    def begin(spec):
        begun.append(spec.user_modules())
        found = SimpleNamespace(ran=("it",), limits=None, fitted=fitted, trial_seconds=lambda *_: None)
        return nullcontext(SimpleNamespace(finished=lambda: found))

    monkeypatch.setattr(planning, "Rehearsing", begin)
    raw = spec_of(people)
    before_launch(load_spec(raw))
    raw["systems"]["noisy-sgd"]["model"] = "tests.trainables.broken_models:ends_the_process"
    before_launch(load_spec(raw), rehearsal=False)
    assert begun == []
    before_launch(load_spec(raw))
    monkeypatch.setattr(planning, "LARGE_BATCH", 1)
    workspace = Workspace.at(tmp_path / "root")
    name = created(load_spec(spec_of(people)), workspace)
    assert begun == [("tests.trainables.broken_models",), ()]
    with closing(workspace.open_store()) as store:
        assert store.sweep(name).spec.execution.microbatch == 7


# An objective that no trial could report of public validation records is refused before any trial.


NUMBER = {"classes": None, "target": [0, 1]}


def undefined(folder, people, metric, **changes):
    """Of validation records that are all of one class, or one number."""
    pd.read_parquet(people)[:20].assign(rich=0).to_parquet(folder / "held.parquet")
    raw = spec_of(people, objectives=[{"metric": metric}])
    held = {"records": "public", "path": str(folder / "held.parquet"), "n": 20}
    data = {**raw["data"], "validation": held, **changes}
    return {**raw, "data": {name: one for name, one in data.items() if one is not None}}


def test_a_run_ends_before_its_first_trial(people, tmp_path):
    workspace = Workspace.at(tmp_path / "root")
    name = session.create(load_spec(undefined(tmp_path, people, "auc")), workspace)
    with pytest.raises(InvalidValue, match="validation records of several classes, without which there is no auc"):
        session.resume(name, workspace)
    store = workspace.open_store()
    assert store.sweep(name).state is SweepState.CREATED
    assert store.trials(name) == []


@pytest.mark.parametrize(
    ("metric", "task", "refused"),
    [
        ("average_precision", {}, True),
        ("accuracy", {}, False),
        ("f1", {}, False),
        ("r2", NUMBER, True),
        ("mae", NUMBER, False),
    ],
)
def test_what_is_undefined_and_what_is_not(people, tmp_path, metric, task, refused):
    loaded = load_spec(undefined(tmp_path, people, metric, **task))
    data = SOURCES["table"].load(loaded.data.options())
    if refused:
        with pytest.raises(InvalidValue, match=f"there is no {metric}"):
            check_defined(data, [metric])
    else:
        check_defined(data, [metric])


# `sweeps check` of a spec that starts from an earlier sweep: what of it can be used, and that its cost is not here.


LATER = specs.mean(
    "later",
    systems={"noisy-mean": {"clip": {"uniform": [0.2, 1.0]}, "steps": 3}},
    search={"sampler": "tpe", "trials": 3, "seed": 0, "warm_start": "views"},
)


@pytest.fixture
def check(tmp_path, command):
    path = tmp_path / "later.yaml"
    path.write_text(yaml.safe_dump(LATER))
    return partial(command, "check", path, "--root", tmp_path)


def test_the_command_looks_into_the_store_for_the_earlier_sweep(tmp_path, check):
    view_sweeps.mixed_sweep(tmp_path).close()
    code, out, _ = check("--json")
    assert code == 0
    # Trials of another system fit nowhere.
    assert (json.loads(out)["warm_start"]["offered"], json.loads(out)["warm_start"]["fitting"]) == (15, 0)
    text = " ".join(check()[1].split())
    assert "Warm start 0 of 15 earlier trials fit" in text
    assert "nothing of sweep 'views' fits: the search starts cold" in text
    # Both totals: the estimate for this sweep, and what the earlier one released.
    started = json.loads(out)["started_from"]
    assert [(one["sweep"], one["in_this_store"], one["procedure"]["is_claim"]) for one in started] == [
        ("views", True, True)
    ]
    assert "Total all 3 trials together: about epsilon " in text
    assert "because the tpe sampler chooses trials by the results of earlier ones" in text
    theirs = f"all trials together: epsilon {epsilon_text(started[0]['procedure']['epsilon'])} at delta 1e-05, "
    assert f"results of sweep 'views', which adds its own total: {theirs}" in text


# A run that is refused before anything of it runs leaves nothing: its name is free.


def test_a_refused_run_leaves_its_name_free(people, tmp_path):
    frame = pd.read_parquet(people)
    frame.assign(a=frame["a"].where(frame.index != 3)).to_parquet(tmp_path / "p.parquet")
    raw = spec_of(tmp_path / "p.parquet", name="patients")
    workspace = Workspace.at(tmp_path / "root")
    for _ in range(2):
        name = created(sweeps.load(raw), workspace)
        assert name == "patients"
        with pytest.raises(InvalidValue, match="1 missing"):
            resume(name, workspace, RunOptions(is_new=True))
        assert len(sweeps.list_sweeps(root=tmp_path / "root")) == 0
        assert not workspace.folder("patients").exists()
    # Of a sweep that was there before, a refusal takes nothing.
    name = created(sweeps.load(raw), workspace)
    with pytest.raises(InvalidValue, match="1 missing"):
        resume(name, workspace)
    assert list(sweeps.list_sweeps(root=tmp_path / "root")["sweep"]) == ["patients"]


def test_a_temporary_folder_whose_name_is_too_long_is_refused_before_anything_is_recorded(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_TMPDIR", "/tmp/" + "x" * 60)
    with pytest.raises(InvalidValue, match="RAY_TMPDIR to a shorter one"):
        created(sweeps.load("toy"), Workspace.at(tmp_path / "root"))
    assert not (tmp_path / "root").exists()
