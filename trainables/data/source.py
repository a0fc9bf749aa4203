"""What a data source is, and what the packaged ones share: options are read once into a typed record.

A source is one subclass of `Source`: its name, the record of its options, what it declares, where its files lie (which
are looked for before any is read), and how its records are read. One of another package need only be a `DataSource`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from trainables.data import options
from trainables.data import records as content
from trainables.data.options import NoOptions, Option, listed, read
from trainables.data.splits import (
    CONTENT,
    PART_SCHEMA,
    ByContent,
    HeldOut,
    RecordsPart,
    dataset_within,
    facts_within,
    part_of,
)
from trainables.features import declared
from trainables.features.declared import parted
from trainables.system import Dataset, PublicFacts, Split

# What every data source has in common: `data.features` puts a public map between its records and the models.

FEATURE_OPTIONS = (
    Option(
        name=declared.MAP,
        doc="a public map that records are seen through: a name, module:function, or a file of torch.export",
        example="scattering",
        schema={"type": ["string", "null"], "minLength": 1},
    ),
    Option(
        name=declared.FROM,
        doc="on whose records a map of one's own was fitted, and why none of them is private here",
        example="trained on ImageNet by its authors, which holds no record of these",
        schema={"type": ["string", "null"], "minLength": 10},
    ),
    Option(
        name=declared.BOUNDS,
        doc="[low, high] that what a map of one's own says is cut to",
        example=[-10, 10],
        schema={"type": ["array", "null"], "items": {"type": "number"}, "minItems": 2, "maxItems": 2},
    ),
    Option(
        name=declared.GROUPS,
        doc="in how many groups channels are normalised, each record by itself; none unless given",
        example=27,
        schema={"type": ["integer", "null"], "minimum": 1},
    ),
)
"""What every source takes besides its own options."""


class FeaturedSource(ABC):
    """A data source whose records may be seen through a map (`trainables.features`); see `DataSource`.

    The abstract methods are of the records as they are, and are called without the options of features.
    """

    name: str
    doc: str
    parted_by: str | ByContent | None = None
    """What decides the part of a record, where the source knows it: its content, or an id."""

    @property
    @abstractmethod
    def options(self) -> tuple[Option, ...]:
        """Every option of its own that a spec may name; those of features are every source's."""

    def facts(self, options: Mapping[str, object]) -> PublicFacts:
        """Public facts under a spec's `data` options: of the features, where there are any. Raises InvalidValue."""
        own, features = parted(options)
        facts = self.record_facts(own)
        return facts if features is None else features.facts(facts)

    def inspect(self, options: Mapping[str, object]) -> None:
        """Whether options make sense, files are there, and a map keeps made-up records apart; reads no record.

        Raises InvalidValue.
        """
        own, features = parted(options)
        if features is not None:
            self.facts(options)
            features.check(self.record_facts(own))
        self.inspect_records(own)

    def load(self, options: Mapping[str, object], kept_in: Path | None = None) -> Dataset:
        """The records, or their features. Raises InvalidValue (options, files, their form and count, labels, numbers).

        kept_in  folder in which features are kept, see `trainables.features.kept`; None: nothing is kept
        """
        own, features = parted(options)
        if features is None:
            return content.without_ids(self.load_records(own))
        self.facts(options)
        return features.dataset(content.without_ids(self.load_records(own)), kept_in)

    def part(self, options: Mapping[str, object]) -> RecordsPart | None:
        """The part of its records that a spec reads (`data.part`); None: all of them. Raises InvalidValue."""
        return self.record_part(parted(options)[0])

    @abstractmethod
    def record_facts(self, options: Mapping[str, object]) -> PublicFacts:
        """See `facts`."""

    @abstractmethod
    def record_part(self, options: Mapping[str, object]) -> RecordsPart | None:
        """See `part`."""

    @abstractmethod
    def inspect_records(self, options: Mapping[str, object]) -> None:
        """See `inspect`."""

    @abstractmethod
    def load_records(self, options: Mapping[str, object]) -> Dataset:
        """See `load`; with `Split.ids` where a source has them."""


class HoldsOut(FeaturedSource):
    """One that can part off test records: see `trainables.data.splits.HasTestRecords`."""

    def held_out(self, options: Mapping[str, object]) -> HeldOut | None:
        """What `data.test` declares; None without it. Raises InvalidValue."""
        return self.declared_test(parted(options)[0])

    def load_held_out(self, options: Mapping[str, object], kept_in: Path | None = None) -> Split:
        """The test records alone, or their features. Raises InvalidValue as `load` does."""
        own, features = parted(options)
        split = self.load_test(own)
        return split if features is None else features.split(split, self.record_facts(own), kept_in)

    @abstractmethod
    def declared_test(self, options: Mapping[str, object]) -> HeldOut | None:
        """See `held_out`."""

    @abstractmethod
    def load_test(self, options: Mapping[str, object]) -> Split:
        """See `load_held_out`."""


