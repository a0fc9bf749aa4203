"""Records that tune and those of the final run: one part of a file each, never both (`privacy.scope: holdout`).

data:
  part: {use: tuning, share: 0.2, id: person_id}     # of the sweep that tunes; `use: final` of the final run

A keyed hash of each record's own id decides, before test and validation records are taken of the part. The key is
public, and another word than theirs, so that the parts know nothing of each other. Records that come, go or move about
move no other, and nothing has to be kept: who is in which part is a function of the declaration and the one record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcore.checks import InvalidValue
from trainables.units import Unit, share_of

HERE, KEY = "data.part", "tuning"
FORM = "{use: tuning or final, share: in (0, 1), id: COLUMN}"
SCHEMA: dict[str, object] = {
    "type": ["object", "null"],
    "properties": {
        "use": {"enum": ["tuning", "final"]},
        "share": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        "id": {},
        "key": {},
    },
    "required": ["use", "share"],
    "additionalProperties": False,
}
"""JSON schema of `data.part`."""


class PartUse(StrEnum):
    """What a part of the records is for."""

    TUNING = "tuning"
    FINAL = "final"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsPart:
    """One of the two parts.

    share    of the records that tune, whichever part this is
    id, key  of the hash that decides
    """

    use: PartUse
    share: float
    id: str
    key: str = KEY

    def size(self, n: int) -> int:
        """How many of n records, or units, it has: as declared."""
        tuning = round(n * self.share)
        return tuning if self.use is PartUse.TUNING else n - tuning

    def holds(self, ids: NDArray[Any]) -> NDArray[np.bool_]:
        """Which records are in it, each by its own id alone: [n]. Raises InvalidValue for ids of another kind."""
        tuning = np.array([share_of(self.key, _one_spelling(self.id, one)) < self.share for one in ids], dtype=bool)
        return tuning if self.use is PartUse.TUNING else ~tuning

    @property
    def splits_as(self) -> tuple[float, str, str]:
        """Equal of two parts of one split."""
        return self.share, self.id, self.key

    @property
    def assumption(self) -> str:
        """What a claim by it rests on."""
        return (
            f"The value of {self.id} is a record's own and never changes, and share and key of the hash that parts the "
            "records that tune from those of the final run were chosen without looking at the records."
        )


def part_of(raw: object, n: int, unit: Unit | None) -> RecordsPart | None:
    """What `data.part` says of `n` records or units. Raises InvalidValue."""
    if raw is None:
        return None
    given = {} if not isinstance(raw, Mapping) else dict(raw)
    if unit is not None:
        given = {"id": unit.column, **given}
    share = given.get("share")
    sound = isinstance(share, int | float) and not isinstance(share, bool) and 0 < share < 1
    if not {"use", "share", "id"} <= set(given) <= {"use", "share", "id", "key"} or not sound:
        raise InvalidValue(HERE, raw, FORM, "A part by position would move other records when one is added.")
    if given["use"] not in list(PartUse):
        remedy = "The sweep that tunes reads the one, the final run the other."
        raise InvalidValue(f"{HERE}.use", given["use"], "tuning or final", remedy)
    if unit is not None and str(given["id"]) != unit.column:
        expected = f"{unit.column}, as in data.unit.column: another id would cut units in two"
        raise InvalidValue(f"{HERE}.id", given["id"], expected, f"Write `id: {unit.column}`.")
    assert isinstance(share, int | float)
    if not 0 < round(n * share) < n:
        expected = f"a share in (0, 1) that leaves records of n={n} on both sides"
        raise InvalidValue(f"{HERE}.share", share, expected, "Write `share: 0.2` for a fifth of them, say.")
    return RecordsPart(
        use=PartUse(given["use"]), share=float(share), id=str(given["id"]), key=str(given.get("key", KEY))
    )


def check_others(
    part: RecordsPart | None, others: Mapping[str, tuple[str | None, str]], private_file: str | None
) -> None:
    """Test and validation records are taken of the part, by the same id and other keys. Raises InvalidValue.

    others        {option: (column of its hash if it has one, key)}
    private_file  of validation records that a claim covers: nothing parts them
    """
    if part is None:
        return
    if private_file is not None:
        expected = "a share of the records where data.part is declared, or a file of public ones"
        remedy = "Both sweeps would read that file: write `share` and `id`."
        raise InvalidValue("data.validation.path", private_file, expected, remedy)
    for option, (column, key) in others.items():
        if column is None:
            continue
        if column != part.id:
            expected = f"{part.id}, as in data.part.id: else somebody is in several parts"
            raise InvalidValue(f"{option}.id", column, expected, f"Write `id: {part.id}`.")
        if key == part.key:
            expected = f"another word than the key of data.part, {part.key!r}"
            raise InvalidValue(f"{option}.key", key, expected, "The same hash would take records of one part alone.")


def _one_spelling(column: str, one: object) -> str:
    """An id as one text, however the others of its file let the column be read: 007 among texts is 7 among numbers."""
    if isinstance(one, str):
        try:
            return str(int(one))
        except ValueError:
            return one
    if isinstance(one, int | np.integer) and not isinstance(one, bool):
        return str(int(one))
    raise InvalidValue(f"{HERE}.id", column, f"a column of whole numbers or texts, found {type(one).__name__}")
