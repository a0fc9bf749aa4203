"""The user's own table: Parquet or CSV through pyarrow, local or on an object store, described in the spec.

The split hashes a stable id of each record (of its unit, where `unit` is declared) with a public key, so that adding or
removing one moves no other. Numbers are cut to the declared bounds and scaled by them; nothing is measured on private
records.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpcore.checks import InvalidValue, QuotesRecords
from trainables.data import records, table_file
from trainables.data.options import Option, listed, read
from trainables.data.source import HoldsOut
from trainables.data.splits import PartSplit, TestSplit
from trainables.data.table_declaration import JOINED, Column, Schema, TableOptions, schema
from trainables.system import Dataset, DatasetSpec, Groups, Split, Task
from trainables.units import Unit

if TYPE_CHECKING:
    import pyarrow as pa

COUNT_TOLERANCE = 0.1
"""The declared n is a constant of the mechanism; it may differ from the records present, but not be a typing error."""


_EXACT = 2**53
"""Whole numbers up to here are numbers with a point, exactly."""
_ANOTHER_ID = (
    "Write it as texts, or take a column of its own: with numbers that have a point one record moves all others."
)
_MISSING = frozenset({"", "na", "n/a", "#n/a", "<na>", "nan", "null", "none"})
"""Texts that stand for a missing id in the files of spreadsheets, databases and pandas."""


class Table(HoldsOut):
    """`data: {source: table, ...}`: see trainables.data.table_declaration for every option."""

    name = "table"
    doc = "your own Parquet or CSV, local, s3:// or gs://; declare n, label, columns and classes; option unit"

    @property
    def options(self) -> tuple[Option, ...]:
        """See `FeaturedSource.options`."""
        return listed(TableOptions)

    def read(self, options: Mapping[str, object]) -> TableOptions:
        """The options, checked each by itself. Raises InvalidOptions."""
        return read(TableOptions, self.name, options)

    def record_facts(self, options: Mapping[str, object]) -> DatasetSpec:
        """The facts; touches no file. Raises InvalidValue."""
        return schema(self.read(options)).facts()

    def inspect_records(self, options: Mapping[str, object]) -> None:
        """The files and their columns; types too, where the files tell them. Raises InvalidValue."""
        asked = self.read(options)
        declared = schema(asked)
        table_file.inspect(asked.path, asked.format, declared)
        held = None if declared.test is None else declared.test.path
        for other in (declared.validation.path, held):
            if other is not None:
                table_file.inspect(other, asked.format, declared)

    def load_records(self, options: Mapping[str, object]) -> Dataset:
        """The records. Raises InvalidValue (file, columns, missing values, categories, labels, count)."""
        asked = self.read(options)
        declared, form = schema(asked), asked.format
        everything = _records(asked.path, form, declared, declared.n)
        _check_test_file(asked, declared, everything.ids)
        validation, beside = declared.validation, None
        if validation.path is not None:
            beside = _records(validation.path, form, declared, validation.n)
            if declared.unit is not None:
                # Before test units are parted off: who is one of them may be in no second file either.
                ids, others = everything.ids, beside.ids
                _check_apart(declared.unit, ids, others, "data.validation.path", validation.path, "data.path")
        everything = everything.within(declared.part)
        if declared.test is not None and declared.test.path is None:
            everything = everything.at(~declared.test.taken(everything.ids))
        if beside is not None:
            parts = [everything, beside]
        else:
            held_out = np.zeros(len(everything.split), dtype=bool)
            if validation.share:
                held_out = validation.taken(everything.ids)
            parts = [everything.at(~held_out), everything.at(held_out)]
        facts = declared.facts()
        if declared.unit is None:
            return records.dataset(facts, *(part.split for part in parts))
        (train, units), (judged, _) = [records.by_unit(part.split, part.ids, declared.unit) for part in parts]
        return records.dataset(facts, train, judged, units=units)

    def record_part(self, options: Mapping[str, object]) -> PartSplit | None:
        """See `FeaturedSource.part`."""
        return schema(self.read(options)).part

    def declared_test(self, options: Mapping[str, object]) -> TestSplit | None:
        """See `HoldsOut.held_out`."""
        return schema(self.read(options)).test

    def load_test(self, options: Mapping[str, object]) -> Split:
        """The test records alone, whole units where one is declared. Raises InvalidValue as `load_records` does."""
        asked = self.read(options)
        declared = schema(asked)
        test, facts = declared.test, declared.facts()
        if test is None:
            expected = "a part of the records, or a file, that is declared for the test"
            raise InvalidValue("data.test", None, expected, "Declare it in the spec of a new sweep.")
        others = _records(asked.path, asked.format, declared, declared.n)
        if test.path is None:
            others = others.within(declared.part)
            found = others.at(test.taken(others.ids))
        else:
            found = _records(test.path, asked.format, declared, test.n)
            _check_test_file(asked, declared, others.ids)
        split = found.split if declared.unit is None else records.by_unit(found.split, found.ids, declared.unit)[0]
        return records.checked(facts, "test", split)


@dataclass(frozen=True, slots=True)
class _Records:
    """Records and, where units or a split ask for them, the stable id of each: [n] or empty."""

    split: Split
    ids: NDArray[Any]

    def at(self, which: NDArray[np.bool_]) -> _Records:
        return _Records(
            records.taken(self.split, np.flatnonzero(which)), self.ids[which] if len(self.ids) else self.ids
        )

    def within(self, part: PartSplit | None) -> _Records:
        """Those of one part; all of them without one. Raises InvalidValue for ids of another kind."""
        return self if part is None else self.at(part.holds(self.ids))


def _records(where: object, form: str | None, declared: Schema, n: int) -> _Records:
    """All records of one file. Raises InvalidValue."""
    table = table_file.read(where, form, declared.names, declared.texts)
    ids: NDArray[Any]
    if declared.unit is not None:
        ids = _unit_ids(where, table, declared.unit)
        _count(where, len(set(ids)), n, f"values of {declared.unit.column}")
    else:
        _count(where, len(table), n, "records")
        id_ = declared.id
        ids = np.zeros(0) if id_ is None else _split_ids(where, table, id_)
    return _Records(_split(where, table, declared), ids)


def _check_test_file(asked: TableOptions, declared: Schema, trained: NDArray[Any]) -> None:
    """No unit of a test file is trained on or validated by: `trained` are the ids in the file of data.path.

    Of the other files it reads the ids alone.
    """
    unit, test, validation = declared.unit, declared.test, declared.validation
    if unit is None or test is None or test.path is None:
        return
    found = _ids_in(test.path, asked.format, unit)
    others = {"data.path": trained}
    if validation.path is not None:
        others["data.validation.path"] = _ids_in(validation.path, asked.format, unit)
    for option, ids in others.items():
        _check_apart(unit, ids, found, "data.test.path", test.path, option)


def _ids_in(path: str, form: str | None, unit: Unit) -> NDArray[Any]:
    return _unit_ids(path, table_file.read(path, form, (unit.column,), (unit.column,)), unit)


def _check_apart(unit: Unit, ids: NDArray[Any], found: NDArray[Any], option: str, path: str, other: str) -> None:
    """No unit is in two files: the one of `option` holds `found`, the one of the option `other` holds `ids`."""
    # 007 among texts of one file is 7 among numbers of the other.
    held, others = ({str(int(one)) if one.isdecimal() else one for one in each} for each in (ids, found))
    if shared := held & others:
        raise InvalidValue(
            option,
            path,
            f"no {unit.column} that is in the file of {other} too, found {len(shared)}",
            "Put all records of a unit into one of the files.",
        )


def _count(where: object, found: int, declared: int, of: str) -> None:
    if found == 0:
        raise InvalidValue("data.path", where, "at least one record, found none")
    if abs(found - declared) > max(1.0, COUNT_TOLERANCE * declared):
        raise InvalidValue(
            "data.n", declared, f"a number within {COUNT_TOLERANCE:.0%} of the {of} in {where}", "Declare another n."
        )


def _split_ids(where: object, table: pa.Table, column: str) -> NDArray[Any]:
    """What parts each record. Raises InvalidValue for a missing one, and for others than whole numbers and texts."""
    ids = _values(where, table, column)
    here, of_texts = f"data.columns.{column}", ids.dtype == object
    if missing := sum(isinstance(one, str) and not one for one in ids):
        expected = f"an id in every record of {where}, found {missing} missing"
        raise InvalidValue(here, column, expected, "Give them one, or drop them, before the sweep.")
    if not (all(isinstance(one, str) for one in ids) if of_texts else ids.dtype.kind in "iu"):
        # 7 would be 7.0 as soon as one record has 7.5 there, and all records would be parted anew.
        expected = f"whole numbers or texts in {where}, which part the records; found {ids.dtype}"
        raise InvalidValue(here, column, expected, _ANOTHER_ID)
    return ids


def _unit_ids(where: object, table: pa.Table, unit: Unit) -> NDArray[np.object_]:
    """The id of each record's unit as a text. Raises InvalidValue for a missing one, and for numbers with a point."""
    column = table.column(unit.column)
    ids = [None if one == "" else one for one in column.to_pylist()]
    if missing := ids.count(None):
        raise InvalidValue(
            "data.unit.column",
            unit.column,
            f"an id in every record of {where}, found {missing} missing",
            "Find out whose these records are, or drop them, before the sweep.",
        )
    texts = [one for one in ids if isinstance(one, str)]
    meant = sorted({repr(one) for one in texts if one.strip().lower() in _MISSING})
    meant += ["texts with spaces around them"] * any(one != one.strip() for one in texts)
    meant += ["texts with signs that are not seen, or not in Unicode's form NFC"] * any(map(_looks_like_another, texts))
    if meant:
        raise QuotesRecords(
            "data.unit.column",
            unit.column,
            f"ids in {where}, found {', '.join(meant)}",
            "A word for a missing id makes one unit of many people, and two spellings two ids of one: correct them.",
        )
    if wrong := {type(one).__name__ for one in ids} - {"int", "str"}:
        raise InvalidValue(
            "data.unit.column", unit.column, f"whole numbers or texts in {where}, found {', '.join(sorted(wrong))}"
        )
    return np.array([str(one) for one in ids], dtype=object)


