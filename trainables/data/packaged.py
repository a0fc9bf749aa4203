"""Data that need no file: scikit-learn's handwritten digits, the toy's values, and made-up sentences.

digits   UCI Machine Learning Repository, Optical Recognition of Handwritten Digits (Alpaydin & Kaynak 1998, CC BY
         4.0), the 1,797 records of 8x8 pixels that scikit-learn ships. Every fifth, by position, validates.
uniform  Values uniform on [0, 1], whose distribution is public: the error of their mean has a closed form.
sentences  Twelve words of forty each, as codes: three of them praise (20..29) or blame (30..39), the others do neither.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
from pydantic import Field

from trainables.data import records
from trainables.data.options import Limit, Whole
from trainables.data.source import Published
from trainables.system import Dataset, DatasetSpec, InputSpec, Split, Task

RECORDS, EVERY, INK = 1797, 5, 16.0
VALIDATION = -(-RECORDS // EVERY)


class Digits(Published, Limit):
    """`data: {source: digits}`."""

    name = "digits"
    doc = "handwritten digits, 8x8 pixels, 10 classes, 1,437 + 360 records; packaged with scikit-learn"

    def declared(self) -> DatasetSpec:
        """The facts."""
        return self.classified(10, self.used(RECORDS - VALIDATION), VALIDATION, image=InputSpec(shape=(8, 8)))

    def records(self, facts: DatasetSpec, files: list[Path]) -> Dataset:
        """The records; ink 0..16 becomes 0..1. Raises InvalidValue when the package's file is another one."""
        from sklearn.datasets import load_digits

        bunch = load_digits()
        records.check_count(facts, "scikit-learn's digits", len(bunch.target), RECORDS)
        held_out = np.arange(RECORDS) % EVERY == 0
        images = {"image": (bunch.images / INK).astype(np.float32)}
        return records.parted(facts, images, bunch.target, np.flatnonzero(~held_out)[: facts.n], held_out)


class Uniform(Published):
    """`data: {source: uniform, n: 1000}`."""

    name = "uniform"
    doc = "n values uniform on [0, 1] from a fixed seed; option n (default 1000)"

    n: Whole = Field(1000, description="how many values there are", examples=[4000])

    def declared(self) -> DatasetSpec:
        """Facts of n values."""
        value = InputSpec(shape=(), low=0.0, high=1.0)
        return DatasetSpec(dataset=self.name, task=Task.MEAN, n=self.n, n_validation=0, features={"value": value})

    def records(self, facts: DatasetSpec, files: list[Path]) -> Dataset:
        """The values; the same for the same n."""
        values = np.random.default_rng(20260101).random(facts.n)
        train, validation = (Split(inputs={"value": part}, targets=part) for part in (values, np.zeros(0)))
        return Dataset(facts, train, validation, hashlib.sha256(values.tobytes()).hexdigest())


WORDS, LENGTH, OPINIONS = 40, 12, 3


class Sentences(Published):
    """`data: {source: sentences}`."""

    name = "sentences"
    doc = "made-up sentences of 12 words of 40, as codes, that praise or blame: n (default 2000) + 500 records"

    n: Whole = Field(2000, description="how many sentences train", examples=[3000])

    def declared(self) -> DatasetSpec:
        """The facts."""
        return self.classified(2, self.n, 500, tokens=InputSpec(shape=(LENGTH,), cardinality=WORDS))

    def records(self, facts: DatasetSpec, files: list[Path]) -> Dataset:
        """The sentences; the same for the same n."""
        rng, size = np.random.default_rng(20260101), facts.n + facts.n_validation
        praise = rng.integers(2, size=size)
        words = rng.integers(WORDS // 2, size=(size, LENGTH))
        opinions = rng.integers(10, size=(size, OPINIONS)) + np.where(praise, 20, 30)[:, None]
        places = rng.permuted(np.tile(np.arange(LENGTH), (size, 1)), axis=1)[:, :OPINIONS]
        np.put_along_axis(words, places, opinions, axis=1)
        held_out = np.arange(size) >= facts.n
        return records.parted(facts, {"tokens": words}, praise, ~held_out, held_out)
