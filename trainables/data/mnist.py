"""MNIST in its own IDX files.

Origin   LeCun, Cortes & Burges. Licence: CC BY-SA 3.0.
Format   IDX, gzip or plain, big-endian. Images: magic 2051, count, rows, columns, then uint8, 255 is ink.
         Labels: magic 2049, count, then uint8. The .gz wrapper is not checked: it differs between mirrors.
Split    60,000 training records; the 10,000 test records are the validation.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpcore.checks import InvalidValue
from trainables.data import content, gzipped, options
from trainables.data.columns import ANOTHER_FILE
from trainables.data.source import Source
from trainables.system import Dataset, Feature, PublicFacts, Split, Task

TRAIN, TEST, SIDE, INK = 60_000, 10_000, 28, 255.0
DIGITS = 10
TRAIN_OF = (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949)
TEST_OF = (980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009)
"""Records of each digit: published facts, like the totals."""
IMAGES, LABELS = 2051, 2049
FOLDERS = ("mnist", "MNIST/raw", "MNIST")


@options.options
class MnistOptions(options.Limit, options.InFolder):
    """Options of MNIST."""

    classes: int = options.whole(
        doc="of how many digits records are kept, not together with limit", example=2, default=DIGITS
    )


class Mnist(Source[MnistOptions]):
    """`data: {source: mnist, path: DIR}`."""

    name = "mnist"
    doc = "handwritten digits, 28x28 pixels, 10 classes, 60,000 + 10,000 records; IDX files in option path"
    asks = MnistOptions

    def declared(self, asked: MnistOptions) -> PublicFacts:
        """The facts. Raises InvalidValue (classes)."""
        classes = asked.classes
        if not 2 <= classes <= DIGITS or (classes < DIGITS and asked.limit is not None):
            remedy = "The records of so many digits are kept, the first ones: leave out one of the two options."
            raise InvalidValue("data.classes", classes, f"2 to {DIGITS}, and without `limit`", remedy)
        return PublicFacts(
            dataset=self.name,
            task=Task.CLASSIFICATION,
            n=asked.used(TRAIN if classes == DIGITS else sum(TRAIN_OF[:classes])),
            n_validation=TEST if classes == DIGITS else sum(TEST_OF[:classes]),
            features={"image": Feature(shape=(SIDE, SIDE))},
            classes=classes,
        )

    def files(self, asked: MnistOptions) -> list[Path]:
        """Training images and labels, then those of the test, each with or without .gz. Raises InvalidValue."""
        folder = options.folder(self.name, asked.path, *FOLDERS)
        names = [f"{part}-{what}-ubyte" for part in ("train", "t10k") for what in ("images-idx3", "labels-idx1")]
        plain = [folder / name for name in names]
        return [one if one.is_file() else options.existing(self.name, one.with_name(f"{one.name}.gz")) for one in plain]

    def records(self, asked: MnistOptions, facts: PublicFacts, files: list[Path]) -> Dataset:
        """The records; ink 0..255 becomes 0..1. Raises InvalidValue (magic number, size, count, labels)."""
        train, test = files[:2], files[2:]
        return content.dataset(facts, _part(facts, train, TRAIN, facts.n), _part(facts, test, TEST, facts.n_validation))


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
