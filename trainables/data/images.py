"""Published images: MNIST, CIFAR-10 and patches of breast tissue.

MNIST in its own IDX files:

Origin   LeCun, Cortes & Burges. Licence: CC BY-SA 3.0.
Format   IDX, gzip or plain, big-endian. Images: magic 2051, count, rows, columns, then uint8, 255 is ink.
         Labels: magic 2049, count, then uint8. The .gz wrapper is not checked: it differs between mirrors.
Split    60,000 training records; the 10,000 test records are the validation, as papers have it. With `validation` a
         share of the 60,000 is: a hash of each record's own pixels and label decides. With `test` the 10,000 are read
         once, at the end.

CIFAR-10 in its published binary or Python files, or as the exact subset in one npz:

Origin   Krizhevsky 2009. No licence text; cite the technical report.
Forms    cifar-10-batches-bin/ (data_batch_1..5.bin, test_batch.bin: one label byte, then 3 x 32 x 32 pixel bytes a
         record), cifar-10-batches-py/ (pickles with b"data" and b"labels"), or cifar10_exact_4000_1000.npz: the first
         4,000 training and the first 1,000 test images, whose pixels are stored as 32 x 32 x 3. Which form is there is
         looked up by name, in this order.
Split    50,000 (4,000) training records; the 10,000 (1,000) test records are the validation.
Scaling  Pixels 0..255 become 0..1, as (channels, rows, columns). No augmentation.

Invasive ductal carcinoma (IDC): 50 x 50 patches of breast tissue, in their published folders:

Origin   Cruz-Roa et al. 2014, Janowczyk & Madabhushi 2016: 277,524 patches of 162 patients, 78,786 with cancer.
Files    IDC_regular_ps50_idx5/<patient>/<class>/<patient>_idx5_x<X>_y<Y>_class<class>.png, class 0 or 1.
Split    Sizes of Wu et al. 2020: 10,788 + 29,164 patches with and without cancer train, 11,595 + 31,825 are the
         validation. Which patches they were is not published: here each class is cut along a fixed public permutation
         of the sorted file names, and both classes are mixed along another. A patient may be on both sides, so the
         unit of a claim is a patch, not a person.
Scaling  0..1, as (channels, rows, columns). Patches cut off by the border of a slide are filled up with zeros.
"""

from __future__ import annotations

import io
import pickle
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from dpcore.checks import InvalidValue, QuotesRecords
from trainables.data import records
from trainables.data.options import InFolder, Limit, Whole
from trainables.data.source import Published, existing, files_in, find_folder, unpacked, wrong_file
from trainables.data.splits import (
    CONTENT,
    HashSplit,
    PublishedTestOptions,
    SharedValidationOptions,
    TestSplit,
    ValidationSplit,
    check_beside,
    contents,
    share_of_records,
)
from trainables.system import Dataset, DatasetSpec, InputSpec, Split

INK = np.float32(255.0)
MNIST_TRAIN, MNIST_TEST, MNIST_SIDE = 60_000, 10_000, 28
DIGITS = 10
MNIST_TRAIN_OF = (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949)
MNIST_TEST_OF = (980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009)
"""Records of each digit: published facts, like the totals."""
IMAGES, LABELS = 2051, 2049
FOLDERS = ("mnist", "MNIST/raw", "MNIST")
PUBLISHED_APART = "the published split of MNIST into 60,000 and 10,000 records"


