"""The user's own table: declared bounds, codes, splits that no record decides, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcore.checks import InvalidValue
from tests.trainables.test_published_sources import refused
from trainables.data import SOURCES, table_file
from trainables.data.splits import overlap
from trainables.system import Dataset, InputSpec, Task
from trainables.training.made_up import made_up


def people(n: int = 200) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "id": np.arange(n) + 1000,
            "person": np.arange(n) // 4,
            "age": rng.uniform(0, 120, n),
            "sex": rng.choice(["f", "m"], n),
            "film": rng.integers(0, 7, n),
            "scan": [list(row) for row in rng.uniform(0, 10, (n, 4))],
            "rich": rng.choice(["no", "yes"], n),
            "income": rng.normal(3.0, 1.0, n),
        }
    )


def declared(path: Path, **changes: object) -> dict:
    return {
        "path": str(path),
        "n": 200,
        "label": "rich",
        "classes": ["no", "yes"],
        "columns": {"age": {"low": 20, "high": 70}, "sex": {"categories": ["f", "m"]}},
    } | changes


BY_PERSON = {"n": 50, "unit": {"column": "person", "max_records": 3}}
"""Each has four records."""


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    pq.write_table(pa.Table.from_pandas(people()), tmp_path / "people.parquet")
    return tmp_path / "people.parquet"


TABLE = SOURCES["table"]


def test_a_table_is_scaled_by_its_declared_bounds_alone(parquet: Path) -> None:
    frame = people()
    data = TABLE.load(declared(parquet))
    x = data.train.inputs["x"]
    assert x.shape == (200, 3)
    assert x[:, 0] == pytest.approx((frame["age"].clip(20, 70) - 20) / 50, abs=1e-6)
    assert np.array_equal(x[:, 1] == 1, frame["sex"] == "f")
    assert np.array_equal(data.train.targets, frame["rich"] == "yes")
    assert len(data.validation) == 0
    # Mutant: scaling by the data's own range would reach both ends exactly once.
    assert ((x[:, 0] == 0).sum(), (x[:, 0] == 1).sum()) == ((frame["age"] <= 20).sum(), (frame["age"] >= 70).sum())


def test_codes_lists_and_regression(parquet: Path) -> None:
    data = TABLE.load(
        {
            "path": str(parquet),
            "n": 200,
            "label": "income",
            "target": [0, 5],
            "columns": {"film": {"codes": 7}, "scan": {"low": 0, "high": 10, "shape": [2, 2]}},
        }
    )
    assert data.facts.features == {"film": InputSpec(shape=(), cardinality=7), "scan": InputSpec(shape=(2, 2))}
    assert data.facts.task is Task.REGRESSION
    assert data.train.inputs["scan"].shape == (200, 2, 2)
    assert data.train.inputs["scan"][3, 1, 0] == pytest.approx(people()["scan"][3][2] / 10)
    assert data.train.targets.max() <= 5
    assert data.train.targets.min() >= 0


def test_padded_lists_are_filled_up_and_have_a_mask(tmp_path: Path) -> None:
    lists = [[5, 6], [], [7, 1, 2], [0]] * 50
    people().assign(words=lists).to_parquet(tmp_path / "people.parquet")
    column = {"codes": 8, "shape": [3], "padding": 1}
    options = declared(tmp_path / "people.parquet", columns={"words": column, "age": {"low": 0, "high": 120}})
    data = TABLE.load(options)
    assert list(data.train.inputs) == list(data.facts.features) == ["x", "words", "words_mask"]
    assert data.train.inputs["words"][:4].tolist() == [[5, 6, 1], [1, 1, 1], [7, 1, 2], [0, 1, 1]]
    assert np.array_equal(data.train.inputs["words_mask"], data.train.inputs["words"] != 1)
    drawn = made_up(data.facts, 40, 0).train.inputs
    assert np.array_equal(drawn["words_mask"], drawn["words"] != 1)
    assert {3} < set(drawn["words_mask"].sum(1))
    refused(lambda: TABLE.load(options | {"columns": {"words": {**column, "shape": [2]}}}), "at most 2 codes, row 2")
    taken = {"words": column, "words_mask": {"low": 0, "high": 1}}
    refused(lambda: TABLE.facts(options | {"columns": taken}), "words_mask", "the mask of words")


def test_csv_and_folders_read_the_same(parquet: Path, tmp_path: Path) -> None:
    frame = people().drop(columns="scan")
    frame.to_csv(tmp_path / "people.csv", index=False)
    folder = tmp_path / "parts"
    folder.mkdir()
    for i in range(2):
        pq.write_table(pa.Table.from_pandas(frame[100 * i : 100 * (i + 1)]), folder / f"part-{i}.parquet")
    digests = {TABLE.load(declared(path)).fingerprint for path in (parquet, tmp_path / "people.csv", folder)}
    assert len(digests) == 1


def spaced(frame: pd.DataFrame) -> list[str]:
    return [f"p{one}{' ' * (row % 2)}" for row, one in enumerate(frame["person"])]


BAD: dict[str, tuple[Callable[[pd.DataFrame], pd.DataFrame], list[str]]] = {
    "nan": (lambda frame: frame.assign(age=frame["age"].where(frame["id"] != 1007)), ["1 NaN"]),
    "column": (lambda frame: frame.drop(columns="sex"), ["sex", "which has"]),
    "label": (lambda frame: frame.drop(columns="rich"), ["rich", "data.label"]),
    "one class": (lambda frame: frame.assign(rich="yes"), ["two classes", "class 1"]),
    "null label": (lambda frame: frame.assign(rich=frame["rich"].where(frame["id"] != 1007)), ["rich", "1 missing"]),
    "value": (lambda frame: frame.assign(rich=frame["rich"].where(frame["id"] != 1007, "maybe")), ["classes", "maybe"]),
    "category": (lambda frame: frame.assign(sex=frame["sex"].where(frame["id"] != 1007, "d")), ["also has 'd'"]),
    "text": (lambda frame: frame.assign(age="old"), ["a column of numbers"]),
    "empty": (lambda frame: frame[:0], ["at least one record"]),
    "count": (lambda frame: frame[:100], ["data.n", "within 10%"]),
    "unit": (lambda frame: frame.drop(columns="person"), ["person", "which has"]),
    "unit: null": (lambda frame: frame.assign(person=frame["person"].where(frame["person"] != 3)), ["4 missing"]),
    "unit: empty": (lambda frame: frame.assign(person=frame["person"].astype(str).replace("3", "")), ["4 missing"]),
    "unit: word": (lambda frame: frame.assign(person=frame["person"].astype(str).replace("3", "N/A")), ["'N/A'"]),
    "unit: spaces": (lambda frame: frame.assign(person=spaced(frame)), ["two ids of one"]),
    "unit: float": (lambda frame: frame.assign(person=frame["person"] + 0.5), ["whole numbers or texts", "float"]),
    "unit: count": (lambda frame: frame[frame["person"] < 40], ["data.n", "values of person"]),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_tables(tmp_path: Path, kind: str) -> None:
    change, words = BAD[kind]
    unit = BY_PERSON if kind.startswith("unit") else {}
    table = pa.Table.from_pandas(change(people()), preserve_index=False)
    if kind == "nan":
        # pandas writes NaN as null; a null and a NaN are refused alike.
        pq.write_table(table, tmp_path / "null.parquet")
        refused(lambda: TABLE.load(declared(tmp_path / "null.parquet")), "age", "1 missing")
        ages = pa.array(change(people())["age"].to_numpy(), from_pandas=False)
        table = table.set_column(table.column_names.index("age"), "age", ages)
    pq.write_table(table, tmp_path / "people.parquet")
    refused(lambda: TABLE.load(declared(tmp_path / "people.parquet", **unit)), *words)


def test_a_validation_file_has_other_units(tmp_path: Path) -> None:
    frame = people()
    frame[:160].to_parquet(tmp_path / "train.parquet")
    validation = {"path": str(tmp_path / "other.parquet"), "n": 10, "records": "public"}
    options = declared(tmp_path / "train.parquet", **BY_PERSON) | {"n": 40, "validation": validation}
    frame[160:].to_parquet(tmp_path / "other.parquet")
    data = TABLE.load(options)
    assert (data.present, data.facts.n_validation, len(data.validation)) == (40, 10, 30)
    for spelled in (int, "{:05d}".format):
        shared = frame[156:]
        shared.assign(person=[spelled(one) for one in shared["person"]]).to_parquet(tmp_path / "other.parquet")
        refused(lambda: TABLE.load(options), "data.validation.path", "found 1")


# Ids of a CSV file are read as they are written: what one record has there moves no other one.

COLUMNS = {"age": {"low": 0, "high": 1000}}


def written(path: Path, people: list[str]) -> Path:
    """One record of each; the age is its place, by which it is known again."""
    lines = ["person,age,y", *(f"{one},{place},{'ab'[place % 2]}" for place, one in enumerate(people))]
    path.write_text("\n".join(lines) + "\n")
    return path


def loaded(path: Path, n: int, **options: object) -> Dataset:
    asked = {"path": str(path), "columns": COLUMNS, "label": "y", "classes": ["a", "b"], "n": n}
    return TABLE.load({**asked, **options})


def ages(split) -> set[int]:
    return {round(1000 * float(one)) for one in np.ravel(next(iter(split.inputs.values())))}


def parts(path: Path, people: list[str]) -> tuple[set[int], set[int]]:
    validation = {"share": 0.5, "id": "person", "records": "private"}
    data = loaded(written(path, people), len(people), validation=validation)
    return ages(data.train), ages(data.validation)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32), word=st.sampled_from(["A1", "x", "seven", "7b"]))
def test_a_word_among_numbers_moves_nobody(tmp_path_factory, seed, word):
    numbers = np.random.default_rng(seed).choice(10_000, 60, replace=False)
    people = [f"{n:0{1 + n % 6}d}" for n in numbers]
    path = tmp_path_factory.mktemp("ids") / "people.csv"
    before, after = parts(path, people), parts(path, [*people, word])
    added = {len(people)}
    assert tuple(one - added for one in after) == before


@pytest.mark.parametrize("odd", ["3.5", "1e3", "true", "2024-01-01"])
def test_an_id_that_is_an_input_too_is_a_whole_number_or_the_file_is_refused(tmp_path, odd):
    """As an input it is read as a number: 7 would be 7.0 once somebody has 3.5, and all would be parted anew."""
    columns = {"person": {"low": 0, "high": 100}}
    asked = {"validation": {"share": 0.5, "id": "person", "records": "private"}, "columns": columns}
    people = [str(one) for one in range(40)]
    data = loaded(written(tmp_path / "p.csv", people), 40, **asked)
    assert 0 < len(data.validation) < 40
    with pytest.raises(InvalidValue, match=r"data\.columns\.person"):
        loaded(written(tmp_path / "p.csv", [*people, odd]), 41, **asked)


@pytest.mark.parametrize("kind", ["float64", "datetime64[us]", "bool"])
def test_parquet_is_refused_for_such_ids_before_a_record_is_read(tmp_path, monkeypatch, kind):
    frame = pd.DataFrame({"person": np.arange(20).astype(kind), "age": 1.0, "y": ["a", "b"] * 10})
    frame.to_parquet(tmp_path / "p.parquet")
    asked = {"path": str(tmp_path / "p.parquet"), "columns": COLUMNS, "label": "y", "classes": ["a", "b"], "n": 20}
    asked["validation"] = {"share": 0.5, "id": "person", "records": "private"}
    with pytest.raises(InvalidValue, match="whole numbers or texts"):
        TABLE.load(asked)
    monkeypatch.setattr(table_file, "blocks", None)
    with pytest.raises(InvalidValue, match="whole numbers or texts"):
        TABLE.inspect(asked)


# Two spellings of one place are one place, as pyarrow opens it: else public records could be the private ones.

SPELLINGS = (
    "{home}/a b.parquet",
    "~/a b.parquet",
    "file://{home}/a%20b.parquet",
    "file://{home}/a%20b.parquet?x=1",
    "file:{home}/a%20b.parquet",
    "{home}/../{name}/./a b.parquet",
    "{home}/linked.parquet",
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    frame = pd.DataFrame({"id": range(20), "x": 0.5, "y": [0, 1] * 10})
    frame.to_parquet(tmp_path / "a b.parquet")
    (tmp_path / "linked.parquet").symlink_to(tmp_path / "a b.parquet")
    return tmp_path


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_whatever_opens_a_file_is_that_file(home: Path, spelling: str) -> None:
    path = spelling.format(home=home, name=home.name)
    assert sum(map(len, table_file.blocks(path, "parquet", ("id",)))) == 20
    assert overlap(path, str(home / "a b.parquet"))
    assert overlap(str(home), path)
    assert not overlap(path, str(home / "other.parquet"))


@pytest.mark.parametrize("spelling", SPELLINGS[1:])
@pytest.mark.parametrize("option", ["validation", "test"])
def test_public_records_are_the_private_file_under_no_name(home: Path, spelling: str, option: str) -> None:
    public = {"records": "public", "path": spelling.format(home=home, name=home.name), "n": 20}
    declared = {"path": str(home / "a b.parquet"), "n": 20, "label": "y", "classes": 2}
    with pytest.raises(InvalidValue, match=rf"data\.{option}"):
        SOURCES["table"].facts({**declared, "columns": {"x": {"low": 0, "high": 1}}, option: public})


# A missing number has a public constant in its place, and an input beside it that says so.


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_missing_numbers_are_filled_and_told_apart(tmp_path: Path, form: str) -> None:
    frame = people().assign(age=lambda one: one["age"].where(one["id"] % 4 != 0))
    where = tmp_path / f"people.{form}"
    frame.to_parquet(where) if form == "parquet" else frame.drop(columns="scan").to_csv(where, index=False)
    columns = {"age": {"low": 20, "high": 70, "missing": 45}, "sex": {"categories": ["f", "m"]}}
    data = TABLE.load(declared(where, columns=columns))
    x, gone = data.train.inputs["x"], frame["age"].isna().to_numpy()
    assert x.shape == (200, 4)
    assert gone.any()
    assert (x[:, 1] == gone).all()
    assert (x[gone, 0] == 0.5).all()
    people().to_parquet(tmp_path / "all.parquet")
    whole = TABLE.load(declared(tmp_path / "all.parquet"))
    assert np.array_equal(x[~gone, 0], whole.train.inputs["x"][~gone, 0])


@pytest.mark.parametrize("column", [{"low": 0, "high": 9, "missing": 3, "shape": [4]}, {"codes": 3, "missing": 1}])
def test_a_constant_is_for_a_plain_number(tmp_path: Path, column: dict) -> None:
    refused(lambda: TABLE.facts(declared(tmp_path, columns={"age": column})), "missing")


# What a Parquet file says of its columns is looked at before a record is.


@pytest.mark.parametrize("part", [BY_PERSON, {"validation": {"records": "public", "share": 0.2, "id": "person"}}])
def test_lists_are_no_ids(tmp_path: Path, part: dict) -> None:
    frame = people()
    frame.assign(person=[[one] * (1 + one % 2) for one in frame["person"]]).to_parquet(tmp_path / "a.parquet")
    refused(lambda: TABLE.inspect(declared(tmp_path / "a.parquet", **part)), "whole numbers or texts", "list<")


@pytest.mark.parametrize("column", [{"low": 0, "high": 9, "missing": 3}, {"categories": [0, 1]}, {"codes": 3}])
def test_a_column_without_any_value_is_refused(tmp_path: Path, column: dict) -> None:
    people().assign(film=None).to_parquet(tmp_path / "a.parquet")
    refused(lambda: TABLE.inspect(declared(tmp_path / "a.parquet", columns={"film": column})), "film", "no type")


# Copies of what is trained on validate nothing.


@pytest.mark.parametrize("form", ["parquet", "csv"])
@pytest.mark.parametrize("part", ["validation", "test"])
def test_a_copy_of_the_training_records_is_refused_however_it_is_written(tmp_path: Path, form: str, part: str) -> None:
    frame = people().drop(columns="scan")
    frame.to_csv(tmp_path / "train.csv", index=False)
    copy = tmp_path / f"copy.{form}"
    shuffled = frame.sample(frac=1.0, random_state=0)
    shuffled.to_parquet(copy) if form == "parquet" else shuffled.to_csv(copy, index=False)
    options = declared(tmp_path / "train.csv", format=None) | {part: {"records": "public", "path": str(copy), "n": 200}}
    if form == "parquet":
        frame.to_parquet(tmp_path / "train.parquet")
        options["path"] = str(tmp_path / "train.parquet")
    load = TABLE.load if part == "validation" else TABLE.load_held_out
    refused(lambda: load(options), f"data.{part}", "most of them equal a training record")


def test_rows_of_a_few_categories_repeat_by_themselves(tmp_path: Path) -> None:
    for name in ("train", "other"):
        people().to_parquet(tmp_path / f"{name}.parquet")
    options = declared(tmp_path / "train.parquet", columns={"sex": {"categories": ["f", "m"]}})
    validation = {"records": "public", "path": str(tmp_path / "other.parquet"), "n": 200}
    assert len(TABLE.load(options | {"validation": validation}).validation) == 200


# What `check` reads of a file and what `run` reads are one reader's.


def told(call: Callable[[], object]) -> str:
    try:
        call()
    except InvalidValue as error:
        return str(error)
    return ""


NAMES = st.lists(st.sampled_from(["age", "rich", "sex", "é", "", "b c", '"q"', "age "]), min_size=1, max_size=5)
CELLS = st.lists(st.sampled_from(["0", "1", ".5", "x", "", "é", "True"]), min_size=0, max_size=6)


@settings(max_examples=200)
@given(
    names=NAMES,
    cells=CELLS,
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "latin-1"]),
    end=st.sampled_from(["\n", "\r\n"]),
    first=st.booleans(),
)
def test_what_check_passes_run_takes_or_says_in_a_sentence(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], cells: list[str], encoding: str, end: str, first: bool
) -> None:
    folder = tmp_path_factory.mktemp("layouts")
    lines = [",".join(names), *(",".join([one] * len(names)) for one in cells)]
    (folder / "2.csv").write_bytes(end.join([*lines, ""]).encode(encoding))
    if first:
        (folder / "1.csv").write_bytes(b"")
    columns = {"age": {"low": 0, "high": 1}}
    options = declared(folder, format="csv", columns=columns, n=len(cells) or 1)
    schema = TABLE.read(options)
    checked = told(lambda: TABLE.inspect(options))
    ran = told(lambda: list(table_file.blocks(str(folder), "csv", schema.names, schema.texts, schema.numbers)))
    if checked or not {"x", "é", "True", ""} & set(cells):
        # But for values, of which check reads none.
        assert ran == checked
