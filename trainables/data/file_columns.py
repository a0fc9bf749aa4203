"""What a file's columns are by name and type alone, for whoever has to declare their bounds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from dpcore.checks import InvalidValue
from trainables.data import table_file

if TYPE_CHECKING:
    import pyarrow as pa


class ColumnKind(StrEnum):
    """What may be declared of a column of that type."""

    NUMBER = "number"
    TRUTH = "truth value"
    WORD = "word"
    NUMBERS = "list of numbers"
    MOMENT = "date or time"
    OTHER = "no input"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileColumn:
    """One column of a file.

    type  as pyarrow writes it; "" of a CSV file, which tells none
    size  of a list, where its type fixes it
    """

    name: str
    kind: ColumnKind
    type: str = ""
    size: int | None = None


def file_columns(where: object, form: str | None = None) -> tuple[FileColumn, ...]:
    """The columns of a Parquet or CSV file, or of a folder of such, in order. Reads no record and no statistics.

    where  a path or a URL of an object store
    form   parquet or csv; by the name of the file where it is None

    Raises InvalidValue: no such file, names that are missing or repeated, and a first line of a CSV file that holds
    numbers, and so is a record; nothing of it is quoted.
    """
    found = table_file.columns(where, form)
    names = [name for name, _ in found]
    if not names or len(set(names)) < len(names) or not all(map(str.strip, names)):
        raise InvalidValue("file", str(where), "a file with columns, each with a name of its own")
    if table_file.form_of(where, form) == "csv" and any(map(_is_number, names)):
        raise InvalidValue(
            "file",
            str(where),
            "the names of the columns in the first line of a CSV file; a number stands there",
            "Add a line with names: what stands there now is taken for a record, and is not shown.",
        )
    return tuple(_column(name, type_) for name, type_ in found)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _column(name: str, found: pa.DataType | None) -> FileColumn:
    if found is None:
        return FileColumn(name=name, kind=ColumnKind.UNKNOWN)
    import pyarrow.types as kinds

    size = found.list_size if kinds.is_fixed_size_list(found) else None
    return FileColumn(name=name, kind=_kind(found), type=str(found), size=size)


def _kind(found: pa.DataType) -> ColumnKind:
    import pyarrow.types as kinds

    inner = found.value_type if kinds.is_dictionary(found) else found
    if kinds.is_boolean(inner):
        return ColumnKind.TRUTH
    if kinds.is_integer(found) or kinds.is_floating(found):
        return ColumnKind.NUMBER
    if kinds.is_string(inner) or kinds.is_large_string(inner) or kinds.is_dictionary(found):
        return ColumnKind.WORD
    if kinds.is_temporal(found):
        return ColumnKind.MOMENT
    lists = kinds.is_list(found) or kinds.is_large_list(found) or kinds.is_fixed_size_list(found)
    if lists and (kinds.is_integer(found.value_type) or kinds.is_floating(found.value_type)):
        return ColumnKind.NUMBERS
    return ColumnKind.OTHER
