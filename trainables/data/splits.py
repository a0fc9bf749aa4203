"""What a spec declares about test records: those that nobody trains on or validates by, read once, at the end.

data:
  test:
    records: public          # or private: the score is one noised histogram, which is charged
    share: 0.1               # with `id`: a hash of each record's own id decides, before the validation part is taken
    id: person_id
  test: {records: public, path: test.parquet, n: 5000}     # or a file of its own, whose records are public

The hash is keyed with another word than the validation's (`key`), so that the two parts know nothing of each other.
A private part is always one by hash: no record of it is then among those that train or validate, whoever else is
there, and under add-remove its score composes with theirs in parallel (`dpcore.accounting`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum, StrEnum
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dpcore.checks import InvalidValue
from trainables.data import options, records
from trainables.data.files import overlap
from trainables.system import Dataset, PublicFacts, Split
from trainables.units import Unit, share_of

TEST, TEST_KEY = "data.test", "test"
FORMS = "{records: public, path: FILE, n: RECORDS}, or {records: public or private, share: in (0, 1), id: COLUMN}"
TEST_SCHEMA: dict[str, object] = {
    "type": ["object", "null"],
    "properties": {
        "records": {"enum": ["public", "private"]},
        "path": {"type": "string"},
        "n": {"type": "integer", "minimum": 1},
        "share": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        "id": {},
        "key": {},
    },
    "required": ["records"],
    "additionalProperties": False,
}
"""JSON schema of `data.test`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """The test records of a data set, as declared.

    n           how many there are, or units: declared, or the share of those declared
    private     whether the score is noised and charged
    path        of their own file; None: a share of the others, or those that were published apart
    share, id, key  of the hash that decides; 0 and empty with a file
    apart       what parted them off before anybody declared anything, in words; "" for others
    """

    n: int
    private: bool
    path: str | None = None
    share: float = 0.0
    id: str = ""
    key: str = TEST_KEY
    apart: str = ""

    @property
    def parts(self) -> str:
        """What decides on which side a record is, in words; empty with a file."""
        if self.apart:
            return self.apart
        return "" if self.path is not None else f"{self.id} under the key {self.key!r}, a share of {self.share!r}"

    @property
    def assumption(self) -> str:
        """What a claim by parallel composition rests on."""
        if self.apart:
            return f"Nobody has records on both sides of {self.apart}, whatever records come or go: declared."
        return (
            f"The value of {self.id} is a record's own and never changes, and the key that parts off test records by "
            "its hash was chosen without looking at the records."
        )


@runtime_checkable
class HasTestRecords(Protocol):
    """A data source that can part off test records: `load` gives none of them."""

    def held_out(self, options: Mapping[str, object]) -> HeldOut | None:
        """What is declared of them; None: there are none. Raises InvalidValue."""
        ...

    def load_held_out(self, options: Mapping[str, object]) -> Split:
        """The test records alone. Raises InvalidValue."""
        ...


def published_apart(raw: object, n: int, apart: str) -> HeldOut | None:
    """What `data.test` says of `n` records that were published apart from the others. Raises InvalidValue."""
    if raw is None:
        return None
    if not isinstance(raw, Mapping) or set(raw) != {"records"} or raw["records"] not in ("public", "private"):
        remedy = "public: the score leaves as it is, and no claim covers these records. private: it is noised."
        raise InvalidValue(TEST, raw, "{records: public} or {records: private}", remedy)
    return HeldOut(n=n, private=raw["records"] == "private", apart=apart)


