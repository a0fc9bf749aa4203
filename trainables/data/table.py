"""The user's own table: Parquet or CSV through pyarrow, local or on an object store, described in the spec.

The split hashes a stable id of each record (of its unit, where `unit` is declared) with a public key, so that adding or
removing one moves no other. Numbers are cut to the declared bounds and scaled by them; nothing is measured on private
records.
"""

from __future__ import annotations

import hashlib
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain, count, islice, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpcore.checks import InvalidValue, QuotesRecords
from trainables import plugins
from trainables.data import records, table_file
from trainables.data.options import read
from trainables.data.source import FeaturedSource
from trainables.data.splits import PartSplit, TestSplit, one_spelling
from trainables.data.table_declaration import JOINED, MASKED_SHARE, Column, Schema, TableOptions, features_of
from trainables.data.table_file import ColumnKind, column_of, pixels, token_codes
from trainables.kept import Made, created, kept, mapped
from trainables.metrics import LOSS, MASKED
from trainables.plugins import OBJECT
from trainables.system import IGNORED, Dataset, DatasetSpec, Split, Task, with_masks
from trainables.units import Units, arranged, choices

if TYPE_CHECKING:
    import pyarrow as pa

COUNT_TOLERANCE = 0.1
"""The declared n is a constant of the mechanism; it may differ from the records present, but not be a typing error."""
_MISSING = frozenset({"", "na", "n/a", "#n/a", "<na>", "nan", "null", "none"})
"""Texts that stand for a missing id in the files of spreadsheets, databases and pandas."""


class Table(FeaturedSource[Schema]):
    """`data: {source: table, ...}`: see trainables.data.table_declaration for every option."""

    name = "table"
    doc = "your own Parquet or CSV, local, s3:// or gs://; declare n, label, columns and classes; option unit"
    asks = TableOptions

    def read(self, options: Mapping[str, object]) -> Schema:
        """The whole declaration; touches no file. Raises InvalidValue."""
        return Schema(read(TableOptions, self.name, options))

    def record_facts(self, declared: Schema) -> DatasetSpec:
        """See `FeaturedSource.facts`."""
        return declared.facts()

    def inspect_records(self, declared: Schema) -> None:
        """The files and their columns; types too, where the files tell them. Raises InvalidValue."""
        if OBJECT.fullmatch(declared.loss):
            plugins.function(LOSS, declared.loss, "It is a function of outputs and targets.")
        held = None if declared.test is None else declared.test.path
        for path in (declared.path, *filter(None, (declared.validation.path, held))):
            if (empty := table_file.empty(path, declared.form, declared.names)) is not None:
                _split(path, empty, declared, 0)
                if declared.id is not None:
                    _ids(path, empty, declared.id, declared.unit is not None)

    def load_records(self, declared: Schema, kept_in: Path | None = None) -> Dataset:
        """The records. Raises InvalidValue (file, columns, missing values, categories, labels, count)."""
        files = [_File(declared.path, declared, declared.n)]
        if declared.validation.path is not None:
            files.append(_File(declared.validation.path, declared, declared.validation.n))

        def read(folder: Path) -> Dataset:
            facts = declared.facts()
            train, validation = (_stored(folder, name, facts) for name in ("train", "validation"))
            units = None
            if declared.unit is not None:
                units = Units(mapped(folder / "offsets.npy"), mapped(folder / "keys.npy"))
            return Dataset(facts, train, validation, (folder / "fingerprint").read_text(), units)

        return _once(declared, files, "train", kept_in, _dataset, read)

    def record_part(self, declared: Schema) -> PartSplit | None:
        """See `FeaturedSource.part`."""
        return declared.part

    def declared_test(self, declared: Schema) -> TestSplit | None:
        """See `FeaturedSource.held_out`."""
        return declared.test

    def load_test(self, declared: Schema, test: TestSplit, kept_in: Path | None = None) -> Split:
        """The test records alone, whole units where one is declared. Raises InvalidValue as `load_records` does."""
        files = [_File(declared.path, declared, declared.n)]
        if test.path is not None:
            files.append(_File(test.path, declared, test.n))
        return _once(declared, files, "test", kept_in, _test, lambda at: _stored(at, "test", declared.facts()))


