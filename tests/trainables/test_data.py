"""Data sources: published counts, formats, splits that no record decides, and every kind of bad input."""

from __future__ import annotations

import gzip
import lzma
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dpcore.checks import InvalidValue
from trainables.data import SOURCES, imdb, mnist, movielens, records
from trainables.system import Feature, PublicFacts, Split, Task

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
        # Maas et al. 2011
        ("imdb", {"vocabulary": "hashed"}, [12500, 12500], [12500, 12500]),
    ],
    ids=["mnist", "a9a", "adult raw", "imdb"],
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


@needs_data
def test_both_forms_of_adult_are_the_same_people() -> None:
    binary, raw = (SOURCES["adult"].load({"path": str(DATA), "form": form}) for form in ("a9a", "raw"))
    assert np.array_equal(binary.train.targets, raw.train.targets)
    assert (len(binary.train), len(binary.validation)) == (29305, 3256)
    # 451,592 non-zeros among all 32,561 rows of a9a
    ones = binary.train.inputs["person"].sum() + binary.validation.inputs["person"].sum()
    assert int(ones) == 451_592


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


# IDX


def idx(array: np.ndarray, magic: int | None = None) -> bytes:
    head = (0x800 + array.ndim if magic is None else magic).to_bytes(4, "big")
    return head + b"".join(size.to_bytes(4, "big") for size in array.shape) + array.astype(np.uint8).tobytes()


@pytest.fixture
def small_mnist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(mnist, "TRAIN", 6)
    monkeypatch.setattr(mnist, "TEST", 4)
    folder = tmp_path / "mnist"
    folder.mkdir()
    for part, count in (("train", 6), ("t10k", 4)):
        images = np.full((count, 28, 28), 255)
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(images)))
        (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(np.arange(count))))
    return folder


def test_idx_is_read_from_either_folder_plain_or_compressed(small_mnist: Path) -> None:
    for path in (small_mnist, small_mnist.parent):
        data = SOURCES["mnist"].load({"path": str(path)})
        assert data.train.targets.tolist() == [0, 1, 2, 3, 4, 5]
        assert data.train.inputs["image"].shape == (6, 28, 28)
        assert (data.train.inputs["image"] == 1.0).all()
    file = small_mnist / "train-labels-idx1-ubyte"
    file.write_bytes(idx(np.array([5, 4, 3, 2, 1, 0])))
    assert SOURCES["mnist"].load({"path": str(small_mnist)}).train.targets.tolist() == [5, 4, 3, 2, 1, 0]


@pytest.mark.parametrize(
    ("file", "content_", "words"),
    [
        ("train-images-idx3-ubyte.gz", gzip.compress(idx(np.zeros((6, 28, 28)), magic=2049)), ["2051", "2049"]),
        ("train-images-idx3-ubyte.gz", gzip.compress(idx(np.zeros((6, 28, 28))))[:-20], ["cut short"]),
        ("train-images-idx3-ubyte.gz", b"no gzip at all", ["cut short"]),
        ("train-images-idx3-ubyte.gz", gzip.compress(idx(np.zeros((6, 28, 28)))[:-1]), ["4704", "4703"]),
        ("train-images-idx3-ubyte.gz", gzip.compress(b""), ["magic"]),
        ("train-images-idx3-ubyte.gz", b"", ["this one is empty"]),
        ("train-labels-idx1-ubyte.gz", gzip.compress(idx(np.arange(5))), ["6 records", "found 5"]),
        ("train-labels-idx1-ubyte.gz", gzip.compress(idx(np.full(6, 3))), ["two classes", "class 3"]),
        ("train-labels-idx1-ubyte.gz", gzip.compress(idx(np.arange(6) + 7)), ["0..9", "7..12"]),
        ("t10k-labels-idx1-ubyte.gz", None, ["t10k-labels-idx1-ubyte.gz", "--data DIR"]),
    ],
    ids=[
        "magic",
        "truncated",
        "no gzip",
        "short",
        "no header",
        "empty",
        "count",
        "one class",
        "label range",
        "missing",
    ],
)
def test_bad_idx(small_mnist: Path, file: str, content_: bytes | None, words: list[str]) -> None:
    if content_ is None:
        (small_mnist / file).unlink()
    else:
        (small_mnist / file).write_bytes(content_)
    refused(lambda: SOURCES["mnist"].load({"path": str(small_mnist)}), *words)


# Text files


@pytest.fixture
def small_imdb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(imdb, "RECORDS", 4)
    for part, word in (("train", "secret"), ("test", "fine")):
        rows = [f'{i},8,{i % 2},"A {word}, GOOD film<br />, good\ttoo it\'s"' for i in range(4)]
        text = "\n".join(["id,rating,label,text", *rows]) + "\n"
        (tmp_path / f"imdb_{part}.csv.xz").write_bytes(lzma.compress(text.encode()))
    return tmp_path


