"""What every data source has in common: `data.features` puts a public map between its records and the models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path

from trainables.data import content
from trainables.data.options import Option
from trainables.data.test_part import HeldOut
from trainables.data.tuning_part import ByContent, RecordsPart
from trainables.features import declared
from trainables.features.declared import parted
from trainables.system import Dataset, PublicFacts, Split

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
    """One that can part off test records: see `trainables.data.test_part.HasTestRecords`."""

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
