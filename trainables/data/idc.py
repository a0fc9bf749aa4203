"""Invasive ductal carcinoma (IDC): 50 x 50 patches of breast tissue, in their published folders.

Origin   Cruz-Roa et al. 2014, Janowczyk & Madabhushi 2016: 277,524 patches of 162 patients, 78,786 with cancer.
Files    IDC_regular_ps50_idx5/<patient>/<class>/<patient>_idx5_x<X>_y<Y>_class<class>.png, class 0 or 1.
Split    Sizes of Wu et al. 2020: 10,788 + 29,164 patches with and without cancer train, 11,595 + 31,825 are the
         validation. Which patches they were is not published: here each class is cut along a fixed public permutation
         of the sorted file names, and both classes are mixed along another. A patient may be on both sides, so the
         unit of a claim is a patch, not a person.
Scaling  0..1, as (channels, rows, columns). Patches cut off by the border of a slide are filled up with zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from dpcore.checks import InvalidValue, QuotesRecords
from trainables.data import records
from trainables.data.files import find_folder
from trainables.data.options import InFolder, Limit, Whole
from trainables.data.source import PartOption, PublishedSource
from trainables.system import Dataset, DatasetSpec, InputSpec, Split

PATCHES, TRAIN, TEST = (198_738, 78_786), (29_164, 10_788), (31_825, 11_595)
"""Without cancer, with cancer."""
SIDE, SPLIT_SEED = 50, 2014
FOLDER = "IDC_regular_ps50_idx5"

Labelled = Sequence[tuple[Path, int]]


class IdcOptions(PartOption, Limit, InFolder):
    """Options of IDC."""

    validation: Whole = Field(
        sum(TEST), description="how many validation patches are used, the first ones", examples=[1000]
    )


class Idc(PublishedSource[IdcOptions]):
    """`data: {source: idc, path: DIR}`."""

    name = "idc"
    doc = "tissue patches, 3x50x50 pixels, 2 classes, 39,952 + 43,420 records; published PNG folders in option path"
    asks = IdcOptions

    def declared(self, asked: IdcOptions) -> DatasetSpec:
        """The facts."""
        patch = InputSpec(shape=(3, SIDE, SIDE))
        return self.classified(2, asked.used(sum(TRAIN)), min(asked.validation, sum(TEST)), patch=patch)

    def records(self, asked: IdcOptions, facts: DatasetSpec, files: list[Path]) -> Dataset:
        """The records; class 1 is cancer. Only the patches in use are read. Raises InvalidValue."""
        train, test = _cut(facts, files[0])
        parts = [_read(some) for some in (train[: facts.n], test[: facts.n_validation])]
        return records.dataset(facts, *(Split(inputs={"patch": pixels}, targets=labels) for pixels, labels in parts))

    def files(self, asked: IdcOptions) -> list[Path]:
        """The folder of patients. Raises InvalidValue where there is no patch in it."""
        folder = find_folder(self.name, asked.path, FOLDER, f"idc/{FOLDER}", "idc")
        if next(folder.glob("*/[01]/*.png"), None) is None:
            raise InvalidValue(
                "data.path",
                asked.path,
                f"a folder with {FOLDER}/<patient>/<class>/*.png, found no patch in {folder}",
                f"Pass the folder that holds {FOLDER}/ with --data DIR, or set data.path in the spec.",
            )
        return [folder]


def present(path: Path) -> bool:
    """Whether the patches' folder is below `path`. Reads no patch."""
    return any((path / name).is_dir() for name in (FOLDER, f"idc/{FOLDER}", "idc"))


def _cut(facts: DatasetSpec, folder: Path) -> tuple[Labelled, Labelled]:
    rng = np.random.default_rng(SPLIT_SEED)
    train: list[tuple[Path, int]] = []
    test: list[tuple[Path, int]] = []
    for label in (0, 1):
        files = sorted(folder.glob(f"*/{label}/*.png"))
        records.check_count(facts, f"{folder}/*/{label}", len(files), PATCHES[label])
        order = rng.permutation(len(files))
        train += [(files[i], label) for i in order[: TRAIN[label]]]
        test += [(files[i], label) for i in order[TRAIN[label] : TRAIN[label] + TEST[label]]]
    return [train[i] for i in rng.permutation(len(train))], [test[i] for i in rng.permutation(len(test))]


def _read(patches: Labelled) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    # The one PNG reader among what is installed anyway.
    from matplotlib.image import imread

    pixels = np.zeros((len(patches), 3, SIDE, SIDE), dtype=np.float32)
    for one, (file, _) in zip(pixels, patches, strict=True):
        try:
            found = imread(file)
        except (OSError, SyntaxError, ValueError) as error:
            # Its folder is named by a patient.
            raise QuotesRecords("data.path", str(file), f"a PNG image ({error})", "Fetch it again.") from error
        if found.ndim != 3 or found.shape[2] < 3 or max(found.shape[:2]) > SIDE:
            raise QuotesRecords("data.path", str(file), f"a colour patch of {SIDE} x {SIDE}, found {found.shape}")
        one[:, : found.shape[0], : found.shape[1]] = found[:, :, :3].transpose(2, 0, 1)
    return pixels, np.array([label for _, label in patches], dtype=np.int64)


IDC = Idc()
