"""Abalone: shells, and how old they are.

Origin   UCI Machine Learning Repository, Nash et al. 1995 (CC BY 4.0). 4,177 records, none missing.
Targets  `target: older` (default) is the two-class task of Jaelkoe, Dikmen & Honkela 2017: class 1 has at least 10
         rings (11 years and more), very nearly half of them. `target: rings` is the regression, 1 to 29.
Split    That of abalone.names and Waugh 1995: the first 3,133 are trained on, the last 1,044 are validation.
Scaling  Sex as three indicators; sizes and weights cut to bounds declared here and mapped to [0, 1]. Two records have
         height 0 and stay as they are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from trainables.data import records, text_table
from trainables.data.files import existing, find_folder, wrong_file
from trainables.data.options import InFolder, Limit
from trainables.data.source import PartOption, PublishedSource
from trainables.data.text_table import DeclaredRange, Rule
from trainables.system import Dataset, DatasetSpec, InputSpec, Task

TRAIN, TEST = 3_133, 1_044
COLUMNS: dict[str, Rule] = {
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


class AbaloneOptions(PartOption, Limit, InFolder):
    """Options of Abalone."""

    target: Literal["older", "rings"] = Field("older", description="what is predicted", examples=["rings"])


class Abalone(PublishedSource[AbaloneOptions]):
    """`data: {source: abalone, path: DIR, target: older}`."""

    name = "abalone"
    doc = "sizes and weights of shells, 2 classes by age or the number of rings, 3,133 + 1,044 records; option path"
    asks = AbaloneOptions

    def declared(self, asked: AbaloneOptions) -> DatasetSpec:
        """The facts."""
        older = asked.target == "older"
        return DatasetSpec(
            dataset=self.name,
            task=Task.CLASSIFICATION if older else Task.REGRESSION,
            n=asked.used(TRAIN),
            n_validation=TEST,
            features={"shell": InputSpec(shape=(text_table.width(COLUMNS),))},
            classes=2 if older else None,
            target_low=0.0 if older else LEAST_RINGS,
            target_high=1.0 if older else MOST_RINGS,
        )

    def files(self, asked: AbaloneOptions) -> list[Path]:
        """abalone.data. Raises InvalidValue."""
        return [existing(self.name, find_folder(self.name, asked.path, "abalone") / "abalone.data")]

    def records(self, asked: AbaloneOptions, facts: DatasetSpec, files: list[Path]) -> Dataset:
        """The records. Raises InvalidValue (columns, sexes, numbers, rings, count)."""
        table = text_table.rows(files[0], len(COLUMNS) + 1, ",")
        records.check_count(facts, str(files[0]), len(table), TRAIN + TEST)
        encoded, rings = text_table.encoded(files[0], COLUMNS, table), _rings(files[0], [row[-1] for row in table])
        targets = rings.astype(np.float64) if facts.task is Task.REGRESSION else (rings >= OLDER).astype(np.int64)
        return records.parted(
            facts, {"shell": encoded}, targets, slice(facts.n), slice(TRAIN, None), text_table.as_written(table)
        )


def _rings(file: Path, values: list[str]) -> NDArray[np.int64]:
    try:
        rings = np.array(values, dtype=np.int64)
    except ValueError as error:
        raise wrong_file(file, f"whole numbers of rings ({error})", quotes=True) from error
    if rings.min() < LEAST_RINGS or rings.max() > MOST_RINGS:
        expected = f"{LEAST_RINGS} to {MOST_RINGS} rings, found {rings.min()} to {rings.max()}"
        raise wrong_file(file, expected, quotes=True)
    return rings


ABALONE = Abalone()
