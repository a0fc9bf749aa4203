"""What files and machine tell before anything runs: schemas, resources, objectives. No record is read."""

from __future__ import annotations

import datetime
import gzip
import json
import re
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

import sweeps
from dpcore.checks import InvalidValue
from dpcore.rounding import epsilon_text
from sweeps.api import created
from sweeps.execution import session
from sweeps.execution.session import RunOptions, resume
from sweeps.planning import preview as planning
from sweeps.planning.preview import before_launch, check_places
from sweeps.spec.parse import load_spec
from sweeps.store.records import SweepState
from sweeps.store.workspace import Workspace
from tests.sweeps import specs, view_sweeps
from trainables.data import SOURCES, table_file
from trainables.validation.planning import check_defined

ROWS = 20


def columns():
    return {
        "age": list(range(ROWS)),
        "work": ["a", "b"] * (ROWS // 2),
        "y": [0, 1] * (ROWS // 2),
        "person": [f"p{i}" for i in range(ROWS)],
    }


def parquet(folder, **changed):
    path = folder / "people.parquet"
    pq.write_table(pa.table({**columns(), **changed}), path)
    return path


def spec(path, *, data=None, **sections):
    return specs.digits(
        "mine",
        trials=2,
        **{
            "data": {
                "source": "table",
                "path": str(path),
                "n": ROWS,
                "label": "y",
                "classes": 2,
                "columns": {"age": {"low": 0, "high": 100}, "work": {"categories": ["a", "b"]}},
                "validation": {"records": "public", "share": 0.2, "id": "person"},
                **(data or {}),
            },
            "systems": {
                "noisy-sgd": {"model": "linear", "learning_rate": 0.1, "clip_norm": 1.0, "batch_size": 4, "epochs": 1}
            },
            "privacy": {"epsilon": 2.0, "delta": 1e-3},
            **sections,
        },
    )


def refused(raw, *words, error=InvalidValue):
    with pytest.raises(error) as found:
        check_places(load_spec(raw))
    for word in words:
        assert word in str(found.value)


def test_what_is_there_passes_without_reading_a_record(tmp_path, monkeypatch):
    def read(*_):
        raise AssertionError("records were read")

    monkeypatch.setattr(table_file, "read", read)
    check_places(load_spec(spec(parquet(tmp_path))))


@pytest.mark.parametrize(
    ("age", "words"),
    [(datetime.datetime(2020, 1, 1), ["timestamp[us]", "numbers"]), ("old", ["'string'", "`categories`"])],
)
def test_a_column_that_cannot_be_what_is_declared(tmp_path, age, words):
    refused(spec(parquet(tmp_path, age=[age] * ROWS)), "data.columns.age", *words)


@pytest.mark.parametrize("name", ["people.csv", "people.csv.gz"])
def test_of_a_csv_file_the_first_line_alone_is_read(tmp_path, name):
    path, opened = tmp_path / name, gzip.open if name.endswith("gz") else open
    with opened(path, "wt") as stream:
        stream.write('age,work,y,"person"\r\nnot a number at all\n')
    check_places(load_spec(spec(path)))


@pytest.mark.parametrize("line", ["41,works,0,Ada,persons", "41;work;0;persona", "41\twork\tpersona"])
def test_what_is_said_of_a_broken_csv_file_quotes_no_record(tmp_path, line):
    path = tmp_path / "people.csv"
    path.write_text(f"{line}\n")
    with pytest.raises(InvalidValue, match="names of the columns, separated by commas") as found:
        check_places(load_spec(spec(path)))
    assert not {"works", "persons", "persona", "Did"} & set(re.findall(r"\w+", str(found.value)))
    path.write_text("age,work,y,person\n41,private,1,Ada\n42,secret\n")
    with pytest.raises(InvalidValue, match="Expected 4 columns, got 2") as found:
        table_file.read(str(path), None, ("age", "work", "y", "person"))
    assert "secret" not in str(found.value)


@pytest.mark.parametrize("name", ["parts", "parts.csv"])
def test_an_empty_folder_and_a_missing_file_are_called_so(tmp_path, name):
    refused(spec(tmp_path / name), "a file or folder that is there, found none")
    (tmp_path / name).mkdir()
    refused(spec(tmp_path / name), "a folder with a file in it, found none")


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


@pytest.mark.parametrize("word", ["check", "run"])
@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"data": {"path": "nowhere.parquet"}}, "nowhere.parquet"),
        ({"resources": {"gpus": 8}}, "resources.gpus=8"),
        ({"execution": {"device": "cuda"}}, "execution.device='cuda'"),
    ],
)
def test_check_and_run_refuse_alike(checked, tmp_path, word, changed, words):
    code, out, err = checked(word, spec(parquet(tmp_path), **changed))
    assert (code, out) == (2, "")
    assert err.startswith("sweeps: ")
    assert words in err
    assert not (tmp_path / ".sweeps").exists()


@pytest.mark.parametrize(("word", "arguments"), [("check", ["--no-rehearsal"]), ("run", [])])
def test_a_space_of_which_nothing_can_run_is_refused(checked, tmp_path, word, arguments):
    code, out, err = checked(word, spec(parquet(tmp_path), limits={"work": 1}), *arguments)
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


