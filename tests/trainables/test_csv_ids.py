"""Ids of a CSV file are read as they are written: what one record has there moves no other one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcore.checks import InvalidValue
from trainables.data import SOURCES, table_file
from trainables.system import Dataset

TABLE = SOURCES["table"]
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


def test_units_of_numbers_stay_apart_whoever_joins(tmp_path):
    """7 and 007 are two persons, also where all are numbers."""
    people = ["7", "007", "8", "9", *(str(n) for n in range(20, 40))]
    unit = {"column": "person", "max_records": 3}
    for joined in (people, [*people, "A1"]):
        validation = {"share": 0.1, "id": "person", "records": "private"}
        data = loaded(written(tmp_path / "p.csv", joined), len(joined), unit=unit, validation=validation)
        assert len(data.units.offsets) - 1 == len(ages(data.train))


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
    monkeypatch.setattr(table_file, "read", None)
    with pytest.raises(InvalidValue, match="whole numbers or texts"):
        TABLE.inspect(asked)


@pytest.mark.parametrize("odd", [".0", "e0"])
def test_a_point_in_one_record_makes_no_two_categories_one(tmp_path, odd):
    """Beyond 2^53 a column of numbers with a point has every other whole number alone."""
    codes = [2**53, 2**53 + 1]
    columns = {"person": {"categories": codes}}
    people = [str(codes[place % 2]) for place in range(40)]
    data = loaded(written(tmp_path / "p.csv", people), 40, columns=columns)
    assert data.train.inputs["x"].argmax(axis=1).tolist() == [0, 1] * 20
    with pytest.raises(InvalidValue, match="as texts"):
        loaded(written(tmp_path / "p.csv", [*people, str(2**53) + odd]), 41, columns=columns)
    with pytest.raises(InvalidValue, match="beyond 2"):
        loaded(written(tmp_path / "p.csv", [str(2**64 + place % 2) for place in range(40)]), 40, columns=columns)
