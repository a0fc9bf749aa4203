"""What a data source is, and what the packaged ones share: options are read once into a typed record.

A source is one subclass of `Source`: its name, the record of its options, what it declares, where its files lie (which
are looked for before any is read), and how its records are read. One of another package need only be a `DataSource`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from trainables.data.featured import FeaturedSource
from trainables.data.options import NoOptions, Option, listed, read
from trainables.system import Dataset, PublicFacts

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