class _File:
    """One file of a table, read block by block.

    whole  all of it, where that is one block: it is read once then
    ids    the id of each record where units or a split ask for one: [rows] or empty

    Raises InvalidValue.
    """

    def __init__(self, where: object, declared: Schema, n: int) -> None:
        self.where, self._declared, self._n = where, declared, n
        begun = list(islice(self._read(declared.names), 2))
        self.whole = begun[0] if len(begun) == 1 else None

    def blocks(self, *names: str) -> Iterator[pa.Table]:
        """Its rows, of the columns `names` at least."""
        return iter([self.whole]) if self.whole is not None else self._read(names or self._declared.names)

    def _read(self, names: tuple[str, ...]) -> Iterator[pa.Table]:
        return table_file.blocks(self.where, self._declared.form, names, self._declared.texts, self._declared.numbers)

    @cached_property
    def rows(self) -> int:
        """How many records it has."""
        return table_file.count(self.where, self._declared.form) if self.whole is None else len(self.whole)

    @cached_property
    def ids(self) -> NDArray[Any]:
        """See above. Raises InvalidValue for missing ones, and where their number, or that of records, is another."""
        unit, column = self._declared.unit, self._declared.id
        ids: NDArray[Any] = np.zeros(0)
        if column is not None:
            by_unit = unit is not None
            ids = np.concatenate([_ids(self.where, block, column, by_unit) for block in self.blocks(column)])
        found, of = (self.rows, "records") if unit is None else (len(set(ids)), f"values of {unit.column}")
        if found == 0:
            raise InvalidValue("data.path", self.where, "at least one record, found none")
        if abs(found - self._n) > max(1.0, COUNT_TOLERANCE * self._n):
            expected = f"a number within {COUNT_TOLERANCE:.0%} of the {of} in {self.where}"
            raise InvalidValue("data.n", self._n, expected, "Declare another n.")
        return ids


class _Part:
    """Some of a file's records, which come in its order: kept in memory where they are one block, else in files.

    folder  of the files
    rows    which of the file they are, [rows of the file]; all by default
    by_unit whether they are to be arranged by the unit that is declared, if there is one
    """

    def __init__(
        self,
        name: str,
        declared: Schema,
        file: _File,
        folder: Path | None,
        rows: NDArray[np.bool_] | None = None,
        by_unit: bool = True,
    ) -> None:
        self.file, self.rows = file, np.ones(file.rows, dtype=bool) if rows is None else rows
        self._name, self._facts, self._folder = name, declared.facts(), folder
        self._unit, self._n = declared.unit if by_unit else None, int(self.rows.sum())
        self._ids = file.ids[self.rows] if self._unit is not None else file.ids[:0]
        self._choices: list[bytes] = []
        self._at = 0
        self._split: Split | None = None

    def add(self, block: Split) -> None:
        """The next of them, encoded. Raises InvalidValue (NaN, labels, shapes)."""
        upto = self._at + len(block)
        if self._unit is not None:
            self._choices += choices(self._ids[self._at : upto], records.contents(block))
        block = records.checked(self._facts, self._name, block)
        if self._folder is None:
            self._split = block
        else:
            name = self._name if self._unit is None else f"{self._name}-unordered"
            self._split = self._split or self._created(self._folder, name, block, self._n)
            for whole, part in zip(_arrays(self._split), _arrays(block), strict=True):
                whole[self._at : upto] = part
        self._at = upto

    def finished(self) -> tuple[Split, Units | None]:
        """All of them; unit by unit, where units are asked for."""
        assert self._split is not None
        if self._unit is None:
            return self._split, None
        kept, units = arranged(self._ids, self._choices, self._unit)
        if self._folder is None:
            return records.taken(self._split, kept), units
        ordered = self._created(self._folder, self._name, self._split, len(kept))
        for into, array in zip(_arrays(ordered), _arrays(self._split), strict=True):
            for start in range(0, len(kept), records.BLOCK):
                into[start : start + records.BLOCK] = array[kept[start : start + records.BLOCK]]
        for place in self._folder.glob(f"{self._name}-unordered.*"):
            place.unlink()
        return ordered, units

    def _created(self, folder: Path, name: str, like: Split, n: int) -> Split:
        """n records in new files."""
        features, files = self._facts.features, _file_names(folder, name)
        codes = chain((features[name].cardinality for name in like.inputs), [self._facts.classes], repeat(None))
        return like.each(lambda array: created(next(files), (n, *array.shape[1:]), records.narrow(array, next(codes))))


def _file_names(folder: Path, name: str) -> Iterator[Path]:
    """Of the arrays of a part, in the order of `Split.each`."""
    return (folder / f"{name}.{number}.npy" for number in count())


