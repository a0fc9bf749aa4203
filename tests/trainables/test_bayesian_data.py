"""Abalone and frozen features: published counts, features that no other record decides, and bad files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.trainables.test_data import DATA, needs_data, refused
from trainables.data import SOURCES, abalone
from trainables.data.derived import CONTRAST, features
from trainables.system import Task

ABALONE, FROZEN = SOURCES["abalone"], SOURCES["frozen"]


@needs_data
def test_abalone_is_whole_in_the_published_split() -> None:
    """abalone.names: 1,528 M, 1,342 I, 1,307 F; the first 3,133 are trained on; two heights are 0."""
    older, rings = (ABALONE.load({"path": str(DATA), "target": target}) for target in ("older", "rings"))
    assert (len(older.train), len(older.validation)) == (3133, 1044)
    shells = np.concatenate([older.train.inputs["shell"], older.validation.inputs["shell"]])
    assert shells[:, :3].sum(0).tolist() == [1528, 1307, 1342]
    assert (shells[:, 5] == 0).sum() == 2
    assert 0 == shells.min() < shells.max() <= 1
    ages = np.concatenate([rings.train.targets, rings.validation.targets])
    assert (ages.min(), ages.max(), rings.facts.task) == (1, 29, Task.REGRESSION)
    assert (older.train.targets == (ages[:3133] >= 10)).all()
    first = [1, 0, 0, 0.455, 0.365, 0.19, 0.514 / 3, 0.2245 / 1.5, 0.101 / 0.8, 0.15 / 1.1]
    assert older.train.inputs["shell"][0] == pytest.approx(first, rel=1e-6)


@pytest.fixture
def shells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(abalone, "TRAIN", 2)
    monkeypatch.setattr(abalone, "TEST", 1)
    file = tmp_path / "abalone.data"
    file.write_text("M,0.4,0.3,0.1,0.5,0.2,0.1,0.1,9\nF,0.5,0.4,0.1,0.6,0.2,0.1,0.2,10\nI,2,0.4,0,0.6,0.2,0.1,0.2,29\n")
    return file


def test_sizes_are_cut_to_declared_bounds(shells: Path) -> None:
    data = ABALONE.load({"path": str(shells.parent)})
    assert data.train.targets.tolist() == [0, 1]
    assert data.validation.inputs["shell"][0, 3] == 1.0


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("M,", "X,", "column sex"),
        ("0.4,0.3", "0.4,many", "numbers"),
        (",9\n", ",9.5\n", "rings"),
        (",29\n", ",30\n", "1 to 29 rings"),
        (",9\n", "\n", "columns"),
        ("F,0.5,0.4,0.1,0.6,0.2,0.1,0.2,10\n", "", "3 records"),
    ],
)
def test_a_damaged_file_is_refused(shells: Path, old: str, new: str, said: str) -> None:
    text = shells.read_text()
    assert old in text
    shells.write_text(text.replace(old, new, 1))
    refused(lambda: ABALONE.load({"path": str(shells.parent)}), "data.path", said)


def test_frozen_features_are_the_published_recipe_by_hand() -> None:
    """One image, one filter: patch by patch in NumPy."""
    image = np.random.default_rng(3).random((1, 2, 5, 5)).astype(np.float32)
    drawn = np.random.default_rng([2011, 7]).standard_normal((1, 18)).astype(np.float32)
    direction = drawn[0] - drawn[0].mean()
    direction /= np.linalg.norm(direction)
    seen = np.zeros((3, 3))
    for row in range(3):
        for column in range(3):
            patch = image[0, :, row : row + 3, column : column + 3].ravel()
            seen[row, column] = direction @ (patch - patch.mean()) / (patch.std() + CONTRAST)
    # Quadrants of a 3 x 3 map overlap in the middle, as adaptive pooling does it.
    expected = [
        np.maximum(sign * seen, 0)[rows, columns].mean()
        for sign in (1, -1)
        for rows in (slice(0, 2), slice(1, 3))
        for columns in (slice(0, 2), slice(1, 3))
    ]
    centred = np.array(expected) - np.mean(expected)
    assert features(image, 1, 3, 7)[0] == pytest.approx(centred / np.linalg.norm(centred), abs=1e-5)
