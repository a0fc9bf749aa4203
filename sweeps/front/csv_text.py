"""The one door of every CSV that we write: no cell is a formula.

Spreadsheets compute a cell that begins with one of a few signs, and a computed cell can send the others anywhere. Names
and texts in a table come from whoever wrote the spec or a system. The remedy is that of OWASP ("CSV Injection"): an
apostrophe before the first sign. Numbers, negative ones too, stay numbers.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_STARTS = ("=", "+", "-", "@", "\t", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What makes a formula of a cell; the last four are the same signs as wide as a Chinese character."""


def csv_text(names: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """A header and one line per row; a name that a row lacks is an empty cell."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(map(_cell, names))
    writer.writerows([_cell(row.get(name, "")) for name in names] for row in rows)
    return buffer.getvalue()


def _cell(value: object) -> object:
    if not isinstance(value, str):
        return value
    # A bare carriage return would end the row: Python's writer quotes line feeds alone.
    text = value.replace("\r\n", "\n").replace("\r", "\n")
    return f"'{text}" if text.lstrip(" ").startswith(_STARTS) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
