"""Abalone: shells, and how old they are.

Origin   UCI Machine Learning Repository, Nash et al. 1995 (CC BY 4.0). 4,177 records, none missing.
Targets  `target: older` (default) is the two-class task of Jaelkoe, Dikmen & Honkela 2017: class 1 has at least 10
         rings (11 years and more), very nearly half of them. `target: rings` is the regression, 1 to 29.
Split    That of abalone.names and Waugh 1995: the first 3,133 are trained on, the last 1,044 are validation.
Scaling  Sex as three indicators; sizes and weights cut to bounds declared here and mapped to [0, 1]. Two records have
         height 0 and stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpcore.checks import InvalidValue
from trainables.data import content, options
from trainables.data.adult_columns import DeclaredRange
from trainables.system import Dataset, Feature, PublicFacts, Split, Task

TRAIN, TEST = 3_133, 1_044
SEXES = ("M", "F", "I")
SIZES: dict[str, DeclaredRange] = {
    "length": DeclaredRange(0, 1),
    "diameter": DeclaredRange(0, 1),
    "height": DeclaredRange(0, 0.5),
    "whole weight": DeclaredRange(0, 3),
    "shucked weight": DeclaredRange(0, 1.5),
    "viscera weight": DeclaredRange(0, 0.8),
    "shell weight": DeclaredRange(0, 1.1),
}
WIDTH = len(SEXES) + len(SIZES)
LEAST_RINGS, MOST_RINGS, OLDER = 1, 29, 10


class Abalone:
    """`data: {source: abalone, path: DIR, target: older}`; option limit."""

    name = "abalone"
    doc = "sizes and weights of shells, 2 classes by age or the number of rings, 3,133 + 1,044 records; option path"

    def facts(self, options_: Mapping[str, object]) -> PublicFacts:
        """Facts under the options. Raises InvalidValue."""
        options.only(self.name, options_, "path", "target", "limit")
        older = options.choice(options_, "target", ("older", "rings")) == "older"
        return PublicFacts(
            dataset=self.name,
            task=Task.CLASSIFICATION if older else Task.REGRESSION,
            n=options.limited(options_, TRAIN),
            n_validation=TEST,
            features={"shell": Feature(shape=(WIDTH,))},
            classes=2 if older else None,
            target_low=0.0 if older else LEAST_RINGS,
            target_high=1.0 if older else MOST_RINGS,
        )

    def inspect(self, options_: Mapping[str, object]) -> None:
        """Whether the files are there; reads none. Raises InvalidValue."""
        self._file(options_)

    def load(self, options_: Mapping[str, object]) -> Dataset:
        """The records. Raises InvalidValue (folder, columns, sexes, numbers, rings, count)."""
        facts = self.facts(options_)
        file = self._file(options_)
        rows = [line.split(",") for line in file.read_text(encoding="ascii").splitlines() if line]
        for number, row in enumerate(rows, 1):
            if len(row) != len(SIZES) + 2:
                expected = f"{len(SIZES) + 2} columns separated by commas, found {len(row)}"
                raise InvalidValue("data.path", f"{file}:{number}", expected)
        content.records(facts, str(file), len(rows), TRAIN + TEST)
        inputs, rings = {"shell": _shells(file, rows)}, _rings(file, rows)
        targets = rings.astype(np.float64) if facts.task is Task.REGRESSION else (rings >= OLDER).astype(np.int64)
        return content.dataset(
            facts,
            Split(inputs={"shell": inputs["shell"][: facts.n]}, targets=targets[: facts.n]),
            Split(inputs={"shell": inputs["shell"][TRAIN:]}, targets=targets[TRAIN:]),
        )

    def _file(self, options_: Mapping[str, object]) -> Path:
        return options.existing(self.name, options.folder(self.name, options_, "abalone") / "abalone.data")


def _shells(file: Path, rows: list[list[str]]) -> NDArray[np.float32]:
    sexes = [row[0] for row in rows]
    if unknown := sorted(set(sexes) - set(SEXES)):
        raise InvalidValue("data.path", str(file), f"sexes {', '.join(SEXES)}, found {unknown[:5]}")
    try:
        sizes = np.array([row[1:-1] for row in rows], dtype=np.float64)
    except ValueError as error:
        raise InvalidValue("data.path", str(file), f"numbers in columns 2 to 8 ({error})") from error
    low, high = (np.array([getattr(one, end) for one in SIZES.values()]) for end in ("low", "high"))
    scaled = (np.clip(sizes, low, high) - low) / (high - low)
    indicators = np.eye(len(SEXES))[[SEXES.index(sex) for sex in sexes]]
    return np.hstack([indicators, scaled]).astype(np.float32)


def _rings(file: Path, rows: list[list[str]]) -> NDArray[np.int64]:
    try:
        rings = np.array([row[-1] for row in rows], dtype=np.int64)
    except ValueError as error:
        raise InvalidValue("data.path", str(file), f"whole numbers of rings ({error})") from error
    if rings.min() < LEAST_RINGS or rings.max() > MOST_RINGS:
        expected = f"{LEAST_RINGS} to {MOST_RINGS} rings, found {rings.min()} to {rings.max()}"
        raise InvalidValue("data.path", str(file), expected)
    return rings


ABALONE = Abalone()
