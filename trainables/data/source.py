"""What a data source is, and what the packaged ones share.

One of another package need only be a `DataSource`. A packaged one is a subclass of `Published`: its name, its options,
what it declares, where its files lie (which are looked for before any is read), and how its records are read.
`data.features` puts a public map between the records of any source and the models.
"""

from __future__ import annotations

import gzip
import lzma
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from pydantic import Field

from dpcore.checks import InvalidValue, QuotesRecords
from trainables.data import records
from trainables.data.options import FeatureOptions, Option, Options, apart, listed, read
from trainables.data.splits import CONTENT, ByContent, PartOptions, PartSplit, TestSplit, dataset_within, facts_within
from trainables.features.declared import Features
from trainables.system import Dataset, DatasetSpec, InputSpec, Split, Task

FEATURE_OPTIONS = listed(FeatureOptions)
"""What every source takes besides its own options."""


class DataSource(Protocol):
    """One kind of data. `facts` and `inspect` read no record; `load` does."""

    name: str
    doc: str

    @property
    def options(self) -> tuple[Option, ...]:
        """Every option that a spec may name."""
        ...

    def facts(self, options: Mapping[str, object]) -> DatasetSpec:
        """Public facts under a spec's `data` options. Raises InvalidValue."""
        ...

    def inspect(self, options: Mapping[str, object]) -> None:
        """Whether what `load` needs is there: files, columns and their types. Reads no record. Raises InvalidValue."""
        ...

    def load(self, options: Mapping[str, object]) -> Dataset:
        """All records. Raises InvalidValue (wrong magic, NaN, missing labels, one class, ...)."""
        ...


def parted(options: Mapping[str, object]) -> tuple[dict[str, object], Features | None]:
    """A source's own options, and the map that its records are seen through. Raises InvalidValue."""
    given, own = apart(FeatureOptions, options)
    asked = read(FeatureOptions, "features", given)
    features = Features.of(asked.features, asked.features_from, asked.features_bounds, asked.features_groups)
    return own, features


Asked = TypeVar("Asked")


class FeaturedSource(ABC, Generic[Asked]):
    """A data source whose records may be seen through a map; see `DataSource`.

    The methods of `Asked`, what `read` makes of its own options, are of the records as they are.
    """

    name: str
    doc: str
    asks: type[Options]
    """The model of its own options."""
    parted_by: str | ByContent | None = None
    """What decides the part of a record, where the source knows it: its content, or an id."""

    @property
    def options(self) -> tuple[Option, ...]:
        """Every option of its own that a spec may name; those of features are every source's."""
        return listed(self.asks)

    def facts(self, options: Mapping[str, object]) -> DatasetSpec:
        """Public facts under a spec's `data` options: of the features, where there are any. Raises InvalidValue."""
        own, features = parted(options)
        facts = self.record_facts(self.read(own))
        return facts if features is None else features.facts(facts)

    def inspect(self, options: Mapping[str, object]) -> None:
        """Whether options make sense, files are there, and a map keeps made-up records apart; reads no record.

        Raises InvalidValue.
        """
        self.inspect_records(self._asked(options)[0])

    def load(self, options: Mapping[str, object], kept_in: Path | None = None) -> Dataset:
        """The records, or their features. Raises InvalidValue (options, files, their form and count, labels, numbers).

        kept_in  folder of features and of what is larger than memory, see `trainables.kept`; None: nothing is kept
        """
        asked, _, features = self._asked(options)
        found = records.without_ids(self.load_records(asked, kept_in))
        return found if features is None else features.dataset(found, kept_in)

    def part(self, options: Mapping[str, object]) -> PartSplit | None:
        """The part of its records that a spec reads (`data.part`); None: all of them. Raises InvalidValue."""
        return self.record_part(self.read(parted(options)[0]))

    def held_out(self, options: Mapping[str, object]) -> TestSplit | None:
        """The test records that `data.test` declares, of which `load` gives none; None without. Raises InvalidValue."""
        return self.declared_test(self.read(parted(options)[0]))

    def load_held_out(self, options: Mapping[str, object], kept_in: Path | None = None) -> Split:
        """The test records alone, or their features. Raises InvalidValue as `load` does."""
        asked, facts, features = self._asked(options)
        if (declared := self.declared_test(asked)) is None:
            expected = "a part of the records, or a file, that is declared for the test"
            raise InvalidValue("data.test", None, expected, "Declare it in the spec of a new sweep.")
        split = self.load_test(asked, declared, kept_in)
        return split if features is None else features.split(split, facts, kept_in)

    def _asked(self, options: Mapping[str, object]) -> tuple[Asked, DatasetSpec, Features | None]:
        """What is asked, the facts of the records as they are, and their map, which goes with them."""
        own, features = parted(options)
        asked = self.read(own)
        facts = self.record_facts(asked)
        if features is not None:
            features.facts(facts)
        return asked, facts, features

    @abstractmethod
    def read(self, options: Mapping[str, object]) -> Asked:
        """Its own options, each checked by itself. Raises InvalidValue."""

    @abstractmethod
    def record_facts(self, asked: Asked) -> DatasetSpec:
        """See `facts`."""

    @abstractmethod
    def record_part(self, asked: Asked) -> PartSplit | None:
        """See `part`."""

    @abstractmethod
    def inspect_records(self, asked: Asked) -> None:
        """See `inspect`."""

    @abstractmethod
    def load_records(self, asked: Asked, kept_in: Path | None = None) -> Dataset:
        """See `load`; with `Split.ids` where a source has them."""

    def declared_test(self, asked: Asked) -> TestSplit | None:
        """See `held_out`."""
        return None

    def load_test(self, asked: Asked, test: TestSplit, kept_in: Path | None = None) -> Split:
        """See `load_held_out`."""
        raise NotImplementedError


