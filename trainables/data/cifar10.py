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
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainables.data import records
from trainables.data.files import files_in, find_folder, wrong_file
from trainables.data.options import InFolder, Limit
from trainables.data.source import PartOption, PublishedSource
from trainables.system import Dataset, DatasetSpec, InputSpec, Split

SHAPE, CLASSES, INK = (3, 32, 32), 10, 255.0
RECORD = 1 + 3 * 32 * 32
"""Bytes of one, its label first."""
SUBSET = "cifar10_exact_4000_1000.npz"

Images = tuple[NDArray[np.uint8], NDArray[np.integer]]
"""Pixels [N, 3, 32, 32] and labels [N]."""


@dataclass(frozen=True, slots=True)
class Form:
    """One way that the records are stored: in which files below the folder, and how many records they hold.

    files  that of test images is the last, the subset's holds both; the form is known by the first
    """

    files: tuple[str, ...]
    train: int = 50_000
    test: int = 10_000


_BATCHES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")
FORMS = (
    Form(tuple(f"cifar-10-batches-bin/{name}.bin" for name in _BATCHES)),
    Form(tuple(f"cifar-10-batches-py/{name}" for name in _BATCHES)),
    Form((SUBSET,), 4_000, 1_000),
)


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
        *train, test = (part for file in files for part in _read(file))
        pixels, labels = (np.concatenate([one[i] for one in train]) for i in (0, 1))
        splits = []
        for part, (images, own), whole, n in (
            ("train", (pixels, labels), form.train, facts.n),
            ("test", test, form.test, form.test),
        ):
            records.check_count(facts, f"{files[0].parent} ({part} images)", len(images), whole)
            scaled = images[:n].astype(np.float32) / np.float32(INK)
            splits.append(Split(inputs={"image": scaled}, targets=own[:n]))
        return records.dataset(facts, *splits)

    def _form(self, asked: CifarOptions) -> Form:
        if asked.path is None:
            return FORMS[0]
        folder = find_folder(self.name, asked.path, "cifar10")
        return next((form for form in FORMS if (folder / form.files[0]).is_file()), FORMS[0])


def _read(file: Path) -> list[Images]:
    """What one file holds: a batch, or training and test images of the subset. Raises InvalidValue."""
    try:
        if file.suffix == ".npz":
            with np.load(file, allow_pickle=False) as arrays:
                both = [(arrays[f"x_{part}"], arrays[f"y_{part}"]) for part in ("train", "test")]
            found = [(np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)), labels) for pixels, labels in both]
        elif file.suffix == ".bin":
            table = np.fromfile(file, dtype=np.uint8).reshape(-1, RECORD)
            found = [(table[:, 1:].reshape(-1, *SHAPE), table[:, 0])]
        else:
            batch = _Arrays.load(file)
            found = [(np.asarray(batch[b"data"]).reshape(-1, *SHAPE), np.asarray(batch[b"labels"]))]
    except _NO_IMAGES as error:
        raise wrong_file(file, f"images and labels of CIFAR-10 ({error})") from error
    for pixels, labels in found:
        if pixels.dtype != np.uint8 or pixels.shape != (len(labels), *SHAPE):
            expected = f"uint8 pixels of {SHAPE} for each label, found {pixels.dtype} {pixels.shape}"
            raise wrong_file(file, expected)
    return found


_NO_IMAGES = (pickle.UnpicklingError, zipfile.BadZipFile, EOFError, LookupError, TypeError, ValueError, AttributeError)
"""What comes of reading another file."""


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
        """The dictionary of one batch file, its texts as bytes. Raises one of `_NO_IMAGES`."""
        found = pickle.Unpickler.load(cls(io.BytesIO(file.read_bytes()), encoding="bytes"))
        return {key.encode() if isinstance(key, str) else key: value for key, value in found.items()}


CIFAR10 = Cifar10()