def _looks_like_another(id_: str) -> bool:
    """Whether an id may look like one that it is not equal to."""
    return not id_.isprintable() or not unicodedata.is_normalized("NFC", id_)


def encoded(where: object, table: pa.Table, columns: Sequence[Column]) -> dict[str, NDArray[np.generic]]:
    """The inputs [n, *shape] of declared `columns`: cut, scaled, one-hot or as codes. `where` names them in errors.

    Raises InvalidValue for a column that is missing, of another kind, or holds what was not declared.
    """
    inputs: dict[str, NDArray[np.generic]] = {}
    joined = [_dense(where, table, column) for column in columns if not column.own_feature]
    if joined:
        inputs[JOINED] = np.concatenate(joined, axis=1)
    for column in columns:
        if column.own_feature:
            inputs[column.name] = _own(where, table, column)
    return inputs


def _split(where: object, table: pa.Table, declared: Schema) -> Split:
    weights, groups = declared.weights, declared.groups
    return Split(
        inputs=encoded(where, table, declared.columns),
        targets=_targets(where, table, declared),
        weights=None
        if weights is None or not weights.column
        else _numbers(where, weights.column, _values(where, table, weights.column)).astype(np.float32),
        groups=None if groups is None else _group_codes(where, table, groups),
    )


def _group_codes(where: object, table: pa.Table, groups: Groups) -> NDArray[np.int64]:
    """[n], positions in the declared categories. Raises InvalidValue for others."""
    values = [str(one) for one in _values(where, table, groups.column).tolist()]
    position = {value: i for i, value in enumerate(groups.categories)}
    if unknown := sorted(set(values) - position.keys()):
        raise QuotesRecords(
            "data.groups",
            list(groups.categories)[:10],
            f"every value of column {groups.column} in {where}, which also has {', '.join(unknown[:5])}",
            "Declare them in `categories`, or correct the records.",
        )
    return np.array([position[value] for value in values], dtype=np.int64)