class Mnist(Published, Limit, InFolder):
    """`data: {source: mnist, path: DIR, validation: {records: private, share: 0.1}, test: {records: public}}`."""

    name = "mnist"
    doc = "handwritten digits, 28x28 pixels, 10 classes, 60,000 + 10,000 records; IDX files in option path"

    classes: Whole = Field(
        DIGITS, description="of how many digits records are kept, not together with limit", examples=[2]
    )
    validation: SharedValidationOptions | None = Field(
        None,
        description="{records: private or public, share}: a share of the training records, by a hash of pixels and "
        "label. Left out, the 10,000 published test records are the validation",
        examples=[{"records": "private", "share": 0.1}],
    )
    test: PublishedTestOptions | None = Field(
        None,
        description="{records: public or private}: the 10,000 test records are read once, at the end, and validate "
        "nothing",
        examples=[{"records": "public"}],
    )

    @property
    def tested(self) -> int:
        """Test records of the digits that are kept."""
        return MNIST_TEST if self.classes == DIGITS else sum(MNIST_TEST_OF[: self.classes])

    @property
    def parted(self) -> ValidationSplit | None:
        """The validation part of the training records. Raises InvalidValue."""
        chosen = self.validation
        if chosen is None:
            return None
        by = f"by the hash of pixels and label under the key {chosen.key!r}, a share of {chosen.share!r}"
        private = chosen.private(
            parts=f"MNIST's training records {by}",
            assumption="The key that splits training records by a hash of their pixels and labels was chosen without "
            "looking at the records.",
        )
        return ValidationSplit(share=chosen.share, id=CONTENT, key=chosen.key, private=private)

    def declared(self) -> DatasetSpec:
        """The facts. Raises InvalidValue (classes, and what does not go with a part)."""
        classes = self.classes
        if not 2 <= classes <= DIGITS or (classes < DIGITS and self.limit is not None):
            remedy = "The records of so many digits are kept, the first ones: leave out one of the two options."
            raise InvalidValue("data.classes", classes, f"2 to {DIGITS}, and without `limit`", remedy)
        n, validation = self.used(MNIST_TRAIN if classes == DIGITS else sum(MNIST_TRAIN_OF[:classes])), self.parted
        held = 0 if self.test is not None else self.tested
        if self.part is not None and validation is not None:
            check_beside("data.validation", validation, "data.part", HashSplit(id=CONTENT, key=self.part.key))
        if self.part is not None and self.test is not None and self.test.records == "private":
            expected = "public beside data.part: both sweeps may read the same test records, which nothing parts"
            raise InvalidValue("data.test.records", "private", expected, "Declare them public, or leave data.part out.")
        if validation is not None:
            held = share_of_records("data.validation", validation.share, n)
        trained = n if validation is None else n - held
        facts = self.classified(classes, trained, held, image=InputSpec(shape=(MNIST_SIDE, MNIST_SIDE)))
        return replace(facts, private_validation=None if validation is None else validation.private)

    def files(self) -> list[Path]:
        """Training images and labels, then those of the test, each with or without .gz. Raises InvalidValue."""
        folder = find_folder(self.name, self.path, *FOLDERS)
        names = [f"{part}-{what}-ubyte" for part in ("train", "t10k") for what in ("images-idx3", "labels-idx1")]
        plain = [folder / name for name in names]
        return [one if one.is_file() else existing(self.name, one.with_name(f"{one.name}.gz")) for one in plain]

    def records(self, facts: DatasetSpec, files: list[Path]) -> Dataset:
        """The records; ink 0..255 becomes 0..1. Raises InvalidValue (magic number, size, count, labels)."""
        validation = self.parted
        whole = facts.n if validation is None else facts.n + facts.n_validation
        train = _part(facts, files[:2], MNIST_TRAIN, whole)
        ids = contents(train)  # of bytes as they were published, which validation and data.part hash alike
        train = replace(train, ids=ids)
        if validation is None and self.test is None:
            return records.dataset(facts, train, _part(facts, files[2:], MNIST_TEST, facts.n_validation))
        judged = np.zeros(len(train), dtype=bool) if validation is None else validation.taken(ids)
        return records.dataset(facts, records.taken(train, ~judged), records.taken(train, judged))

    def validates_within(self) -> bool:
        """Whether a share of the training records validates."""
        return self.validation is not None

    def declared_test(self) -> TestSplit | None:
        """See `FeaturedSource.held_out`."""
        return None if self.test is None else self.test.apart(self.tested, PUBLISHED_APART)

    def test_records(self, test: TestSplit) -> Split:
        """See `FeaturedSource.load_held_out`."""
        facts = self.declared()
        return records.checked(facts, "test", _part(facts, self.files()[2:], MNIST_TEST, test.n))


def _part(facts: DatasetSpec, files: list[Path], expected: int, used: int) -> Split:
    """The first `used` records of the first digits; of all records, right or wrong, when every digit is kept."""
    images, labels = _idx(files[0], IMAGES), _idx(files[1], LABELS)
    for file, found in zip(files, (images, labels), strict=True):
        records.check_count(facts, str(file), len(found), expected)
    kept = np.arange(len(labels)) if facts.classes == DIGITS else np.flatnonzero(labels < (facts.classes or 0))
    kept = kept[:used]
    return Split(inputs={"image": images[kept].astype(np.float32) / INK}, targets=labels[kept])


def _idx(file: Path, magic: int) -> NDArray[np.uint8]:
    """An IDX file of uint8, with or without .gz: [count] or [count, rows, columns]. Raises InvalidValue."""
    raw = unpacked(file)
    found = int.from_bytes(raw[:4], "big")
    if len(raw) < 4 or found != magic:
        raise wrong_file(file, f"an IDX file with magic number {magic}, found {found}")
    axes = magic & 0xFF
    header = 4 + 4 * axes
    shape = tuple(int.from_bytes(raw[4 + 4 * axis : 8 + 4 * axis], "big") for axis in range(axes))
    if len(raw) != header + int(np.prod(shape)):
        expected = f"{int(np.prod(shape))} bytes after the header, found {len(raw) - header}"
        raise wrong_file(file, expected)
    return np.frombuffer(raw, dtype=np.uint8, offset=header).reshape(shape)


# CIFAR-10


SHAPE, CLASSES = (3, 32, 32), 10
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