def test_run_tries_out_only_models_that_are_not_ours(tmp_path, monkeypatch):
    begun = []

    class Seen:
        def __init__(self, spec):
            begun.append(spec.user_modules())

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def finished(self):
            return SimpleNamespace(
                ran=("it",), limits=None, fitted=lambda spec, address: spec, trial_seconds=lambda spec: None
            )

    monkeypatch.setattr(planning, "Rehearsing", Seen)
    raw = spec(parquet(tmp_path))
    before_launch(load_spec(raw))
    raw["systems"]["noisy-sgd"]["model"] = "tests.trainables.broken_models:ends_the_process"
    before_launch(load_spec(raw), rehearsal=False)
    assert begun == []
    before_launch(load_spec(raw))
    assert begun == [("tests.trainables.broken_models",)]


# An objective that no trial could report of public validation records is refused before any trial.


def undefined(folder, metric, records="public", **task):
    for name, targets in (("train", [0, 1] * 20), ("held", [0] * 20)):
        x = [0.1 * (row % 10) for row in range(len(targets))]
        pd.DataFrame({"x": x, "y": targets}).to_parquet(folder / f"{name}.parquet")
    validation = {"records": records, "path": str(folder / "held.parquet"), "n": 20}
    data = {"source": "table", "path": str(folder / "train.parquet"), "n": 40, "label": "y", "validation": validation}
    knobs = {"model": "linear", "learning_rate": 0.1, "clip_norm": 1.0, "batch_size": 10, "epochs": 1}
    return {
        "name": "undefined",
        "data": {**data, "columns": {"x": {"low": 0, "high": 1}}, **(task or {"classes": 2})},
        "systems": {"noisy-sgd": knobs},
        "privacy": {"epsilon": 3.0, "delta": 1e-3},
        "objectives": [{"metric": metric}],
        "search": {"sampler": "random", "trials": 2},
    }


def test_a_run_ends_before_its_first_trial(tmp_path):
    workspace = Workspace.at(tmp_path / "root")
    name = session.create(load_spec(undefined(tmp_path, "auc")), workspace)
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
        ("r2", {"target": [0, 1]}, True),
        ("mae", {"target": [0, 1]}, False),
    ],
)
def test_what_is_undefined_and_what_is_not(tmp_path, metric, task, refused):
    loaded = load_spec(undefined(tmp_path, metric, **task))
    data = SOURCES["table"].load(loaded.data.options())
    if refused:
        with pytest.raises(InvalidValue, match=f"there is no {metric}"):
            check_defined(data, [metric])
    else:
        check_defined(data, [metric])


# `sweeps check` of a spec that starts from an earlier sweep: what of it can be used, and that its cost is not here.


SPEC_FILE = """
name: later
data: {source: uniform, n: 1000}
systems: {noisy-mean: {clip: {uniform: [0.2, 1.0]}, steps: 3}}
privacy: {epsilon: 1.0, delta: 1.0e-5}
objectives: [{metric: expected_error}]
search: {sampler: tpe, trials: 3, seed: 0, warm_start: views}
"""


@pytest.fixture
def check(tmp_path, command):
    path = tmp_path / "later.yaml"
    path.write_text(SPEC_FILE)
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


def test_an_earlier_sweep_that_is_not_there_is_named(tmp_path, check):
    code, _, err = check()
    assert (code, "sweeps.db" in err) == (2, True)
    view_sweeps.new_sweep(tmp_path, name="another").close()
    code, _, err = check()
    assert code == 2
    assert "'views'" in err
    assert "another" in err


# A run that is refused before anything of it runs leaves nothing: its name is free.


def test_a_refused_run_leaves_its_name_free(tmp_path: Path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.uniform(size=60), "y": rng.integers(0, 2, 60)})
    frame.assign(a=frame["a"].where(frame.index != 3)).to_parquet(tmp_path / "p.parquet")
    raw = {
        "name": "patients",
        "data": {
            "source": "table",
            "path": str(tmp_path / "p.parquet"),
            "n": 60,
            "label": "y",
            "classes": 2,
            "columns": {"a": {"low": 0, "high": 1}},
        },
        "systems": {
            "noisy-sgd": {"model": "linear", "learning_rate": 0.5, "clip_norm": 1.0, "batch_size": 20, "epochs": 1}
        },
        "privacy": {"epsilon": [1.0], "delta": 1e-3},
        "objectives": [{"metric": "epsilon", "goal": "minimize"}],
        "search": {"sampler": "random", "trials": 2, "seed": 0},
    }
    workspace = Workspace.at(tmp_path / "root")
    for _ in range(2):
        name, _ = created(raw, root=tmp_path / "root")
        assert name == "patients"
        with pytest.raises(InvalidValue, match="1 missing"):
            resume(name, workspace, RunOptions(is_new=True))
        assert len(sweeps.list_sweeps(root=tmp_path / "root")) == 0
        assert not workspace.folder("patients").exists()
    # Of a sweep that was there before, a refusal takes nothing.
    name, _ = created(raw, root=tmp_path / "root")
    with pytest.raises(InvalidValue, match="1 missing"):
        resume(name, workspace)
    assert list(sweeps.list_sweeps(root=tmp_path / "root")["sweep"]) == ["patients"]


def test_a_temporary_folder_whose_name_is_too_long_is_refused_before_anything_is_recorded(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_TMPDIR", "/tmp/" + "x" * 60)
    with pytest.raises(InvalidValue, match="RAY_TMPDIR to a shorter one"):
        created("toy", root=tmp_path / "root")
    assert not (tmp_path / "root").exists()
