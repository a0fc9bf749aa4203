"""Splits by a keyed hash of each record's own id: validation and test records, and the part that tunes.

data:
  validation: {records: private, share: 0.2, id: person_id}    # or a file of its own: {records: public, path, n}
  test: {records: public, share: 0.1, id: person_id}           # read once, at the end; or a file of public records
  part: {use: tuning, share: 0.2, id: person_id}               # `use: final` of the final run, on the other part

An id decides, or the content of records that were published without one, and nothing else: records that come, go or
move about move no other, and nothing has to be kept. Keys are public and no sweep's own. The part is taken first, test
records of it, and validation records of what is left; each has another key, so that they know nothing of each other.

A private test part is always one by hash: no record of it is then among those that train or validate, whoever else is
there, and under add-remove its score composes with theirs in parallel (`dpcore.accounting.headline_of_parts`).

By content, equal records are in one part. One whose content changes may change its part: it then counts as one that
left and one that came, which add-remove allows for and replace-one, where the parts would add, does not.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import PurePath
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from dpcore.checks import InvalidValue
from trainables.data import records
from trainables.data.options import Options, Share, Whole, Word
from trainables.reports import Bins, PrivateValidation
from trainables.system import Dataset, DatasetSpec, Split
from trainables.units import Unit, share_of

PART, TEST, VALIDATION = "data.part", "data.test", "data.validation"
PART_KEY, TEST_KEY, VALIDATION_KEY = "tuning", "test", "validation"
_BY_POSITION = "A split by position would move other records when one is added or removed."
_PUBLIC_OR_PRIVATE = "public or private: public ones leave scores as they are, and no claim covers them"
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_ALIASES = {"gcs": "gs"}
"""Schemes that pyarrow takes for others."""


class ByContent(Enum):
    """In place of an id: all that a source knows of a record. No text, since a column may have any name."""

    CONTENT = "content"

    def __str__(self) -> str:
        return self.value


CONTENT = ByContent.CONTENT


Use = Literal["tuning", "final"]
"""What a part of the records is for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HashSplit:
    """Records on two sides, each by its own id alone; nothing is taken where `share` is 0.

    share  of the records that are taken
    id     the column that decides, or `CONTENT`; "" without a share
    key    of the hash
    """

    share: float = 0.0
    id: str | ByContent = ""
    key: str = ""

    def taken(self, ids: NDArray[Any]) -> NDArray[np.bool_]:
        """Which records are taken: [n]. Raises InvalidValue for ids that are neither whole numbers nor texts."""
        return np.array([share_of(self.key, one_spelling(self.id, one)) < self.share for one in ids], dtype=bool)


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationSplit(HashSplit):
    """Where validation records come from: another file, a hash, or (neither) nowhere.

    n        of the file, records or units
    private  how they enter a claim; None where they are public
    """

    path: str | None = None
    n: int = 0
    private: PrivateValidation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TestSplit(HashSplit):
    """The test records of a data set, as declared.

    n        how many there are, or units: declared, or the share of those declared
    private  whether the score is noised and charged
    path     of their own file; None: a share of the others, or those that were published apart
    apart    what parted them off before anybody declared anything, in words; "" for others
    """

    n: int
    private: bool
    path: str | None = None
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PartSplit(HashSplit):
    """One of the two parts of `privacy.scope: holdout`; the share is that of the records that tune."""

    use: Use
    key: str = PART_KEY

    def size(self, n: int) -> int:
        """How many of n records, or units, it has: as declared."""
        tuning = round(n * self.share)
        return tuning if self.use == "tuning" else n - tuning

    def holds(self, ids: NDArray[Any]) -> NDArray[np.bool_]:
        """Which records are in it: [n]. Raises InvalidValue as `taken` does."""
        tuning = self.taken(ids)
        return tuning if self.use == "tuning" else ~tuning

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


def one_spelling(column: str | ByContent, one: object) -> str:
    """An id as one text, however the others of its file let the column be read: 007 among texts is 7 among numbers."""
    if isinstance(one, str | int | np.integer) and not isinstance(one, bool):
        try:
            return str(int(one))
        except ValueError:
            return str(one)
    raise InvalidValue(f"{PART}.id", str(column), f"a column of whole numbers or texts, found {type(one).__name__}")


def share_of_records(where: str, share: float, n: int) -> int:
    """How many of n records, or units, the share of option `where` is. Raises InvalidValue for none of them, or all."""
    taken = round(n * share)
    if not 0 < taken < n:
        expected = f"a share in (0, 1) that leaves records of n={n} on both sides"
        raise InvalidValue(f"{where}.share", share, expected, "Write `share: 0.2` for a fifth of them, say.")
    return taken


