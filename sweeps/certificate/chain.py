"""The published ledger as a chain: every row is bound to all rows before it by a hash.

A row says what one launch was charged for: which steps, and what they release as events. Its link is the SHA-256 of the
link before it and of its own canonical bytes; the first is bound to the sweep. So whoever keeps the last link can tell
later whether a row was changed, left out, added or moved, whoever signs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Annotated, Any, Self

from pydantic import Field

from sweeps.certificate.canonical import canonical_bytes
from sweeps.certificate.fields import EventText, FrozenPart, Link, Sentence

_FORMAT = "private-sweeps ledger 1"


class LedgerRow(FrozenPart):
    """What one launch was charged for; a sealed search has one row for all of them.

    trial, attempt  whose, and the number of the launch
    from_step, to_step  that it was allowed to run
    charged_to      up to which it is counted: at least as far as noise may have been drawn
    training, reports  what these steps release of training records, and of private validation records
    """

    trial: Sentence
    attempt: Annotated[int, Field(ge=1)]
    from_step: Annotated[int, Field(ge=0)]
    to_step: Annotated[int, Field(ge=1)]
    charged_to: Annotated[int, Field(ge=0)]
    training: EventText
    reports: EventText


class Chain(FrozenPart):
    """Rows in order, and links: the first of the sweep alone, then one for each row.

    sweep  its name, and the digest of its spec
    """

    sweep: Sentence
    rows: tuple[LedgerRow, ...]
    links: Annotated[tuple[Link, ...], Field(min_length=1)]

    @classmethod
    def of(cls, sweep: str, rows: Iterable[LedgerRow]) -> Self:
        """The chain of these rows."""
        listed = tuple(rows)
        return cls(sweep=sweep, rows=listed, links=links_of(sweep, listed))

    @property
    def is_whole(self) -> bool:
        """Whether every link is that of its row."""
        return self.links == links_of(self.sweep, self.rows)


def links_of(sweep: str, rows: Iterable[LedgerRow]) -> tuple[str, ...]:
    """The first link, of the sweep alone, then one for each row."""
    found = [_link("", {"ledger": _FORMAT, "sweep": sweep})]
    for row in rows:
        found.append(_link(found[-1], row.model_dump(mode="json")))
    return tuple(found)


def _link(before: str, value: dict[str, Any]) -> str:
    # The canonical bytes of both as one array: no other two have the same.
    return hashlib.sha256(canonical_bytes([before, value])).hexdigest()
