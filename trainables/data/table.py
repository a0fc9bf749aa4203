"""The user's own table: Parquet or CSV through pyarrow, local or on an object store, described in the spec.

The split hashes a stable id of each record (of its unit, where `unit` is declared) with a public key, so that adding or
removing one moves no other. Numbers are cut to the declared bounds and scaled by them; nothing is measured on private
records.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpcore.checks import InvalidValue, QuotesRecords
from trainables import plugins
from trainables.data import records, table_file
from trainables.data.encoded import pixels, token_codes
from trainables.data.source import HoldsOut
from trainables.data.splits import PartSplit, TestSplit
from trainables.data.table_declaration import JOINED, MASKED_SHARE, Column, Schema, TableOptions, features_of
from trainables.metrics import LOSS, MASKED
from trainables.plugins import OBJECT
from trainables.system import IGNORED, Dataset, DatasetSpec, Split, Task, with_masks
from trainables.units import Unit

if TYPE_CHECKING:
    import pyarrow as pa

COUNT_TOLERANCE = 0.1
"""The declared n is a constant of the mechanism; it may differ from the records present, but not be a typing error."""
_MISSING = frozenset({"", "na", "n/a", "#n/a", "<na>", "nan", "null", "none"})
"""Texts that stand for a missing id in the files of spreadsheets, databases and pandas."""


class Table(HoldsOut[TableOptions]):
    """`data: {source: table, ...}`: see trainables.data.table_declaration for every option."""

    name = "table"
    doc = "your own Parquet or CSV, local, s3:// or gs://; declare n, label, columns and classes; option unit"
    asks = TableOptions

    def record_facts(self, options: Mapping[str, object]) -> DatasetSpec:
        """The facts; touches no file. Raises InvalidValue."""
        return Schema(self.read(options)).facts()

    def inspect_records(self, options: Mapping[str, object]) -> None:
        """The files and their columns; types too, where the files tell them. Raises InvalidValue."""
        asked = self.read(options)
        declared = Schema(asked)
        if OBJECT.fullmatch(declared.loss):
            plugins.brought(LOSS, declared.loss, "It is a function of outputs and targets.", "a function")
        held = None if declared.test is None else declared.test.path
        for path in (asked.path, *filter(None, (declared.validation.path, held))):
            table_file.inspect(path, asked.format, declared)

    def load_records(self, options: Mapping[str, object]) -> Dataset:
        """The records. Raises InvalidValue (file, columns, missing values, categories, labels, count)."""
        asked = self.read(options)
        declared = Schema(asked)
        unit, validation, test = declared.unit, declared.validation, declared.test
        everything = _records(asked.path, asked.format, declared, declared.n)
        _check_test_file(asked, declared, everything.ids)
        beside = None
        if validation.path is not None:
            beside = _records(validation.path, asked.format, declared, validation.n)
            if unit is not None:
                # Before test units are parted off: who is one of them may be in no second file either.
                _check_apart(unit, everything.ids, beside.ids, "data.validation.path", validation.path, "data.path")
        everything = everything.within(declared.part)
        if test is not None and test.path is None:
            everything = everything.at(~test.taken(everything.ids))
        if beside is not None:
            parts = [everything, beside]
        else:
            held = validation.taken(everything.ids) if validation.share else np.zeros(len(everything.split), dtype=bool)
            parts = [everything.at(~held), everything.at(held)]
        facts = declared.facts()
        if unit is None:
            data = records.dataset(facts, *(part.split for part in parts))
        else:
            (train, units), (judged, _) = [records.by_unit(part.split, part.ids, unit) for part in parts]
            data = records.dataset(facts, train, judged, units=units)
        if beside is not None:
            records.check_no_copy(data.train, data.validation, "data.validation")
        return data

    def record_part(self, options: Mapping[str, object]) -> PartSplit | None:
        """See `FeaturedSource.part`."""
        return Schema(self.read(options)).part

    def declared_test(self, options: Mapping[str, object]) -> TestSplit | None:
        """See `HoldsOut.held_out`."""
        return Schema(self.read(options)).test

    def load_test(self, options: Mapping[str, object], test: TestSplit) -> Split:
        """The test records alone, whole units where one is declared. Raises InvalidValue as `load_records` does."""
        asked = self.read(options)
        declared = Schema(asked)
        others = _records(asked.path, asked.format, declared, declared.n)
        if test.path is None:
            others = others.within(declared.part)
            found = others.at(test.taken(others.ids))
        else:
            found = _records(test.path, asked.format, declared, test.n)
            _check_test_file(asked, declared, others.ids)
        split = found.split if declared.unit is None else records.by_unit(found.split, found.ids, declared.unit)[0]
        checked = records.checked(declared.facts(), "test", split)
        if test.path is not None:
            records.check_no_copy(records.checked(declared.facts(), "train", others.split), checked, "data.test")
        return checked


@dataclass(frozen=True, slots=True)
class _Records:
    """Records and, where units or a split ask for them, the stable id of each: [n] or empty."""

    split: Split
    ids: NDArray[Any]

    def at(self, which: NDArray[np.bool_]) -> _Records:
        return _Records(records.taken(self.split, which), self.ids[which] if len(self.ids) else self.ids)

    def within(self, part: PartSplit | None) -> _Records:
        """Those of one part; all of them without one. Raises InvalidValue for ids of another kind."""
        return self if part is None else self.at(part.holds(self.ids))


def _records(where: object, form: str | None, declared: Schema, n: int) -> _Records:
    """All records of one file. Raises InvalidValue."""
    table = table_file.read(where, form, declared.names, declared.texts, declared.numbers)
    ids: NDArray[Any] = np.zeros(0)
    count, of = len(table), "records"
    if declared.unit is not None:
        ids = _unit_ids(where, table, declared.unit)
        count, of = len(set(ids)), f"values of {declared.unit.column}"
    elif declared.id is not None:
        ids = _split_ids(where, table, declared.id)
    if count == 0:
        raise InvalidValue("data.path", where, "at least one record, found none")
    if abs(count - n) > max(1.0, COUNT_TOLERANCE * n):
        expected = f"a number within {COUNT_TOLERANCE:.0%} of the {of} in {where}"
        raise InvalidValue("data.n", n, expected, "Declare another n.")
    return _Records(_split(where, table, declared), ids)


def _check_test_file(asked: TableOptions, declared: Schema, trained: NDArray[Any]) -> None:
    """No unit of a test file is trained on or validated by: `trained` are the ids in the file of data.path.

    Of the other files it reads the ids alone.
    """
    unit, test, validation = declared.unit, declared.test, declared.validation
    if unit is None or test is None or test.path is None:
        return
    found = _ids_in(test.path, asked.format, unit)
    _check_apart(unit, trained, found, "data.test.path", test.path, "data.path")
    if validation.path is not None:
        judged = _ids_in(validation.path, asked.format, unit)
        _check_apart(unit, judged, found, "data.test.path", test.path, "data.validation.path")


def _ids_in(path: str, form: str | None, unit: Unit) -> NDArray[Any]:
    return _unit_ids(path, table_file.read(path, form, (unit.column,), (unit.column,)), unit)


def _check_apart(unit: Unit, ids: NDArray[Any], found: NDArray[Any], option: str, path: str, other: str) -> None:
    """No unit is in two files: the one of `option` holds `found`, the one of the option `other` holds `ids`."""
    # 007 among texts of one file is 7 among numbers of the other.
    held, others = ({str(int(one)) if one.isdecimal() else one for one in each} for each in (ids, found))
    if shared := held & others:
        expected = f"no {unit.column} that is in the file of {other} too, found {len(shared)}"
        raise InvalidValue(option, path, expected, "Put all records of a unit into one of the files.")


def _split_ids(where: object, table: pa.Table, column: str) -> NDArray[Any]:
    """What parts each record. Raises InvalidValue for a missing one, and for others than whole numbers and texts."""
    ids, here = _values(where, table, column), f"data.columns.{column}"
    if missing := sum(isinstance(one, str) and not one for one in ids):
        expected = f"an id in every record of {where}, found {missing} missing"
        raise InvalidValue(here, column, expected, "Give them one, or drop them, before the sweep.")
    if ids.dtype.kind not in "iu" and not (ids.dtype == object and all(isinstance(one, str) for one in ids)):
        # 7 would be 7.0 as soon as one record has 7.5 there, and all records would be parted anew.
        expected = f"whole numbers or texts in {where}, which part the records; found {ids.dtype}"
        remedy = "Write it as texts, or take a column of its own: with a point in one id all records would move."
        raise InvalidValue(here, column, expected, remedy)
    return ids


def _unit_ids(where: object, table: pa.Table, unit: Unit) -> NDArray[np.object_]:
    """The id of each record's unit as a text. Raises InvalidValue for a missing one, and for numbers with a point."""
    here, ids = "data.unit.column", table.column(unit.column).to_pylist()
    if missing := sum(one is None or one == "" for one in ids):
        expected = f"an id in every record of {where}, found {missing} missing"
        remedy = "Find out whose these records are, or drop them, before the sweep."
        raise InvalidValue(here, unit.column, expected, remedy)
    texts = {one for one in ids if isinstance(one, str)}
    meant = sorted(repr(one) for one in texts if one.strip().lower() in _MISSING)
    meant += ["texts with spaces around them"] * any(one != one.strip() for one in texts)
    if meant:
        expected = f"ids in {where}, found {', '.join(meant)}"
        remedy = (
            "A word for a missing id makes one unit of many people, and two spellings two ids of one: correct them."
        )
        raise QuotesRecords(here, unit.column, expected, remedy)
    if wrong := {type(one).__name__ for one in ids} - {"int", "str"}:
        expected = f"whole numbers or texts in {where}, found {', '.join(sorted(wrong))}"
        raise InvalidValue(here, unit.column, expected)
    return np.array([str(one) for one in ids], dtype=object)