def _arrays(split: Split) -> list[Any]:
    found: list[Any] = []
    split.each(found.append)
    return found


def _stored(folder: Path, name: str, facts: DatasetSpec) -> Split:
    """The part of that name as it was written."""
    files = map(mapped, _file_names(folder, name))
    inputs = {feature: next(files) for feature in facts.features}
    targets = next(files)
    weights = next(files) if facts.weights is not None and facts.weights.column else None
    return Split(inputs, targets, weights, None if facts.groups is None else next(files))


def _once(
    declared: Schema,
    files: Sequence[_File],
    part: str,
    kept_in: Path | None,
    made: Callable[[Schema, Sequence[_File], Path | None], Made],
    read: Callable[[Path], Made],
) -> Made:
    """What is `made` of the files: of several blocks in a folder, once as long as files, options and this code are the
    same.

    kept_in  None: nothing is kept
    """
    if all(file.whole is not None for file in files):
        return made(declared, files, None)

    def write(folder: Path) -> None:
        made(declared, files, folder)

    code = [one.read_bytes() for one in sorted(Path(__file__).parent.glob("*.py"))]
    contents = [table_file.digest(file.where, declared.form) for file in files]
    key = hashlib.sha256(repr((part, declared.asked, declared.columns, contents, code)).encode()).hexdigest()
    if kept_in is not None:
        return kept(kept_in, key, write, read)
    with tempfile.TemporaryDirectory() as folder:
        # What is removed is there as long as it is mapped.
        return kept(Path(folder), key, write, read)


def _encode(declared: Schema, *parts: _Part) -> list[tuple[Split, Units | None]]:
    """The records of each part, all of them of one file."""
    file, first = parts[0].file, 0
    for table in file.blocks():
        split = _split(file.where, table, declared, first)
        for part in parts:
            part.add(records.taken(split, part.rows[first : first + len(table)]))
        first += len(table)
    return [part.finished() for part in parts]


def _dataset(declared: Schema, files: Sequence[_File], folder: Path | None) -> Dataset:
    """The records that train and those that validate, of the file and of that of the latter if they have one."""
    validation, (file, *others) = declared.validation, files
    # Before test units are parted off: who is one of them may be in no second file either.
    _check_apart(declared, files)
    tested, trained = _tested(declared, file)
    trained &= ~tested
    held = np.zeros(file.rows, dtype=bool)
    if validation.share:
        held[trained] = validation.taken(file.ids[trained])
    train = _Part("train", declared, file, folder, trained & ~held)
    judged = _Part("validation", declared, *((others[0], folder) if others else (file, folder, held)))
    found = [*_encode(declared, train), *_encode(declared, judged)] if others else _encode(declared, train, judged)
    (learned, units), (other_split, _) = found
    data = records.of_checked(declared.facts(), learned, other_split, units=units)
    if others:
        records.check_no_copy(data.train, data.validation, "data.validation")
    if folder is not None:
        (folder / "fingerprint").write_text(data.fingerprint)
        if units is not None:
            np.save(folder / "offsets.npy", units.offsets)
            np.save(folder / "keys.npy", units.keys)
    return data


