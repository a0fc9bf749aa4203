"""German Credit, in its own mixed columns or as the 24 numbers of its numeric form.

Origin   UCI Machine Learning Repository, Statlog, Hofmann 1994 (CC BY 4.0). 1,000 applications, 700 good, 300 bad.
Forms    `form: raw` (default) reads german.data, 20 columns: 7 numbers cut to bounds declared here and mapped to
         [0, 1], 13 categories as indicators (german.doc lists them). `form: numeric` reads german.data-numeric: the
         same people in the same order, 24 whole numbers, mapped to [0, 1] by their declared ranges.
Split    That of Wu et al. 2020: 400 train, 300 hold-out, 300 test, at random. `split: K` (default 0) is the K-th
         public permutation of the positions; `judge: test` (default) or `holdout` says which 300 are the validation.
Scaling  `scale: unit` (default) leaves [0, 1]. `scale: standard` shifts and divides each column by the mean and
         standard deviation that it would have if every category were equally likely and every number uniform on its
         range: no record is measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpcore import checks
from dpcore.checks import InvalidValue
from trainables.data import content, options
from trainables.data.adult_columns import DeclaredRange
from trainables.system import Dataset, Feature, PublicFacts, Task

RECORDS, TRAIN, HELD_OUT = 1000, 400, 300
GOOD, BAD = "1", "2"
SPLIT_SEED = 1994


def _codes(attribute: int, count: int) -> tuple[str, ...]:
    return tuple(f"A{attribute}{code}" for code in range(count))


COLUMNS: dict[str, DeclaredRange | tuple[str, ...]] = {
    "checking": _codes(1, 5)[1:],
    "duration": DeclaredRange(0, 72),
    "history": _codes(3, 5),
    "purpose": _codes(4, 11),
    "amount": DeclaredRange(0, 20_000, log=True),
    "savings": _codes(6, 6)[1:],
    "employment": _codes(7, 6)[1:],
    "rate": DeclaredRange(1, 4),
    "status": _codes(9, 6)[1:],
    "debtors": _codes(10, 4)[1:],
    "residence": DeclaredRange(1, 4),
    "property": _codes(12, 5)[1:],
    "age": DeclaredRange(18, 78),
    "plans": _codes(14, 4)[1:],
    "housing": _codes(15, 4)[1:],
    "credits": DeclaredRange(1, 4),
    "job": _codes(17, 5)[1:],
    "dependents": DeclaredRange(1, 2),
    "telephone": _codes(19, 3)[1:],
    "foreign": _codes(20, 3)[1:],
}
"""Column by column; A95 (single women) and A47 (vacation) are documented and occur in nobody."""

NUMERIC: tuple[tuple[int, int], ...] = (
    *((1, 4), (4, 72), (0, 4), (0, 200), (1, 5), (1, 5), (1, 4), (1, 4), (1, 4), (18, 78), (1, 3), (1, 4)),
    *((1, 2), (1, 2), (1, 2)),
    *((0, 1),) * 9,
)
"""Declared range of each of the 24 columns, in order; the file's authors published no names for them."""


class GermanCredit:
    """`data: {source: german_credit, path: DIR, form: raw, scale: unit, split: 0, judge: test}`; option limit."""

    name = "german_credit"
    doc = "credit applications, 2 classes, 400 + 300 of 1,000 records; UCI files in option path"

    def facts(self, options_: Mapping[str, object]) -> PublicFacts:
        """Facts under the options. Raises InvalidValue."""
        options.only(self.name, options_, "path", "form", "scale", "split", "judge", "limit")
        options.choice(options_, "judge", ("test", "holdout"))
        _split(options_)
        mean, deviation = _moments(options_)
        return PublicFacts(
            dataset=self.name,
            task=Task.CLASSIFICATION,
            n=options.limited(options_, TRAIN),
            n_validation=HELD_OUT,
            features={
                "applicant": Feature(
                    shape=mean.shape,
                    low=float((-mean / deviation).min()),
                    high=float(((1 - mean) / deviation).max()),
                )
            },
            classes=2,
        )

    def inspect(self, options_: Mapping[str, object]) -> None:
        """Whether the files are there; reads none. Raises InvalidValue."""
        self._file(options_)

    def load(self, options_: Mapping[str, object]) -> Dataset:
        """The records; class 1 is good credit. Raises InvalidValue."""
        facts = self.facts(options_)
        raw, file = self._raw(options_), self._file(options_)
        rows = _rows(file, (len(COLUMNS) if raw else len(NUMERIC)) + 1)
        content.records(facts, str(file), len(rows), RECORDS)
        labels = [row[-1] for row in rows]
        if unknown := sorted(set(labels) - {GOOD, BAD}):
            raise InvalidValue("data.path", str(file), f"labels {GOOD} (good) and {BAD} (bad), found {unknown}")
        mean, deviation = _moments(options_)
        inputs = {"applicant": ((_raw(file, rows) if raw else _numeric(file, rows)) - mean) / deviation}
        good = np.array([label == GOOD for label in labels], dtype=np.int64)
        order = np.random.default_rng([SPLIT_SEED, _split(options_)]).permutation(RECORDS)
        holdout, test = order[TRAIN : TRAIN + HELD_OUT], order[TRAIN + HELD_OUT :]
        judged = test if options.choice(options_, "judge", ("test", "holdout")) == "test" else holdout
        return content.dataset(
            facts, content.select(inputs, good, order[: facts.n]), content.select(inputs, good, judged)
        )

    def _raw(self, options_: Mapping[str, object]) -> bool:
        return options.choice(options_, "form", ("raw", "numeric")) == "raw"

    def _file(self, options_: Mapping[str, object]) -> Path:
        folder = options.folder(self.name, options_, "german_credit")
        return options.existing(self.name, folder / ("german.data" if self._raw(options_) else "german.data-numeric"))