def held_out(raw: object, n: int, unit: Unit | None, validation_id: str | None, validation_key: str) -> HeldOut | None:
    """What `data.test` says of `n` records or units. Raises InvalidValue.

    validation_id, validation_key  of a validation part by hash
    """
    if raw is None:
        return None
    if not isinstance(raw, Mapping) or raw.get("records") not in ("public", "private"):
        remedy = "public: the score leaves as it is, and no claim covers these records. private: it is noised."
        raise InvalidValue(TEST, raw, FORMS, remedy)
    private, given = raw["records"] == "private", {name: one for name, one in raw.items() if name != "records"}
    if set(given) == {"path", "n"} and isinstance(given["path"], str):
        if private:
            remedy = "Part them off by a hash of an id (share, id), or declare them public."
            raise InvalidValue(f"{TEST}.records", "private", "public for a file of their own", remedy)
        held = options.count("test.n", given["n"], doc="how many records the test file holds, or units")
        return HeldOut(n=held, private=False, path=given["path"])
    if unit is not None:
        given = {"id": unit.column, **given}
    if not {"share", "id"} <= set(given) <= {"share", "id", "key"}:
        raise InvalidValue(TEST, dict(raw), FORMS, "A part by position would move other records when one is added.")
    return _by_hash(given, n, private, unit, validation_id, validation_key)


def check_file(test: HeldOut | None, others: Mapping[str, str | None]) -> None:
    """A test file holds nothing that is trained on or validated by.

    others  {option: the file or folder that it names, if it names one}
    Raises InvalidValue.
    """
    if test is None or test.path is None:
        return
    for option, other in others.items():
        if other is not None and overlap(test.path, other):
            raise InvalidValue(
                f"{TEST}.path",
                test.path,
                f"a file apart from {other}, which {option} names",
                "Give a file that no trial reads, outside of its folder, or part test records off by `share` and `id`.",
            )


def _by_hash(
    given: Mapping[str, Any],
    n: int,
    private: bool,
    unit: Unit | None,
    validation_id: str | None,
    validation_key: str,
) -> HeldOut:
    share, id_, key = given["share"], str(given["id"]), str(given.get("key", TEST_KEY))
    if not isinstance(share, int | float) or isinstance(share, bool) or not 0 < share < 1 or round(n * share) < 1:
        needed = f"a share in (0, 1) that is a record or more of n={n}"
        raise InvalidValue(f"{TEST}.share", share, needed, "Write `share: 0.1` for a tenth of them, say.")
    for whose, expected in (("data.unit.column", unit and unit.column), ("data.validation.id", validation_id)):
        if expected is not None and id_ != expected:
            remedy = f"Write `id: {expected}`, in `data.test` as there."
            raise InvalidValue(
                f"{TEST}.id", id_, f"{expected}, as in {whose}: else somebody is in several parts", remedy
            )
    if validation_id is not None and key == validation_key:
        remedy = "The same hash would take the validation part's records. Leave `key` out."
        raise InvalidValue(f"{TEST}.key", key, "another word than the key of data.validation", remedy)
    return HeldOut(n=round(n * share), private=private, share=float(share), id=id_, key=key)


# Records that tune and those of the final run: one part of the records each, never both (`privacy.scope: holdout`).
#
# data: part: {use: tuning, share: 0.2, id: person_id} # of the sweep that tunes; `use: final` of the final run part:
# {use: tuning, share: 0.2} # where the source knows what decides
#
# A keyed hash decides, before test and validation records are taken of the part: of each record's own id, or of its
# content where records were published without one. The key is public and no sweep's own, and another word than those
# of test and validation, so that the parts know nothing of each other. Records that come, go or move about move no
# other, and nothing has to be kept: who is in which part is a function of the declaration and the one record.
#
# By content, equal records are in one part. One whose content changes may change its part: it then counts as one that
# left and one that came, which add-remove allows for and replace-one, where the parts would add, does not. So a part
# under replace-one is refused, by content as by id (`sweeps.spec.rules`).

