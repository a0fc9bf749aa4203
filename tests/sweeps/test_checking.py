"""What files and machine tell before anything runs: schemas, resources, objectives. No record is read."""

from __future__ import annotations

import datetime
import gzip
import re
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from dpcore.checks import InvalidValue
from sweeps.planning import checking
from sweeps.planning.checking import before_launch, check_places
from sweeps.spec.parse import load_spec
from tests.sweeps import specs
from trainables.data import table_file

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
    ("changed", "data", "words"),
    [
        ({"age": [datetime.datetime(2020, 1, 1)] * ROWS}, {}, ["data.columns.age='timestamp[us]'", "numbers"]),
        ({"age": ["old"] * ROWS}, {}, ["data.columns.age='string'", "`categories`"]),
        ({}, {"columns": {"age": {"low": 0, "high": 9, "shape": [4]}}}, ["age='int64'", "lists of numbers"]),
        ({"y": ["yes"] * ROWS}, {"classes": None, "target": [0, 1]}, ["data.label='y'", "it holds string"]),
        (
            {"person": [0.5] * ROWS},
            {"validation": {"records": "public", "share": 0.2}, "unit": {"column": "person", "max_records": 2}},
            ["data.unit.column='person'", "it holds double"],
        ),
    ],
)
def test_a_column_that_cannot_be_what_is_declared(tmp_path, changed, data, words):
    raw = spec(parquet(tmp_path, **changed))
    raw["data"] = {name: one for name, one in {**raw["data"], **data}.items() if one is not None}
    if "unit" in data:
        raw["privacy"] = {**raw["privacy"], "unit": "person"}
    if "target" in data:
        raw["objectives"] = [{"metric": "rmse"}]
    refused(raw, *words)


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


# Resources


# At the command line: before a sweep is recorded, and before any process is started


@pytest.fixture
def sweeps(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)

    def child(*_, **__):
        raise AssertionError("a rehearsal was begun")

    monkeypatch.setattr(checking, "Rehearsing", child)

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
def test_check_and_run_refuse_alike(sweeps, tmp_path, word, changed, words):
    code, out, err = sweeps(word, spec(parquet(tmp_path), **changed))
    assert (code, out) == (2, "")
    assert err.startswith("sweeps: ")
    assert words in err
    assert not (tmp_path / ".sweeps").exists()


@pytest.mark.parametrize(("word", "arguments"), [("check", ["--no-rehearsal"]), ("run", [])])
def test_a_space_of_which_nothing_can_run_is_refused(sweeps, tmp_path, word, arguments):
    code, out, err = sweeps(word, spec(parquet(tmp_path), limits={"work": 1}), *arguments)
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
            return SimpleNamespace(ran=("it",), trial_seconds=lambda spec: None)

    monkeypatch.setattr(checking, "Rehearsing", Seen)
    raw = spec(parquet(tmp_path))
    before_launch(load_spec(raw))
    raw["systems"]["noisy-sgd"]["model"] = "tests.trainables.broken_models:ends_the_process"
    before_launch(load_spec(raw), rehearsal=False)
    assert begun == []
    before_launch(load_spec(raw))
    assert begun == [("tests.trainables.broken_models",)]
