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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from dpcore.checks import InvalidValue
from trainables.data import content, options
from trainables.data.pooled import drawn
from trainables.system import Dataset, Feature, PublicFacts, Task

REMEDY = "It is another file, or damaged: fetch it again."


@dataclass(slots=True, kw_only=True)
class MembershipTable:
    """One published table as a data source: `data: {source: NAME, path: DIR, train: 1200, seed: 0}`.

    archive   published name; a plain file named as the last part of `members` serves too
    members   names inside the archive: one table with the class first, or features and then classes
    folders   names of its folder below option path
    train     records that are trained on, unless option `train` says otherwise
    """

    name: str
    doc: str
    archive: str
    members: tuple[str, ...]
    folders: tuple[str, ...]
    records: int
    width: int
    classes: int
    train: int

    def facts(self, options_: Mapping[str, object]) -> PublicFacts:
        """Facts under options `train`, `seed`. Raises InvalidValue."""
        options.only(self.name, options_, "path", "train", "seed")
        train = options.whole(options_, "train", self.train)
        if train >= self.records:
            raise InvalidValue("data.train", train, f"fewer than the {self.records} records of {self.name}")
        return PublicFacts(
            dataset=self.name,
            task=Task.CLASSIFICATION,
            n=train,
            n_validation=self.records - train,
            features={"record": Feature(shape=(self.width,))},
            classes=self.classes,
        )

    def inspect(self, options_: Mapping[str, object]) -> None:
        """Whether the files are there; reads none. Raises InvalidValue."""
        folder = options.folder(self.name, options_, *self.folders)
        for member in self.members:
            _file(self, folder, member)

    def load(self, options_: Mapping[str, object]) -> Dataset:
        """The records; class k of the file is k - 1. Raises InvalidValue (folder, archive, shape, values, classes)."""
        facts = self.facts(options_)
        folder = options.folder(self.name, options_, *self.folders)
        tables = [_table(self, folder, member) for member in self.members]
        content.records(facts, str(folder), len(tables[0]), self.records)
        features, labels = (tables[0], tables[1][:, 0]) if len(tables) == 2 else (tables[0][:, 1:], tables[0][:, 0])
        if features.shape[1] != self.width:
            raise InvalidValue("data.path", str(folder), f"{self.width} features, found {features.shape[1]}", REMEDY)
        if not np.isin(features, (0.0, 1.0)).all():
            raise InvalidValue("data.path", str(folder), "features that are 0 or 1", REMEDY)
        seed = options_.get("seed", 0)
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise InvalidValue("data.seed", seed, "an integer of at least 0")
        order, inputs = drawn(self.records, seed), {"record": features}
        splits = [content.select(inputs, labels - 1, rows) for rows in (order[: facts.n], order[facts.n :])]
        return content.dataset(facts, splits[0], splits[1])


def _file(table: MembershipTable, folder: Path, member: str) -> Path:
    """The member itself, or the archive that holds it."""
    plain = folder / Path(member).name
    return plain if plain.is_file() else options.existing(table.name, folder / table.archive)


def _table(table: MembershipTable, folder: Path, member: str) -> NDArray[np.float32]:
    file = _file(table, folder, member)
    try:
        # A line at a time: the text of Texas alone is 0.8 GB.
        with _member(file, member) if file.name == table.archive else file.open("rb") as lines:
            found = np.loadtxt(lines, delimiter=",", dtype=np.float32, ndmin=2, quotechar='"', encoding="latin1")
    except (ValueError, tarfile.TarError, EOFError, zlib.error, KeyError) as error:
        raise InvalidValue(
            "data.path", str(folder), f"{table.archive} with a table {member} of numbers ({error})", REMEDY
        ) from error
    return found


@contextmanager
def _member(archive: Path, name: str) -> Iterator[IO[bytes]]:
    with tarfile.open(archive) as opened:
        stream = opened.extractfile(name)
        if stream is None:
            raise KeyError(name)
        yield stream


PURCHASE_100 = MembershipTable(
    name="purchase",
    doc="shopping baskets, 600 binary features, 100 classes, 197,324 records; dataset_purchase.tgz in option path",
    archive="dataset_purchase.tgz",
    members=("dataset_purchase",),
    folders=("purchase",),
    records=197_324,
    width=600,
    classes=100,
    train=10_000,
)
TEXAS_100 = MembershipTable(
    name="texas",
    doc="hospital stays, 6,169 binary features, 100 classes, 67,330 records; dataset_texas.tgz in option path",
    archive="dataset_texas.tgz",
    members=("texas/100/feats", "texas/100/labels"),
    folders=("texas",),
    records=67_330,
    width=6_169,
    classes=100,
    train=10_000,
)
