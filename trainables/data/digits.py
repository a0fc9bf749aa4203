"""Handwritten digits, 8x8: the data set that comes with an installed package.

Origin   UCI Machine Learning Repository, Optical Recognition of Handwritten Digits (Alpaydin & Kaynak 1998),
         the 1,797 records that scikit-learn ships. Licence: CC BY 4.0.
Split    Every fifth record, by position, is validation: 1,437 and 360.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from trainables.data import content, options
from trainables.system import Dataset, Feature, PublicFacts, Split, Task

RECORDS, EVERY, INK = 1797, 5, 16.0
VALIDATION = -(-RECORDS // EVERY)


class Digits:
    """`data: {source: digits}`; option limit."""

    name = "digits"
    doc = "handwritten digits, 8x8 pixels, 10 classes, 1,437 + 360 records; packaged with scikit-learn"

    def facts(self, options_: Mapping[str, object]) -> PublicFacts:
        """Facts under option `limit`. Raises InvalidValue."""
        options.only(self.name, options_, "limit")
        return PublicFacts(
            dataset=self.name,
            task=Task.CLASSIFICATION,
            n=options.limited(options_, RECORDS - VALIDATION),
            n_validation=VALIDATION,
            features={"image": Feature(shape=(8, 8))},
            classes=10,
        )

    def inspect(self, options_: Mapping[str, object]) -> None:
        """There is no file."""

    def load(self, options_: Mapping[str, object]) -> Dataset:
        """The records; ink 0..16 becomes 0..1. Raises InvalidValue when the package's file is another one."""
        from sklearn.datasets import load_digits

        facts = self.facts(options_)
        bunch = load_digits()
        content.records(facts, "scikit-learn's digits", len(bunch.target), RECORDS)
        held_out = np.arange(RECORDS) % EVERY == 0
        images = {"image": (bunch.images / INK).astype(np.float32)}
        train = content.select(images, bunch.target, np.flatnonzero(~held_out)[: facts.n])
        validation: Split = content.select(images, bunch.target, np.flatnonzero(held_out))
        return content.dataset(facts, train, validation)


DIGITS = Digits()