def encoded(where: object, table: pa.Table, columns: Sequence[Column]) -> dict[str, NDArray[np.generic]]:
    """The inputs [n, *shape] of declared `columns`: cut, scaled, one-hot or as codes. `where` names them in errors.

    Raises InvalidValue for a column that is missing, of another kind, or holds what was not declared.
    """
    inputs: dict[str, NDArray[np.generic]] = {}
    joined = [_dense(where, table, column) for column in columns if not column.own_feature]
    if joined:
        inputs[JOINED] = np.concatenate(joined, axis=1)
    apart = [column for column in columns if column.own_feature]
    inputs |= {column.name: _own(where, table, column) for column in apart}
    return with_masks(features_of(columns), inputs)


def _split(where: object, table: pa.Table, declared: Schema) -> Split:
    inputs, weights, groups = encoded(where, table, declared.columns), declared.weights, declared.groups
    if declared.tokens is not None:
        split = _of_tokens(where, table, declared, declared.tokens, inputs)
    elif declared.task is Task.REGRESSION:
        split = Split(inputs, _numbers(where, table, declared.label))
    else:
        split = Split(inputs, _positions(where, table, declared.label, declared.classes, "classes"))
    if weights is not None and weights.column:
        split = replace(split, weights=_numbers(where, table, weights.column).astype(np.float32))
    if groups is not None:
        codes = _positions(where, table, groups.column, groups.categories, "groups", as_texts=True)
        split = replace(split, groups=codes)
    return split


