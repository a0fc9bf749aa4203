"""MNIST in its own IDX files.

Origin   LeCun, Cortes & Burges. Licence: CC BY-SA 3.0.
Format   IDX, gzip or plain, big-endian. Images: magic 2051, count, rows, columns, then uint8, 255 is ink.
         Labels: magic 2049, count, then uint8. The .gz wrapper is not checked: it differs between mirrors.
Split    60,000 training records; the 10,000 test records are the validation, as papers have it. With `validation` a
         share of the 60,000 is: a hash of each record's own pixels and label decides. With `test` the 10,000 are read
         once, at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from dpcore.checks import InvalidValue
from trainables.data import records
from trainables.data.files import existing, find_folder, unpacked, wrong_file
from trainables.data.options import InFolder, Limit, Whole
from trainables.data.source import HoldsOut, PartOption, PublishedSource
from trainables.data.splits import (
    CONTENT,
    PartSplit,
    PublishedTestOptions,
    SharedValidationOptions,
    TestSplit,
    ValidationSplit,
    check_beside,
    contents,
)
from trainables.system import Dataset, DatasetSpec, InputSpec, Split

TRAIN, TEST, SIDE, INK = 60_000, 10_000, 28, 255.0
DIGITS = 10
TRAIN_OF = (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949)
TEST_OF = (980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009)
"""Records of each digit: published facts, like the totals."""
IMAGES, LABELS = 2051, 2049
FOLDERS = ("mnist", "MNIST/raw", "MNIST")
PUBLISHED_APART = "the published split of MNIST into 60,000 and 10,000 records"


class MnistOptions(PartOption, Limit, InFolder):
    """Options of MNIST."""

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
        return TEST if self.classes == DIGITS else sum(TEST_OF[: self.classes])

    @property
    def held_out(self) -> TestSplit | None:
        """The published test records, where they are declared for the test."""
        return None if self.test is None else self.test.apart(self.tested, PUBLISHED_APART)

    @property
    def parted(self) -> ValidationSplit | None:
        """The validation part of the training records. Raises InvalidValue."""
        asked = self.validation
        if asked is None:
            return None
        by = f"by the hash of pixels and label under the key {asked.key!r}, a share of {asked.share!r}"
        private = asked.private(
            parts=f"MNIST's training records {by}",
            assumption="The key that splits training records by a hash of their pixels and labels was chosen without "
            "looking at the records.",
        )
        return ValidationSplit(share=asked.share, id=CONTENT, key=asked.key, private=private)


class Mnist(PublishedSource[MnistOptions], HoldsOut[MnistOptions]):
    """`data: {source: mnist, path: DIR, validation: {records: private, share: 0.1}, test: {records: public}}`."""

    name = "mnist"
    doc = "handwritten digits, 28x28 pixels, 10 classes, 60,000 + 10,000 records; IDX files in option path"
    asks = MnistOptions

    def declared(self, asked: MnistOptions) -> DatasetSpec:
        """The facts. Raises InvalidValue (classes)."""
        classes = asked.classes
        if not 2 <= classes <= DIGITS or (classes < DIGITS and asked.limit is not None):
            remedy = "The records of so many digits are kept, the first ones: leave out one of the two options."
            raise InvalidValue("data.classes", classes, f"2 to {DIGITS}, and without `limit`", remedy)
        n, validation = asked.used(TRAIN if classes == DIGITS else sum(TRAIN_OF[:classes])), asked.parted
        held = 0 if asked.test is not None else asked.tested
        if validation is not None:
            held = round(n * validation.share)
            if not 0 < held < n:
                expected = f"a share that is a record or more of {n}, and leaves some to train on"
                raise InvalidValue("data.validation.share", validation.share, expected, "Write `share: 0.1`, say.")
        trained = n if validation is None else n - held
        facts = self.classified(classes, trained, held, image=InputSpec(shape=(SIDE, SIDE)))
        return replace(facts, private_validation=None if validation is None else validation.private)

    def files(self, asked: MnistOptions) -> list[Path]:
        """Training images and labels, then those of the test, each with or without .gz. Raises InvalidValue."""
        folder = find_folder(self.name, asked.path, *FOLDERS)
        names = [f"{part}-{what}-ubyte" for part in ("train", "t10k") for what in ("images-idx3", "labels-idx1")]
        plain = [folder / name for name in names]
        return [one if one.is_file() else existing(self.name, one.with_name(f"{one.name}.gz")) for one in plain]

    def records(self, asked: MnistOptions, facts: DatasetSpec, files: list[Path]) -> Dataset:
        """The records; ink 0..255 becomes 0..1. Raises InvalidValue (magic number, size, count, labels)."""
        validation = asked.parted
        whole = facts.n if validation is None else facts.n + facts.n_validation
        train = _part(facts, files[:2], TRAIN, whole)
        ids = contents(train)  # of bytes as they were published, which validation and data.part hash alike
        train = replace(train, ids=ids)
        if validation is None and asked.test is None:
            return records.dataset(facts, train, _part(facts, files[2:], TEST, facts.n_validation))
        judged = np.zeros(len(train), dtype=bool) if validation is None else validation.taken(ids)
        return records.dataset(facts, records.taken(train, ~judged), records.taken(train, judged))

    def validates_within(self, asked: MnistOptions) -> bool:
        """Whether a share of the training records validates."""
        return asked.validation is not None

    def check_part(self, asked: MnistOptions, part: PartSplit) -> None:
        """Validation by another hash, and no private test records: nothing parts those. Raises InvalidValue."""
        if asked.parted is not None:
            check_beside("data.validation", asked.parted, "data.part", part)
        if asked.test is not None and asked.test.records == "private":
            expected = "public beside data.part: both sweeps may read the same test records, which nothing parts"
            raise InvalidValue("data.test.records", "private", expected, "Declare them public, or leave data.part out.")

    def declared_test(self, options: Mapping[str, object]) -> TestSplit | None:
        """See `HoldsOut.held_out`."""
        return self.read(options).held_out

    def load_test(self, options: Mapping[str, object], test: TestSplit, kept_in: Path | None = None) -> Split:
        """See `HoldsOut.load_held_out`."""
        asked = self.read(options)
        facts = self.declared(asked)
        return records.checked(facts, "test", _part(facts, self.files(asked)[2:], TEST, test.n))


def _part(facts: DatasetSpec, files: list[Path], expected: int, used: int) -> Split:
    """The first `used` records of the first digits; of all records, right or wrong, when every digit is kept."""
    images, labels = _idx(files[0], IMAGES), _idx(files[1], LABELS)
    for file, found in zip(files, (images, labels), strict=True):
        records.check_count(facts, str(file), len(found), expected)
    kept = np.arange(len(labels)) if facts.classes == DIGITS else np.flatnonzero(labels < (facts.classes or 0))
    kept = kept[:used]
    return Split(inputs={"image": images[kept].astype(np.float32) / np.float32(INK)}, targets=labels[kept])


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


MNIST = Mnist()
