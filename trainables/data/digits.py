"""Handwritten digits, 8x8: the data set that comes with an installed package.

Origin   UCI Machine Learning Repository, Optical Recognition of Handwritten Digits (Alpaydin & Kaynak 1998),
         the 1,797 records that scikit-learn ships. Licence: CC BY 4.0.
Split    Every fifth record, by position, is validation: 1,437 and 360.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from trainables.data import records
from trainables.data.options import Limit
from trainables.data.source import PartOption, PublishedSource
from trainables.system import Dataset, DatasetSpec, InputSpec, Task

RECORDS, EVERY, INK = 1797, 5, 16.0
VALIDATION = -(-RECORDS // EVERY)


class DigitsOptions(PartOption, Limit):
    """Options of the packaged digits."""


class Digits(PublishedSource[DigitsOptions]):
    """`data: {source: digits}`."""

    name = "digits"
    doc = "handwritten digits, 8x8 pixels, 10 classes, 1,437 + 360 records; packaged with scikit-learn"
    asks = DigitsOptions

    def declared(self, asked: DigitsOptions) -> DatasetSpec:
        """The facts."""
        return DatasetSpec(
            dataset=self.name,
            task=Task.CLASSIFICATION,
            n=asked.used(RECORDS - VALIDATION),
            n_validation=VALIDATION,
            features={"image": InputSpec(shape=(8, 8))},
            classes=10,
        )

    def records(self, asked: DigitsOptions, facts: DatasetSpec, files: list[Path]) -> Dataset:
        """The records; ink 0..16 becomes 0..1. Raises InvalidValue when the package's file is another one."""
        from sklearn.datasets import load_digits

        bunch = load_digits()
        records.check_count(facts, "scikit-learn's digits", len(bunch.target), RECORDS)
        held_out = np.arange(RECORDS) % EVERY == 0
        images = {"image": (bunch.images / INK).astype(np.float32)}
        return records.parted(facts, images, bunch.target, np.flatnonzero(~held_out)[: facts.n], held_out)


DIGITS = Digits()
