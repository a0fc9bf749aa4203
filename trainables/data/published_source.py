"""A source of records that were published: it may be asked for one part of its training records (`data.part`).

The part is taken here, of what a source declares and reads as if there were none; no source can forget it. Records that
were published to validate or to test are in neither part: both sweeps have all of them, as records declared public.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from trainables.data import options
from trainables.data.source import Source
from trainables.data.tuning_part import CONTENT, SCHEMA, ByContent, RecordsPart, part_of
from trainables.data.within_part import dataset_within, facts_within
from trainables.system import Dataset, PublicFacts


def part_option(decided_by: str | ByContent) -> Any:
    """`data.part` of a source that knows what decides."""
    return options.option(
        options.as_given,
        doc="{use: tuning or final, share}: the part of the training records that tunes, or that of the final run, "
        f"by a hash of each record's own {decided_by}",
        example={"use": "tuning", "share": 0.2},
        schema=SCHEMA,
        default=None,
    )


@options.options
class PartOption(options.NoOptions):
    """Of a source whose records may be parted into those that tune and those of a final run."""

    part: object = part_option(CONTENT)


Asked = TypeVar("Asked", bound=PartOption)


class PublishedSource(Source[Asked]):
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

    def validates_within(self, asked: Asked) -> bool:
        """Whether the validation records are some of those that are parted."""
        return False

    def parts_beside(self, asked: Asked, part: RecordsPart) -> None:
        """Raises InvalidValue where something else is asked that does not go with a part."""
        return None

    def _of(self, asked: Asked) -> tuple[RecordsPart | None, PublicFacts]:
        """The part, and the facts of all records. Raises InvalidValue."""
        facts = self.declared(asked)
        part = part_of(asked.part, facts.n, self.parted_by)
        if part is not None:
            self.parts_beside(asked, part)
        return part, facts
