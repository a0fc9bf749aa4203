"""CIFAR-10, German Credit and IDC: published counts, forms that agree, and bad files."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imsave

from tests.trainables.test_data import DATA, needs_data, refused
from trainables.data import SOURCES, cifar10, idc

CIFAR10, GERMAN, IDC = SOURCES["cifar10"], SOURCES["german_credit"], SOURCES["idc"]


# CIFAR-10


@needs_data
def test_the_cifar_subset_is_whole_and_turned_to_channels_first() -> None:
    data = CIFAR10.load({"path": str(DATA)})
    assert np.bincount(data.train.targets).tolist() == [396, 366, 420, 384, 422, 393, 414, 385, 407, 413]
    assert np.bincount(data.validation.targets).tolist() == [103, 89, 100, 103, 90, 86, 112, 102, 106, 109]
    images = data.train.inputs["image"]
    assert images.shape == (4000, *data.facts.features["image"].shape) == (4000, 3, 32, 32)
    assert 0 == images.min() < images.max() == 1
    stored = np.load(DATA / "cifar10" / cifar10.SUBSET)["x_train"]
    assert images[7, 2, 3, 5] == np.float32(stored[7, 3, 5, 2]) / np.float32(255)
    assert CIFAR10.facts({"path": str(DATA), "limit": 100}).n == 100
    assert CIFAR10.facts({}).n == 50_000


@pytest.fixture
def small_cifar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same 6 images (batches of 2, two for training) in both published forms."""
    monkeypatch.setattr(cifar10, "BATCH", 2)
    monkeypatch.setattr(cifar10, "TRAIN_BATCHES", 2)
    forms = tuple(cifar10.Form(one.files, 4, 2, one.read) for one in cifar10.FORMS)
    monkeypatch.setattr(cifar10, "FORMS", forms)
    rng = np.random.default_rng(1)
    for form in ("bin", "py"):
        (tmp_path / form / f"cifar-10-batches-{form}").mkdir(parents=True)
    for name in ("data_batch_1", "data_batch_2", "test_batch"):
        pixels, labels = rng.integers(0, 256, (2, 3072), dtype=np.uint8), [3, 9]
        table = np.concatenate([np.array(labels, dtype=np.uint8)[:, None], pixels], axis=1)
        (tmp_path / "bin/cifar-10-batches-bin" / f"{name}.bin").write_bytes(table.tobytes())
        # As Python 2 wrote them: texts are bytes.
        batch = {b"data": pixels, b"labels": labels, b"filenames": [b"a.png", b"b.png"]}
        (tmp_path / "py/cifar-10-batches-py" / name).write_bytes(pickle.dumps(batch, protocol=2))
    return tmp_path


def test_both_published_forms_of_cifar_agree(small_cifar: Path) -> None:
    binary, python = (CIFAR10.load({"path": str(small_cifar / form)}) for form in ("bin", "py"))
    assert binary.train.targets.tolist() == [3, 9, 3, 9]
    assert binary.facts.n_validation == 2
    assert binary.fingerprint == python.fingerprint
    raw = (small_cifar / "bin/cifar-10-batches-bin/data_batch_1.bin").read_bytes()
    # Byte 0 is the label, then 1024 red, 1024 green: the second pixel of the second row in green.
    assert binary.train.inputs["image"][0, 1, 1, 1] == np.float32(raw[1 + 1024 + 33]) / np.float32(255)


