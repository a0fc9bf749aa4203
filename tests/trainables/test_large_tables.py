"""Tables of several blocks are encoded into files and read from there: the same records, the same models, once."""

from __future__ import annotations

import errno
import os
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.trainables.noisy_sgd_cases import fitted, given_noise
from trainables import kept
from trainables.data import SOURCES, records, table, table_file
from trainables.system import Split
from trainables.systems.noisy_sgd import NOISY_SGD

TABLE = SOURCES["table"]
HASHED = {"records": "public", "share": 0.2, "id": "id"}
CASES: dict[str, dict] = {
    "whole": {},
    "part": {"validation": HASHED, "part": {"use": "tuning", "share": 0.5, "id": "id"}},
    "test": {"validation": HASHED, "test": {"records": "public", "share": 0.2, "id": "id"}},
    "file": {"validation": {"records": "public", "path": "other.parquet", "n": 600}},
    "test-file": {"test": {"records": "public", "path": "other.parquet", "n": 600}},
    "csv": {"path": "large.csv", "columns": {"age": {"low": 0, "high": 9}, "film": {"codes": 7}}, "validation": HASHED},
    "unit": {"n": 90, "unit": {"column": "who", "max_records": 3}, "validation": {"records": "public", "share": 0.2}},
    "others": {"weight": {"column": "age", "high": 5}, "groups": {"column": "film", "categories": list(range(7))}},
    "tokens": {"label": "words", "loss": "next-token", "classes": None},
}


def asked(folder: Path, **changes: object) -> dict:
    """Of 600 records in two files."""
    rng, n = np.random.default_rng(4), 600
    frame = pd.DataFrame(
        {
            "id": np.arange(n) + 7,
            "who": [f"p{number % 90}" for number in range(n)],
            "age": rng.uniform(0, 9, n),
            "film": rng.integers(0, 7, n),
            "y": rng.choice(["no", "yes"], n),
        }
    )
    frame.to_csv(folder / "large.csv", index=False)
    frame["words"] = [rng.integers(1, 300, size) for size in rng.integers(1, 9, n)]
    pq.write_table(pa.Table.from_pandas(frame), folder / "large.parquet", row_group_size=130)
    other = frame.assign(age=frame["age"] / 2, who="q" + frame["who"])
    pq.write_table(pa.Table.from_pandas(other), folder / "other.parquet")
    given = {
        "path": "large.parquet",
        "n": n,
        "label": "y",
        "classes": ["no", "yes"],
        "columns": {"words": {"codes": 300, "shape": [8], "padding": 0}, "age": {"low": 0, "high": 9}},
    } | changes
    return {name: one for name, one in given.items() if one is not None}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lower(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_file, "BLOCK_BYTES", 3000)
    monkeypatch.setattr(table_file, "BATCH", 50)
    monkeypatch.setattr(records, "BLOCK", 64)


def content(*splits: Split) -> list:
    found: list = []
    for split in splits:
        split.each(lambda one: found.append((one.shape, records.wide(one).tolist())))
    return found


@pytest.mark.parametrize("changes", CASES.values(), ids=CASES)
def test_the_records_are_those_of_memory(changes: dict, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = asked(folder, **changes)

    def loaded(kept_in: Path | None) -> list:
        data = TABLE.load(given, kept_in)
        tested = [TABLE.load_held_out(given, kept_in)] if "test" in given else []
        units = [] if data.units is None else [data.units.offsets.tolist(), data.units.keys.tolist()]
        return [data.fingerprint, *units, *content(data.train, data.validation, *tested)]

    before = loaded(None)
    lower(monkeypatch)
    place = folder / "kept"
    assert loaded(None) == loaded(place) == before
    # Encoded once, by its owner for its owner.
    monkeypatch.setattr(table, "_encode", None)
    assert loaded(place) == before
    assert {one.stat().st_mode & 0o077 for one in [place, *place.rglob("*")]} == {0}


def test_a_model_is_the_same_to_the_last_bit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = asked(folder, columns={"words": {"codes": 300, "shape": [8]}}, validation=HASHED)
    given["path"] = "full.parquet"
    frame = pq.read_table("large.parquet").to_pandas()
    frame["words"] = list(np.random.default_rng(0).integers(0, 300, (600, 8)))
    pq.write_table(pa.Table.from_pandas(frame), "full.parquet")

    def trained(data: object) -> dict:
        plan = given_noise(NOISY_SGD, data.facts, 1.0, model="embedding-pool", epochs=1.0)  # type: ignore[attr-defined]
        return dict(fitted(NOISY_SGD, plan, data).final[1])  # type: ignore[arg-type]

    before = trained(TABLE.load(given))
    lower(monkeypatch)
    data = TABLE.load(given, folder / "kept")
    # As another process gets it: the file, and none of its records.
    message = pickle.dumps(data.each(kept.sent))
    assert {type(kept.sent(one)) for one in table._arrays(data.train)} == {kept.Mapped}
    after = trained(pickle.loads(message).each(kept.received))
    assert before.keys() == after.keys()
    assert all(np.array_equal(one, after[name]) for name, one in before.items())


def test_what_was_not_written_whole_is_never_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given, place = asked(folder), folder / "kept"
    lower(monkeypatch)
    # Killed after some blocks.
    if (child := os.fork()) == 0:
        monkeypatch.setattr(records, "of_checked", lambda *_, **__: os._exit(9))
        TABLE.load(given, place)
    assert os.waitpid(child, 0)[1] == 9 << 8
    assert [one.suffix for one in place.iterdir() if one.is_dir()] == [".part"]
    before = TABLE.load(given, place)
    whole = content(before.train)
    assert [one.suffix for one in place.iterdir() if one.is_dir()] == [""]
    # Cut short by a disk.
    for one in place.rglob("train.0.npy"):
        os.truncate(one, 200)
    mended = TABLE.load(given, place)
    assert (mended.fingerprint, content(mended.train)) == (before.fingerprint, whole)


def test_a_full_disk_is_found_before_anything_is_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given, place = asked(folder), folder / "kept"
    lower(monkeypatch)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space left"):
        TABLE.load(given, place)
    assert [one for one in place.iterdir() if one.is_dir()] == []


def test_what_nobody_has_open_is_cleared(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given, place = asked(folder), folder / "kept"
    lower(monkeypatch)
    data = TABLE.load(given, place)
    assert kept.clear(place) == 0
    assert content(TABLE.load(given, place).train) == content(data.train)
    del data
    size = kept.clear(place, dry_run=True)
    assert kept.clear(place) == size > 600 * 8
    assert kept.clear(place) == 0
