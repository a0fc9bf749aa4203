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

import numpy as np
from numpy.typing import NDArray

from dpcore.checks import QuotesRecords
from trainables.data import files as columns
from trainables.data import options
from trainables.data import records as content
from trainables.data.files import DeclaredRange, Rule
from trainables.data.source import PartOption, PublishedSource
from trainables.system import Dataset, Feature, PublicFacts, Task

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


@options.options
class AbaloneOptions(PartOption, options.Limit, options.InFolder):
    """Options of Abalone."""

    target: str = options.word("older", "rings", doc="what is predicted")


class Abalone(PublishedSource[AbaloneOptions]):
    """`data: {source: abalone, path: DIR, target: older}`."""

    name = "abalone"
    doc = "sizes and weights of shells, 2 classes by age or the number of rings, 3,133 + 1,044 records; option path"
    asks = AbaloneOptions

    def declared(self, asked: AbaloneOptions) -> PublicFacts:
        """The facts."""
        older = asked.target == "older"
        return PublicFacts(
            dataset=self.name,
            task=Task.CLASSIFICATION if older else Task.REGRESSION,
            n=asked.used(TRAIN),
            n_validation=TEST,
            features={"shell": Feature(shape=(columns.width(COLUMNS),))},
            classes=2 if older else None,
            target_low=0.0 if older else LEAST_RINGS,
            target_high=1.0 if older else MOST_RINGS,
        )

    def files(self, asked: AbaloneOptions) -> list[Path]:
        """abalone.data. Raises InvalidValue."""
        return [options.existing(self.name, options.folder(self.name, asked.path, "abalone") / "abalone.data")]

    def records(self, asked: AbaloneOptions, facts: PublicFacts, files: list[Path]) -> Dataset:
        """The records. Raises InvalidValue (columns, sexes, numbers, rings, count)."""
        table = columns.rows(files[0], len(COLUMNS) + 1, ",")
        content.records(facts, str(files[0]), len(table), TRAIN + TEST)
        encoded, rings = columns.encoded(files[0], COLUMNS, table), _rings(files[0], [row[-1] for row in table])
        targets = rings.astype(np.float64) if facts.task is Task.REGRESSION else (rings >= OLDER).astype(np.int64)
        return content.parted(
            facts, {"shell": encoded}, targets, slice(facts.n), slice(TRAIN, None), columns.as_written(table)
        )


def _rings(file: Path, values: list[str]) -> NDArray[np.int64]:
    try:
        rings = np.array(values, dtype=np.int64)
    except ValueError as error:
        raise QuotesRecords(
            "data.path", str(file), f"whole numbers of rings ({error})", columns.ANOTHER_FILE
        ) from error
    if rings.min() < LEAST_RINGS or rings.max() > MOST_RINGS:
        expected = f"{LEAST_RINGS} to {MOST_RINGS} rings, found {rings.min()} to {rings.max()}"
        raise QuotesRecords("data.path", str(file), expected, columns.ANOTHER_FILE)
    return rings


ABALONE = Abalone()
