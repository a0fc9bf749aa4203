"""CIFAR-10 in its published binary or Python files, or as the exact subset in one npz.

Origin   Krizhevsky 2009. No licence text; cite the technical report.
Forms    cifar-10-batches-bin/ (data_batch_1..5.bin, test_batch.bin: one label byte, then 3 x 32 x 32 pixel bytes a
         record), cifar-10-batches-py/ (pickles with b"data" and b"labels"), or cifar10_exact_4000_1000.npz: the first
         4,000 training and the first 1,000 test images, whose pixels are stored as 32 x 32 x 3. Which form is there is
         looked up by name, in this order.
Split    50,000 (4,000) training records; the 10,000 (1,000) test records are the validation.
Scaling  Pixels 0..255 become 0..1, as (channels, rows, columns). No augmentation.
"""

from __future__ import annotations

import io
import pickle
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpcore.checks import InvalidValue
from trainables.data import content, options
from trainables.system import Dataset, Feature, PublicFacts, Split, Task

BATCH, TRAIN_BATCHES, SUBSET_TRAIN, SUBSET_TEST = 10_000, 5, 4_000, 1_000
SHAPE, CLASSES = (3, 32, 32), 10
PIXELS, LARGEST = 3 * 32 * 32, 255.0
SUBSET = "cifar10_exact_4000_1000.npz"
REMEDY = "It is another file, or damaged: fetch it again."

Images = tuple[NDArray[np.uint8], NDArray[np.integer]]
"""Pixels [N, 3, 32, 32] and labels [N]."""


@dataclass(frozen=True, slots=True)
class Form:
    """One way that the records are stored. `witness` is the file by which it is known, below the folder."""

    witness: str
    train: int
    test: int
    read: Callable[[Path], tuple[Images, Images]]


class Cifar10:
    """`data: {source: cifar10, path: DIR}`; option limit."""

    name = "cifar10"
    doc = "colour images, 3x32x32 pixels, 10 classes, 50,000 + 10,000 records or 4,000 + 1,000; files in option path"

    def facts(self, options_: Mapping[str, object]) -> PublicFacts:
        """Facts under option `limit`; looks which files are there, reads none. Raises InvalidValue."""
        options.only(self.name, options_, "path", "limit")
        form = self._form(options_)
        return PublicFacts(
            dataset=self.name,
            task=Task.CLASSIFICATION,
            n=options.limited(options_, form.train),
            n_validation=form.test,
            features={"image": Feature(shape=SHAPE)},
            classes=CLASSES,
        )

    def inspect(self, options_: Mapping[str, object]) -> None:
        """Whether the files are there; reads none. Raises InvalidValue."""
        self._folder(options_)

    def load(self, options_: Mapping[str, object]) -> Dataset:
        """The records. Raises InvalidValue (folder, size, count, labels, a pickle with anything but arrays)."""
        facts, form, folder = self.facts(options_), self._form(options_), self._folder(options_)
        parts = form.read(folder)
        for part, (pixels, labels), expected in zip(("train", "test"), parts, (form.train, form.test), strict=True):
            content.records(facts, f"{folder} ({part} images)", len(pixels), expected)
            content.records(facts, f"{folder} ({part} labels)", len(labels), expected)
        (pixels, labels), (test_pixels, test_labels) = parts
        return content.dataset(
            facts,
            Split(inputs={"image": _scaled(pixels[: facts.n])}, targets=labels[: facts.n]),
            Split(inputs={"image": _scaled(test_pixels)}, targets=test_labels),
        )

    def _folder(self, options_: Mapping[str, object]) -> Path:
        folder = options.folder(self.name, options_, "cifar10")
        options.existing(self.name, folder / self._form(options_).witness)
        return folder

    def _form(self, options_: Mapping[str, object]) -> Form:
        if "path" in options_:
            folder = options.folder(self.name, options_, "cifar10")
            for form in FORMS:
                if (folder / form.witness).is_file():
                    return form
        return FORMS[0]