class RecordsOptions(Options):
    """Whether validation records are public or private, and what private ones may spend."""

    records: Literal["public", "private"] = Field(
        description="public or private, which says whose data the validation records are. public: metrics on them "
        "leave as they are, and no claim covers these records. private: metrics come from a noised histogram, and the "
        "claim covers them"
    )
    budget_share: float | None = Field(
        None, strict=True, gt=0, le=1, description="of private ones, a share of the budget's squared mu"
    )
    bins: Bins | None = Field(None, description="of private ones of more than two classes: of the loss or the score")

    def private(self, parts: str, assumption: str) -> PrivateValidation | None:
        """None for public records.  parts, assumption  see `PrivateValidation`. Raises InvalidValue."""
        if self.records == "private":
            return PrivateValidation(
                parts=parts, assumption=assumption, budget_share=self.budget_share, bins=self.bins or "loss"
            )
        for name, value in (("budget_share", self.budget_share), ("bins", self.bins)):
            if value is not None:
                raise InvalidValue(f"{VALIDATION}.{name}", value, "records: private beside it", "Drop it.")
        return None


class SharedValidationOptions(RecordsOptions):
    """Of a source whose training records are parted by their content."""

    share: Share = Field(description="the share of the training records that validates")
    key: Word = Field(VALIDATION_KEY, description="of the hash")


class ApartOptions(Options):
    """Of records that are parted off: a share of all of them, or a file of their own."""

    path: str | None = Field(None, description="of a file with these records")
    n: Whole | None = Field(None, description="how many records that file holds, or units")
    share: Share | None = Field(None, description="the share of all records that is taken, by a hash of a stable id")
    id: Word | None = Field(None, description="the column with that id")
    key: Word | None = Field(None, description="of the hash")

    def in_file(self, where: str) -> int:
        """How many records the file of option `where` holds. Raises InvalidValue."""
        for name in ("share", "id", "key"):
            if (value := getattr(self, name)) is not None:
                expected = "nothing beside `path`: the file is not parted"
                raise InvalidValue(f"{where}.{name}", value, expected, "Drop one.")
        if self.n is None:
            raise InvalidValue(f"{where}.n", None, "how many records the file holds, or units", "Declare it.")
        return self.n

    def by_hash(self, where: str, unit: Unit | None, key: str) -> HashSplit:
        """The records that are taken by a hash. Raises InvalidValue."""
        id_ = self.id or (None if unit is None else unit.column)
        if self.share is None or id_ is None or self.n is not None:
            forms = "{path: FILE, n: RECORDS}, or {share: in (0, 1), id: COLUMN} for a split by a hash of a stable id"
            raise InvalidValue(where, self.model_dump(exclude_unset=True), forms, _BY_POSITION)
        if unit is not None and id_ != unit.column:
            expected = f"{unit.column}, as in data.unit.column: a split by another id would cut units in two"
            raise InvalidValue(f"{where}.id", id_, expected, f"Write `id: {unit.column}`, or leave it out.")
        return HashSplit(share=self.share, id=id_, key=self.key or key)


class ValidationOptions(ApartOptions, RecordsOptions):
    """Of validation records: a share of all, or a file beside them."""

    disjoint: bool | None = Field(
        None, strict=True, description="whether nobody has records in both files, whatever records come or go"
    )

    def split(self, n: int, unit: Unit | None, path: str) -> ValidationSplit:
        """What it says of `n` records or units in the file `path`. Raises InvalidValue."""
        if self.path is not None:
            count = self.in_file(VALIDATION)
            return ValidationSplit(path=self.path, n=count, private=self._other_file(self.path, path))
        found = self.by_hash(VALIDATION, unit, VALIDATION_KEY)
        if self.disjoint is not None:
            expected = "a validation file beside it: a hash parts records by itself"
            raise InvalidValue(f"{VALIDATION}.disjoint", self.disjoint, expected, "Drop it.")
        share_of_records(VALIDATION, found.share, n)
        by = f"by the hash of {found.id} under the key {found.key!r}, a share of {found.share!r}"
        private = self.private(
            parts=f"records of {path} {by}",
            assumption=f"The value of {found.id} is a record's own and never changes, and the key that splits by its "
            "hash was chosen without looking at the records.",
        )
        return ValidationSplit(share=found.share, id=found.id, key=found.key, private=private)

    def _other_file(self, own: str, path: str) -> PrivateValidation | None:
        same = overlap(own, path)
        if self.disjoint and same:
            expected = "two files: this one would be disjoint from itself"
            raise InvalidValue(f"{VALIDATION}.disjoint", True, expected, "Drop it.")
        if self.disjoint:
            word = f"Nobody has records in both {path} and {own}, whatever records come or go: declared."
            return self.private(parts=f"{path} and {own}, declared to share nobody", assumption=word)
        declared = self.private(parts="", assumption="")
        if declared is None and same:
            expected = f"private for records of {path}, which a claim covers"
            remedy = "Give another file, or call the records private: training and validation then add."
            raise InvalidValue(f"{VALIDATION}.records", "public", expected, remedy)
        return declared


class PublishedTestOptions(Options):
    """Of test records that were published apart from the others."""

    records: Literal["public", "private"] = Field(description=_PUBLIC_OR_PRIVATE)

    def apart(self, n: int, by: str) -> TestSplit:
        """What it says of `n` records that are apart by `by`, in words."""
        return TestSplit(n=n, private=self.records == "private", apart=by, key=TEST_KEY)