def _of_tokens(
    where: object, table: pa.Table, declared: Schema, column: Column, inputs: dict[str, NDArray[np.generic]]
) -> Split:
    """Records whose targets are their own tokens, with what a masked loss asks for hidden from the model."""
    tokens = inputs[column.name]
    counted = np.ones(tokens.shape, dtype=bool) if column.padding is None else tokens != column.padding
    if declared.prompt is not None:
        counted &= np.arange(tokens.shape[1]) >= _numbers(where, table, declared.prompt)[:, None]
    if declared.loss == MASKED:
        counted = masked_places(tokens, counted)
        inputs = inputs | {column.name: np.where(counted, column.mask or 0, tokens)}
    return Split(inputs, np.where(counted, tokens, IGNORED))


def masked_places(tokens: NDArray[np.generic], among: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Of the places `among` [n, L] a share of `MASKED_SHARE`, and one at least: drawn for each record from its own
    tokens, so that no record moves another's, and a run that goes on later has the same."""
    found = np.zeros(tokens.shape, dtype=bool)
    for row, codes in enumerate(tokens.astype("<i8")):
        digest = hashlib.sha256(codes.tobytes()).digest()
        drawn = np.where(among[row], np.random.default_rng(np.frombuffer(digest, np.uint32)).random(len(codes)), 1.0)
        found[row] = among[row] & ((drawn < MASKED_SHARE) | (drawn == drawn.min()))
    return found


def _dense(where: object, table: pa.Table, column: Column) -> NDArray[np.float32]:
    """[n, width]"""
    if column.categories:
        codes = _positions(where, table, column.name, column.categories, "categories")
        return np.eye(len(column.categories), dtype=np.float32)[codes]
    if column.missing is None:
        return _scaled(column, _numbers(where, table, column.name))[:, None]
    numbers = _as_numbers(where, column.name, table.column(column.name).to_numpy())
    gone = np.isnan(numbers)
    filled = np.where(gone, column.missing, numbers)
    return np.stack([_scaled(column, filled), gone.astype(np.float32)], axis=1)


def _own(where: object, table: pa.Table, column: Column) -> NDArray[np.generic]:
    """[n, *shape]"""
    if column.image:
        return pixels(f"data.columns.{column.name}", _values(where, table, column.name), column.shape)
    if column.tokenizer:
        texts = _values(where, table, column.name).tolist()
        if wrong := {type(one).__name__ for one in texts} - {"str"}:
            expected = f"a column of texts, found {', '.join(sorted(wrong))}"
            raise InvalidValue(f"data.columns.{column.name}", where, expected)
        return token_codes(column.tokenizer, texts, column.shape[0], column.padding or 0)
    numbers = _numbers(where, table, column.name, column.shape, column.padding)
    return numbers if column.codes is not None else _scaled(column, numbers)


def _scaled(column: Column, numbers: NDArray[np.float64]) -> NDArray[np.float32]:
    # NaN passes through the cut and is refused by the checks of the whole data set.
    return ((np.clip(numbers, column.low, column.high) - column.low) / (column.high - column.low)).astype(np.float32)


def _numbers(
    where: object, table: pa.Table, name: str, shape: tuple[int, ...] = (), padding: int | None = None
) -> NDArray[np.float64]:
    """[n, *shape]"""
    values, here = _values(where, table, name), f"data.columns.{name}"
    size = math.prod(shape)
    if padding is not None:
        lengths = np.array([len(one) if isinstance(one, np.ndarray | list) else size + 1 for one in values], dtype=int)
        if (lengths > size).any():
            expected = f"lists of at most {size} codes, row {int(np.argmax(lengths > size))} has another length"
            raise InvalidValue(here, where, expected, "Cut them, or declare a longer `shape`.")
        filled = np.full((len(values), size), padding, dtype=np.float64)
        filled[np.arange(size) < lengths[:, None]] = _as_numbers(where, name, np.concatenate([np.zeros(0), *values]))
        values = filled.reshape(len(values), *shape)
    elif shape:
        wrong = [i for i, one in enumerate(values) if not isinstance(one, np.ndarray | list) or len(one) != size]
        if wrong:
            raise InvalidValue(here, where, f"lists of {size} numbers, row {wrong[0]} has another length")
        values = np.array(list(values)).reshape(len(values), *shape)
    return _as_numbers(where, name, values)


def _as_numbers(where: object, name: str, values: NDArray[Any]) -> NDArray[np.float64]:
    if len(values) and values.dtype.kind not in "fiub":
        remedy = "Turn it into numbers (of a date: days since a public one), or declare its `categories`."
        raise InvalidValue(f"data.columns.{name}", where, f"a column of numbers, found {values.dtype}", remedy)
    return values.astype(np.float64, copy=False)


def _positions(
    where: object, table: pa.Table, name: str, known: tuple[Any, ...], declared_in: str, *, as_texts: bool = False
) -> NDArray[np.int64]:
    """[n], each value's place among those `known`. Raises InvalidValue for others."""
    found = _values(where, table, name)
    values = [str(one) for one in found] if as_texts else found.tolist()
    position = {value: i for i, value in enumerate(known)}
    if unknown := sorted({repr(value) for value in values if value not in position}):
        expected = f"every value of column {name} in {where}, which also has {', '.join(unknown[:5])}"
        remedy = f"Declare them in `{declared_in}`, or correct the records."
        raise QuotesRecords(f"data.{declared_in}", list(known)[:10], expected, remedy)
    return np.array([position[value] for value in values], dtype=np.int64)


def _values(where: object, table: pa.Table, name: str) -> NDArray[Any]:
    column = table.column(name)
    if column.null_count:
        expected = f"a value in every record, found {column.null_count} missing"
        remedy = "Give them a public constant (`missing: 7` in its column of {low, high}), or drop these records."
        raise InvalidValue(f"data.columns.{name}", where, expected, remedy)
    values: NDArray[Any] = column.to_numpy()
    return values


TABLE = Table()
