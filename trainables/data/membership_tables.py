"""The binary tables that membership attacks are compared on: Location, Purchase and Texas.

Origin   Shokri, Stronati, Song & Shmatikov 2017, archives of their repository. No licence text: research use, cite
         the paper. Location (Foursquare check-ins, Yang et al. 2015), Purchase (the "acquire valued shoppers" contest,
         baskets clustered into 2 to 100 kinds), Texas (hospital stays, 100 procedures).
Format   CSV without a header: the class, an integer from 1, in quotes or not, then features 0 or 1. Texas keeps
         features and classes in two files. A .tgz, .tar.gz or a plain file.
Split    A public draw by option `seed` (0): the first `train` records are trained on, the others are validation.
"""

from __future__ import annotations

import tarfile
import zlib
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from dpcore.checks import InvalidValue
from trainables.data import records
from trainables.data.files import existing, find_folder, wrong_file
from trainables.data.options import InFolder, Seed, Whole
from trainables.data.source import PartOption, PublishedSource
from trainables.system import Dataset, DatasetSpec, InputSpec


class MembershipOptions(PartOption, InFolder):
    """Options of these tables."""

    train: Whole | None = Field(None, description="how many records are trained on", examples=[1200])
    seed: Seed = Field(0, description="the seed of the public draw that splits", examples=[1])


@dataclass(kw_only=True)
class MembershipTable(PublishedSource[MembershipOptions]):
    """One published table as a data source: `data: {source: NAME, path: DIR, train: 1200, seed: 0}`.

    name      of its archive too, dataset_NAME.tgz, and of its folder below option path
    members   names inside the archive: one table with the class first, or features and then classes; a plain file
              named as the last part of one serves too
    train     records that are trained on, unless option `train` says otherwise
    """

    name: str
    doc: str
    members: tuple[str, ...]
    count: int
    width: int
    classes: int
    train: int
    asks = MembershipOptions

    @property
    def archive(self) -> str:
        """Name of the published file."""
        return f"dataset_{self.name}.tgz"

    def declared(self, asked: MembershipOptions) -> DatasetSpec:
        """The facts. Raises InvalidValue (train)."""
        train = self.train if asked.train is None else asked.train
        if train >= self.count:
            remedy = "The others are the validation."
            raise InvalidValue("data.train", train, f"fewer than the {self.count} records of {self.name}", remedy)
        return self.classified(self.classes, train, self.count - train, record=InputSpec(shape=(self.width,)))

    def files(self, asked: MembershipOptions) -> list[Path]:
        """For each member itself, or the archive that holds it. Raises InvalidValue."""
        folder = find_folder(self.name, asked.path, self.name)
        plain = [folder / Path(member).name for member in self.members]
        return [one if one.is_file() else existing(self.name, folder / self.archive) for one in plain]

    def records(self, asked: MembershipOptions, facts: DatasetSpec, files: list[Path]) -> Dataset:
        """The records; class k of the file is k - 1. Raises InvalidValue (archive, shape, values, classes)."""
        tables = [_table(self, file, member) for file, member in zip(files, self.members, strict=True)]
        folder = files[0].parent
        records.check_count(facts, str(folder), len(tables[0]), self.count)
        features, labels = (tables[0], tables[1][:, 0]) if len(tables) == 2 else (tables[0][:, 1:], tables[0][:, 0])
        if features.shape[1] != self.width:
            raise wrong_file(folder, f"{self.width} features, found {features.shape[1]}")
        if not np.isin(features, (0.0, 1.0)).all():
            raise wrong_file(folder, "features that are 0 or 1")
        order = records.drawn(self.count, asked.seed)
        return records.parted(facts, {"record": features}, labels - 1, order[: facts.n], order[facts.n :])


def _table(table: MembershipTable, file: Path, member: str) -> NDArray[np.float32]:
    try:
        # A line at a time: the text of Texas alone is 0.8 GB.
        with ExitStack() as opened:
            if file.name == table.archive:
                lines: IO[bytes] | None = opened.enter_context(tarfile.open(file)).extractfile(member)
            else:
                lines = opened.enter_context(file.open("rb"))
            if lines is None:
                raise KeyError(member)
            return np.loadtxt(lines, delimiter=",", dtype=np.float32, ndmin=2, quotechar='"', encoding="latin1")
    except (ValueError, tarfile.TarError, EOFError, zlib.error, KeyError) as error:
        expected = f"{table.archive} with a table {member} of numbers ({error})"
        raise wrong_file(file.parent, expected, quotes=True) from error


LOCATION = MembershipTable(
    name="location",
    doc="check-ins, 446 binary features, 30 classes, 5,010 records; dataset_location.tgz in option path",
    members=("bangkok",),
    count=5_010,
    width=446,
    classes=30,
    train=1_200,
)
"""Places and kinds of places that people of Bangkok visited, by cluster. Lu et al. 2021 train on 1,200, Shokri et al.
2017 on 1,600."""
PURCHASE_100 = MembershipTable(
    name="purchase",
    doc="shopping baskets, 600 binary features, 100 classes, 197,324 records; dataset_purchase.tgz in option path",
    members=("dataset_purchase",),
    count=197_324,
    width=600,
    classes=100,
    train=10_000,
)
TEXAS_100 = MembershipTable(
    name="texas",
    doc="hospital stays, 6,169 binary features, 100 classes, 67,330 records; dataset_texas.tgz in option path",
    members=("texas/100/feats", "texas/100/labels"),
    count=67_330,
    width=6_169,
    classes=100,
    train=10_000,
)
