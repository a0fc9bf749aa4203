"""Text tables of the UCI Machine Learning Repository: Abalone, Adult (census income) and German Credit (all CC BY 4.0).

Numbers are cut to ranges declared here and mapped to [0, 1]; categories are indicators. Nothing is measured.

abalone        Nash et al. 1995, 4,177 shells. `target: older` (default) is the two-class task of Jaelkoe, Dikmen &
               Honkela 2017: class 1 has at least 10 rings, very nearly half of them; `target: rings` the regression,
               1 to 29. As in abalone.names and Waugh 1995 the first 3,133 are trained on, the last 1,044 validate.
adult          Becker & Kohavi 1996. `form: a9a` (default) reads Platt's 123 binary features, a9a/a9a and a9a/a9a.t (at
               LIBSVM); `form: raw` adult/adult.data and adult/adult.test: the same people in the same order.
               `split: holdout` (default) is that of Bu et al. 2020: of the 32,561 the last 3,256 validate.
               `split: test` trains on all, and validates on the 16,281 of the test file.
german_credit  Statlog, Hofmann 1994, 1,000 applications, 700 good. `form: raw` (default) reads german.data (german.doc
               lists its codes), `form: numeric` the 24 numbers of german.data-numeric, the same people in the same
               order. Split as in Wu et al. 2020, 400 / 300 hold-out / 300 test at random: `split: K` is the K-th public
               permutation, `judge` which 300 validate. `scale: standard` shifts and divides each column by the moments
               that it would have with equally likely categories and numbers uniform on their ranges.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from trainables.data import records
from trainables.data.options import InFolder, Limit, Seed
from trainables.data.source import Published, files_in, wrong_file
from trainables.system import Dataset, DatasetSpec, InputSpec, Split, Task


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


class TextTable:
    """A file whose rows have the fields of `columns`, and then one that is predicted: `last` [n].

    separator  None: tabs, single spaces and runs of spaces
    ids        [n], each row as one text: what decides its part, whatever is made of its columns

    Raises InvalidValue for a row with another number of fields. Empty lines and those that begin with | hold none.
    """

    def __init__(self, file: Path, columns: Mapping[str, Rule], separator: str | None = None) -> None:
        lines = [line for line in file.read_text(encoding="ascii").splitlines() if line.strip() and line[0] != "|"]
        self.file, self.columns, self._rows = file, columns, [line.split(separator) for line in lines]
        for number, row in enumerate(self._rows, 1):
            if len(row) != len(columns) + 1:
                raise wrong_file(file, f"{len(columns) + 1} columns, found {len(row)} in record {number}")
        self.last = [row[-1] for row in self._rows]
        self.ids = np.array([" ".join(row) for row in self._rows], dtype=object)

    def inputs(self) -> NDArray[np.float32]:
        """[n, width]. Raises InvalidValue."""
        by_column = zip(*(row[:-1] for row in self._rows), strict=True)
        parts = [self._column(*rule, list(one)) for rule, one in zip(self.columns.items(), by_column, strict=True)]
        return np.concatenate(parts, axis=1)

    def _column(self, name: str, rule: Rule, values: list[str]) -> NDArray[np.float32]:
        if not isinstance(rule, DeclaredRange):
            known = {category: code for code, category in enumerate(rule)}
            codes = self.codes(f"known categories in column {name}", known, values)
            return np.eye(len(rule), dtype=np.float32)[codes]
        cut = np.clip(self.numbers(name, values), rule.low, rule.high)
        scaled = np.log1p(cut) / math.log1p(rule.high) if rule.log else (cut - rule.low) / (rule.high - rule.low)
        return scaled[:, None].astype(np.float32)

    def numbers(self, name: str, values: list[str]) -> NDArray[np.float64]:
        """[n]. Raises InvalidValue."""
        try:
            return np.array(values, dtype=np.float64)
        except ValueError as error:
            raise wrong_file(self.file, f"numbers in column {name} ({error})", quotes=True) from error

    def codes(self, expected: str, known: Mapping[str, int], values: list[str]) -> NDArray[np.int64]:
        """Each value's number, [n]. Raises InvalidValue, which says what was `expected`."""
        if unknown := sorted(set(values) - set(known)):
            raise wrong_file(self.file, f"{expected}, found {unknown[:5]}", quotes=True)
        return np.array([known[value] for value in values], dtype=np.int64)


