"""A first spec for a table of one's own, from the names and types of its columns: whatever else is a blank."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath

import yaml

from dpcore.checks import InvalidValue
from sweeps.spec.problems import BLANK
from sweeps.util.text import did_you_mean
from trainables.data.table_file import ColumnKind, FileColumn, file_columns
from trainables.worker.redaction import holds_secret, shown_url

_TARGET, _CLASSES = "[low, high], its declared ends", "every label that may occur"
_HEAD = """\
# A sweep over {path}, begun from the names and types of its columns: no record was read.
# Replace each {blank} by what is public knowledge, or was fixed before anybody looked at the records: bounds and
# categories that are read from the records would be a release of their own, which no claim covers.
# `sweeps check` names what is still blank, then plans the sweep and tries it out on made-up records.
"""
_TAIL = """\
  validation:              # leave these lines out, and nothing is judged
    records: {blank}           # private: metrics are noised and covered by the claim; public: neither
    share: 0.2
    id: {blank}                # column with a stable id of each record, by whose hash the records are parted

systems:
  noisy-sgd:               # `sweeps systems noisy-sgd` lists every knob
    model: mlp             # or mypackage.models:build
    learning_rate: {{log_uniform: [0.05, 2]}}
    clip_norm: {{log_uniform: [0.3, 3]}}
    batch_size: 256        # at most n
    epochs: {{int_uniform: [5, 20]}}

privacy:
  epsilon: [1, 3]          # the budgets that are tried
  delta: {blank}               # at most 1/n
  unit: {blank}                # whose is a row? record: each somebody else's; else the column of data.unit

objectives:
  - {{metric: {metric}, goal: {goal}}}
  - {{metric: epsilon, goal: minimize}}

search: {{trials: 30, seed: 0}}
"""


def starting_spec(file: str | Path, label: str | None = None) -> str:
    """A commented spec for `file`, as YAML, whose blanks `load_spec` refuses one by one.

    file   Parquet or CSV, a folder of such, or a URL of an object store; names and types of its columns are read
    label  the column to predict; a blank where it is None

    Raises InvalidValue (file, label).
    """
    path = str(file)
    if holds_secret(path):
        raise InvalidValue("file", shown_url(path), "a URL without a password: everybody with the results reads it")
    columns = _columns(path)
    names = [column.name for column in columns]
    if label is not None and label not in names:
        raise InvalidValue("label", label, f"a column of {path}", did_you_mean(label, names))
    target = next((column for column in columns if column.name == label), None)
    return "".join(_lines(path, columns, target))


def _columns(path: str) -> tuple[FileColumn, ...]:
    try:
        return file_columns(path)
    except InvalidValue as error:
        if error.name != "data.path":
            raise
        raise InvalidValue("file", path, error.expected, "Parquet or CSV: a file, a folder or a URL.") from None


def _lines(path: str, columns: Sequence[FileColumn], target: FileColumn | None) -> Iterator[str]:
    yield _HEAD.format(path=path.replace("\n", " "), blank=BLANK)
    yield f"name: {_sweep_name(path)}\n\n"
    yield f"data:\n  source: table\n  path: {_quoted(path)}\n"
    yield f"  n: {BLANK}                   # how many records; public, and off by at most a tenth\n"
    yield "  # unit: {column: person_id, max_records: 50}   # where somebody has several rows; n then counts persons\n"
    yield "  # population: people     # whose they are: all sweeps over them share a budget (`sweeps budget people`)\n"
    number = target is not None and target.kind is ColumnKind.NUMBER
    if target is None:
        yield f"  label: {BLANK}               # the column to predict; take it out of `columns` below\n"
    else:
        yield f"  label: {_quoted(target.name)}  # {_told(target)}\n"
    other = "instead, of a class: `classes: [a, b]`" if number else "instead, of a number: `target: [low, high]`"
    yield f"  {'target' if number else 'classes'}: {BLANK}             # {_TARGET if number else _CLASSES}; {other}\n"
    yield "  columns:                 # the inputs: delete what is none, such as names and ids\n"
    yield from (_column(column) for column in columns if column is not target)
    metric, goal = ("accuracy", "maximize") if target is not None and not number else ("loss", "minimize")
    yield _TAIL.format(blank=BLANK, metric=metric, goal=goal)


_COLUMNS = {
    ColumnKind.TRUTH: "    {name}: {{low: 0, high: 1}}  # {told}\n",
    ColumnKind.NUMBER: "    {name}:  # {told}; values beyond the bounds are set to them (or `categories: [1, 2]`)\n"
    "      low: {blank}\n      high: {blank}\n",
    ColumnKind.WORD: "    {name}:  # {told}\n      categories: {blank}  # a list of all; others are refused\n",
    ColumnKind.NUMBERS: "    {name}:  # {told}\n      low: {blank}\n      high: {blank}\n"
    "      shape: {shape}  # [LENGTH], or [CHANNELS, ROWS, COLUMNS]\n",
    ColumnKind.UNKNOWN: "    {name}: {blank}  # a number: {{low: A, high: B}}; a word: {{categories: [a, b]}}; "
    "or delete\n",
    ColumnKind.MOMENT: "    # {name}: {told}; as an input: days since a public date, as a number\n",
    ColumnKind.BYTES: "    {name}:  # {told}, of encoded images\n      image: {blank}  # [ROWS, COLUMNS]\n",
    ColumnKind.OTHER: "    # {name}: {told}; no input\n",
}


def _column(column: FileColumn) -> str:
    shape = BLANK if column.size is None else [column.size]
    told = _told(column)
    return _COLUMNS[column.kind].format(name=_quoted(column.name), told=told, blank=BLANK, shape=shape)


def _told(column: FileColumn) -> str:
    return " ".join(column.type.split())[:60] or "a CSV file tells no types"


def _sweep_name(path: str) -> str:
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", PurePath(path.rstrip("/")).name.partition(".")[0]).strip("._-")
    return (stem or "mine")[:100]


def _quoted(text: str) -> str:
    """As a YAML scalar on one line, that reads as this text and nothing else."""
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_./-]*", text) and text.lower() not in ("true", "false", "null"):
        return text
    return str(yaml.safe_dump(text, default_style='"', allow_unicode=True, width=10**6)).strip()