def test_a_pickle_that_would_run_code_is_refused(small_cifar: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple:
            return (Path.touch, (small_cifar / "ran",))

    file = small_cifar / "py/cifar-10-batches-py/data_batch_2"
    file.write_bytes(pickle.dumps({b"data": Evil(), b"labels": [1, 2]}, protocol=2))
    refused(lambda: CIFAR10.load({"path": str(small_cifar / "py")}), "data_batch_2", "a pickle of arrays")
    assert not (small_cifar / "ran").exists()


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


@needs_data
def test_the_standard_scale_measures_no_record() -> None:
    """A category of k becomes sqrt(k-1) or -1/sqrt(k-1), a number lies within sqrt(3) of 0."""
    path = {"path": str(DATA)}
    unit, standard = GERMAN.load(path), GERMAN.load({**path, "scale": "standard"})
    before, after = (data.train.inputs["applicant"].astype(np.float64) for data in (unit, standard))
    assert after[:, :4][before[:, :4] == 1] == pytest.approx(3**0.5)
    assert after[:, :4][before[:, :4] == 0] == pytest.approx(-(3**-0.5))
    assert after[:, 4] == pytest.approx((before[:, 4] - 0.5) * 12**0.5)
    feature = standard.facts.features["applicant"]
    assert (feature.low, feature.high) == pytest.approx((-(3**0.5), 10**0.5))
    assert feature.low <= after.min() < after.max() <= feature.high + 1e-6
    numeric = GERMAN.load({**path, "form": "numeric", "scale": "standard"}).train.inputs["applicant"]
    assert numeric.shape == (400, 24)
    assert numeric[:, 0] == pytest.approx((before[:, :4] @ np.arange(4) / 3 - 0.5) * 12**0.5, abs=1e-6)


def test_bad_german_credit(tmp_path: Path) -> None:
    row = "A11 6 A34 A43 1169 A65 A75 4 A93 A101 4 A121 67 A143 A152 2 A173 1 A192 A201"
    for line, words in (
        (f"{row}\n", ["21 columns", ":1"]),
        (f"{row}\t1\n", ["1000 records", "found 1"]),
        (f"{row} 3\n" * 1000, ["labels 1 (good) and 2 (bad)", "3"]),
        (f"{row.replace('A201', 'A209')} 1\n" * 1000, ["foreign", "A209"]),
        (f"{row.replace(' 6 ', ' six ')} 1\n" * 1000, ["numbers in column duration"]),
        (f"{row} 1\n" * 1000, ["two classes"]),
    ):
        (tmp_path / "german.data").write_text(line)
        refused(lambda: GERMAN.load({"path": str(tmp_path)}), *words)
    refused(lambda: GERMAN.facts({"split": -1}), "data.split")
    refused(lambda: GERMAN.facts({"form": "wide"}), "data.form")


# IDC


@pytest.fixture
def small_idc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Six patches without and four with cancer, of two patients; the brightness of a patch says which it is."""
    monkeypatch.setattr(idc, "PATCHES", (6, 4))
    monkeypatch.setattr(idc, "TRAIN", (3, 2))
    monkeypatch.setattr(idc, "TEST", (2, 1))
    folder = tmp_path / idc.FOLDER
    for number in range(10):
        label = int(number >= 6)
        place = folder / str(9000 + number % 2) / str(label)
        place.mkdir(parents=True, exist_ok=True)
        # The first was cut off by the border of its slide.
        shape = (50, 40, 3) if number == 0 else (50, 50, 3)
        imsave(place / f"p_idc5_x{number}_y1_class{label}.png", np.full(shape, (number + 1) / 10))
    return tmp_path


def test_idc_takes_both_classes_in_their_published_numbers(small_idc: Path) -> None:
    data = IDC.load({"path": str(small_idc)})
    assert (data.facts.n, data.facts.n_validation) == (5, 3)
    assert np.bincount(data.train.targets).tolist() == [3, 2]
    assert np.bincount(data.validation.targets).tolist() == [2, 1]
    pixels = np.concatenate([data.train.inputs["patch"], data.validation.inputs["patch"]])
    brightness = pixels[:, :, 0, 0]
    assert (brightness == brightness[:, :1]).all()
    tenths = np.rint(brightness[:, 0] * 10).astype(int).tolist()
    assert len(set(tenths)) == 8
    labels = np.concatenate([data.train.targets, data.validation.targets])
    assert [int(one > 6) for one in tenths] == labels.tolist()
    if 1 in tenths:
        cut = pixels[tenths.index(1)]
        assert (cut[:, :, 39] > 0).all()
        assert not cut[:, :, 40:].any()
    few = IDC.load({"path": str(small_idc / idc.FOLDER), "limit": 2, "validation": 1})
    assert np.array_equal(few.train.inputs["patch"], data.train.inputs["patch"][:2])
    assert len(few.validation) == 1
    assert idc.present(small_idc)
    assert not idc.present(small_idc / idc.FOLDER)