class TestOptions(ApartOptions, PublishedTestOptions):
    """Of test records: a share of all, or a file of public ones."""

    def split(self, n: int, unit: Unit | None, path: str, validation: ValidationSplit) -> TestSplit:
        """What it says of `n` records or units in the file `path`. Raises InvalidValue."""
        private = self.records == "private"
        if self.path is not None:
            if private:
                remedy = "Part them off by a hash of an id (share, id), or declare them public."
                raise InvalidValue(f"{TEST}.records", "private", "public for a file of their own", remedy)
            for option, other in (("data.path", path), (f"{VALIDATION}.path", validation.path)):
                if other is not None and overlap(self.path, other):
                    expected = f"a file apart from {other}, which {option} names"
                    remedy = (
                        "Give a file that no trial reads, outside of its folder, or part test records off by `share` "
                        "and `id`."
                    )
                    raise InvalidValue(f"{TEST}.path", self.path, expected, remedy)
            return TestSplit(n=self.in_file(TEST), private=False, path=self.path, key=TEST_KEY)
        found = self.by_hash(TEST, unit, TEST_KEY)
        taken = share_of_records(TEST, found.share, n)
        check_beside(TEST, found, VALIDATION, validation)
        return TestSplit(n=taken, private=private, share=found.share, id=found.id, key=found.key)


class PartOptions(Options):
    """The part of the records that a sweep reads."""

    use: Use = Field(description="which part is read: the sweep that tunes reads the one, the final run the other")
    share: Share = Field(description="the share of the records that tune. A part by position would move others")
    id: Word | None = Field(None, description="the column whose hash decides, where the source does not know it")
    key: Word = Field(PART_KEY, description="of the hash")

    def part(self, n: int, decided_by: str | ByContent | None) -> PartSplit:
        """What it says of `n` records or units. Raises InvalidValue.

        decided_by  the id that parts them, or `CONTENT`; None where it has to say
        """
        if decided_by is None and self.id is None:
            remedy = f"Write `id: COLUMN`. {_BY_POSITION}"
            raise InvalidValue(f"{PART}.id", None, "the column whose hash decides", remedy)
        if decided_by is not None and self.id not in (None, str(decided_by)):
            what = (
                f"{CONTENT}, all that a record holds: these were published without another id"
                if decided_by is CONTENT
                else f"{decided_by}, which says whose a record is: another id would cut units in two"
            )
            raise InvalidValue(f"{PART}.id", self.id, what, f"Write `id: {decided_by}`, or leave it out.")
        share_of_records(PART, self.share, n)
        return PartSplit(use=self.use, share=self.share, id=decided_by or self.id or "", key=self.key)


def check_beside(where: str, split: HashSplit, other_at: str, other: HashSplit) -> None:
    """Two splits of one file take records by the same id and other keys. Raises InvalidValue at the first."""
    if not split.id or not other.id:
        return
    if split.id != other.id:
        expected = f"{other.id}, as in {other_at}.id: else somebody is in several parts"
        raise InvalidValue(f"{where}.id", split.id, expected, f"Write `id: {other.id}`.")
    if split.key == other.key:
        expected = f"another word than the key of {other_at}, {other.key!r}"
        raise InvalidValue(f"{where}.key", split.key, expected, "The same hash would take records of one part alone.")


def facts_within(part: PartSplit | None, facts: DatasetSpec, *, validation: bool = False) -> DatasetSpec:
    """Facts of one part of the training records, from those of all: numbers as declared, never counted.

    validation  whether validation records are some of those that are parted, too; else both parts have all of them
    Raises InvalidValue for a share that leaves no validation record.
    """
    if part is None:
        return facts
    judged = part.size(facts.n_validation) if validation else facts.n_validation
    if validation and facts.n_validation:
        share_of_records(PART, part.share, facts.n_validation)
    return replace(
        facts,
        n=part.size(facts.n),
        n_validation=judged,
        assumptions=(*facts.assumptions, part.assumption),
        treatment=(*facts.treatment, part.treatment(facts.unit)),
    )


def dataset_within(part: PartSplit | None, data: Dataset, *, validation: bool = False) -> Dataset:
    """The records of one part, in their order, with its facts. Raises InvalidValue for a part of none, or of one class.

    It is decided before anything is made of records (a map, features), and with a `limit`, of which the same positions
    count in both parts, no record is moved from one part to the other.

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


def overlap(one: str, other: str) -> bool:
    """Whether two paths are the same, or one lies in the other, however they are written. Opens no file."""
    parts = [PurePath(written_out(text)).parts for text in (one, other)]
    shorter = min(map(len, parts))
    return parts[0][:shorter] == parts[1][:shorter]


def written_out(path: str) -> str:
    """A path in full, links followed; a URL by what it names alone: without account, options and the spelling of signs,
    that of a local file as its path. Opens no file."""
    if not _URL.match(path):
        return os.path.realpath(os.path.expanduser(path))
    scheme, account, place, *_ = urlsplit(path)
    if scheme == "file":
        return os.path.realpath(unquote(place))
    return f"{_ALIASES.get(scheme, scheme)}://{account.rpartition('@')[2]}{unquote(place)}"