def _scaled(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    scaled: NDArray[np.float32] = pixels.astype(np.float32) / np.float32(LARGEST)
    return scaled


def _together(parts: Sequence[Images]) -> tuple[Images, Images]:
    train, test = parts[:-1], parts[-1]
    return (np.concatenate([one for one, _ in train]), np.concatenate([one for _, one in train])), test


def _binary(folder: Path) -> tuple[Images, Images]:
    parts = []
    for name in (*(f"data_batch_{i}" for i in range(1, TRAIN_BATCHES + 1)), "test_batch"):
        file = options.existing("cifar10", folder / "cifar-10-batches-bin" / f"{name}.bin")
        raw = np.fromfile(file, dtype=np.uint8)
        if len(raw) != BATCH * (1 + PIXELS):
            expected = f"{BATCH} records of {1 + PIXELS} bytes, found {len(raw)} bytes"
            raise InvalidValue("data.path", str(file), expected, REMEDY)
        table = raw.reshape(BATCH, 1 + PIXELS)
        parts.append((table[:, 1:].reshape(BATCH, *SHAPE), table[:, 0]))
    return _together(parts)


def _python(folder: Path) -> tuple[Images, Images]:
    parts = []
    for name in (*(f"data_batch_{i}" for i in range(1, TRAIN_BATCHES + 1)), "test_batch"):
        file = options.existing("cifar10", folder / "cifar-10-batches-py" / name)
        batch = _Arrays.load(file)
        try:
            pixels, labels = np.asarray(batch[b"data"]), np.asarray(batch[b"labels"])
        except (KeyError, TypeError) as error:
            raise InvalidValue("data.path", str(file), "a dictionary with data and labels", REMEDY) from error
        if pixels.dtype != np.uint8 or pixels.shape != (BATCH, PIXELS) or labels.shape != (BATCH,):
            expected = f"{BATCH} rows of {PIXELS} pixel bytes, found {pixels.dtype} {pixels.shape}"
            raise InvalidValue("data.path", str(file), expected, REMEDY)
        parts.append((pixels.reshape(BATCH, *SHAPE), labels))
    return _together(parts)


def _subset(folder: Path) -> tuple[Images, Images]:
    file = folder / SUBSET
    parts = []
    try:
        with np.load(file, allow_pickle=False) as arrays:
            for part in ("train", "test"):
                parts.append((arrays[f"x_{part}"], arrays[f"y_{part}"]))
    except (KeyError, ValueError, zipfile.BadZipFile) as error:
        expected = f"arrays x_train, y_train, x_test, y_test ({error})"
        raise InvalidValue("data.path", str(file), expected, REMEDY) from error
    for pixels, labels in parts:
        if pixels.dtype != np.uint8 or pixels.shape[1:] != (32, 32, 3) or labels.ndim != 1:
            expected = f"uint8 images of 32 x 32 x 3 and their labels, found {pixels.dtype} {pixels.shape}"
            raise InvalidValue("data.path", str(file), expected, REMEDY)
    return _together([(np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)), labels) for pixels, labels in parts])


class _Arrays(pickle.Unpickler):
    """Reads a pickle that holds arrays, numbers and bytes. Anything that could run code is refused."""

    ALLOWED = frozenset(
        {
            ("numpy", "ndarray"),
            ("numpy", "dtype"),
            ("numpy.core.multiarray", "_reconstruct"),
            ("numpy._core.multiarray", "_reconstruct"),
            ("_codecs", "encode"),
        }
    )

    def find_class(self, module: str, name: str) -> object:
        if (module, name) not in self.ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no array needs")
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)

    @classmethod
    def load(cls, file: Path) -> dict[bytes, object]:  # type: ignore[override]
        """The dictionary of one batch file, its texts as bytes. Raises InvalidValue."""
        try:
            found = pickle.Unpickler.load(cls(io.BytesIO(file.read_bytes()), encoding="bytes"))
        except (pickle.UnpicklingError, EOFError, ValueError, TypeError, AttributeError, IndexError) as error:
            raise InvalidValue("data.path", str(file), f"a pickle of arrays ({error})", REMEDY) from error
        if not isinstance(found, dict):
            raise InvalidValue("data.path", str(file), f"a dictionary, found {type(found).__name__}", REMEDY)
        return {key.encode() if isinstance(key, str) else key: value for key, value in found.items()}


FORMS = (
    Form("cifar-10-batches-bin/data_batch_1.bin", TRAIN_BATCHES * BATCH, BATCH, _binary),
    Form("cifar-10-batches-py/data_batch_1", TRAIN_BATCHES * BATCH, BATCH, _python),
    Form(SUBSET, SUBSET_TRAIN, SUBSET_TEST, _subset),
)

CIFAR10 = Cifar10()
