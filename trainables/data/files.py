"""Columns of published text tables: rows cut to fields, numbers by declared ranges, categories as indicators."""

from __future__ import annotations

import gzip
import lzma
import math
import os
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from urllib.parse import unquote, urlsplit

import numpy as np
from numpy.typing import NDArray

from dpcore.checks import InvalidValue, QuotesRecords

ANOTHER_FILE = "It is another file, or damaged: fetch it again."


@dataclass(frozen=True, slots=True)
class DeclaredRange:
    """Declared range of a number, which is cut to it and mapped to [0, 1]; `log` scales by log(1 + x)."""

    low: float
    high: float
    log: bool = False


Rule = DeclaredRange | tuple[str, ...]
"""What a column holds: a number of a declared range, or one of some categories."""


def width(columns: Mapping[str, Rule]) -> int:
    """Numbers per record."""
    return sum(1 if isinstance(rule, DeclaredRange) else len(rule) for rule in columns.values())


def rows(file: Path, fields: int, separator: str | None = None) -> list[list[str]]:
    """The fields of each record, [n][fields]; empty lines and those that begin with | hold none.

    separator  None: tabs, single spaces and runs of spaces
    Raises InvalidValue with the line of the first record that has another number of fields.
    """
    found = []
    for number, line in enumerate(file.read_text(encoding="ascii").splitlines(), 1):
        if not line.strip() or line.startswith("|"):
            continue
        found.append(line.split(separator))
        if len(found[-1]) != fields:
            parted = "" if separator is None else f" separated by {separator!r}"
            expected = f"{fields} columns{parted}, found {len(found[-1])}"
            raise InvalidValue("data.path", f"{file}:{number}", expected, ANOTHER_FILE)
    return found


def as_written(table: Sequence[Sequence[str]]) -> NDArray[np.object_]:
    """Each record as one text, [n]: what decides its part, whatever is made of its columns."""
    return np.array([" ".join(row) for row in table], dtype=object)


def encoded(file: Path, columns: Mapping[str, Rule], table: Sequence[Sequence[str]]) -> NDArray[np.float32]:
    """[n, width]: the first fields of each row, in the order of `columns`. Raises InvalidValue."""
    parts = [_column(file, name, rule, [row[i] for row in table]) for i, (name, rule) in enumerate(columns.items())]
    return np.concatenate(parts, axis=1)


def _column(file: Path, name: str, rule: Rule, values: list[str]) -> NDArray[np.float32]:
    if not isinstance(rule, DeclaredRange):
        known = {category: code for code, category in enumerate(rule)}
        return np.eye(len(rule), dtype=np.float32)[codes(file, f"known categories in column {name}", known, values)]
    try:
        numbers = np.array(values, dtype=np.float64)
    except ValueError as error:
        raise QuotesRecords("data.path", str(file), f"numbers in column {name} ({error})", ANOTHER_FILE) from error
    cut = np.clip(numbers, rule.low, rule.high)
    scaled = np.log1p(cut) / math.log1p(rule.high) if rule.log else (cut - rule.low) / (rule.high - rule.low)
    return scaled[:, None].astype(np.float32)


def codes(file: Path, expected: str, known: Mapping[str, int], values: list[str]) -> NDArray[np.int64]:
    """Each value's number, [n]. Raises InvalidValue, which says what was `expected`."""
    if unknown := sorted(set(values) - set(known)):
        raise QuotesRecords("data.path", str(file), f"{expected}, found {unknown[:5]}", ANOTHER_FILE)
    return np.array([known[value] for value in values], dtype=np.int64)


# Files read whole, compressed ones unpacked, with a damaged one named.


def read(file: Path) -> bytes:
    """The content of a file, unpacked if it ends in .gz or .xz. Raises InvalidValue where that is cut short."""
    if file.suffix not in (".gz", ".xz"):
        return file.read_bytes()
    opener = lzma.open if file.suffix == ".xz" else gzip.open
    try:
        with opener(file) as stream:
            return bytes(stream.read())
    except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
        raise InvalidValue(
            "data.path",
            str(file),
            f"a whole {file.suffix} file ({error})",
            "It is cut short or damaged: fetch it again.",
        ) from error


# Whether two paths or URLs of records may name the same ones.

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_ALIASES = {"gcs": "gs"}
"""Schemes that pyarrow takes for others."""


def overlap(one: str, other: str) -> bool:
    """Whether two paths are the same, or one lies in the other, however they are written. Opens no file."""
    parts = [PurePath(written_out(text)).parts for text in (one, other)]
    shorter = min(map(len, parts))
    return parts[0][:shorter] == parts[1][:shorter] or _is_one_file(one, other)


def written_out(path: str) -> str:
    """A path in full, links followed; a URL by what it names alone: without account, options and the spelling of signs,
    that of a local file as its path. Opens no file."""
    if not _URL.match(path):
        return os.path.realpath(os.path.expanduser(path))
    scheme, account, place, *_ = urlsplit(path)
    if scheme == "file":
        return os.path.realpath(unquote(place))
    return f"{_ALIASES.get(scheme, scheme)}://{account.rpartition('@')[2]}{unquote(place)}"


def _is_one_file(one: str, other: str) -> bool:
    """Whether they are two names of one local file (hard links)."""
    try:
        return os.path.samefile(written_out(one), written_out(other))
    except OSError:
        # Not there, or no local file.
        return False