def _dense(where: object, table: pa.Table, column: Column) -> NDArray[np.float32]:
    """[n, width]"""
    if column.categories:
        codes = _positions(where, table, column.name, column.categories, "categories")
        return np.eye(len(column.categories), dtype=np.float32)[codes]
    return _scaled(column, _numbers(where, column.name, _values(where, table, column.name)))[:, None]


def _own(where: object, table: pa.Table, column: Column) -> NDArray[np.generic]:
    """[n, *shape]"""
    values = _values(where, table, column.name)
    if column.shape:
        size = math.prod(column.shape)
        wrong = [i for i, one in enumerate(values) if not isinstance(one, np.ndarray | list) or len(one) != size]
        if wrong:
            raise InvalidValue(
                f"data.columns.{column.name}", where, f"lists of {size} numbers, row {wrong[0]} has another length"
            )
        flat = np.array(list(values)) if len(values) else np.zeros((0, size))
        values = flat.reshape(len(values), *column.shape)
    numbers = _numbers(where, column.name, values)
    return numbers if column.codes is not None else _scaled(column, numbers)


def _targets(where: object, table: pa.Table, declared: Schema) -> NDArray[np.generic]:
    if declared.task is Task.REGRESSION:
        return _numbers(where, declared.label, _values(where, table, declared.label))
    return _positions(where, table, declared.label, declared.classes, "classes")


