"""No cell of a CSV is a formula, whatever a spec, a system or a metric is called; numbers stay numbers."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sweeps
from sweeps.reporting.tables import csv_text

FORMULAS = [
    "=1+1",
    "+1+1",
    "-1+1",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    " =1",
    "\uff1d1",
    "-cmd|' /C calc'!A0",
    '=HYPERLINK("http://x")',
]


def read(text):
    return list(csv.reader(io.StringIO(text, newline="")))


@pytest.mark.parametrize("formula", FORMULAS)
def test_a_formula_becomes_a_text_in_cell_and_header(formula):
    header, row = read(csv_text([formula, "plain"], [{formula: "x", "plain": formula}]))
    assert header == [f"'{formula}".replace("\r", "\n"), "plain"]
    assert row == ["x", header[0]]


def test_numbers_and_other_texts_stay():
    values = [-1.5, 3, float("inf"), float("-inf"), "-1.5", "+2e-3", "-inf", "mlp", "a=b", "", None, True]
    names = [str(number) for number in range(len(values))]
    _, row = read(csv_text(names, [dict(zip(names, values, strict=True))]))
    assert row == ["" if value is None else str(value) for value in values]


@given(st.text(max_size=20))
def test_whatever_stands_in_a_cell_no_spreadsheet_computes_it(text):
    _, (shown, *_) = read(csv_text(["a", "b"], [{"a": text.replace("\0", ""), "b": "x"}]))
    if shown.lstrip(" ")[:1] in tuple("=+-@\t\r\n"):
        assert not shown.strip() or float(shown) is not None


def test_there_is_no_other_door():
    """Who imports `csv` to write, or formats by pandas, goes around it."""
    for path in Path(next(iter(sweeps.__path__))).rglob("*.py"):
        found = re.findall(r"^\s*(?:import|from) csv\b|\.to_csv\(", path.read_text(), re.MULTILINE)
        assert not found or path.name == "tables.py", path