AnySource = FeaturedSource[Any]


class PartOption(Options):
    """Of a source whose records may be parted into those that tune and those of a final run."""

    part: PartOptions | None = Field(
        None,
        description="{use: tuning or final, share}: the part of the training records that tunes, or that of the final "
        "run, by a hash of each record's own content, of its id, or of whose it is",
        examples=[{"use": "tuning", "share": 0.2}],
    )


class Published(PartOption):
    """What a spec says of records that were published, and how they are read: one class a source, named by `name`.

    `declared` and `records` are of all of them, whatever part of them a sweep asks for.
    """

    name: ClassVar[str]
    doc: ClassVar[str]
    parted_by: ClassVar[str | ByContent] = CONTENT
    """What decides the part of a record: its content, or an id."""

    @abstractmethod
    def declared(self) -> DatasetSpec:
        """The facts; reads no record. Raises InvalidValue."""

    def files(self) -> list[Path]:
        """The files that are read, all of them there and not empty. Raises InvalidValue."""
        return []

    @abstractmethod
    def records(self, facts: DatasetSpec, files: list[Path]) -> Dataset:
        """The records in `files`. Raises InvalidValue."""

    def classified(self, classes: int, n: int, n_validation: int, **features: InputSpec) -> DatasetSpec:
        """Facts of a classification."""
        return DatasetSpec(
            dataset=self.name,
            task=Task.CLASSIFICATION,
            n=n,
            n_validation=n_validation,
            features=features,
            classes=classes,
        )

    def validates_within(self) -> bool:
        """Whether the validation records are some of those that are parted."""
        return False

    def declared_test(self) -> TestSplit | None:
        """See `FeaturedSource.held_out`."""
        return None

    def test_records(self, test: TestSplit) -> Split:
        """See `FeaturedSource.load_held_out`."""
        raise NotImplementedError


