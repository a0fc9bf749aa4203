"""Another source's records, seen in another way: option `of` names that source, every further option is its own."""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Generic, TypeVar

from dpcore.checks import InvalidValue
from trainables.data.featured import FeaturedSource
from trainables.data.options import NoOptions, Option, as_given, listed, option, options, read
from trainables.data.tuning_part import RecordsPart
from trainables.system import Dataset, PublicFacts


@options
class Of(NoOptions):
    """The option that names the other source."""

    of: str = option(
        as_given,
        doc="the source of the records; every further option is its own",
        example="mnist",
        schema={"type": "string"},
        default="",
    )


Asked = TypeVar("Asked", bound=Of)


class Derived(FeaturedSource, Generic[Asked]):
    """A source over other `sources`, of one record after the other: `data.part` is an option of the other source."""

    asks: Any
    """The record of its own options."""

    def __init__(self, sources: Mapping[str, FeaturedSource]) -> None:
        self.sources = sources

    @property
    def options(self) -> tuple[Option, ...]:
        """Its own options, beside those of the other source."""
        return listed(self.asks)

    def record_facts(self, options: Mapping[str, object]) -> PublicFacts:
        """Facts of what is made of the records. Raises InvalidValue (source, own options, the other source's)."""
        asked, source, others = self._read(options)
        return self.declared(asked, source.facts(others))

    def record_part(self, options: Mapping[str, object]) -> RecordsPart | None:
        """The other source's, which reads it before anything is made of its records."""
        _, source, others = self._read(options)
        return source.part(others)

    def inspect_records(self, options: Mapping[str, object]) -> None:
        """Whether the other source's files are there; reads no record. Raises InvalidValue."""
        asked, source, others = self._read(options)
        self.declared(asked, source.facts(others))
        source.inspect(others)

    def load_records(self, options: Mapping[str, object]) -> Dataset:
        """What is made of the other source's records. Raises InvalidValue."""
        asked, source, others = self._read(options)
        facts = self.declared(asked, source.facts(others))
        return self.records(asked, facts, source.load_records(others))

    def check(self, of: str, others: Mapping[str, object]) -> None:
        """Raises InvalidValue where nothing can be made of source `of` under its options `others`."""
        return None

    @abstractmethod
    def declared(self, asked: Asked, facts: PublicFacts) -> PublicFacts:
        """The facts, from those of the other source; reads no record. Raises InvalidValue."""

    @abstractmethod
    def records(self, asked: Asked, facts: PublicFacts, found: Dataset) -> Dataset:
        """The records, from those of the other source. Raises InvalidValue."""

    def fingerprint(self, asked: Asked, found: Dataset) -> str:
        """SHA-256 over what goes in: the other source's records and what is done with them.

        What comes out of a linear algebra library has other last digits under another number of threads, or on another
        processor, and would not be known again.
        """
        made = [self.name, asdict(asked), found.fingerprint]
        return hashlib.sha256(json.dumps(made, sort_keys=True).encode()).hexdigest()

    def _read(self, given: Mapping[str, object]) -> tuple[Asked, FeaturedSource, dict[str, object]]:
        own = {one.name for one in self.options}
        of, others = given.get("of"), {name: value for name, value in given.items() if name not in own}
        if not isinstance(of, str) or of not in self.sources:
            remedy = "It names the source of the records."
            raise InvalidValue("data.of", of, "one of " + ", ".join(self.sources), remedy)
        self.check(of, others)
        asked: Asked = read(self.asks, self.name, {name: value for name, value in given.items() if name in own})
        return asked, self.sources[of], others
