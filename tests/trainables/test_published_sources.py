"""Data sources: published counts, formats, splits that no record decides, and every kind of bad input."""

from __future__ import annotations

import gzip
import hashlib
import lzma
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dpcore.checks import InvalidValue
from tests.trainables.source_cases import CANDIDATES
from trainables.data import SOURCES
from trainables.data.derived import CONTRAST, features
from trainables.data.images import SUBSET
from trainables.data.splits import contents
from trainables.system import Split, Task

DATA = Path(os.environ.get("SWEEPS_DATA", Path(__file__).parents[3] / "shared" / "data"))
needs_data = pytest.mark.skipif(
    not DATA.is_dir(),
    reason=f"PUBLISHED DATA NOT CHECKED: no folder {DATA}. Set SWEEPS_DATA to the folder with mnist/, a9a/, imdb/ ...",
)


# Published counts


@needs_data
@pytest.mark.parametrize(
    ("source", "options", "train", "validation"),
    [
        # Label counts 0-9 as published with MNIST
        (
            "mnist",
            {},
            [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
            [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009],
        ),
        # UCI Adult: 24,720 + 7,841 and 12,435 + 3,846, in both forms
        ("adult", {"split": "test"}, [24720, 7841], [12435, 3846]),
        ("adult", {"split": "test", "form": "raw"}, [24720, 7841], [12435, 3846]),
    ],
    ids=["mnist", "a9a", "adult raw"],
)
def test_published_label_counts(source: str, options: dict, train: list[int], validation: list[int]) -> None:
    data = SOURCES[source].load({"path": str(DATA), **options})
    assert np.bincount(data.train.targets).tolist() == train
    assert np.bincount(data.validation.targets).tolist() == validation
    assert data.facts == SOURCES[source].facts({"path": str(DATA), **options})
    assert (len(data.train), len(data.validation)) == (data.facts.n, data.facts.n_validation)
    for name, feature in data.facts.features.items():
        array = data.train.inputs[name]
        assert array.dtype == (np.int64 if feature.cardinality is not None else np.float32)
        assert float(array.min()) >= 0
        assert float(array.max()) <= (1.0 if feature.cardinality is None else feature.cardinality - 1)


@needs_data
def test_published_ratings() -> None:
    options = {"path": str(DATA)}
    data = SOURCES["movielens_1m"].load(options)
    stars = np.bincount(data.train.targets) + np.bincount(data.validation.targets)
    assert stars.tolist() == [56053, 107457, 261090, 348873, 226282]
    assert len(data.validation) == 199_951
    assert len(set(data.train.inputs["user"]) | set(data.validation.inputs["user"])) == 6040
    assert len(set(data.train.inputs["movie"]) | set(data.validation.inputs["movie"])) == 3484
    data = SOURCES["movielens_100k"].load(options)
    stars = np.bincount(data.train.targets) + np.bincount(data.validation.targets)
    assert stars.tolist() == [6110, 11370, 27145, 34174, 21201]


def test_digits_are_complete_and_split_by_position() -> None:
    data = SOURCES["digits"].load({})
    counts = np.bincount(data.train.targets) + np.bincount(data.validation.targets)
    # UCI's optdigits test file
    assert counts.tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert (len(data.train), len(data.validation)) == (1437, 360)
    assert data.train.inputs["image"].max() == 1.0
    limited = SOURCES["digits"].load({"limit": 100})
    assert np.array_equal(limited.train.inputs["image"], data.train.inputs["image"][:100])
    assert limited.fingerprint != data.fingerprint
    assert SOURCES["digits"].load({}).fingerprint == data.fingerprint


# Bad input that every source with files shares


def refused(call: Callable[[], object], *words: str) -> InvalidValue:
    with pytest.raises(InvalidValue) as caught:
        call()
    for word in words:
        assert word in str(caught.value), f"{word!r} not in: {caught.value}"
    return caught.value


# Damaged files: one table for all sources, each of a whole file of `source_cases` and what becomes of it.


def damaged(name: str, folder: Path, change: Callable[[bytes], bytes], file: int = 0) -> None:
    one = CANDIDATES[name]
    with one.sized():
        place = one.written(folder / name, one.made(0))[file]
        before = place.read_bytes()
        assert change(before) != before
        place.write_bytes(change(before))
        one.source.load(one.asked(folder / name))


def unzipped(change: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    return lambda content: gzip.compress(change(gzip.decompress(content)))


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("mnist", lambda content: content[:-20], "cut short"),
        ("mnist", lambda content: b"", "this one is empty"),
        ("mnist", unzipped(lambda plain: b"\0\0\x08\x01" + plain[4:]), "2051, found 2049"),
        ("mnist", unzipped(lambda plain: plain[:-1]), "4704 bytes after the header, found 4703"),
        ("imdb", lambda content: content[:-30], "cut short"),
        ("imdb", lambda content: lzma.compress(b"id,rating,text\n1,8,fine\n"), "columns label and text"),
        ("movielens_1m", lambda content: content.replace(b"::1::", b"::x::", 1), "whole numbers"),
        ("movielens_1m", lambda content: content + content[: content.index(b"\n") + 1], "30 records"),
        ("location", lambda content: content.replace(b",0", b",7", 1), "0 or 1"),
        ("location", lambda content: content.replace(b",0", b",no", 1), "of numbers"),
        ("location", lambda content: content.replace(b'"1"', b'"3"', 1), "labels in 0..1"),
        ("abalone", lambda content: content.replace(b"F,", b"X,", 1), "column sex"),
        ("abalone", lambda content: content.replace(b",9\n", b",30\n", 1), "1 to 29 rings"),
        ("abalone", lambda content: content.replace(b",9\n", b"\n", 1), "columns, found 8"),
        ("german_credit", lambda content: content.replace(b"A201", b"A209", 1), "found ['A209']"),
        ("german_credit", lambda content: content[content.index(b"\n") + 1 :], "10 records"),
        ("cifar10, bin", lambda content: content[:-1], "images and labels"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, name: str, change: Callable[[bytes], bytes], words: str) -> None:
    refused(lambda: damaged(name, tmp_path, change), words)


def test_as_many_labels_as_features(tmp_path: Path) -> None:
    refused(lambda: damaged("texas", tmp_path, lambda content: content.split(b"\n", 1)[1], file=1), "found 7")


# CIFAR-10, German Credit and IDC: published counts, forms that agree, and bad files.

CIFAR10, GERMAN = SOURCES["cifar10"], SOURCES["german_credit"]


@needs_data
def test_the_cifar_subset_is_whole_and_turned_to_channels_first() -> None:
    data = CIFAR10.load({"path": str(DATA)})
    assert np.bincount(data.train.targets).tolist() == [396, 366, 420, 384, 422, 393, 414, 385, 407, 413]
    assert np.bincount(data.validation.targets).tolist() == [103, 89, 100, 103, 90, 86, 112, 102, 106, 109]
    images = data.train.inputs["image"]
    assert images.shape == (4000, *data.facts.features["image"].shape) == (4000, 3, 32, 32)
    assert 0 == images.min() < images.max() == 1
    stored = np.load(DATA / "cifar10" / SUBSET)["x_train"]
    assert images[7, 2, 3, 5] == np.float32(stored[7, 3, 5, 2]) / np.float32(255)
    assert CIFAR10.facts({"path": str(DATA), "limit": 100}).n == 100
    assert CIFAR10.facts({}).n == 50_000


def test_both_published_forms_of_cifar_agree(tmp_path: Path) -> None:
    forms = [CANDIDATES[f"cifar10, {form}"] for form in ("bin", "py", "npz")]
    with forms[0].sized():
        found = [one.loaded(tmp_path / str(i), one.made(0)) for i, one in enumerate(forms)]
    assert len({one.fingerprint for one in found}) == 1


def test_a_pickle_that_would_run_code_is_refused(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple:
            return (Path.touch, (tmp_path / "ran",))

    evil = pickle.dumps({b"data": Evil(), b"labels": [1, 2]}, protocol=2)
    refused(lambda: damaged("cifar10, py", tmp_path, lambda content: evil), "which no array needs")
    assert not (tmp_path / "ran").exists()


# German Credit


@needs_data
def test_german_credit_has_its_published_counts_in_both_forms() -> None:
    both = []
    for form, width in (("raw", 63), ("numeric", 24)):
        options = {"path": str(DATA), "form": form}
        data, holdout = GERMAN.load(options), GERMAN.load({**options, "judge": "holdout"})
        assert data.facts.features["applicant"].shape == (width,)
        assert (data.facts.n, data.facts.n_validation) == (400, 300)
        targets = np.concatenate([data.train.targets, data.validation.targets, holdout.validation.targets])
        assert np.bincount(targets).tolist() == [300, 700]
        people = data.train.inputs["applicant"]
        assert 0 <= people.min() < people.max() <= 1
        both.append(data)
    assert both[0].train.targets.tolist() == both[1].train.targets.tolist()
    # The same people in the same order: duration in months is column 2 of both.
    months = [both[0].train.inputs["applicant"][:, 4] * 72, both[1].train.inputs["applicant"][:, 1] * 68 + 4]
    assert months[0] == pytest.approx(months[1], abs=1e-3)
    assert both[0].train.inputs["applicant"][:, :4].sum(axis=1) == pytest.approx(1)


# Location and its relatives, and pools: published counts, public draws, damaged files.


@pytest.mark.skipif(
    not (DATA / "location").is_dir(), reason=f"PUBLISHED DATA NOT CHECKED: no folder {DATA}/location. Set SWEEPS_DATA."
)
def test_location_as_published():
    """5,010 rows, 446 features of density 0.120, 30 classes of 97 to 308 records."""
    data = SOURCES["location"].load({"path": str(DATA)})
    labels = np.concatenate([data.train.targets, data.validation.targets])
    features = np.concatenate([data.train.inputs["record"], data.validation.inputs["record"]])
    assert (len(data.train), len(data.validation)) == (1200, 3810)
    assert features.shape == (5010, 446)
    assert features.mean() == pytest.approx(0.120, abs=5e-4)
    counts = np.bincount(labels)
    assert (len(counts), counts.min(), counts.max()) == (30, 97, 308)
    assert (counts[4], counts[7]) == (97, 308)


# Abalone and frozen features: published counts, features that no other record decides, and bad files.

ABALONE = SOURCES["abalone"]


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


# MNIST's parts: a validation share of the training records by a hash of content, and test records read at the end.


def test_loading_reads_no_test_record(tmp_path: Path) -> None:
    one = CANDIDATES["mnist, parted"]
    with one.sized():
        for file in one.written(tmp_path / "all", one.made(0))[2:]:
            file.write_bytes(b"no record")
        asked = one.asked(tmp_path / "all")
        assert len(one.source.load(asked).train) > 0
        with pytest.raises(InvalidValue):
            one.source.load_held_out(asked)
        assert len(one.source.load({**asked, "validation": None}).validation) == 0


def test_a_recorded_split_stays_as_it_is() -> None:
    """What is hashed: SHA-256 over float32 pixels and one byte of label, little-endian, in hex."""
    split = Split(
        inputs={"image": np.random.default_rng(1).random((3, 28, 28), dtype=np.float32)}, targets=np.uint8([7, 0, 9])
    )
    expected = [
        hashlib.sha256(image.astype("<f4").tobytes() + bytes([label])).hexdigest()
        for image, label in zip(split.inputs["image"], split.targets, strict=True)
    ]
    assert contents(split).tolist() == expected
