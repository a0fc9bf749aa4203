"""What the user declares about an own table: columns, label, records, validation. Nothing of it is measured.

data:
  source: table
  path: people.parquet            # file, folder, s3:// or gs:// URL; Parquet or CSV
  n: 10000                        # records in it, declared; with `unit`, units in it
  label: income
  classes: ["<=50K", ">50K"]      # or a number K for labels 0..K-1, or `target: [low, high]` for a regression
  columns:
    age: {low: 17, high: 90}              # a number, cut to its bounds and scaled to [0, 1]
    sex: {categories: [Male, Female]}     # one-hot
    film: {codes: 3952}                   # integer codes 0..3951, for embeddings
    scan: {low: 0, high: 255, shape: [28, 28]}   # a list column of 784 numbers
  validation: {records: private, share: 0.2, id: person_id}   # by a hash of a stable id; or {path: b.parquet, n: 500}
  class_weights: [1, 5]                 # in the loss, one for each class
  weight: {column: weight, high: 5}     # in the loss, of each record
  groups: {column: sex, categories: [Male, Female]}   # worst_group_accuracy
  test: {records: private, share: 0.1, id: person_id}   # read once, at the end: see `trainables.data.test_part`
  part: {use: tuning, share: 0.2, id: person_id}   # to tune on one part, and train finally on the other
  unit: {column: person_id, max_records: 50}     # with `privacy.unit: person`, say: all rows of a person are one unit

With `unit`, neighbours differ in all rows that share a value of its column, at most `max_records` of which are used:
those with the lowest hash of the unit's id and their contents. `n` then counts units, here and of a validation file;
validation is split by the unit (`id` may be left out), and no unit may be in both files. Ids are whole numbers or
texts, of whatever parts records; those of units without spaces around them, and none may be missing, nor `NA`, `null`
or another word for it.

Whether validation records are public or private has to be said: see `trainables.validation.declaration`.
"""

from __future__ import annotations

from dpcore.checks import InvalidValue
from trainables.data import options, test_part, tuning_part
from trainables.data.table_json import COLUMNS, GROUPS, VALIDATION, WEIGHT
from trainables.units import Unit


def _form(name: str, value: object) -> object:
    if value not in (None, "csv", "parquet"):
        remedy = "Left out, it is known by the name of the file."
        raise InvalidValue(f"data.{name}", value, "csv or parquet", remedy)
    return value


@options.options
class TableOptions(options.NoOptions):
    """Options of a table, those with structure as they are given."""

    path: object = options.option(
        options.as_given,
        doc="a file, a folder or a URL of Parquet or CSV",
        example="people.parquet",
        schema={"type": ["string", "null"]},
        default=None,
    )
    format: str | None = options.option(
        _form,
        doc="csv or parquet, else known by the name of the file",
        example="parquet",
        schema={"enum": ["csv", "parquet", None]},
        default=None,
    )
    n: int = options.whole(doc="how many records there are, or units: declared, never counted", example=20000)
    label: object = options.option(
        options.as_given,
        doc="the column to predict",
        example="income",
        schema={"type": "string", "minLength": 1},
        default=None,
    )
    classes: object = options.option(
        options.as_given,
        doc="a list of all labels, or their number",
        example=["low", "high"],
        schema={"type": ["array", "integer", "null"], "minItems": 2, "minimum": 2},
        default=None,
    )
    task: str = options.word("classification", "rating", doc="what classes are")
    target: object = options.option(
        options.as_given,
        doc="[low, high] of a regression, instead of classes",
        example=[0, 5000],
        schema={"type": ["array", "null"], "items": {"type": "number"}, "minItems": 2, "maxItems": 2},
        default=None,
    )
    columns: object = options.option(
        options.as_given,
        doc="the inputs: {low, high}, {categories: [...]} or {codes: K} of each, with a shape where it is a list",
        example={
            "age": {"low": 0, "high": 100},
            "work": {"categories": ["private", "public", "self"]},
            "scan": {"low": 0, "high": 1, "shape": [28, 28]},
            "words": {"codes": 5000, "shape": [200]},
        },
        schema=COLUMNS,
        default=None,
    )
    validation: object = options.option(
        options.as_given,
        doc="{records: private or public, share, id: COLUMN}, or {records, path, n} of another file",
        example={"records": "private", "share": 0.2, "id": "person_id"},
        schema=VALIDATION,
        default=None,
    )
    test: object = options.option(
        options.as_given,
        doc="{records: public or private, share, id: COLUMN}, or {records: public, path, n}: read once, at the end",
        example={"records": "public", "path": "test.parquet", "n": 5000},
        schema=test_part.SCHEMA,
        default=None,
    )
    part: object = options.option(
        options.as_given,
        doc="{use: tuning or final, share, id: COLUMN}: the part of the records that tunes, or that of the final run",
        example={"use": "tuning", "share": 0.2, "id": "person_id"},
        schema=tuning_part.SCHEMA,
        default=None,
    )
    unit: Unit | None = options.unit()
    class_weights: object = options.option(
        options.as_given,
        doc="a public number for each class, in their order, which its records' loss is multiplied by",
        example=[1, 5],
        schema={"type": ["array", "null"], "items": {"type": "number", "minimum": 0}, "minItems": 2},
        default=None,
    )
    weight: object = options.option(
        options.as_given,
        doc="{column: NAME, high: W}, a record's weight in the loss, cut to 0..W",
        example={"column": "weight", "high": 5},
        schema=WEIGHT,
        default=None,
    )
    groups: object = options.option(
        options.as_given,
        doc="{column: NAME, categories: [...]}, groups whose accuracy is told: worst_group_accuracy",
        example={"column": "sex", "categories": ["female", "male"]},
        schema=GROUPS,
        default=None,
    )