class Cifar10(Published, Limit, InFolder):
    """`data: {source: cifar10, path: DIR}`."""

    name = "cifar10"
    doc = "colour images, 3x32x32 pixels, 10 classes, 50,000 + 10,000 records or 4,000 + 1,000; files in option path"

    def declared(self) -> DatasetSpec:
        """The facts; looks which files are there, reads none. Raises InvalidValue."""
        form = self._form()
        return self.classified(CLASSES, self.used(form.train), form.test, image=InputSpec(shape=SHAPE))

    def files(self) -> list[Path]:
        """Those of the form that is there, in order. Raises InvalidValue."""
        return files_in(self.name, self.path, ["cifar10"], self._form().files)

    def records(self, facts: DatasetSpec, files: list[Path]) -> Dataset:
        """The records. Raises InvalidValue (size, count, labels, a pickle with anything but arrays)."""
        form = self._form()
        *train, test = (part for file in files for part in _images(file))
        pixels, labels = (np.concatenate([one[i] for one in train]) for i in (0, 1))
        splits = []
        for part, (images, own), whole, n in (
            ("train", (pixels, labels), form.train, facts.n),
            ("test", test, form.test, form.test),
        ):
            records.check_count(facts, f"{files[0].parent} ({part} images)", len(images), whole)
            scaled = images[:n].astype(np.float32) / INK
            splits.append(Split(inputs={"image": scaled}, targets=own[:n]))
        return records.dataset(facts, *splits)

    def _form(self) -> Form:
        if self.path is None:
            return FORMS[0]
        folder = find_folder(self.name, self.path, "cifar10")
        return next((form for form in FORMS if (folder / form.files[0]).is_file()), FORMS[0])


def _images(file: Path) -> list[Images]:
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


# IDC


PATCHES, IDC_TRAIN, IDC_TEST = (198_738, 78_786), (29_164, 10_788), (31_825, 11_595)
"""Without cancer, with cancer."""
IDC_SIDE, SPLIT_SEED = 50, 2014
FOLDER = "IDC_regular_ps50_idx5"

Labelled = Sequence[tuple[Path, int]]


class Idc(Published, Limit, InFolder):
    """`data: {source: idc, path: DIR}`."""

    name = "idc"
    doc = "tissue patches, 3x50x50 pixels, 2 classes, 39,952 + 43,420 records; published PNG folders in option path"

    validation: Whole = Field(
        sum(IDC_TEST), description="how many validation patches are used, the first ones", examples=[1000]
    )

    def declared(self) -> DatasetSpec:
        """The facts."""
        patch = InputSpec(shape=(3, IDC_SIDE, IDC_SIDE))
        return self.classified(2, self.used(sum(IDC_TRAIN)), min(self.validation, sum(IDC_TEST)), patch=patch)

    def records(self, facts: DatasetSpec, files: list[Path]) -> Dataset:
        """The records; class 1 is cancer. Only the patches in use are read. Raises InvalidValue."""
        train, test = _cut(facts, files[0])
        parts = [_patches(some) for some in (train[: facts.n], test[: facts.n_validation])]
        return records.dataset(facts, *(Split(inputs={"patch": pixels}, targets=labels) for pixels, labels in parts))

    def files(self) -> list[Path]:
        """The folder of patients. Raises InvalidValue where there is no patch in it."""
        folder = find_folder(self.name, self.path, FOLDER, f"idc/{FOLDER}", "idc")
        if next(folder.glob("*/[01]/*.png"), None) is None:
            raise InvalidValue(
                "data.path",
                self.path,
                f"a folder with {FOLDER}/<patient>/<class>/*.png, found no patch in {folder}",
                f"Pass the folder that holds {FOLDER}/ with --data DIR, or set data.path in the spec.",
            )
        return [folder]


def _cut(facts: DatasetSpec, folder: Path) -> tuple[Labelled, Labelled]:
    rng = np.random.default_rng(SPLIT_SEED)
    train: list[tuple[Path, int]] = []
    test: list[tuple[Path, int]] = []
    for label in (0, 1):
        files = sorted(folder.glob(f"*/{label}/*.png"))
        records.check_count(facts, f"{folder}/*/{label}", len(files), PATCHES[label])
        order = rng.permutation(len(files))
        train += [(files[i], label) for i in order[: IDC_TRAIN[label]]]
        test += [(files[i], label) for i in order[IDC_TRAIN[label] : IDC_TRAIN[label] + IDC_TEST[label]]]
    return [train[i] for i in rng.permutation(len(train))], [test[i] for i in rng.permutation(len(test))]


def _patches(patches: Labelled) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    # The one PNG reader among what is installed anyway.
    from matplotlib.image import imread

    pixels = np.zeros((len(patches), 3, IDC_SIDE, IDC_SIDE), dtype=np.float32)
    for one, (file, _) in zip(pixels, patches, strict=True):
        try:
            found = imread(file)
        except (OSError, SyntaxError, ValueError) as error:
            # Its folder is named by a patient.
            raise QuotesRecords("data.path", str(file), f"a PNG image ({error})", "Fetch it again.") from error
        if found.ndim != 3 or found.shape[2] < 3 or max(found.shape[:2]) > IDC_SIDE:
            raise QuotesRecords(
                "data.path", str(file), f"a colour patch of {IDC_SIDE} x {IDC_SIDE}, found {found.shape}"
            )
        one[:, : found.shape[0], : found.shape[1]] = found[:, :, :3].transpose(2, 0, 1)
    return pixels, np.array([label for _, label in patches], dtype=np.int64)