Asked = TypeVar("Asked", bound=NoOptions)


class DataSource(Protocol):
    """One kind of data. `facts` and `inspect` read no record; `load` does."""

    name: str
    doc: str

    @property
    def options(self) -> tuple[Option, ...]:
        """Every option that a spec may name."""
        ...

    def facts(self, options: Mapping[str, object]) -> PublicFacts:
        """Public facts under a spec's `data` options. Raises InvalidValue."""
        ...

    def inspect(self, options: Mapping[str, object]) -> None:
        """Whether what `load` needs is there: files, columns and their types. Reads no record. Raises InvalidValue."""
        ...

    def load(self, options: Mapping[str, object]) -> Dataset:
        """All records in memory. Raises InvalidValue (wrong magic, NaN, missing labels, one class, ...)."""
        ...


class Source(FeaturedSource, Generic[Asked]):
    """A data source over files."""

    asks: Any
    """The record of its options."""

    @property
    def options(self) -> tuple[Option, ...]:
        """Every option that a spec may name."""
        return listed(self.asks)

    def record_facts(self, options: Mapping[str, object]) -> PublicFacts:
        """See `FeaturedSource.facts`."""
        return self.declared(self.read(options))

    def inspect_records(self, options: Mapping[str, object]) -> None:
        """See `FeaturedSource.inspect`."""
        asked = self.read(options)
        self.declared(asked)
        self.files(asked)

    def load_records(self, options: Mapping[str, object]) -> Dataset:
        """See `FeaturedSource.load`."""
        asked = self.read(options)
        facts = self.declared(asked)
        return self.records(asked, facts, self.files(asked))

    def read(self, options: Mapping[str, object]) -> Asked:
        """The options, checked. Raises InvalidValue."""
        asked: Asked = read(self.asks, self.name, options)
        return asked

    def files(self, asked: Asked) -> list[Path]:
        """The files that are read, all of them there and not empty. Raises InvalidValue."""
        return []

    @abstractmethod
    def declared(self, asked: Asked) -> PublicFacts:
        """The facts; reads no record. Raises InvalidValue."""

    @abstractmethod
    def records(self, asked: Asked, facts: PublicFacts, files: list[Path]) -> Dataset:
        """The records in `files`. Raises InvalidValue."""


# A source of records that were published: it may be asked for one part of its training records (`data.part`).
#
# The part is taken here, of what a source declares and reads as if there were none; no source can forget it. Records
# that were published to validate or to test are in neither part: both sweeps have all of them, as records declared
# public.


def part_option(decided_by: str | ByContent) -> Any:
    """`data.part` of a source that knows what decides."""
    return options.option(
        options.as_given,
        doc="{use: tuning or final, share}: the part of the training records that tunes, or that of the final run, "
        f"by a hash of each record's own {decided_by}",
        example={"use": "tuning", "share": 0.2},
        schema=PART_SCHEMA,
        default=None,
    )


@options.options
class PartOption(options.NoOptions):
    """Of a source whose records may be parted into those that tune and those of a final run."""

    part: object = part_option(CONTENT)


AskedPart = TypeVar("AskedPart", bound=PartOption)


class PublishedSource(Source[AskedPart]):
    """`declared` and `records` are of all records; what a sweep is told and given is of the part that it asks for."""

    parted_by: str | ByContent | None = CONTENT

    def record_part(self, options: Mapping[str, object]) -> RecordsPart | None:
        """See `FeaturedSource.part`."""
        return self._of(self.read(options))[0]

    def record_facts(self, options: Mapping[str, object]) -> PublicFacts:
        """See `FeaturedSource.facts`."""
        asked = self.read(options)
        part, facts = self._of(asked)
        return facts_within(part, facts, validation=self.validates_within(asked))

    def inspect_records(self, options: Mapping[str, object]) -> None:
        """See `FeaturedSource.inspect`."""
        self.record_facts(options)
        super().inspect_records(options)

    def load_records(self, options: Mapping[str, object]) -> Dataset:
        """See `FeaturedSource.load`."""
        asked = self.read(options)
        validation = self.validates_within(asked)
        self.record_facts(options)
        return dataset_within(self._of(asked)[0], super().load_records(options), validation=validation)

    def validates_within(self, asked: AskedPart) -> bool:
        """Whether the validation records are some of those that are parted."""
        return False

    def parts_beside(self, asked: AskedPart, part: RecordsPart) -> None:
        """Raises InvalidValue where something else is asked that does not go with a part."""
        return None

    def _of(self, asked: AskedPart) -> tuple[RecordsPart | None, PublicFacts]:
        """The part, and the facts of all records. Raises InvalidValue."""
        facts = self.declared(asked)
        part = part_of(asked.part, facts.n, self.parted_by)
        if part is not None:
            self.parts_beside(asked, part)
        return part, facts
