"""Published text tables: rows cut to fields, numbers by declared ranges, categories as indicators."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainables.data.files import wrong_file


@dataclass(frozen=True, slots=True)
class DeclaredRange:
    """Declared range of a number, which is cut to it and mapped to [0, 1]; `log` scales by log(1 + x)."""

    low: float
    high: float
    log: bool = False


Rule = DeclaredRange | tuple[str, ...]
"""What a column of a text table holds: a number of a declared range, or one of some categories."""


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
            raise wrong_file(Path(f"{file}:{number}"), f"{fields} columns{parted}, found {len(found[-1])}")
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
        raise wrong_file(file, f"numbers in column {name} ({error})", quotes=True) from error
    cut = np.clip(numbers, rule.low, rule.high)
    scaled = np.log1p(cut) / math.log1p(rule.high) if rule.log else (cut - rule.low) / (rule.high - rule.low)
    return scaled[:, None].astype(np.float32)


def codes(file: Path, expected: str, known: Mapping[str, int], values: list[str]) -> NDArray[np.int64]:
    """Each value's number, [n]. Raises InvalidValue, which says what was `expected`."""
    if unknown := sorted(set(values) - set(known)):
        raise wrong_file(file, f"{expected}, found {unknown[:5]}", quotes=True)
    return np.array([known[value] for value in values], dtype=np.int64)
