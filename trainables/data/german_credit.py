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

from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from trainables.data import records, text_table
from trainables.data.files import existing, find_folder
from trainables.data.options import InFolder, Limit, Seed
from trainables.data.source import PartOption, PublishedSource
from trainables.data.text_table import DeclaredRange, Rule
from trainables.system import Dataset, DatasetSpec, InputSpec, Task

RECORDS, TRAIN, HELD_OUT = 1000, 400, 300
CLASSES = {"2": 0, "1": 1}
SPLIT_SEED = 1994


def _codes(attribute: int, count: int) -> tuple[str, ...]:
    return tuple(f"A{attribute}{code}" for code in range(count))


COLUMNS: dict[str, Rule] = {
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


class GermanCreditOptions(PartOption, Limit, InFolder):
    """Options of German Credit."""

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
        return COLUMNS if self.form == "raw" else NUMERIC

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


class GermanCredit(PublishedSource[GermanCreditOptions]):
    """`data: {source: german_credit, path: DIR, form: raw, scale: unit, split: 0, judge: test}`."""

    name = "german_credit"
    doc = "credit applications, 2 classes, 400 + 300 of 1,000 records; UCI files in option path"
    asks = GermanCreditOptions

    def declared(self, asked: GermanCreditOptions) -> DatasetSpec:
        """The facts."""
        mean, deviation = asked.moments()
        low, high = float((-mean / deviation).min()), float(((1 - mean) / deviation).max())
        return DatasetSpec(
            dataset=self.name,
            task=Task.CLASSIFICATION,
            n=asked.used(TRAIN),
            n_validation=HELD_OUT,
            features={"applicant": InputSpec(shape=mean.shape, low=low, high=high)},
            classes=2,
        )

    def files(self, asked: GermanCreditOptions) -> list[Path]:
        """That of the form. Raises InvalidValue."""
        folder = find_folder(self.name, asked.path, "german_credit")
        return [existing(self.name, folder / ("german.data" if asked.form == "raw" else "german.data-numeric"))]

    def records(self, asked: GermanCreditOptions, facts: DatasetSpec, files: list[Path]) -> Dataset:
        """The records; class 1 is good credit. Raises InvalidValue."""
        [file] = files
        table = text_table.rows(file, len(asked.columns) + 1)
        records.check_count(facts, str(file), len(table), RECORDS)
        good = text_table.codes(file, "labels 1 (good) and 2 (bad)", CLASSES, [row[-1] for row in table])
        mean, deviation = asked.moments()
        applicants = (text_table.encoded(file, asked.columns, table) - mean) / deviation
        order = np.random.default_rng([SPLIT_SEED, asked.split]).permutation(RECORDS)
        holdout, test = order[TRAIN : TRAIN + HELD_OUT], order[TRAIN + HELD_OUT :]
        judged = test if asked.judge == "test" else holdout
        ids = text_table.as_written(table)
        return records.parted(facts, {"applicant": applicants}, good, order[: facts.n], judged, ids)


GERMAN_CREDIT = GermanCredit()
