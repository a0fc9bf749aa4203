"""Records that tune and those of the final run: one part of the records each, never both (`privacy.scope: holdout`).

data:
  part: {use: tuning, share: 0.2, id: person_id}     # of the sweep that tunes; `use: final` of the final run
  part: {use: tuning, share: 0.2}                    # where the source knows what decides

A keyed hash decides, before test and validation records are taken of the part: of each record's own id, or of its
content where records were published without one. The key is public and no sweep's own, and another word than those of
test and validation, so that the parts know nothing of each other. Records that come, go or move about move no other,
and nothing has to be kept: who is in which part is a function of the declaration and the one record.

By content, equal records are in one part. One whose content changes may change its part: it then counts as one that
left and one that came, which add-remove allows for and replace-one, where the parts would add, does not. So a part
under replace-one is refused, by content as by id (`sweeps.spec.final_section`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcore.checks import InvalidValue
from trainables.units import Unit, share_of

HERE, KEY = "data.part", "tuning"
FORM = "{use: tuning or final, share: in (0, 1)"
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


class ByContent(Enum):
    """In place of an id: all that a source knows of a record. No text, since a column may have any name."""

    CONTENT = "content"

    def __str__(self) -> str:
        return self.value


CONTENT = ByContent.CONTENT


class PartUse(StrEnum):
    """What a part of the records is for."""

    TUNING = "tuning"
    FINAL = "final"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsPart:
    """One of the two parts.

    share    of the records that tune, whichever part this is
    id, key  of the hash that decides; id is `CONTENT` where it is of all that a record holds
    """

    use: PartUse
    share: float
    id: str | ByContent
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
    def splits_as(self) -> tuple[float, str | ByContent, str]:
        """Equal of two parts of one split."""
        return self.share, self.id, self.key

    @property
    def assumption(self) -> str:
        """What a claim by it rests on."""
        chosen = (
            "share and key of the hash that parts the records that tune from those of the final run were chosen "
            "without looking at the records."
        )
        if self.id is CONTENT:
            return (
                "A record whose content changes counts as one that left and one that came, since its content decides "
                f"its part; {chosen}"
            )
        return f"The value of {self.id} is a record's own and never changes, and {chosen}"

    def treatment(self, unit: Unit | None) -> str:
        """What becomes of records that are alike, or of one id.  unit  that of the claim, if it is no record"""
        alike = "that are alike" if self.id is CONTENT else f"with the same {self.id}"
        own = "" if unit is not None else ", and each still counts as a record of its own"
        return f"Records {alike} are all in one part of data.part{own}."


def part_of(raw: object, n: int, decided_by: str | ByContent | None) -> RecordsPart | None:
    """What `data.part` says of `n` records or units. Raises InvalidValue.

    decided_by  the id that parts them, or `CONTENT`; None where `data.part` has to say
    """
    if raw is None:
        return None
    form = f"{FORM}, id: COLUMN}}" if decided_by is None else f"{FORM}}}"
    given = {} if not isinstance(raw, Mapping) else dict(raw)
    if decided_by is not None:
        given = {"id": str(decided_by), **given}
    share = given.get("share")
    sound = isinstance(share, int | float) and not isinstance(share, bool) and 0 < share < 1
    if not {"use", "share", "id"} <= set(given) <= {"use", "share", "id", "key"} or not sound:
        raise InvalidValue(HERE, raw, form, "A part by position would move other records when one is added.")
    if given["use"] not in list(PartUse):
        remedy = "The sweep that tunes reads the one, the final run the other."
        raise InvalidValue(f"{HERE}.use", given["use"], "tuning or final", remedy)
    if decided_by is not None and str(given["id"]) != str(decided_by):
        raise InvalidValue(
            f"{HERE}.id", given["id"], _decided(decided_by), f"Write `id: {decided_by}`, or leave it out."
        )
    assert isinstance(share, int | float)
    if not 0 < round(n * share) < n:
        expected = f"a share in (0, 1) that leaves records of n={n} on both sides"
        raise InvalidValue(f"{HERE}.share", share, expected, "Write `share: 0.2` for a fifth of them, say.")
    id_ = str(given["id"]) if decided_by is None else decided_by
    return RecordsPart(use=PartUse(given["use"]), share=float(share), id=id_, key=str(given.get("key", KEY)))


def _decided(by: str | ByContent) -> str:
    if by is CONTENT:
        return f"{CONTENT}, all that a record holds: these were published without another id"
    return f"{by}, which says whose a record is: another id would cut units in two"


def check_others(
    part: RecordsPart | None, others: Mapping[str, tuple[str | ByContent | None, str]], private_file: str | None
) -> None:
    """Test and validation records are taken of the part, by the same id and other keys. Raises InvalidValue.

    others        {option: (what its hash is of, if it has one, key)}
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


def _one_spelling(column: str | ByContent, one: object) -> str:
    """An id as one text, however the others of its file let the column be read: 007 among texts is 7 among numbers."""
    if isinstance(one, str):
        try:
            return str(int(one))
        except ValueError:
            return one
    if isinstance(one, int | np.integer) and not isinstance(one, bool):
        return str(int(one))
    raise InvalidValue(f"{HERE}.id", str(column), f"a column of whole numbers or texts, found {type(one).__name__}")
