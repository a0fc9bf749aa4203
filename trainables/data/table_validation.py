"""Where the validation records of a table come from, and whether a claim covers them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpcore.checks import InvalidValue
from trainables.data import options
from trainables.data.file_paths import overlap
from trainables.units import Unit
from trainables.validation.declaration import DISJOINT, OPTIONS, PrivateValidation, private

_JUDGED = "how many records the validation file holds, or units"


@dataclass(frozen=True, slots=True)
class Validation:
    """Where validation records come from: another file, a share by hashed id, or (neither) nowhere."""

    path: str | None = None
    n: int = 0
    share: float = 0.0
    id: str | None = None
    key: str = "validation"
    private: PrivateValidation | None = None


def validation_of(raw: object, n: int, unit: Unit | None, path: str) -> Validation:
    """What a spec declares as `data.validation` of `n` records in `path`. Raises InvalidValue."""
    if raw is None:
        return Validation()
    if unit is not None and isinstance(raw, Mapping) and "share" in raw:
        raw = {"id": unit.column, **raw}
        if raw["id"] != unit.column:
            expected = f"{unit.column}: a split by another id would cut units in two"
            raise InvalidValue("data.validation.id", raw["id"], expected)
    split = {name: value for name, value in raw.items() if name not in OPTIONS} if isinstance(raw, Mapping) else {}
    if isinstance(raw, Mapping) and set(split) == {"path", "n"} and isinstance(raw["path"], str):
        return Validation(
            path=raw["path"], n=options.count("validation.n", raw["n"], doc=_JUDGED), private=_other_file(raw, path)
        )
    if isinstance(raw, Mapping) and {"share", "id"} <= set(split) <= {"share", "id", "key"}:
        share, id_, key = raw["share"], str(raw["id"]), str(raw.get("key", "validation"))
        if isinstance(share, int | float) and 0 < share < 1 and 0 < round(n * share) < n:
            return Validation(share=float(share), id=id_, key=key, private=_hashed(raw, path, id_, key))
    raise InvalidValue(
        "data.validation",
        raw,
        "{path: FILE, n: RECORDS}, or {share: in (0, 1), id: COLUMN} for a split by a hash of a stable id",
        "A split by position would move other records when one is added or removed.",
    )


def _hashed(raw: Mapping[str, Any], path: str, id_: str, key: str) -> PrivateValidation | None:
    if DISJOINT in raw:
        raise InvalidValue(
            f"data.validation.{DISJOINT}", raw[DISJOINT], "a validation file beside it: a hash parts records by itself"
        )
    return private(
        raw,
        parts=f"records of {path} by the hash of {id_} under the key {key!r}, a share of {float(raw['share'])!r}",
        assumption=f"The value of {id_} is a record's own and never changes, and the key that splits by its hash was "
        "chosen without looking at the records.",
    )


def _other_file(raw: Mapping[str, Any], path: str) -> PrivateValidation | None:
    disjoint, same = raw.get(DISJOINT, False), overlap(raw["path"], path)
    if not isinstance(disjoint, bool):
        raise InvalidValue(f"data.validation.{DISJOINT}", disjoint, "true or false")
    if not disjoint:
        declared = private(raw, parts="", assumption="")
        if declared is None and same:
            raise InvalidValue(
                "data.validation.records",
                "public",
                f"private for records of {path}, which a claim covers",
                "Give another file, or call the records private: training and validation then add.",
            )
        return declared
    if same:
        raise InvalidValue(
            f"data.validation.{DISJOINT}", True, "two files: this one would be disjoint from itself", "Drop it."
        )
    return private(
        raw,
        parts=f"{path} and {raw['path']}, declared to share nobody",
        assumption=f"Nobody has records in both {path} and {raw['path']}, whatever records come or go: declared.",
    )
