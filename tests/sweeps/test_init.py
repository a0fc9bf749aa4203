"""`sweeps init`: a spec from names and types of columns, whose blanks are named until a person has filled them in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import sweeps
from dpcore.checks import InvalidValue
from sweeps.cli.main import app
from sweeps.spec.parse import read_document
from sweeps.spec.problems import BLANK, SpecErrors
from trainables.data import table_file

N = 400
ANSWERS = {
    "n": N,
    "label": "income",
    "classes": ["low", "high"],
    "target": [0, 5000],
    "low": 0,
    "high": 100,
    "categories": ["a", "b", "c"],
    "shape": [4],
    "records": "private",
    "id": "person id",
    "delta": 1e-5,
    "unit": "record",
    "age": {"low": 0, "high": 100},
    "work": {"categories": ["a", "b", "c"]},
}
"""What a person knows of these people, by the name of the blank."""
DELETED = ("person id", "when", "ok", "wage")


def people(seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "person id": np.arange(N) + 7770000 * (1 + seed),
            "age": rng.uniform(0, 99, N),
            "work": rng.choice(["a", "b", "c"], N),
            "ok": rng.random(N) > 0.5,
            "when": pd.Timestamp(f"20{20 + seed}-01-01"),
            "wage": rng.uniform(1000, 5000, N),
            "income": rng.choice(["low", "high"], N),
        }
    )


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    frame = people()
    frame["scan"] = [list(row) for row in np.random.default_rng(1).random((N, 4))]
    frame.to_parquet(tmp_path / "people.parquet")
    return tmp_path / "people.parquet"


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    people().to_csv(tmp_path / "people.csv", index=False)
    return tmp_path / "people.csv"


def filled(value: object, key: str = "") -> object:
    """With every blank answered, and columns deleted that are no inputs, as a person does it."""
    if value == BLANK:
        return ANSWERS[key]
    if isinstance(value, dict):
        columns = {name: one for name, one in value.items() if key != "columns" or name not in (*DELETED, "income")}
        return {name: filled(one, name) for name, one in columns.items()}
    return [filled(one) for one in value] if isinstance(value, list) else value


def blanks(value: object, path: str = "") -> set[str]:
    if isinstance(value, dict):
        return {one for name, inner in value.items() for one in blanks(inner, f"{path}.{name}" if path else name)}
    return {path} if value == BLANK else set()


@pytest.mark.parametrize("label", [None, "income", "wage"])
@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_each_blank_is_named_and_once_they_are_filled_the_spec_passes(kind, label, request):
    text = sweeps.init(request.getfixturevalue(kind), label=label)
    with pytest.raises(SpecErrors) as refused:
        sweeps.load(text)
    document = read_document(text)
    assert {error.path for error in refused.value.errors} == blanks(document)
    assert {"data.n", "privacy.delta", "privacy.unit", "data.validation.records"} < blanks(document)
    whole = filled(document)
    if kind == "csv" and label == "wage":
        # A CSV file tells no types: whoever wants a number says so in the way that stands beside the blank.
        whole["data"]["target"] = ANSWERS["target"]
        del whole["data"]["classes"]
        whole["objectives"][0] = {"metric": "loss", "goal": "minimize"}
    spec = sweeps.load(whole)
    assert spec.data.options()["label"] == (label or "income")
    sweeps.check(spec, rehearsal=False)


def test_the_filled_spec_is_rehearsed(parquet):
    assert sweeps.check(filled(read_document(sweeps.init(parquet, label="income"))))


def test_nothing_of_the_records_stands_in_it(tmp_path, monkeypatch):
    """Two files of one schema and other records give one text; the reader of records is never called."""

    def no(*_: object) -> None:
        raise AssertionError("records were read")

    monkeypatch.setattr(table_file, "blocks", no)
    texts = []
    for seed, frame in enumerate([people(0), pd.concat([people(1), people(2)], ignore_index=True)]):
        folder = tmp_path / str(seed)
        folder.mkdir()
        frame["kind"] = pd.Categorical(frame["work"].replace({"a": f"word{seed}"}))
        frame.to_parquet(folder / "people.parquet")
        monkeypatch.chdir(folder)
        texts.append(sweeps.init("people.parquet"))
    assert texts[0] == texts[1]
    assert "word" not in texts[0]


@pytest.mark.parametrize("name", ["a: b", "c#d", "true", "12", "ü🙂", "two\nlines", 'q"uote', "- x", "{y}", "", "n"])
def test_any_name_of_a_column_is_read_back(tmp_path, name):
    frame = people()[["age", "income"]].rename(columns={"age": name})
    frame.to_parquet(tmp_path / "odd.parquet")
    if not name:
        with pytest.raises(InvalidValue, match="a name of its own"):
            sweeps.init(tmp_path / "odd.parquet")
        return
    assert list(read_document(sweeps.init(tmp_path / "odd.parquet"))["data"]["columns"]) == [name, "income"]


def test_a_password_in_a_url_is_not_repeated():
    with pytest.raises(InvalidValue) as refused:
        sweeps.init("s3://me:hunter22secret@host/people.parquet")
    assert "hunter22secret" not in str(refused.value)


def test_the_command_writes_what_the_call_returns_and_nothing_over_anything(parquet, tmp_path):
    target = tmp_path / "spec.yaml"
    words = ["init", str(parquet), "--label", "wage"]
    printed = CliRunner().invoke(app, words, catch_exceptions=False).output
    assert printed == sweeps.init(parquet, label="wage")
    assert "target: ???" in printed
    CliRunner().invoke(app, [*words, "--output", str(target)], catch_exceptions=False)
    assert target.read_text() == printed
    with pytest.raises(InvalidValue, match="not there yet"):
        CliRunner().invoke(app, [*words, "--output", str(target)], catch_exceptions=False)


def test_whose_a_row_is_is_said_first(parquet: Path):
    raw = filled(read_document(sweeps.init(parquet, label="income")))
    said = "EACH ROW IS PROTECTED ALONE: where person id has several rows"
    lines = str(sweeps.check(raw, rehearsal=False)).splitlines()
    assert any(line.startswith(said) for line in lines[:4])
    raw["data"] |= {"unit": {"column": "person id", "max_records": 3}}
    raw["privacy"] |= {"unit": "person id"}
    del raw["data"]["validation"]["id"]
    raw["data"]["validation"]["records"] = "public"
    assert said not in str(sweeps.check(raw, rehearsal=False))