def _tested(declared: Schema, file: _File) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which records of the file test, and which are in the part that is read: [rows] both."""
    rows = np.ones(file.rows, dtype=bool) if declared.part is None else declared.part.holds(file.ids)
    tested, test = np.zeros(file.rows, dtype=bool), declared.test
    if test is not None and test.path is None:
        tested[rows] = test.taken(file.ids[rows])
    return tested, rows


def _test(declared: Schema, files: Sequence[_File], folder: Path | None) -> Split:
    """The test records of the file, or of their own."""
    file, test_file = files[0], files[-1]
    if test_file is not file:
        _check_apart(declared, files)
    rows = _tested(declared, file)[0] if test_file is file else None
    [(split, _)] = _encode(declared, _Part("test", declared, test_file, folder, rows))
    if test_file is not file:
        [(trained, _)] = _encode(declared, _Part("train", declared, file, folder, by_unit=False))
        records.check_no_copy(trained, split, "data.test")
        for place in () if folder is None else folder.glob("train.*"):
            place.unlink()
    return split


def _check_apart(declared: Schema, files: Sequence[_File]) -> None:
    """No unit is in two of the files that train, validate and test: of those that are not read, the ids alone are."""
    unit, read, held = declared.unit, {str(one.where): one.ids for one in files}, dict[str, set[str]]()
    if unit is None:
        return
    paths = {"data.path": declared.path, "data.validation.path": declared.validation.path}
    paths["data.test.path"] = None if declared.test is None else declared.test.path
    for option, path in ((option, path) for option, path in paths.items() if path is not None):
        if (ids := read.get(path)) is None:
            blocks = table_file.blocks(path, declared.form, (unit.column,), (unit.column,))
            ids = np.concatenate([_ids(path, block, unit.column, by_unit=True) for block in blocks])
        own = {one_spelling(unit.column, one) for one in ids}
        for other, others in held.items():
            if shared := own & others:
                expected = f"no {unit.column} that is in the file of {other} too, found {len(shared)}"
                raise InvalidValue(option, path, expected, "Put all records of a unit into one of the files.")
        held[option] = own


def _ids(where: object, table: pa.Table, column: str, by_unit: bool) -> NDArray[Any]:
    """Whose each record is: whole numbers or texts.

    Raises InvalidValue for missing ones and others, and, of units, for texts that mean another than they say.
    """
    here, found = (
        "data.unit.column" if by_unit else f"data.columns.{column}",
        column_of(column, table.schema.field(column).type),
    )
    ids = table.column(column).to_pylist()
    if missing := sum(one is None or one == "" for one in ids):
        expected = f"an id in every record of {where}, found {missing} missing"
        remedy = "Find out whose these records are, or drop them, before the sweep."
        raise InvalidValue(here, column, expected, remedy)
    texts = {one for one in ids if isinstance(one, str)} if by_unit else ()
    meant = sorted(repr(one) for one in texts if one.strip().lower() in _MISSING)
    meant += ["texts with spaces around them"] * any(one != one.strip() for one in texts)
    if meant:
        expected = f"ids in {where}, found {', '.join(meant)}"
        remedy = (
            "A word for a missing id makes one unit of many people, and two spellings two ids of one: correct them."
        )
        raise QuotesRecords(here, column, expected, remedy)
    if found.kind is not ColumnKind.WORD and not (found.kind is ColumnKind.NUMBER and "int" in found.type):
        # 7 would be 7.0 as soon as one record has 7.5 there, and all records would be parted anew.
        expected = f"whole numbers or texts in {where}, it holds {found.type}"
        remedy = "Write it as texts, or take a column of its own: with a point in one id all records would move."
        raise InvalidValue(here, column, expected, remedy)
    return np.array(ids, dtype=object if found.kind is ColumnKind.WORD else None)


def encoded(
    where: object, table: pa.Table, columns: Sequence[Column], first: int = 0
) -> dict[str, NDArray[np.generic]]:
    """The inputs [n, *shape] of declared `columns`: cut, scaled, one-hot or as codes.

    where, first  whose rows they are, and which of them the first is, in errors

    Raises InvalidValue for a column that is missing, of another kind, or holds what was not declared.
    """
    inputs: dict[str, NDArray[np.generic]] = {}
    joined = [_dense(where, table, column) for column in columns if not column.own_feature]
    if joined:
        inputs[JOINED] = np.concatenate(joined, axis=1)
    apart = [column for column in columns if column.own_feature]
    inputs |= {column.name: _own(where, table, column, first) for column in apart}
    return with_masks(features_of(columns), inputs)


def _split(where: object, table: pa.Table, declared: Schema, first: int) -> Split:
    inputs, weights, groups = encoded(where, table, declared.columns, first), declared.weights, declared.groups
    if declared.tokens is not None:
        split = _of_tokens(where, table, declared, declared.tokens, inputs)
    elif declared.task is Task.REGRESSION:
        split = Split(inputs, _numbers(where, table, declared.label, option="data.label"))
    else:
        split = Split(inputs, _positions(where, table, declared.label, declared.classes, "classes"))
    if weights is not None and weights.column:
        column = _numbers(where, table, weights.column, option="data.weight.column")
        split = replace(split, weights=column.astype(np.float32))
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
        counted &= np.arange(tokens.shape[1]) >= _numbers(where, table, declared.prompt, option="data.prompt")[:, None]
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
    numbers = _numbers(where, table, column.name, may_lack=True)
    gone = np.isnan(numbers)
    filled = np.where(gone, column.missing, numbers)
    return np.stack([_scaled(column, filled), gone.astype(np.float32)], axis=1)


def _own(where: object, table: pa.Table, column: Column, first: int) -> NDArray[np.generic]:
    """[n, *shape]"""
    if column.image:
        images = _column(where, table, column.name, "encoded images: bytes, or {bytes, path}").to_numpy()
        return pixels(f"data.columns.{column.name}", images, column.shape)
    if column.tokenizer:
        texts = _column(where, table, column.name, "texts").to_pylist()
        return token_codes(column.tokenizer, texts, column.shape[0], column.padding or 0)
    numbers = _lists(where, table, column, first) if column.shape else _numbers(where, table, column.name)
    return numbers if column.codes is not None else _scaled(column, numbers)


def _scaled(column: Column, numbers: NDArray[np.float64]) -> NDArray[np.float32]:
    # NaN passes through the cut and is refused by the checks of the whole data set.
    return ((np.clip(numbers, column.low, column.high) - column.low) / (column.high - column.low)).astype(np.float32)


def _lists(where: object, table: pa.Table, declared: Column, first: int) -> NDArray[np.float64]:
    """[n, *shape]"""
    import pyarrow.compute as pc

    column, shape, padding = _column(where, table, declared.name, "lists of numbers"), declared.shape, declared.padding
    if not len(column):
        # Whose type may be none at all.
        return np.zeros((0, *shape))
    size, lengths = math.prod(shape), pc.list_value_length(column).to_numpy()
    wrong = lengths != size if padding is None else lengths > size
    if wrong.any():
        here, row = f"data.columns.{declared.name}", first + int(np.argmax(wrong))
        if padding is None:
            raise InvalidValue(here, where, f"lists of {size} numbers, row {row} has another length")
        expected = f"lists of at most {size} codes, row {row} has another length"
        raise InvalidValue(here, where, expected, "Cut them, or declare a longer `shape`.")
    filled = np.full((len(column), size), padding or 0, dtype=np.float64)
    filled[np.arange(size) < lengths[:, None]] = pc.list_flatten(column).to_numpy()
    return filled.reshape(len(column), *shape)


def _numbers(
    where: object, table: pa.Table, name: str, *, option: str = "", may_lack: bool = False
) -> NDArray[np.float64]:
    """[n]; NaN where a column that `may_lack` some has none."""
    values: NDArray[Any] = _column(where, table, name, "numbers", option=option, may_lack=may_lack).to_numpy()
    return values.astype(np.float64, copy=False)


def _positions(
    where: object, table: pa.Table, name: str, known: tuple[Any, ...], declared_in: str, *, as_texts: bool = False
) -> NDArray[np.int64]:
    """[n], each value's place among those `known`. Raises InvalidValue for others."""
    found = _column(where, table, name).to_numpy()
    values = [str(one) for one in found] if as_texts else found.tolist()
    position = {value: i for i, value in enumerate(known)}
    if unknown := sorted({repr(value) for value in values if value not in position}):
        expected = f"every value of column {name} in {where}, which also has {', '.join(unknown[:5])}"
        remedy = f"Declare them in `{declared_in}`, or correct the records."
        raise QuotesRecords(f"data.{declared_in}", list(known)[:10], expected, remedy)
    return np.array([position[value] for value in values], dtype=np.int64)