class PublishedSource(FeaturedSource[Published]):
    """A source of records that were published.

    The part that a sweep asks for is taken here; no source can forget it. Records that were published to validate or to
    test are in neither part: both sweeps have all of them, as records declared public.
    """

    asks: type[Published]

    def __init__(self, asks: type[Published]) -> None:
        self.name, self.doc, self.parted_by, self.asks = asks.name, asks.doc, asks.parted_by, asks

    def read(self, options: Mapping[str, object]) -> Published:
        """See `FeaturedSource.read`."""
        return read(self.asks, self.name, options)

    def record_part(self, asked: Published) -> PartSplit | None:
        """See `FeaturedSource.part`."""
        return self._parted(asked)[0]

    def record_facts(self, asked: Published) -> DatasetSpec:
        """See `FeaturedSource.facts`."""
        part, whole = self._parted(asked)
        return facts_within(part, whole, validation=asked.validates_within())

    def inspect_records(self, asked: Published) -> None:
        """See `FeaturedSource.inspect`."""
        asked.files()

    def load_records(self, asked: Published, kept_in: Path | None = None) -> Dataset:
        """See `FeaturedSource.load`."""
        part, whole = self._parted(asked)
        return dataset_within(part, asked.records(whole, asked.files()), validation=asked.validates_within())

    def declared_test(self, asked: Published) -> TestSplit | None:
        """See `FeaturedSource.held_out`."""
        return asked.declared_test()

    def load_test(self, asked: Published, test: TestSplit, kept_in: Path | None = None) -> Split:
        """See `FeaturedSource.load_held_out`."""
        return asked.test_records(test)

    def _parted(self, asked: Published) -> tuple[PartSplit | None, DatasetSpec]:
        """The part, and the facts of all records. Raises InvalidValue."""
        facts = asked.declared()
        return None if asked.part is None else asked.part.part(facts.n, asked.parted_by), facts


# Published files: where they lie, and what is in them.


def find_folder(source: str, path: str | None, *names: str) -> Path:
    """The folder with `source`'s files: one of `names` below option `path`, or `path` itself.

    Raises InvalidValue when there is none.
    """
    remedy = f"Pass the folder that holds {names[0]}/ with --data DIR, or set data.path in the spec."
    if not path:
        raise InvalidValue("data.path", path, f"the folder with the {source} files", remedy)
    root = Path(path).expanduser()
    if not root.is_dir():
        raise InvalidValue("data.path", path, "a folder that exists", remedy)
    return next((root / name for name in names if (root / name).is_dir()), root)


def existing(source: str, file: Path) -> Path:
    """`file`, if it is there and not empty. Raises InvalidValue."""
    if not file.is_file():
        expected = f"a folder with the file {file.name} of {source}"
        remedy = "Pass the folder that holds it with --data DIR, or set data.path in the spec."
        raise InvalidValue("data.path", str(file.parent), expected, remedy)
    if file.stat().st_size == 0:
        raise InvalidValue("data.path", str(file), "a file with records, this one is empty", "Fetch the file again.")
    return file


def files_in(source: str, path: str | None, folders: Sequence[str], names: Iterable[str]) -> list[Path]:
    """The files `names` of `source`, in one of `folders` below option `path`, or in `path` itself.

    Raises InvalidValue where one of them is not there, or empty.
    """
    folder = find_folder(source, path, *folders)
    return [existing(source, folder / name) for name in names]


def wrong_file(file: Path, expected: str, *, quotes: bool = False) -> InvalidValue:
    """The error of a file that is not the published one.

    quotes  whether `expected` may quote a record
    """
    kind = QuotesRecords if quotes else InvalidValue
    return kind("data.path", str(file), expected, "It is another file, or damaged: fetch it again.")


def unpacked(file: Path) -> bytes:
    """The content of a file, unpacked if it ends in .gz or .xz. Raises InvalidValue where that is cut short."""
    if file.suffix not in (".gz", ".xz"):
        return file.read_bytes()
    opener = lzma.open if file.suffix == ".xz" else gzip.open
    try:
        with opener(file) as stream:
            return bytes(stream.read())
    except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
        raise wrong_file(file, f"a whole {file.suffix} file: this one is cut short or damaged ({error})") from error