def test_words_of_training_reviews_do_not_enter_the_vocabulary(small_imdb: Path) -> None:
    data = SOURCES["imdb"].load({"path": str(small_imdb)})
    assert data.facts.assumptions
    train, validation = (split.inputs["words"][0] for split in (data.train, data.validation))
    # good (twice a review), then a, film, fine, it's, too in alphabetical order; "secret" has no code
    assert validation[validation > 0].tolist() == [2, 4, 1, 3, 1, 6, 5]
    assert train[train > 0].tolist() == [2, 1, 3, 1, 6, 5]
    assert train[-1] == 5
    hashed = SOURCES["imdb"].load({"path": str(small_imdb), "vocabulary": "hashed"})
    assert not hashed.facts.assumptions
    assert (hashed.train.inputs["words"][0] > 0).sum() == 7


def test_bad_imdb(small_imdb: Path) -> None:
    file = small_imdb / "imdb_train.csv.xz"
    whole = file.read_bytes()
    file.write_bytes(whole[:-30])
    refused(lambda: SOURCES["imdb"].load({"path": str(small_imdb)}), "cut short")
    file.write_bytes(lzma.compress(b"id,rating,text\n1,8,fine\n"))
    refused(lambda: SOURCES["imdb"].load({"path": str(small_imdb)}), "columns label and text")
    file.write_bytes(lzma.compress(b'id,rating,label,text\n1,8,,"x"\n1,8,0,"x"\n1,8,1,"x"\n1,8,1,"x"\n'))
    refused(lambda: SOURCES["imdb"].load({"path": str(small_imdb)}), "a label 0 or 1")


def test_movielens_files(tmp_path: Path) -> None:
    source = movielens.MovieLens(
        name="small",
        doc="",
        users=3,
        movies=5,
        ratings=(movielens.Ratings("ratings.dat", 5, "::"), movielens.Ratings("u.data", 4, "\t")),
    )
    (tmp_path / "u.data").write_text("1\t5\t3\t9\n2\t4\t1\t9\n3\t1\t5\t9\n3\t2\t4\t9\n")
    options = {"path": str(tmp_path)}
    assert source.facts(options).n == 3
    data = source.load(options)
    assert len(data.train) == 3
    assert len(data.validation) == 1
    (tmp_path / "ratings.dat").write_text("1::5::3::9\n2::4::1::9\n3::1::5::9\n3::2::4::9\n1::1::2::9\n")
    assert source.facts(options).n == 4
    assert len(source.load(options).train) == 4
    for text, words in (
        ("1::5::3::9\n", ["5 records", "found 1"]),
        ("1::5::x::9\n", ["whole numbers"]),
        ("1::5::3::9\n2::4::1::9\n9::1::5::9\n3::2::4::9\n1::1::2::9\n", ["user codes in 0..2"]),
        ("1::5::3::9\n2::4::0::9\n3::1::5::9\n3::2::6::9\n1::1::2::9\n", ["labels in 0..4"]),
    ):
        (tmp_path / "ratings.dat").write_text(text)
        refused(lambda: source.load(options), *words)


# Checks of any loaded set


def test_content_checks() -> None:
    facts = PublicFacts(
        dataset="made", task=Task.CLASSIFICATION, n=3, n_validation=0, features={"x": Feature(shape=(2,))}, classes=2
    )
    empty = Split(inputs={"x": np.zeros((0, 2))}, targets=np.zeros(0, dtype=np.int64))

    def load(x: np.ndarray, y: np.ndarray) -> object:
        return records.dataset(facts, Split(inputs={"x": x}, targets=y), empty)

    good = np.zeros((3, 2))
    assert load(good, np.array([0, 1, 1]))
    refused(lambda: records.dataset(facts, empty, empty), "at least one record")
    refused(lambda: load(good, np.array([0, 1])), "3 for 2 labels")
    refused(lambda: load(good[:, :1], np.array([0, 1, 1])), "shape (2,)")
    refused(lambda: load(good, np.array([0, 1, np.nan])), "missing ones")
    refused(lambda: load(good, np.array([0, 1, 0.5])), "whole numbers")
    refused(lambda: load(good, np.array([0, 1, -1])), "-1..1")
    refused(lambda: load(good, np.array([[0, 1, 1]])), "one label per record")
    refused(lambda: load(np.full((3, 2), np.inf), np.array([0, 1, 1])), "6 NaN or infinite")
    refused(lambda: load(good.astype(str), np.array([0, 1, 1])), "numbers in x")
