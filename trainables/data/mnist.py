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
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpcore.checks import InvalidValue
from trainables.data import files as gzipped
from trainables.data import options, splits
from trainables.data import records as content
from trainables.data.files import ANOTHER_FILE
from trainables.data.source import HoldsOut, PartOption, PublishedSource
from trainables.data.splits import CONTENT, HeldOut, RecordsPart, check_others, contents
from trainables.data.table_declaration import VALIDATION
from trainables.system import Dataset, Feature, PublicFacts, Split, Task
from trainables.units import share_of
from trainables.validation.declaration import DISJOINT, OPTIONS, PrivateValidation, private

TRAIN, TEST, SIDE, INK = 60_000, 10_000, 28, 255.0
DIGITS = 10
TRAIN_OF = (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949)
TEST_OF = (980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009)
"""Records of each digit: published facts, like the totals."""
IMAGES, LABELS = 2051, 2049
FOLDERS = ("mnist", "MNIST/raw", "MNIST")
KEY = "validation"
PUBLISHED_APART = "the published split of MNIST into 60,000 and 10,000 records"


@options.options
class MnistOptions(PartOption, options.Limit, options.InFolder):
    """Options of MNIST."""

    classes: int = options.whole(
        doc="of how many digits records are kept, not together with limit", example=2, default=DIGITS
    )
    validation: object = options.option(
        options.as_given,
        doc="{records: private or public, share}: a share of the training records, by a hash of pixels and label",
        example={"records": "private", "share": 0.1},
        schema=VALIDATION,
        default=None,
    )
    test: object = options.option(
        options.as_given,
        doc="{records: public or private}: the 10,000 test records are read once, at the end, and validate nothing",
        example={"records": "public"},
        schema=splits.TEST_SCHEMA,
        default=None,
    )


@dataclass(frozen=True, slots=True)
class _Share:
    """A validation part of the training records."""

    share: float
    key: str
    private: PrivateValidation | None


class Mnist(PublishedSource[MnistOptions], HoldsOut):
    """`data: {source: mnist, path: DIR, validation: {records: private, share: 0.1}, test: {records: public}}`."""

    name = "mnist"
    doc = "handwritten digits, 28x28 pixels, 10 classes, 60,000 + 10,000 records; IDX files in option path"
    asks = MnistOptions

    def declared(self, asked: MnistOptions) -> PublicFacts:
        """The facts. Raises InvalidValue (classes)."""
        classes = asked.classes
        if not 2 <= classes <= DIGITS or (classes < DIGITS and asked.limit is not None):
            remedy = "The records of so many digits are kept, the first ones: leave out one of the two options."
            raise InvalidValue("data.classes", classes, f"2 to {DIGITS}, and without `limit`", remedy)
        splits.published_apart(asked.test, _tested(asked), PUBLISHED_APART)
        n, validation = asked.used(TRAIN if classes == DIGITS else sum(TRAIN_OF[:classes])), _validation(asked)
        held = 0 if asked.test is not None else _tested(asked)
        if validation is not None:
            held = round(n * validation.share)
            if not 0 < held < n:
                expected = f"a share that is a record or more of {n}, and leaves some to train on"
                raise InvalidValue("data.validation.share", validation.share, expected, "Write `share: 0.1`, say.")
        return PublicFacts(
            dataset=self.name,
            task=Task.CLASSIFICATION,
            n=n if validation is None else n - held,
            n_validation=held,
            features={"image": Feature(shape=(SIDE, SIDE))},
            classes=classes,
            private_validation=None if validation is None else validation.private,
        )

    def files(self, asked: MnistOptions) -> list[Path]:
        """Training images and labels, then those of the test, each with or without .gz. Raises InvalidValue."""
        folder = options.folder(self.name, asked.path, *FOLDERS)
        names = [f"{part}-{what}-ubyte" for part in ("train", "t10k") for what in ("images-idx3", "labels-idx1")]
        plain = [folder / name for name in names]
        return [one if one.is_file() else options.existing(self.name, one.with_name(f"{one.name}.gz")) for one in plain]

    def records(self, asked: MnistOptions, facts: PublicFacts, files: list[Path]) -> Dataset:
        """The records; ink 0..255 becomes 0..1. Raises InvalidValue (magic number, size, count, labels)."""
        validation = _validation(asked)
        whole = facts.n if validation is None else facts.n + facts.n_validation
        train = _part(facts, files[:2], TRAIN, whole)
        ids = contents(train)  # of bytes as they were published, which validation and data.part hash alike
        train = replace(train, ids=ids)
        if validation is None and asked.test is None:
            return content.dataset(facts, train, _part(facts, files[2:], TEST, facts.n_validation))
        if validation is None:
            return content.dataset(facts, train, content.taken(train, np.arange(0)))
        shares = np.array([share_of(validation.key, one) for one in ids])
        sides = (np.flatnonzero(side) for side in (shares >= validation.share, shares < validation.share))
        return content.dataset(facts, *(content.taken(train, rows) for rows in sides))

    def validates_within(self, asked: MnistOptions) -> bool:
        """Whether a share of the training records validates."""
        return asked.validation is not None

    def parts_beside(self, asked: MnistOptions, part: RecordsPart) -> None:
        """Validation by another hash, and no private test records: nothing parts those. Raises InvalidValue."""
        validation, test = _validation(asked), splits.published_apart(asked.test, _tested(asked), PUBLISHED_APART)
        hashed = {} if validation is None else {"data.validation": (CONTENT, validation.key)}
        check_others(part, hashed, None)
        if test is not None and test.private:
            expected = "public beside data.part: both sweeps may read the same test records, which nothing parts"
            raise InvalidValue("data.test.records", "private", expected, "Declare them public, or leave data.part out.")

    def declared_test(self, given: Mapping[str, object]) -> HeldOut | None:
        """See `HoldsOut.held_out`."""
        asked = self.read(given)
        return splits.published_apart(asked.test, _tested(asked), PUBLISHED_APART)

    def load_test(self, given: Mapping[str, object]) -> Split:
        """See `HoldsOut.load_held_out`."""
        asked = self.read(given)
        if self.declared_test(given) is None:
            expected = "records that are declared for the test"
            raise InvalidValue("data.test", None, expected, "Declare them in the spec of a new sweep.")
        facts = self.declared(asked)
        return content.checked(facts, "test", _part(facts, self.files(asked)[2:], TEST, _tested(asked)))


