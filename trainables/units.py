"""Units of privacy above a record: all records of one person are one neighbour of a claim.

A claim "per person" is true only if a person is what is drawn, what is clipped and what is counted. So a source that
is told `unit: {column: NAME, max_records: k}` hands out records unit by unit, at most k of each; a system that enforces
units draws whole units, clips the sum of a unit's gradients once, and counts n in units. Others are refused.

Which records of a unit are kept is decided by a hash of that unit's id and contents: never by the order of the rows,
and by no other unit's records. Otherwise one person more could change what is kept of another, and one clip would not
bound the difference.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field

from dpcore import checks

RECORD = "record"
"""The unit of a claim whose neighbours differ in one record."""

_CHOICE, _KEY = b"which records of a unit are kept", b"the place of a unit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """What one neighbour differs in: all records that share a value of `column`. Declared, never measured.

    max_records  k: how many records of one unit are used at most. It bounds the memory of a batch, and what a unit can
                 move in a count of records; a clipped sum is bounded by its clip, whatever k is
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    column: Annotated[str, Field(min_length=1)]
    max_records: Annotated[int, Field(strict=True)]

    def __post_init__(self) -> None:
        checks.count(minimum=1, max_records=self.max_records)


@dataclass(frozen=True, slots=True)
class Units:
    """Which records belong together: unit i owns records offsets[i] to offsets[i + 1] - 1.

    offsets  int64 [U + 1], strictly increasing from 0: no unit without a record
    keys     uint64 [U]: a hash of each unit's id, the same whoever else is there

    Raises InvalidValue.
    """

    offsets: NDArray[np.int64]
    keys: NDArray[np.uint64]

    def __post_init__(self) -> None:
        if len(self.offsets) != len(self.keys) + 1 or self.offsets[0] != 0 or (np.diff(self.offsets) < 1).any():
            raise checks.InvalidValue("offsets", self.offsets, "strictly increasing from 0, one more than keys")

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def records(self) -> int:
        """Records of all units together."""
        return int(self.offsets[-1])

    def shard(self, part: range) -> Units:
        """Units `part` of these, whose records are counted from 0 again."""
        offsets = self.offsets[part.start : part.stop + 1]
        return Units(offsets - offsets[0], self.keys[part.start : part.stop])

    def followed_by(self, keys: NDArray[np.uint64], records: int) -> Units:
        """These and as many more as there are `keys`, of `records` records each, which stand behind all others."""
        further = self.offsets[-1] + records * np.arange(1, len(keys) + 1)
        return Units(np.concatenate([self.offsets, further]), np.concatenate([self.keys, keys]))

    def picked(self, order: NDArray[np.int64]) -> tuple[NDArray[np.int64], Units]:
        """Positions of the records of the units `order` [B], one unit after the other, and these units."""
        positions, taken = self.rows(order, int(np.diff(self.offsets).max(initial=0)))
        offsets = np.cumsum([0, *taken.sum(axis=1)], dtype=np.int64)
        return positions[taken], Units(offsets, self.keys[order])

    def rows(self, chosen: NDArray[np.int64], width: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Positions of the records of units `chosen` [B], and which of them are there: both [B, width].

        width  at least the records of any unit; places beyond a unit's last record repeat it and are not taken
        """
        counts = self.offsets[chosen + 1] - self.offsets[chosen]
        if counts.size and int(counts.max()) > width:
            raise checks.InvalidValue("width", width, f"at least {int(counts.max())}, the records of one unit")
        places = np.arange(width)
        taken = places < counts[:, None]
        return self.offsets[chosen][:, None] + np.minimum(places, counts[:, None] - 1), taken


def choices(ids: Iterable[object], contents: Iterable[bytes]) -> Iterator[bytes]:
    """A keyed hash of each record's id and content, by which its unit's records are chosen.

    ids       [N] of the unit of each record; equal texts are one unit
    contents  [N] all that a model may see of each record
    """
    for one, content in zip(ids, contents, strict=True):
        yield _hash(_CHOICE, str(one).encode() + content).digest()


def arranged(ids: Iterable[object], choices: Iterable[bytes], unit: Unit) -> tuple[NDArray[np.int64], Units]:
    """Positions of the records that are kept, unit by unit, and the units.

    ids      [N] of the unit of each record; equal texts are one unit
    choices  [N] see above

    At most `unit.max_records` of a unit are kept, those whose keyed hash of id and content is lowest; equal records
    are told apart by a number. Units, and records within a unit, come in the order of their hashes. So what is kept of
    a unit, and in which order, is a function of that unit's id and records alone.
    """
    records: dict[bytes, list[tuple[bytes, int]]] = defaultdict(list)
    for position, (one, choice) in enumerate(zip(ids, choices, strict=True)):
        records[str(one).encode()].append((choice, position))
    keys = {name: int.from_bytes(_hash(_KEY, name).digest()[:8], "big") for name in records}
    names = sorted(records, key=lambda name: (keys[name], name))
    kept = [sorted(_told_apart(records[name]))[: unit.max_records] for name in names]
    offsets = np.cumsum([0, *(len(own) for own in kept)], dtype=np.int64)
    positions = np.array([position for own in kept for _, position in own], dtype=np.int64)
    return positions, Units(offsets, np.array([keys[name] for name in names], dtype=np.uint64))


def share_of(key: str, id_: object) -> float:
    """A uniform number in [0, 1) from a public key and a stable id: the same whoever else is there."""
    digest = hashlib.blake2b(str(id_).encode(), key=hashlib.sha256(key.encode()).digest(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


def _told_apart(own: list[tuple[bytes, int]]) -> list[tuple[bytes, int]]:
    """Digests and positions, where the second of two equal records has another digest than the first, and so on."""
    seen: Counter[bytes] = Counter()
    out = []
    for digest, position in own:
        seen[digest] += 1
        number = seen[digest]
        digest = digest if number == 1 else _hash(_CHOICE, digest + str(number).encode()).digest()
        out.append((digest, position))
    return out


def _hash(key: bytes, text: bytes) -> hashlib.blake2b:
    return hashlib.blake2b(text, key=key, digest_size=16)