_HELD = {
    "numbers": (ColumnKind.NUMBER, ColumnKind.TRUTH),
    "texts": (ColumnKind.WORD,),
    "lists of numbers": (ColumnKind.NUMBERS,),
    "encoded images: bytes, or {bytes, path}": (ColumnKind.BYTES,),
}
"""{what a column may be declared to hold: the kinds of columns that do}"""


def _column(
    where: object, table: pa.Table, name: str, held: str = "", *, option: str = "", may_lack: bool = False
) -> pa.ChunkedArray:
    """Raises InvalidValue for one that holds something else than `held`, and for missing values.

    option  that names it, unless it is one of `data.columns`
    """
    column, option = table.column(name), option or f"data.columns.{name}"
    found = column_of(name, column.type)
    # Of no row there may be no type.
    if held and found.kind not in _HELD[held] and (len(column) or found.type != "null"):
        remedy = "Turn it into numbers (of a date: days since a public one), or declare its `categories`."
        expected = f"a column of {held} in {where}"
        raise InvalidValue(option, found.type, expected, remedy if held == "numbers" else "")
    if column.null_count and not may_lack:
        expected = f"a value in every record, found {column.null_count} missing"
        remedy = "Give them a public constant (`missing: 7` in its column of {low, high}), or drop these records."
        raise InvalidValue(option, where, expected, remedy)
    return column


TABLE = Table()