PART, PART_KEY = "data.part", "tuning"
FORM = "{use: tuning or final, share: in (0, 1)"
PART_SCHEMA: dict[str, object] = {
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
    key: str = PART_KEY

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
        raise InvalidValue(PART, raw, form, "A part by position would move other records when one is added.")
    if given["use"] not in list(PartUse):
        remedy = "The sweep that tunes reads the one, the final run the other."
        raise InvalidValue(f"{PART}.use", given["use"], "tuning or final", remedy)
    if decided_by is not None and str(given["id"]) != str(decided_by):
        raise InvalidValue(
            f"{PART}.id", given["id"], _decided(decided_by), f"Write `id: {decided_by}`, or leave it out."
        )
    assert isinstance(share, int | float)
    if not 0 < round(n * share) < n:
        expected = f"a share in (0, 1) that leaves records of n={n} on both sides"
        raise InvalidValue(f"{PART}.share", share, expected, "Write `share: 0.2` for a fifth of them, say.")
    id_ = str(given["id"]) if decided_by is None else decided_by
    return RecordsPart(use=PartUse(given["use"]), share=float(share), id=id_, key=str(given.get("key", PART_KEY)))


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
    raise InvalidValue(f"{PART}.id", str(column), f"a column of whole numbers or texts, found {type(one).__name__}")


# What is left of facts and records where one part is read: see `trainables.data.splits`.
#
# Which part a record is in follows from the record alone: from its id, or from all that its source knows of it. So it
# is decided before anything is made of records (a map, features, a pool's draw would all do it in another way), and
# with a `limit`, of which the same positions count in both parts, no record is moved from one part to the other.


def facts_within(part: RecordsPart | None, facts: PublicFacts, *, validation: bool = False) -> PublicFacts:
    """Facts of one part of the training records, from those of all: numbers as declared, never counted.

    validation  whether validation records are some of those that are parted, too; else both parts have all of them
    Raises InvalidValue for a share that leaves no validation record.
    """
    if part is None:
        return facts
    judged = part.size(facts.n_validation) if validation else facts.n_validation
    if validation and facts.n_validation and not 0 < judged < facts.n_validation:
        expected = f"a share that leaves some of {facts.n_validation} validation records in both parts"
        raise InvalidValue(f"{PART}.share", part.share, expected, "Write `share: 0.2` for a fifth of them, say.")
    return replace(
        facts,
        n=part.size(facts.n),
        n_validation=judged,
        assumptions=(*facts.assumptions, part.assumption),
        treatment=(*facts.treatment, part.treatment(facts.unit)),
    )


def dataset_within(part: RecordsPart | None, data: Dataset, *, validation: bool = False) -> Dataset:
    """The records of one part, in their order, with its facts. Raises InvalidValue for a part of none, or of one class.

    data  all of them, with an id each (`Split.ids`) where their content is not what parts them
    """
    if part is None:
        return data
    facts = facts_within(part, data.facts, validation=validation)
    held = part.holds(_ids(data.train))
    units = data.units
    if units is None:
        rows = np.flatnonzero(held)
    else:
        # All records of a unit have its id.
        rows, units = units.picked(np.flatnonzero(held[units.offsets[:-1]]))
    train, judged = records.taken(data.train, rows), data.validation
    if validation:
        judged = records.taken(judged, np.flatnonzero(part.holds(_ids(judged))))
    if not len(train):
        expected = f"a share that leaves training records of {facts.dataset} in the part, found none"
        raise InvalidValue(f"{PART}.share", part.share, expected, "Write another share, or another `key`.")
    records.check_several_classes(facts, train)
    digest = records.fingerprint(train, judged, units=units)
    return replace(data, facts=facts, train=train, validation=judged, fingerprint=digest, units=units)


def _ids(split: Split) -> NDArray[np.generic]:
    """What decides about each record: [n]."""
    return contents(split) if split.ids is None else split.ids


def contents(split: Split) -> NDArray[np.generic]:
    """SHA-256 of each record's inputs and target, in hex: [n]. Equal records of equal types have one."""
    given = [array for _, array in sorted(split.inputs.items())] + [split.targets]
    columns = [array.astype(array.dtype.newbyteorder("<"), copy=False) for array in given]
    found = np.empty(len(split), dtype=object)
    for row in range(len(split)):
        digest = hashlib.sha256()
        for column in columns:
            digest.update(np.ascontiguousarray(column[row]).tobytes())
        found[row] = digest.hexdigest()
    return found