def _tested(asked: MnistOptions) -> int:
    """Test records of the digits that are kept."""
    return TEST if asked.classes == DIGITS else sum(TEST_OF[: asked.classes])


def _validation(asked: MnistOptions) -> _Share | None:
    """Raises InvalidValue."""
    raw = asked.validation
    if raw is None:
        return None
    split = {name: one for name, one in raw.items() if name not in OPTIONS} if isinstance(raw, Mapping) else {}
    share, key = split.get("share"), split.get("key", KEY)
    is_share = isinstance(share, int | float) and not isinstance(share, bool) and 0 < share < 1
    if not isinstance(raw, Mapping) or DISJOINT in raw or set(split) - {"share", "key"} or not is_share:
        remedy = "Left out, the 10,000 published test records are the validation."
        raise InvalidValue("data.validation", raw, "{records: private or public, share: in (0, 1)}", remedy)
    records = private(
        raw,
        parts=f"MNIST's training records by the hash of pixels and label under the key {key!r}, a share of {share!r}",
        assumption="The key that splits training records by a hash of their pixels and labels was chosen without "
        "looking at the records.",
    )
    return _Share(float(share), str(key), records)  # type: ignore[arg-type]


def _part(facts: PublicFacts, files: list[Path], expected: int, used: int) -> Split:
    """The first `used` records of the first digits; of all records, right or wrong, when every digit is kept."""
    images, labels = _idx(files[0], IMAGES), _idx(files[1], LABELS)
    for file, found in zip(files, (images, labels), strict=True):
        content.records(facts, str(file), len(found), expected)
    kept = np.arange(len(labels)) if facts.classes == DIGITS else np.flatnonzero(labels < (facts.classes or 0))
    kept = kept[:used]
    return Split(inputs={"image": images[kept].astype(np.float32) / np.float32(INK)}, targets=labels[kept])


def _idx(file: Path, magic: int) -> NDArray[np.uint8]:
    """An IDX file of uint8, with or without .gz: [count] or [count, rows, columns]. Raises InvalidValue."""
    raw = gzipped.read(file)
    found = int.from_bytes(raw[:4], "big")
    if len(raw) < 4 or found != magic:
        raise InvalidValue(
            "data.path", str(file), f"an IDX file with magic number {magic}, found {found}", ANOTHER_FILE
        )
    axes = magic & 0xFF
    header = 4 + 4 * axes
    shape = tuple(int.from_bytes(raw[4 + 4 * axis : 8 + 4 * axis], "big") for axis in range(axes))
    if len(raw) != header + int(np.prod(shape)):
        expected = f"{int(np.prod(shape))} bytes after the header, found {len(raw) - header}"
        raise InvalidValue("data.path", str(file), expected, ANOTHER_FILE)
    return np.frombuffer(raw, dtype=np.uint8, offset=header).reshape(shape)


MNIST = Mnist()
