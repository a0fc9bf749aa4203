"""Location and its relatives, and pools: published counts, public draws, damaged files."""

import io
import os
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dpcore.checks import InvalidValue
from trainables.data import SOURCES
from trainables.data.membership_tables import LOCATION, TEXAS_100

DATA = Path(os.environ.get("SWEEPS_DATA", Path(__file__).parents[3] / "shared" / "data"))
SMALL = replace(LOCATION, count=6, width=3, classes=2, train=4)
TEXAS = replace(TEXAS_100, count=6, width=3, classes=2, train=4)
ROWS = ['"1",0,1,1', '"2",1,0,0', '"1",0,0,0', '"2",1,1,1', '"1",1,0,1', '"2",0,1,0']


def archive(path, members):
    with tarfile.open(path, "w:gz") as out:
        for name, text in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            out.addfile(info, io.BytesIO(text.encode()))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "location").mkdir()
    archive(tmp_path / "location" / SMALL.archive, {"bangkok": "\n".join(ROWS) + "\n"})
    return tmp_path


@pytest.mark.skipif(
    not (DATA / "location").is_dir(), reason=f"PUBLISHED DATA NOT CHECKED: no folder {DATA}/location. Set SWEEPS_DATA."
)
def test_location_as_published():
    """5,010 rows, 446 features of density 0.120, 30 classes of 97 to 308 records."""
    data = LOCATION.load({"path": str(DATA)})
    labels = np.concatenate([data.train.targets, data.validation.targets])
    features = np.concatenate([data.train.inputs["record"], data.validation.inputs["record"]])
    assert (len(data.train), len(data.validation)) == (1200, 3810)
    assert features.shape == (5010, 446)
    assert features.mean() == pytest.approx(0.120, abs=5e-4)
    counts = np.bincount(labels)
    assert (len(counts), counts.min(), counts.max()) == (30, 97, 308)
    assert (counts[4], counts[7]) == (97, 308)


def test_classes_begin_at_zero_and_no_record_is_lost(folder):
    data = SMALL.load({"path": str(folder)})
    rows = [
        f'"{label + 1}",' + ",".join(str(int(v)) for v in record)
        for split in (data.train, data.validation)
        for record, label in zip(split.inputs["record"], split.targets, strict=True)
    ]
    assert sorted(rows) == sorted(ROWS)
    assert (len(data.train), len(data.validation)) == (4, 2)
    assert data.facts == SMALL.facts({})


def test_texas_keeps_its_classes_apart(tmp_path):
    archive(tmp_path / "dataset_texas.tgz", {"texas/100/feats": "0,1,1\n" * 3 + "1,0,0\n" * 3,
                                             "texas/100/labels": "1\n1\n1\n2\n2\n2\n"})  # fmt: skip
    data = TEXAS.load({"path": str(tmp_path)})
    assert np.array_equal(data.train.inputs["record"][:, 0], data.train.targets.astype(np.float32))


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("\n".join(ROWS[:5]), "6 records"),
        ("\n".join(row + ",1" for row in ROWS), "3 features, found 4"),
        ("\n".join([*ROWS[:5], '"2",0,7,0']), "0 or 1"),
        ("\n".join([*ROWS[:5], '"3",0,1,0']), r"labels in 0\.\.1"),
        ("\n".join([*ROWS[:5], "no,numbers,here,!"]), "of numbers"),
        ("", "with records"),
    ],
)
def test_damaged_tables_are_named(tmp_path, text, match):
    (tmp_path / "bangkok").write_text(text)
    if not text:
        (tmp_path / "bangkok").unlink()
        (tmp_path / SMALL.archive).write_bytes(b"")
    with pytest.raises(InvalidValue, match=match):
        SMALL.load({"path": str(tmp_path)})


# Pools


def test_a_pool_holds_every_record_once():
    inner = SOURCES["digits"].load({})
    options = {"of": "digits", "train": 500, "seed": 4}
    pooled = SOURCES["pooled"].load(options)
    assert (len(pooled.train), len(pooled.validation)) == (500, 1297)
    assert pooled.facts == SOURCES["pooled"].facts(options)
    sums = [
        np.sort(np.concatenate([one.inputs["image"].sum(axis=(1, 2)) for one in (data.train, data.validation)]))
        for data in (inner, pooled)
    ]
    assert np.array_equal(*sums)
    assert pooled.fingerprint != SOURCES["pooled"].load({**options, "seed": 5}).fingerprint