def _scaled(column: Column, numbers: NDArray[np.float64]) -> NDArray[np.float32]:
    # NaN passes through the cut and is refused by the checks of the whole data set.
    return ((np.clip(numbers, column.low, column.high) - column.low) / (column.high - column.low)).astype(np.float32)


def _numbers(where: object, name: str, values: NDArray[Any]) -> NDArray[np.float64]:
    if len(values) and values.dtype.kind not in "fiub":
        remedy = "Turn it into numbers (of a date: days since a public one), or declare its `categories`."
        raise InvalidValue(f"data.columns.{name}", where, f"a column of numbers, found {values.dtype}", remedy)
    return values.astype(np.float64)


def _positions(
    where: object, table: pa.Table, name: str, known: tuple[Any, ...], declared_in: str
) -> NDArray[np.int64]:
    values = _values(where, table, name)
    if values.dtype.kind == "f" and any(isinstance(one, int) and abs(one) > _EXACT for one in known):
        # One record with a point in a CSV file makes such numbers of all, and neighbours one and the same.
        expected = f"whole numbers in {where}, which are declared beyond 2^53: others are read as the nearest of many"
        raise InvalidValue(
            f"data.{declared_in}", name, expected, "Declare them as texts, in quotes, and write them so."
        )
    position = {value: i for i, value in enumerate(known)}
    unknown = sorted({repr(value) for value in values.tolist() if value not in position})
    if unknown:
        raise QuotesRecords(
            f"data.{declared_in}",
            list(known)[:10],
            f"every value of column {name} in {where}, which also has {', '.join(unknown[:5])}",
            f"Declare them in `{declared_in}`, or correct the records.",
        )
    return np.array([position[value] for value in values.tolist()], dtype=np.int64)


def _values(where: object, table: pa.Table, name: str) -> NDArray[Any]:
    column = table.column(name)
    if column.null_count:
        raise InvalidValue(
            f"data.columns.{name}",
            where,
            f"a value in every record, found {column.null_count} missing",
            "Drop these records or give the missing values a public constant.",
        )
    values: NDArray[Any] = column.to_numpy()
    return values


TABLE = Table()
