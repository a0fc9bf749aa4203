"""Two spellings of one place are one place, as pyarrow opens it: else public records could be the private ones."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from dpcore.checks import InvalidValue
from trainables.data import SOURCES, table_file
from trainables.data.files import overlap

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
    assert len(table_file.read(path, "parquet", ("id",))) == 20
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


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("s3://b/x", "s3://b/x?region=eu-west-1&endpoint_override=localhost:9000", True),
        ("s3://key:word@b/x", "s3://b//x/", True),
        ("s3://b/x%20y/a.parquet", "s3://b/x y", True),
        ("gs://b/x", "gcs://b/x", True),
        ("s3://b/x", "s3://b/xy", False),
        ("s3://b/x", "s3://c/x", False),
        ("s3://b/x", "gs://b/x", False),
    ],
)
def test_urls_are_told_apart_by_what_they_name(one: str, other: str, same: bool) -> None:
    assert overlap(one, other) == overlap(other, one) == same
