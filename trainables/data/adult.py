"""Adult (census income), as 123 binary features or in its own mixed columns.

Origin   UCI Machine Learning Repository, Becker & Kohavi 1996 (CC BY 4.0); a9a is Platt's binary form at LIBSVM.
Forms    `form: a9a` (default) reads a9a/a9a and a9a/a9a.t; `form: raw` reads adult/adult.data and adult/adult.test.
         Both hold the same people in the same order.
Split    `split: holdout` (default) is that of Bu et al. 2020: of the 32,561, the last 3,256 by position are
         validation and 29,305 are trained on. `split: test` trains on all and validates on the 16,281 of the test file.
Scaling  Raw numbers are cut to bounds declared here and mapped to [0, 1]; capital gain and loss go through log(1 + x).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpcore.checks import InvalidValue
from trainables.data import content, options
from trainables.data.adult_columns import COLUMNS, POSITIVE, RAW_WIDTH, DeclaredRange
from trainables.system import Dataset, Feature, PublicFacts, Split, Task

TRAIN_FILE, TEST_FILE, HELD_OUT = 32_561, 16_281, 3_256
A9A_WIDTH = 123


class Adult:
    """`data: {source: adult, path: DIR, form: a9a, split: holdout}`; option limit."""

    name = "adult"
    doc = "census income, 2 classes, 32,561 + 16,281 records; a9a or UCI files in option path"

    def facts(self, options_: Mapping[str, object]) -> PublicFacts:
        """Facts under the options. Raises InvalidValue."""
        options.only(self.name, options_, "path", "form", "split", "limit")
        form = options.choice(options_, "form", ("a9a", "raw"))
        held_out = options.choice(options_, "split", ("holdout", "test")) == "holdout"
        return PublicFacts(
            dataset=self.name,
            task=Task.CLASSIFICATION,
            n=options.limited(options_, TRAIN_FILE - HELD_OUT if held_out else TRAIN_FILE),
            n_validation=HELD_OUT if held_out else TEST_FILE,
            features={"person": Feature(shape=(A9A_WIDTH if form == "a9a" else RAW_WIDTH,))},
            classes=2,
        )

    def inspect(self, options_: Mapping[str, object]) -> None:
        """Whether the files are there; reads none. Raises InvalidValue."""
        files = self._files(options_)
        for file in files[:1] if self.facts(options_).n_validation == HELD_OUT else files:
            options.existing(self.name, file)

    def load(self, options_: Mapping[str, object]) -> Dataset:
        """The records; class 1 earns more than $50,000. Raises InvalidValue."""
        facts = self.facts(options_)
        read = _read_a9a if self._a9a(options_) else _read_raw
        files = self._files(options_)
        people, labels = read(options.existing(self.name, files[0]))
        content.records(facts, str(files[0]), len(labels), TRAIN_FILE)
        train = Split(inputs={"person": people[: facts.n]}, targets=labels[: facts.n])
        if facts.n_validation == HELD_OUT:
            rows = slice(TRAIN_FILE - HELD_OUT, None)
            return content.dataset(facts, train, Split(inputs={"person": people[rows]}, targets=labels[rows]))
        people, labels = read(options.existing(self.name, files[1]))
        content.records(facts, str(files[1]), len(labels), TEST_FILE)
        return content.dataset(facts, train, Split(inputs={"person": people}, targets=labels))

    def _a9a(self, options_: Mapping[str, object]) -> bool:
        return options.choice(options_, "form", ("a9a", "raw")) == "a9a"

    def _files(self, options_: Mapping[str, object]) -> tuple[Path, Path]:
        """Of training and test records."""
        a9a = self._a9a(options_)
        folder = options.folder(self.name, options_, "a9a" if a9a else "adult")
        train, test = ("a9a", "a9a.t") if a9a else ("adult.data", "adult.test")
        return folder / train, folder / test


def _read_a9a(file: Path) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    from sklearn.datasets import load_svmlight_file

    try:
        # The largest index does not occur in a9a.t, so the width is given.
        features, labels = load_svmlight_file(str(file), n_features=A9A_WIDTH)
    except ValueError as error:
        raise InvalidValue("data.path", str(file), f"LIBSVM text with {A9A_WIDTH} features ({error})") from error
    return features.toarray().astype(np.float32), (labels > 0).astype(np.int64)


def _read_raw(file: Path) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    lines = file.read_text(encoding="ascii").splitlines()
    # adult.test opens with a line that is no record, and both files end with an empty one.
    rows = [(number, line.split(", ")) for number, line in enumerate(lines, 1) if line and not line.startswith("|")]
    for number, row in rows:
        if len(row) != len(COLUMNS) + 1:
            raise InvalidValue(
                "data.path", f"{file}:{number}", f"{len(COLUMNS) + 1} columns separated by ', ', found {len(row)}"
            )
    parts = [_encoded(file, name, rule, [row[i] for _, row in rows]) for i, (name, rule) in enumerate(COLUMNS.items())]
    earns = [row[-1].rstrip(".") for _, row in rows]
    if unknown := sorted(set(earns) - {POSITIVE, "<=50K"}):
        raise InvalidValue("data.path", str(file), f"labels {POSITIVE} and <=50K, found {unknown}")
    return np.concatenate(parts, axis=1), np.array([one == POSITIVE for one in earns], dtype=np.int64)


def _encoded(file: Path, name: str, rule: DeclaredRange | tuple[str, ...], values: list[str]) -> NDArray[np.float32]:
    if isinstance(rule, DeclaredRange):
        try:
            numbers = np.array(values, dtype=np.float64)
        except ValueError as error:
            raise InvalidValue("data.path", str(file), f"numbers in column {name} ({error})") from error
        cut = np.clip(numbers, rule.low, rule.high)
        scaled = np.log1p(cut) / math.log1p(rule.high) if rule.log else (cut - rule.low) / (rule.high - rule.low)
        return scaled[:, None].astype(np.float32)
    position = {category: i for i, category in enumerate(rule)}
    if unknown := sorted(set(values) - set(position)):
        raise InvalidValue("data.path", str(file), f"known categories in column {name}, found {unknown[:5]}")
    return np.eye(len(rule), dtype=np.float32)[[position[value] for value in values]]


ADULT = Adult()
