"""Files of tables, as they lie on disk or on an object store: which columns they have, and their rows.

Columns are looked up without a record: the names and types of a Parquet file stand at its end, the names of a CSV file
in its first line. A CSV file has no types before its records are read.
"""

from __future__ import annotations

import csv
import difflib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dpcore.checks import InvalidValue
from trainables.data.table_schema import Column, Schema
from trainables.system import Task

if TYPE_CHECKING:
    import pyarrow as pa

CSV_ENDINGS = (".csv", ".csv.gz", ".csv.bz2")
_WRONG_NAMES = "Correct the names in data.columns, data.label, data.unit or data.validation.id."
_BLOCK, _LONGEST_HEADER = 1 << 16, 1 << 24


def read(where: object, form: object, names: tuple[str, ...]) -> pa.Table:
    """All rows of the columns `names`. Raises InvalidValue (path, form, columns)."""
    import pyarrow.dataset as ds

    path, kind = _path(where), form_of(where, form)
    with _readable(path, kind):
        source = ds.dataset(path, format=kind)
        missing = [name for name in names if name not in source.schema.names]
        if missing:
            raise InvalidValue(
                "data.columns", missing, f"columns of {path}, which has {', '.join(source.schema.names)}", _WRONG_NAMES
            )
        return source.to_table(columns=list(names))


def inspect(where: object, form: object, declared: Schema) -> None:
    """Whether the file is there and has the declared columns, of types that can be what is declared of them.

    Raises InvalidValue.
    """
    import pyarrow.dataset as ds

    path, kind = _path(where), form_of(where, form)
    with _readable(path, kind):
        types: dict[str, Any] = {}
        if kind == "csv":
            names = _header(path)
        else:
            schema = ds.dataset(path, format=kind).schema
            names, types = list(schema.names), dict(zip(schema.names, schema.types, strict=True))
    missing = [name for name in declared.names if name not in names]
    if missing:
        close = [f"`{one}`" for name in missing for one in difflib.get_close_matches(name, names, n=1)]
        # Without a header the first line of a CSV file is a record: it is not quoted whole.
        has = f", which has {', '.join(names)}" if types else " in its first line"
        hint = f"Did you mean {', '.join(close)}? " if close else ""
        raise InvalidValue("data.columns", missing, f"columns of {path}{has}", hint + _WRONG_NAMES)
    if types:
        _check_types(path, types, declared)


def form_of(where: object, form: object) -> str:
    """csv or parquet: as declared, else by the name of the file. Raises InvalidValue."""
    if form is None:
        return "csv" if str(where).lower().rstrip("/").endswith(CSV_ENDINGS) else "parquet"
    if form not in ("csv", "parquet"):
        raise InvalidValue("data.format", form, "csv or parquet")
    return str(form)


def _path(where: object) -> str:
    if not isinstance(where, str) or not where:
        raise InvalidValue("data.path", where, "a file, a folder or a URL of Parquet or CSV", "Set data.path.")
    return where


@contextmanager
def _readable(path: str, kind: str) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except (FileNotFoundError, pa.ArrowException, OSError) as error:
        raise InvalidValue(
            "data.path", path, f"{kind} that can be read ({error})", "Check data.path and data.format."
        ) from error


def _header(path: str) -> list[str]:
    """The first line of the file, or of the first file of a folder."""
    from pyarrow import fs

    filesystem, inside = fs.FileSystem.from_uri(path) if "://" in path else (fs.LocalFileSystem(), path)
    info = filesystem.get_file_info(inside)
    if info.type == fs.FileType.NotFound:
        raise FileNotFoundError(path)
    if info.type == fs.FileType.Directory:
        found = filesystem.get_file_info(fs.FileSelector(inside, recursive=True))
        files = sorted(one.path for one in found if one.is_file and not one.base_name.startswith((".", "_")))
        if not files:
            raise FileNotFoundError(f"no file in {path}")
        inside = files[0]
    line = b""
    with filesystem.open_input_stream(inside) as stream:
        while b"\n" not in line and len(line) < _LONGEST_HEADER and (block := stream.read(_BLOCK)):
            line += block
    text = line.partition(b"\n")[0].decode("utf-8-sig", errors="replace").rstrip("\r")
    return next(csv.reader([text]), [])


def _check_types(path: str, types: dict[str, Any], declared: Schema) -> None:
    for column in declared.columns:
        _check_column(path, types[column.name], column)
    if declared.task is Task.REGRESSION and not _is_number(types[declared.label]):
        raise InvalidValue(
            "data.label", declared.label, f"a column of numbers in {path}, it holds {types[declared.label]}"
        )
    if declared.unit is not None and not _is_id(types[declared.unit.column]):
        raise InvalidValue(
            "data.unit.column",
            declared.unit.column,
            f"whole numbers or texts in {path}, it holds {types[declared.unit.column]}",
        )


def _check_column(path: str, found: Any, column: Column) -> None:
    import pyarrow.types as kinds

    here = f"data.columns.{column.name}"
    if column.categories:
        return
    if not column.shape:
        if not _is_number(found):
            remedy = "Turn it into numbers (of a date: days since a public one), or declare its `categories`."
            raise InvalidValue(here, str(found), f"a column of numbers in {path}", remedy)
        return
    lists = kinds.is_list(found) or kinds.is_large_list(found) or kinds.is_fixed_size_list(found)
    if not lists or not _is_number(found.value_type):
        raise InvalidValue(
            here, str(found), f"a column of lists of numbers in {path}, one for each number of its shape"
        )


def _is_number(found: Any) -> bool:
    import pyarrow.types as kinds

    return bool(kinds.is_integer(found) or kinds.is_floating(found) or kinds.is_boolean(found))


def _is_id(found: Any) -> bool:
    import pyarrow.types as kinds

    inner = found.value_type if kinds.is_dictionary(found) else found
    return bool(kinds.is_integer(inner) or kinds.is_string(inner) or kinds.is_large_string(inner))
