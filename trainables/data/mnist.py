"""MNIST in its own IDX files.

Origin   LeCun, Cortes & Burges. Licence: CC BY-SA 3.0.
Format   IDX, gzip or plain, big-endian. Images: magic 2051, count, rows, columns, then uint8, 255 is ink.
         Labels: magic 2049, count, then uint8. The .gz wrapper is not checked: it differs between mirrors.
Split    60,000 training records; the 10,000 test records are the validation.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpcore.checks import InvalidValue
from trainables.data import content, gzipped, options
from trainables.system import Dataset, Feature, PublicFacts, Split, Task

TRAIN, TEST, SIDE, INK = 60_000, 10_000, 28, 255.0
DIGITS = 10
TRAIN_OF = (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949)
TEST_OF = (980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009)
"""Records of each digit: published facts, like the totals."""
IMAGES, LABELS = 2051, 2049
FOLDERS = ("mnist", "MNIST/raw", "MNIST")


class Mnist:
    """`data: {source: mnist, path: DIR}`.

    limit    use the first so many training records
    classes  keep the records of the first so many digits (2 to 10); not together with `limit`
    """

    name = "mnist"
    doc = "handwritten digits, 28x28 pixels, 10 classes, 60,000 + 10,000 records; IDX files in option path"

    def facts(self, options_: Mapping[str, object]) -> PublicFacts:
        """Facts under the options. Raises InvalidValue."""
        options.only(self.name, options_, "path", "limit", "classes")
        classes = options.whole(options_, "classes", DIGITS)
        if not 2 <= classes <= DIGITS or (classes < DIGITS and "limit" in options_):
            raise InvalidValue("data.classes", classes, f"2 to {DIGITS}, and without `limit`")
        return PublicFacts(
            dataset=self.name,
            task=Task.CLASSIFICATION,
            n=options.limited(options_, TRAIN if classes == DIGITS else sum(TRAIN_OF[:classes])),
            n_validation=TEST if classes == DIGITS else sum(TEST_OF[:classes]),
            features={"image": Feature(shape=(SIDE, SIDE))},
            classes=classes,
        )

    def inspect(self, options_: Mapping[str, object]) -> None:
        """Whether the files are there; reads none. Raises InvalidValue."""
        folder = options.folder(self.name, options_, *FOLDERS)
        for part in ("train", "t10k"):
            for what in ("images-idx3", "labels-idx1"):
                _file(self.name, folder, f"{part}-{what}-ubyte")

    def load(self, options_: Mapping[str, object]) -> Dataset:
        """The records; ink 0..255 becomes 0..1. Raises InvalidValue (folder, magic number, size, count, labels)."""
        facts = self.facts(options_)
        folder = options.folder(self.name, options_, *FOLDERS)
        splits = []
        for part, expected, used in (("train", TRAIN, facts.n), ("t10k", TEST, facts.n_validation)):
            images = _idx(self.name, folder, f"{part}-images-idx3-ubyte", IMAGES)
            labels = _idx(self.name, folder, f"{part}-labels-idx1-ubyte", LABELS)
            content.records(facts, f"{folder}/{part}-images", len(images), expected)
            content.records(facts, f"{folder}/{part}-labels", len(labels), expected)
            kept = _of_first_digits(labels, facts.classes or DIGITS)[:used]
            splits.append(
                Split(inputs={"image": images[kept].astype(np.float32) / np.float32(INK)}, targets=labels[kept])
            )
        return content.dataset(facts, *splits)


def _of_first_digits(labels: NDArray[np.uint8], classes: int) -> NDArray[np.intp]:
    """Positions of labels below `classes`; of all labels, right or wrong, when every digit is kept."""
    return np.arange(len(labels)) if classes == DIGITS else np.flatnonzero(labels < classes)


def _file(source: str, folder: Path, name: str) -> Path:
    """With or without .gz. Raises InvalidValue."""
    plain = folder / name
    return plain if plain.is_file() else options.existing(source, folder / f"{name}.gz")


def _idx(source: str, folder: Path, name: str, magic: int) -> NDArray[np.uint8]:
    """An IDX file of uint8, with or without .gz: [count] or [count, rows, columns]. Raises InvalidValue."""
    file = _file(source, folder, name)
    raw = gzipped.read(file) if file.suffix == ".gz" else file.read_bytes()
    remedy = "It is another file, or damaged: fetch it again."
    found = int.from_bytes(raw[:4], "big")
    if len(raw) < 4 or found != magic:
        raise InvalidValue("data.path", str(file), f"an IDX file with magic number {magic}, found {found}", remedy)
    axes = magic & 0xFF
    header = 4 + 4 * axes
    shape = tuple(int.from_bytes(raw[4 + 4 * axis : 8 + 4 * axis], "big") for axis in range(axes))
    if len(raw) != header + int(np.prod(shape)):
        raise InvalidValue(
            "data.path", str(file), f"{int(np.prod(shape))} bytes after the header, found {len(raw) - header}", remedy
        )
    return np.frombuffer(raw, dtype=np.uint8, offset=header).reshape(shape)


MNIST = Mnist()