ABALONE_TRAIN, ABALONE_TEST = 3_133, 1_044
ABALONE_COLUMNS: dict[str, Rule] = {
    "sex": ("M", "F", "I"),
    "length": DeclaredRange(0, 1),
    "diameter": DeclaredRange(0, 1),
    "height": DeclaredRange(0, 0.5),
    "whole weight": DeclaredRange(0, 3),
    "shucked weight": DeclaredRange(0, 1.5),
    "viscera weight": DeclaredRange(0, 0.8),
    "shell weight": DeclaredRange(0, 1.1),
}
LEAST_RINGS, MOST_RINGS, OLDER = 1, 29, 10


class Abalone(Published, Limit, InFolder):
    """`data: {source: abalone, path: DIR, target: older}`."""

    name = "abalone"
    doc = "sizes and weights of shells, 2 classes by age or the number of rings, 3,133 + 1,044 records; option path"

    target: Literal["older", "rings"] = Field("older", description="what is predicted", examples=["rings"])

    def declared(self) -> DatasetSpec:
        """The facts."""
        shell = InputSpec(shape=(width(ABALONE_COLUMNS),))
        facts = self.classified(2, self.used(ABALONE_TRAIN), ABALONE_TEST, shell=shell)
        rings = {"task": Task.REGRESSION, "classes": None, "target_low": LEAST_RINGS, "target_high": MOST_RINGS}
        return facts if self.target == "older" else replace(facts, **rings)  # type: ignore[arg-type]

    def files(self) -> list[Path]:
        """abalone.data. Raises InvalidValue."""
        return files_in(self.name, self.path, ["abalone"], ["abalone.data"])

    def records(self, facts: DatasetSpec, files: list[Path]) -> Dataset:
        """The records. Raises InvalidValue (columns, sexes, numbers, rings, count)."""
        table = TextTable(files[0], ABALONE_COLUMNS, ",")
        records.check_count(facts, str(files[0]), len(table.last), ABALONE_TRAIN + ABALONE_TEST)
        rings = table.numbers("rings", table.last)
        if (rings != np.floor(rings)).any() or rings.min() < LEAST_RINGS or rings.max() > MOST_RINGS:
            raise wrong_file(files[0], f"whole numbers of {LEAST_RINGS} to {MOST_RINGS} rings", quotes=True)
        targets = rings if facts.task is Task.REGRESSION else (rings >= OLDER).astype(np.int64)
        sides = slice(facts.n), slice(ABALONE_TRAIN, None)
        return records.parted(facts, {"shell": table.inputs()}, targets, *sides, table.ids)


TRAIN_FILE, TEST_FILE, HELD_OUT = 32_561, 16_281, 3_256
A9A_WIDTH = 123


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


