"""What a spec declares about test records: those that nobody trains on or validates by, read once, at the end.

data:
  test:
    records: public          # or private: the score is one noised histogram, which is charged
    share: 0.1               # with `id`: a hash of each record's own id decides, before the validation part is taken
    id: person_id
  test: {records: public, path: test.parquet, n: 5000}     # or a file of its own, whose records are public

The hash is keyed with another word than the validation's (`key`), so that the two parts know nothing of each other.
A private part is always one by hash: no record of it is then among those that train or validate, whoever else is
there, and under add-remove its score composes with theirs in parallel (`dpcore.parallel`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from dpcore.checks import InvalidValue
from trainables.data import options
from trainables.data.file_paths import overlap
from trainables.system import Split
from trainables.units import Unit

HERE, KEY = "data.test", "test"
FORMS = "{records: public, path: FILE, n: RECORDS}, or {records: public or private, share: in (0, 1), id: COLUMN}"
SCHEMA: dict[str, object] = {
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
    key: str = KEY
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
        raise InvalidValue(HERE, raw, "{records: public} or {records: private}", remedy)
    return HeldOut(n=n, private=raw["records"] == "private", apart=apart)


def held_out(raw: object, n: int, unit: Unit | None, validation_id: str | None, validation_key: str) -> HeldOut | None:
    """What `data.test` says of `n` records or units. Raises InvalidValue.

    validation_id, validation_key  of a validation part by hash
    """
    if raw is None:
        return None
    if not isinstance(raw, Mapping) or raw.get("records") not in ("public", "private"):
        remedy = "public: the score leaves as it is, and no claim covers these records. private: it is noised."
        raise InvalidValue(HERE, raw, FORMS, remedy)
    private, given = raw["records"] == "private", {name: one for name, one in raw.items() if name != "records"}
    if set(given) == {"path", "n"} and isinstance(given["path"], str):
        if private:
            remedy = "Part them off by a hash of an id (share, id), or declare them public."
            raise InvalidValue(f"{HERE}.records", "private", "public for a file of their own", remedy)
        held = options.count("test.n", given["n"], doc="how many records the test file holds, or units")
        return HeldOut(n=held, private=False, path=given["path"])
    if unit is not None:
        given = {"id": unit.column, **given}
    if not {"share", "id"} <= set(given) <= {"share", "id", "key"}:
        raise InvalidValue(HERE, dict(raw), FORMS, "A part by position would move other records when one is added.")
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
                f"{HERE}.path",
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
    share, id_, key = given["share"], str(given["id"]), str(given.get("key", KEY))
    if not isinstance(share, int | float) or isinstance(share, bool) or not 0 < share < 1 or round(n * share) < 1:
        needed = f"a share in (0, 1) that is a record or more of n={n}"
        raise InvalidValue(f"{HERE}.share", share, needed, "Write `share: 0.1` for a tenth of them, say.")
    for whose, expected in (("data.unit.column", unit and unit.column), ("data.validation.id", validation_id)):
        if expected is not None and id_ != expected:
            remedy = f"Write `id: {expected}`, in `data.test` as there."
            raise InvalidValue(
                f"{HERE}.id", id_, f"{expected}, as in {whose}: else somebody is in several parts", remedy
            )
    if validation_id is not None and key == validation_key:
        remedy = "The same hash would take the validation part's records. Leave `key` out."
        raise InvalidValue(f"{HERE}.key", key, "another word than the key of data.validation", remedy)
    return HeldOut(n=round(n * share), private=private, share=float(share), id=id_, key=key)