def _moments(options_: Mapping[str, object]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """What is taken off each column of [0, 1], and what it is divided by, [width]."""
    raw = options.choice(options_, "form", ("raw", "numeric")) == "raw"
    # A category of k, or a number (k = 0).
    sizes = (
        [0 if isinstance(rule, DeclaredRange) else len(rule) for rule in COLUMNS.values()]
        if raw
        else [0] * len(NUMERIC)
    )
    columns = np.array([size for size in sizes for _ in range(max(size, 1))], dtype=np.float64)
    if options.choice(options_, "scale", ("unit", "standard")) == "unit":
        return np.zeros(len(columns), dtype=np.float32), np.ones(len(columns), dtype=np.float32)
    share = np.where(columns > 0, 1 / np.maximum(columns, 1), 0.5)
    variance = np.where(columns > 0, share * (1 - share), 1 / 12)
    return share.astype(np.float32), np.sqrt(variance).astype(np.float32)


def _split(options_: Mapping[str, object]) -> int:
    value = options_.get("split", 0)
    try:
        checks.count(split=value)  # type: ignore[arg-type]
    except InvalidValue:
        raise InvalidValue("data.split", value, "the number of a permutation, an integer of at least 0") from None
    return int(value)  # type: ignore[call-overload]


def _rows(file: Path, columns: int) -> list[list[str]]:
    """The file's fields; tabs, single spaces and runs of spaces all separate."""
    rows = [line.split() for line in file.read_text(encoding="ascii").splitlines() if line.strip()]
    for number, row in enumerate(rows, 1):
        if len(row) != columns:
            raise InvalidValue("data.path", f"{file}:{number}", f"{columns} columns, found {len(row)}")
    return rows


def _raw(file: Path, rows: list[list[str]]) -> NDArray[np.float32]:
    parts = []
    for i, (name, rule) in enumerate(COLUMNS.items()):
        values = [row[i] for row in rows]
        if isinstance(rule, DeclaredRange):
            numbers = np.clip(_numbers(file, name, values), rule.low, rule.high)
            if rule.log:
                parts.append(np.log1p(numbers)[:, None] / math.log1p(rule.high))
            else:
                parts.append((numbers[:, None] - rule.low) / (rule.high - rule.low))
            continue
        position = {category: code for code, category in enumerate(rule)}
        if unknown := sorted(set(values) - set(position)):
            raise InvalidValue("data.path", str(file), f"known categories in column {name}, found {unknown[:5]}")
        parts.append(np.eye(len(rule))[[position[value] for value in values]])
    return np.concatenate(parts, axis=1).astype(np.float32)


def _numeric(file: Path, rows: list[list[str]]) -> NDArray[np.float32]:
    columns = []
    for i, (low, high) in enumerate(NUMERIC):
        numbers = np.clip(_numbers(file, str(i + 1), [row[i] for row in rows]), low, high)
        columns.append((numbers - low) / (high - low))
    return np.stack(columns, axis=1).astype(np.float32)


def _numbers(file: Path, column: str, values: list[str]) -> NDArray[np.float64]:
    try:
        return np.array(values, dtype=np.float64)
    except ValueError as error:
        raise InvalidValue("data.path", str(file), f"numbers in column {column} ({error})") from error


GERMAN_CREDIT = GermanCredit()