ADULT_COLUMNS: dict[str, Rule] = {
    "age": DeclaredRange(0, 100),
    "workclass": _words(
        "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay Never-worked ?"
    ),
    "fnlwgt": DeclaredRange(0, 1_500_000),
    "education": _words(
        "Bachelors Some-college 11th HS-grad Prof-school Assoc-acdm Assoc-voc 9th 7th-8th 12th Masters 1st-4th "
        "10th Doctorate 5th-6th Preschool"
    ),
    "education-num": DeclaredRange(1, 16),
    "marital-status": _words(
        "Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent Married-AF-spouse"
    ),
    "occupation": _words(
        "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty Handlers-cleaners "
        "Machine-op-inspct Adm-clerical Farming-fishing Transport-moving Priv-house-serv Protective-serv "
        "Armed-Forces ?"
    ),
    "relationship": _words("Wife Own-child Husband Not-in-family Other-relative Unmarried"),
    "race": _words("White Asian-Pac-Islander Amer-Indian-Eskimo Other Black"),
    "sex": _words("Female Male"),
    "capital-gain": DeclaredRange(0, 99_999, log=True),
    "capital-loss": DeclaredRange(0, 5_000, log=True),
    "hours-per-week": DeclaredRange(0, 100),
    "native-country": _words(
        "United-States Cambodia England Puerto-Rico Canada Germany Outlying-US(Guam-USVI-etc) India Japan Greece "
        "South China Cuba Iran Honduras Philippines Italy Poland Jamaica Vietnam Mexico Portugal Ireland France "
        "Dominican-Republic Laos Ecuador Taiwan Haiti Columbia Hungary Guatemala Nicaragua Scotland Thailand "
        "Yugoslavia El-Salvador Trinadad&Tobago Peru Hong Holand-Netherlands ?"
    ),
}
"""Categories as adult.names lists them ("?" is missing), bounds as declared here."""


class Adult(Published, Limit, InFolder):
    """`data: {source: adult, path: DIR, form: a9a, split: holdout}`."""

    name = "adult"
    doc = "census income, 2 classes, 32,561 + 16,281 records; a9a or UCI files in option path"

    form: Literal["a9a", "raw"] = Field("a9a", description="which of the published forms is read", examples=["raw"])
    split: Literal["holdout", "test"] = Field(
        "holdout", description="which records are the validation", examples=["test"]
    )

    def declared(self) -> DatasetSpec:
        """The facts."""
        held_out = self.split == "holdout"
        n, validation = (TRAIN_FILE - HELD_OUT, HELD_OUT) if held_out else (TRAIN_FILE, TEST_FILE)
        size = A9A_WIDTH if self.form == "a9a" else width(ADULT_COLUMNS)
        return self.classified(2, self.used(n), validation, person=InputSpec(shape=(size,)))

    def files(self) -> list[Path]:
        """Of training and, where they are the validation, of test records. Raises InvalidValue."""
        folder, *names = ("a9a", "a9a", "a9a.t") if self.form == "a9a" else ("adult", "adult.data", "adult.test")
        return files_in(self.name, self.path, [folder], names[: 1 if self.split == "holdout" else 2])

    def records(self, facts: DatasetSpec, files: list[Path]) -> Dataset:
        """The records; class 1 earns more than $50,000. Raises InvalidValue."""
        parts = [(_read_a9a if self.form == "a9a" else _read_adult)(file) for file in files]
        for file, part, expected in zip(files, parts, (TRAIN_FILE, TEST_FILE), strict=False):
            records.check_count(facts, str(file), len(part), expected)
        people = parts[0]
        judged = records.taken(people, slice(TRAIN_FILE - HELD_OUT, None)) if len(parts) == 1 else parts[1]
        return records.dataset(facts, records.taken(people, slice(facts.n)), judged)


def _read_a9a(file: Path) -> Split:
    from sklearn.datasets import load_svmlight_file

    try:
        # The largest index does not occur in a9a.t, so the width is given.
        features, labels = load_svmlight_file(str(file), n_features=A9A_WIDTH)
    except ValueError as error:
        expected = f"LIBSVM text with {A9A_WIDTH} features ({error})"
        raise wrong_file(file, expected, quotes=True) from error
    return Split(inputs={"person": features.toarray().astype(np.float32)}, targets=(labels > 0).astype(np.int64))


def _read_adult(file: Path) -> Split:
    # adult.test opens with a line that is no record, and ends its labels with a point.
    table = TextTable(file, ADULT_COLUMNS, ", ")
    earns = [label.rstrip(".") for label in table.last]
    labels = table.codes("labels <=50K and >50K", {"<=50K": 0, ">50K": 1}, earns)
    return Split(inputs={"person": table.inputs()}, targets=labels, ids=table.ids)


