"""A small table of one's own, as CSV and as Parquet: for exams over all data sources."""

from __future__ import annotations

import csv
import io
from functools import partial
from pathlib import Path

import pandas as pd

from tests.trainables.data_exam.candidate import Candidate
from tests.trainables.numbered_records import Records, numbered
from trainables.data import SOURCES

TABLE: dict[str, object] = {
    "n": 12,
    "label": "rich",
    "classes": ["no", "yes"],
    "columns": {"age": {"low": 0, "high": 100}, "work": {"categories": ["public", "private"]}, "code": {"codes": 200}},
    "validation": {"records": "public", "share": 0.25, "id": "id"},
}
TABLE_OTHERS = {
    "n": 11,
    "label": "old",
    "classes": ["no", "yes", "maybe"],
    "task": "rating",
    "columns": {"age": {"low": 0, "high": 50}},
    "validation": {"records": "public", "share": 0.5, "id": "id"},
    "unit": {"column": "id", "max_records": 1},
    "test": {"records": "public", "share": 0.25, "id": "id"},
    "part": {"use": "tuning", "share": 0.74, "id": "id"},
    "class_weights": [1, 5],
    "loss": "tests.trainables.user_sources:absolute",
    "weight": {"column": "age", "high": 20},
    "groups": {"column": "work", "categories": ["public", "private"]},
}
TABLE_SILENT = {
    "format": "it says what the file is, and would be wrong of this one",
    "target": "it takes the place of classes, and is refused beside them",
    "prompt": "it is of a label of tokens, and is refused beside classes",
}
HEAD = ("id", "age", "work", "code", "rich", "old")


def people(seed: int, age: float = 1.0) -> list[tuple]:
    """Records of twelve people, four of whom have two more."""
    found = []
    for number, label in numbered(12, 2, seed):
        name, word = f"p{number // 2}", ("no", "yes")[label]
        for extra in range(3 if number // 2 < 4 else 1):
            found.append(
                (name, age * (number + 25 * extra), ("public", "private")[label], number, word, ("yes", "no")[label])
            )
    return found


def alone(seed: int, age: float = 1.0) -> list[tuple]:
    """Records of twelve people, one each."""
    return [one for one in people(seed, age) if one[1] < 25 * age]


def table_csv(folder: Path, records: Records) -> list[Path]:
    file = folder / "people.csv"
    text = io.StringIO()
    csv.writer(text).writerows([HEAD, *records])
    file.write_text(text.getvalue())
    return [file]


def table_parquet(folder: Path, records: Records) -> list[Path]:
    file = folder / "people.parquet"
    pd.DataFrame(records, columns=list(HEAD)).to_parquet(file)
    return [file]


ALONE = Candidate(
    source=SOURCES["table"],
    options={**TABLE, "format": "csv"},
    made=alone,
    write=table_csv,
    beyond=partial(alone, age=1000.0),
    exact=False,
    others=TABLE_OTHERS,
    silent=TABLE_SILENT,
    bad={"target": []},
)
