"""Adult (census income), as 123 binary features or in its own mixed columns.

Origin   UCI Machine Learning Repository, Becker & Kohavi 1996 (CC BY 4.0); a9a is Platt's binary form at LIBSVM.
Forms    `form: a9a` (default) reads a9a/a9a and a9a/a9a.t; `form: raw` reads adult/adult.data and adult/adult.test.
         Both hold the same people in the same order.
Split    `split: holdout` (default) is that of Bu et al. 2020: of the 32,561, the last 3,256 by position are
         validation and 29,305 are trained on. `split: test` trains on all and validates on the 16,281 of the test file.
Scaling  Raw numbers are cut to bounds declared here and mapped to [0, 1]; capital gain and loss go through log(1 + x).
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from trainables.data import records, text_table
from trainables.data.files import existing, find_folder, wrong_file
from trainables.data.options import InFolder, Limit
from trainables.data.source import PartOption, PublishedSource
from trainables.data.text_table import DeclaredRange, Rule
from trainables.system import Dataset, DatasetSpec, InputSpec, Split, Task

TRAIN_FILE, TEST_FILE, HELD_OUT = 32_561, 16_281, 3_256
A9A_WIDTH = 123
CLASSES = {"<=50K": 0, ">50K": 1}


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


COLUMNS: dict[str, Rule] = {
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


class AdultOptions(PartOption, Limit, InFolder):
    """Options of Adult."""

    form: Literal["a9a", "raw"] = Field("a9a", description="which of the published forms is read", examples=["raw"])
    split: Literal["holdout", "test"] = Field(
        "holdout", description="which records are the validation", examples=["test"]
    )


class Adult(PublishedSource[AdultOptions]):
    """`data: {source: adult, path: DIR, form: a9a, split: holdout}`."""

    name = "adult"
    doc = "census income, 2 classes, 32,561 + 16,281 records; a9a or UCI files in option path"
    asks = AdultOptions

    def declared(self, asked: AdultOptions) -> DatasetSpec:
        """The facts."""
        held_out = asked.split == "holdout"
        width = A9A_WIDTH if asked.form == "a9a" else text_table.width(COLUMNS)
        return DatasetSpec(
            dataset=self.name,
            task=Task.CLASSIFICATION,
            n=asked.used(TRAIN_FILE - HELD_OUT if held_out else TRAIN_FILE),
            n_validation=HELD_OUT if held_out else TEST_FILE,
            features={"person": InputSpec(shape=(width,))},
            classes=2,
        )

    def files(self, asked: AdultOptions) -> list[Path]:
        """Of training and, where they are the validation, of test records. Raises InvalidValue."""
        folder = find_folder(self.name, asked.path, "a9a" if asked.form == "a9a" else "adult")
        names = ("a9a", "a9a.t") if asked.form == "a9a" else ("adult.data", "adult.test")
        return [existing(self.name, folder / name) for name in names[: 1 if asked.split == "holdout" else 2]]

    def records(self, asked: AdultOptions, facts: DatasetSpec, files: list[Path]) -> Dataset:
        """The records; class 1 earns more than $50,000. Raises InvalidValue."""
        read = _read_a9a if asked.form == "a9a" else _read_raw
        parts = [read(file) for file in files]
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


def _read_raw(file: Path) -> Split:
    # adult.test opens with a line that is no record, and ends its labels with a point.
    table = text_table.rows(file, len(COLUMNS) + 1, ", ")
    earns = [row[-1].rstrip(".") for row in table]
    labels = text_table.codes(file, "labels <=50K and >50K", CLASSES, earns)
    people = {"person": text_table.encoded(file, COLUMNS, table)}
    return Split(inputs=people, targets=labels, ids=text_table.as_written(table))


ADULT = Adult()
