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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainables.data import records
from trainables.data.files import files_in, find_folder, wrong_file
from trainables.data.options import InFolder, Limit
from trainables.data.source import PartOption, PublishedSource
from trainables.system import Dataset, DatasetSpec, InputSpec, Split

BATCH = 10_000
_BATCHES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")
SHAPE, CLASSES = (3, 32, 32), 10
PIXELS, LARGEST = 3 * 32 * 32, 255.0
SUBSET = "cifar10_exact_4000_1000.npz"

Images = tuple[NDArray[np.uint8], NDArray[np.integer]]
"""Pixels [N, 3, 32, 32] and labels [N]."""


@dataclass(frozen=True, slots=True)
class Form:
    """One way that the records are stored: in which files below the folder, and how many records they hold.

    files  that of test images is the last; the form is known by the first
    """

    files: tuple[str, ...]
    train: int
    test: int
    read: Callable[[list[Path]], tuple[Images, Images]]


class CifarOptions(PartOption, Limit, InFolder):
    """Options of CIFAR-10."""


class Cifar10(PublishedSource[CifarOptions]):
    """`data: {source: cifar10, path: DIR}`."""

    name = "cifar10"
    doc = "colour images, 3x32x32 pixels, 10 classes, 50,000 + 10,000 records or 4,000 + 1,000; files in option path"
    asks = CifarOptions

    def declared(self, asked: CifarOptions) -> DatasetSpec:
        """The facts; looks which files are there, reads none. Raises InvalidValue."""
        form = self._form(asked)
        return self.classified(CLASSES, asked.used(form.train), form.test, image=InputSpec(shape=SHAPE))

    def files(self, asked: CifarOptions) -> list[Path]:
        """Those of the form that is there, in order. Raises InvalidValue."""
        return files_in(self.name, asked.path, ["cifar10"], self._form(asked).files)

    def records(self, asked: CifarOptions, facts: DatasetSpec, files: list[Path]) -> Dataset:
        """The records. Raises InvalidValue (size, count, labels, a pickle with anything but arrays)."""
        form = self._form(asked)
        folder, parts = files[0].parent, form.read(files)
        for part, (pixels, labels), expected in zip(("train", "test"), parts, (form.train, form.test), strict=True):
            records.check_count(facts, f"{folder} ({part} images)", len(pixels), expected)
            records.check_count(facts, f"{folder} ({part} labels)", len(labels), expected)
        splits = (
            Split(inputs={"image": pixels[:n].astype(np.float32) / np.float32(LARGEST)}, targets=labels[:n])
            for (pixels, labels), n in zip(parts, (facts.n, form.test), strict=True)
        )
        return records.dataset(facts, *splits)

    def _form(self, asked: CifarOptions) -> Form:
        if asked.path is None:
            return FORMS[0]
        folder = find_folder(self.name, asked.path, "cifar10")
        return next((form for form in FORMS if (folder / form.files[0]).is_file()), FORMS[0])


def _together(parts: Sequence[Images]) -> tuple[Images, Images]:
    train, test = parts[:-1], parts[-1]
    return (np.concatenate([one for one, _ in train]), np.concatenate([one for _, one in train])), test


def _binary(files: list[Path]) -> tuple[Images, Images]:
    parts = []
    for file in files:
        raw = np.fromfile(file, dtype=np.uint8)
        if len(raw) != BATCH * (1 + PIXELS):
            expected = f"{BATCH} records of {1 + PIXELS} bytes, found {len(raw)} bytes"
            raise wrong_file(file, expected)
        table = raw.reshape(BATCH, 1 + PIXELS)
        parts.append((table[:, 1:].reshape(BATCH, *SHAPE), table[:, 0]))
    return _together(parts)


def _python(files: list[Path]) -> tuple[Images, Images]:
    parts = []
    for file in files:
        batch = _Arrays.load(file)
        try:
            pixels, labels = np.asarray(batch[b"data"]), np.asarray(batch[b"labels"])
        except (KeyError, TypeError) as error:
            raise wrong_file(file, "a dictionary with data and labels") from error
        if pixels.dtype != np.uint8 or pixels.shape != (BATCH, PIXELS) or labels.shape != (BATCH,):
            expected = f"{BATCH} rows of {PIXELS} pixel bytes, found {pixels.dtype} {pixels.shape}"
            raise wrong_file(file, expected)
        parts.append((pixels.reshape(BATCH, *SHAPE), labels))
    return _together(parts)


def _subset(files: list[Path]) -> tuple[Images, Images]:
    [file], parts = files, []
    try:
        with np.load(file, allow_pickle=False) as arrays:
            for part in ("train", "test"):
                parts.append((arrays[f"x_{part}"], arrays[f"y_{part}"]))
    except (KeyError, ValueError, zipfile.BadZipFile) as error:
        expected = f"arrays x_train, y_train, x_test, y_test ({error})"
        raise wrong_file(file, expected) from error
    for pixels, labels in parts:
        if pixels.dtype != np.uint8 or pixels.shape[1:] != (32, 32, 3) or labels.ndim != 1:
            expected = f"uint8 images of 32 x 32 x 3 and their labels, found {pixels.dtype} {pixels.shape}"
            raise wrong_file(file, expected)
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
            raise wrong_file(file, f"a pickle of arrays ({error})") from error
        if not isinstance(found, dict):
            raise wrong_file(file, f"a dictionary, found {type(found).__name__}")
        return {key.encode() if isinstance(key, str) else key: value for key, value in found.items()}


FORMS = (
    Form(tuple(f"cifar-10-batches-bin/{name}.bin" for name in _BATCHES), 50_000, BATCH, _binary),
    Form(tuple(f"cifar-10-batches-py/{name}" for name in _BATCHES), 50_000, BATCH, _python),
    Form((SUBSET,), 4_000, 1_000, _subset),
)

CIFAR10 = Cifar10()
