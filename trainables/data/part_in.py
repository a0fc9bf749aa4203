"""The part of the records that a data section reads, by its source."""

from __future__ import annotations

from collections.abc import Mapping

from trainables.data.table import TABLE
from trainables.data.tuning_part import RecordsPart


def part_in(source: str, options: Mapping[str, object]) -> RecordsPart | None:
    """That of a data section which was read; None of a source that has none."""
    return TABLE.part(options) if source == TABLE.name else None
