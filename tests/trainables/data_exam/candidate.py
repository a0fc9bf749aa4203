"""Who sits the exam: a data source, and how small files of its format are made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainables.data.source import DataSource
from trainables.system import Dataset

Record = Any
"""One record in whatever form `write` takes it."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Candidate:
    """options    what a spec says, without `path`
    made       records by a seed: always as many, in an order that is part of them; no two seeds share one
    write      writes them below a folder, in the order given, and says which files the source needs, [] if packaged
    small      [(module or source, {name: value})] by which published sizes are those of `made`
    others     {option: another value that means something}; an option without one must be in `silent`
    silent     {option: why nothing depends on it}
    bad        {option: values of a wrong type or range}; [object()], or none of them
    orderless  whether the order of rows is declared irrelevant
    beyond     records with numbers out of their declared bounds, by a seed
    exact      whether n and n_validation are the numbers of records (of units) that are there
    owner      {record: the id of its unit}, where options name a unit of at most `largest` records
    nameless   a record without an id, made of another
    """

    source: DataSource
    options: Mapping[str, object] = field(default_factory=dict)
    made: Callable[[int], Sequence[Record]]
    write: Callable[[Path, Sequence[Record]], list[Path]]
    small: Sequence[tuple[object, Mapping[str, object]]] = ()
    others: Mapping[str, object] = field(default_factory=dict)
    silent: Mapping[str, str] = field(default_factory=dict)
    bad: Mapping[str, Sequence[object]] = field(default_factory=dict)
    orderless: bool = False
    beyond: Callable[[int], Sequence[Record]] | None = None
    exact: bool = True
    owner: Callable[[Record], object] | None = None
    largest: int = 1
    nameless: Callable[[Record], Record] | None = None

    @contextmanager
    def sized(self):
        """Its published sizes are those of its small files."""
        with pytest.MonkeyPatch.context() as monkeypatch:
            for place, values in self.small:
                for name, value in values.items():
                    monkeypatch.setattr(place, name, value)
            yield

    def asked(self, folder: Path, **changes: object) -> dict[str, object]:
        """What a spec says of files in `folder`; of none where the source brings its own."""
        path = {"path": str(folder)} if any(one.name == "path" for one in self.listed) else {}
        return {**path, **self.options, **changes}

    @property
    def listed(self) -> Sequence[Any]:
        """Options of the source, those of the source that it is made of too, which it hands on."""
        inner = getattr(self.source, "sources", {}).get(self.options.get("of"))
        own = {option.name for option in self.source.options}
        handed = [option for option in inner.options if option.name not in own] if inner is not None else ()
        return [*self.source.options, *handed]

    def written(self, folder: Path, records: Sequence[Record]) -> list[Path]:
        """Its files, in a new folder."""
        folder.mkdir(parents=True)
        return self.write(folder, records)

    def loaded(self, folder: Path, records: Sequence[Record], **changes: object) -> Dataset:
        """What it reads of `records` written into a new folder."""
        self.written(folder, records)
        return self.source.load(self.asked(folder, **changes))


def arrays(data: Dataset) -> dict[str, np.ndarray]:
    """All that a data set holds."""
    found = {
        f"{part}.{name}": np.asarray(array)
        for part, split in (("train", data.train), ("validation", data.validation))
        for name, array in [*split.inputs.items(), ("", split.targets)]
    }
    for part, split in (("train", data.train), ("validation", data.validation)):
        beside = {"weights": split.weights, "groups": split.groups}
        found |= {f"{part}, {name}": array for name, array in beside.items() if array is not None}
    if data.units is not None:
        found |= {"offsets": data.units.offsets, "keys": data.units.keys}
    return found


def same(one: Dataset, other: Dataset) -> bool:
    """Whether two data sets are alike to the last bit."""
    mine, theirs = arrays(one), arrays(other)
    return mine.keys() == theirs.keys() and all(
        mine[name].dtype == theirs[name].dtype and np.array_equal(mine[name], theirs[name]) for name in mine
    )