GERMAN_RECORDS, GERMAN_TRAIN, GERMAN_HELD_OUT = 1000, 400, 300
SPLIT_SEED = 1994


def _codes(attribute: int, count: int) -> tuple[str, ...]:
    return tuple(f"A{attribute}{code}" for code in range(count))


GERMAN_COLUMNS: dict[str, Rule] = {
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

_RANGES: tuple[tuple[int, int], ...] = (
    *((1, 4), (4, 72), (0, 4), (0, 200), (1, 5), (1, 5), (1, 4), (1, 4), (1, 4), (18, 78), (1, 3), (1, 4)),
    *((1, 2), (1, 2), (1, 2)),
    *((0, 1),) * 9,
)
NUMERIC: dict[str, Rule] = {str(number): DeclaredRange(*ends) for number, ends in enumerate(_RANGES, 1)}
"""The 24 columns, in order; the file's authors published no names for them."""


class GermanCredit(Published, Limit, InFolder):
    """`data: {source: german_credit, path: DIR, form: raw, scale: unit, split: 0, judge: test}`."""

    name = "german_credit"
    doc = "credit applications, 2 classes, 400 + 300 of 1,000 records; UCI files in option path"

    form: Literal["raw", "numeric"] = Field(
        "raw", description="which of the published forms is read", examples=["numeric"]
    )
    scale: Literal["unit", "standard"] = Field("unit", description="how columns are scaled", examples=["standard"])
    split: Seed = Field(0, description="the number of the public permutation that splits", examples=[1])
    judge: Literal["test", "holdout"] = Field(
        "test", description="which records are the validation", examples=["holdout"]
    )

    @property
    def columns(self) -> dict[str, Rule]:
        """Those of the form."""
        return GERMAN_COLUMNS if self.form == "raw" else NUMERIC

    def moments(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """What is taken off each column of [0, 1], and what it is divided by, [width]."""
        # A category of k, or a number (k = 0).
        sizes = [0 if isinstance(rule, DeclaredRange) else len(rule) for rule in self.columns.values()]
        kinds = np.array([size for size in sizes for _ in range(max(size, 1))], dtype=np.float64)
        if self.scale == "unit":
            return np.zeros(len(kinds), dtype=np.float32), np.ones(len(kinds), dtype=np.float32)
        share = np.where(kinds > 0, 1 / np.maximum(kinds, 1), 0.5)
        variance = np.where(kinds > 0, share * (1 - share), 1 / 12)
        return share.astype(np.float32), np.sqrt(variance).astype(np.float32)

    def declared(self) -> DatasetSpec:
        """The facts."""
        mean, deviation = self.moments()
        low, high = float((-mean / deviation).min()), float(((1 - mean) / deviation).max())
        applicant = InputSpec(shape=mean.shape, low=low, high=high)
        return self.classified(2, self.used(GERMAN_TRAIN), GERMAN_HELD_OUT, applicant=applicant)

    def files(self) -> list[Path]:
        """That of the form. Raises InvalidValue."""
        name = "german.data" if self.form == "raw" else "german.data-numeric"
        return files_in(self.name, self.path, ["german_credit"], [name])

    def records(self, facts: DatasetSpec, files: list[Path]) -> Dataset:
        """The records; class 1 is good credit. Raises InvalidValue."""
        table = TextTable(files[0], self.columns)
        records.check_count(facts, str(files[0]), len(table.last), GERMAN_RECORDS)
        good = table.codes("labels 1 (good) and 2 (bad)", {"2": 0, "1": 1}, table.last)
        mean, deviation = self.moments()
        applicants = {"applicant": (table.inputs() - mean) / deviation}
        order = np.random.default_rng([SPLIT_SEED, self.split]).permutation(GERMAN_RECORDS)
        holdout, test = np.split(order[GERMAN_TRAIN:], [GERMAN_HELD_OUT])
        judged = test if self.judge == "test" else holdout
        return records.parted(facts, applicants, good, order[: facts.n], judged, table.ids)
