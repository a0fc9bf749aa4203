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
  test: {records: private, share: 0.1, id: person_id}   # read once, at the end: see `trainables.data.splits`
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

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpcore.checks import InvalidValue
from trainables.data import options, splits
from trainables.data.files import overlap
from trainables.data.splits import HeldOut, RecordsPart
from trainables.system import Feature, PublicFacts, Task
from trainables.units import Unit
from trainables.validation.declaration import DISJOINT, OPTIONS, PrivateValidation, private
from trainables.weights import Groups, Weights

# JSON schemas of those options of a table that have a structure of their own, for an editor to complete by.

_WHOLE = {"type": "integer", "minimum": 1}
_SHAPE = {"type": "array", "items": _WHOLE}
_FORMS: tuple[tuple[dict[str, object], list[str]], ...] = (
    ({"low": {"type": "number"}, "high": {"type": "number"}, "shape": _SHAPE}, ["low", "high"]),
    ({"categories": {"type": "array", "minItems": 1}, "shape": _SHAPE}, ["categories"]),
    ({"codes": _WHOLE, "shape": _SHAPE}, ["codes"]),
)
COLUMNS: dict[str, object] = {
    "type": "object",
    "minProperties": 1,
    "additionalProperties": {
        "anyOf": [
            {"type": "object", "properties": known, "required": needed, "additionalProperties": False}
            for known, needed in _FORMS
        ]
    },
}
"""JSON schema of `data.columns`."""
VALIDATION: dict[str, object] = {
    "type": ["object", "null"],
    "properties": {
        "path": {"type": "string"},
        "n": _WHOLE,
        "share": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        "id": {},
        "key": {},
        "records": {"enum": ["public", "private"]},
        "budget_share": {"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": 1},
        "bins": {"enum": ["loss", "score"]},
        "disjoint": {"type": "boolean"},
    },
    "required": ["records"],
    "additionalProperties": False,
}
"""JSON schema of `data.validation`."""
WEIGHT: dict[str, object] = {
    "type": ["object", "null"],
    "properties": {"column": {"type": "string", "minLength": 1}, "high": {"type": "number", "exclusiveMinimum": 0}},
    "required": ["column", "high"],
    "additionalProperties": False,
}
"""JSON schema of `data.weight`."""
GROUPS: dict[str, object] = {
    "type": ["object", "null"],
    "properties": {"column": {"type": "string", "minLength": 1}, "categories": {"type": "array", "minItems": 2}},
    "required": ["column", "categories"],
    "additionalProperties": False,
}
"""JSON schema of `data.groups`."""


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
        schema=splits.TEST_SCHEMA,
        default=None,
    )
    part: object = options.option(
        options.as_given,
        doc="{use: tuning or final, share, id: COLUMN}: the part of the records that tunes, or that of the final run",
        example={"use": "tuning", "share": 0.2, "id": "person_id"},
        schema=splits.PART_SCHEMA,
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


# The declared columns of a table: numbers within bounds, categories, codes, and lists of such.

JOINED = "x"
"""Feature in which plain numbers and one-hot categories stand side by side, in declared order."""


@dataclass(frozen=True, slots=True)
class Column:
    """One declared column: a number in [low, high], a category or a code; with a shape, a list of such numbers."""

    name: str
    low: float = 0.0
    high: float = 1.0
    categories: tuple[Any, ...] = ()
    codes: int | None = None
    shape: tuple[int, ...] = ()

    @property
    def own_feature(self) -> bool:
        """Whether it is an input of its own instead of a part of `JOINED`."""
        return bool(self.shape) or self.codes is not None

    @property
    def is_text(self) -> bool:
        """Whether it is read as it is written: each of its categories is a text."""
        return bool(self.categories) and all(isinstance(one, str) for one in self.categories)

    @property
    def width(self) -> int:
        """Numbers that it adds to `JOINED`."""
        return len(self.categories) or 1


def columns_of(raw: object) -> tuple[Column, ...]:
    """Those that a spec declares as `data.columns`. Raises InvalidValue."""
    if not isinstance(raw, Mapping) or not raw:
        expected = "a mapping from input columns to their bounds, categories or codes"
        raise InvalidValue("data.columns", raw, expected, "Write `columns: {COLUMN: {low: 0, high: 1}}`, say.")
    return tuple(_column(str(name), rule) for name, rule in raw.items())


def _column(name: str, rule: object) -> Column:
    here = f"data.columns.{name}"
    forms = "{low, high}, {categories: [...]} or {codes: K}, the first and last also with shape: [...]"
    if not isinstance(rule, Mapping) or not set(rule) <= {"low", "high", "categories", "codes", "shape"}:
        raise InvalidValue(here, rule, forms)
    shape = rule.get("shape", ())
    if not isinstance(shape, Sequence) or not all(type(size) is int and size > 0 for size in shape):
        raise InvalidValue(f"{here}.shape", shape, "a list of whole numbers above 0")
    kinds = [kind for kind in ("low", "categories", "codes") if kind in rule]
    if len(kinds) != 1 or ("high" in rule) != ("low" in rule):
        raise InvalidValue(here, dict(rule), f"exactly one of {forms}")
    if "codes" in rule:
        codes = rule["codes"]
        if type(codes) is not int or codes < 1:
            raise InvalidValue(f"{here}.codes", codes, "how many codes there are, a whole number above 0")
        return Column(name, codes=codes, shape=tuple(shape))
    if "categories" in rule:
        categories = rule["categories"]
        if not isinstance(categories, Sequence) or isinstance(categories, str) or not categories or shape:
            raise InvalidValue(f"{here}.categories", categories, "a list of all values that may occur, without a shape")
        if len(set(categories)) < len(categories):
            raise InvalidValue(f"{here}.categories", list(categories), "each value once")
        return Column(name, categories=tuple(categories))
    low, high = pair(here, [rule["low"], rule["high"]])
    return Column(name, low=low, high=high, shape=tuple(shape))


def pair(name: str, value: object) -> tuple[float, float]:
    """[low, high] that is declared as `name`. Raises InvalidValue."""
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 2:
        low, high = value
        numbers = all(isinstance(end, int | float) and not isinstance(end, bool) for end in value)
        # Their distance too: what is scaled by it would be 0 for every record.
        if numbers and math.isfinite(low) and math.isfinite(high) and low < high and math.isfinite(high - low):
            return float(low), float(high)
    expected = "two finite numbers, low < high, at a finite distance, chosen without looking at the records"
    raise InvalidValue(name, value, expected)


# Where the validation records of a table come from, and whether a claim covers them.

_JUDGED = "how many records the validation file holds, or units"


@dataclass(frozen=True, slots=True)
class Validation:
    """Where validation records come from: another file, a share by hashed id, or (neither) nowhere."""

    path: str | None = None
    n: int = 0
    share: float = 0.0
    id: str | None = None
    key: str = "validation"
    private: PrivateValidation | None = None


def validation_of(raw: object, n: int, unit: Unit | None, path: str) -> Validation:
    """What a spec declares as `data.validation` of `n` records in `path`. Raises InvalidValue."""
    if raw is None:
        return Validation()
    if unit is not None and isinstance(raw, Mapping) and "share" in raw:
        raw = {"id": unit.column, **raw}
        if raw["id"] != unit.column:
            expected = f"{unit.column}: a split by another id would cut units in two"
            raise InvalidValue("data.validation.id", raw["id"], expected)
    split = {name: value for name, value in raw.items() if name not in OPTIONS} if isinstance(raw, Mapping) else {}
    if isinstance(raw, Mapping) and set(split) == {"path", "n"} and isinstance(raw["path"], str):
        return Validation(
            path=raw["path"], n=options.count("validation.n", raw["n"], doc=_JUDGED), private=_other_file(raw, path)
        )
    if isinstance(raw, Mapping) and {"share", "id"} <= set(split) <= {"share", "id", "key"}:
        share, id_, key = raw["share"], str(raw["id"]), str(raw.get("key", "validation"))
        if isinstance(share, int | float) and 0 < share < 1 and 0 < round(n * share) < n:
            return Validation(share=float(share), id=id_, key=key, private=_hashed(raw, path, id_, key))
    raise InvalidValue(
        "data.validation",
        raw,
        "{path: FILE, n: RECORDS}, or {share: in (0, 1), id: COLUMN} for a split by a hash of a stable id",
        "A split by position would move other records when one is added or removed.",
    )


def _hashed(raw: Mapping[str, Any], path: str, id_: str, key: str) -> PrivateValidation | None:
    if DISJOINT in raw:
        raise InvalidValue(
            f"data.validation.{DISJOINT}", raw[DISJOINT], "a validation file beside it: a hash parts records by itself"
        )
    return private(
        raw,
        parts=f"records of {path} by the hash of {id_} under the key {key!r}, a share of {float(raw['share'])!r}",
        assumption=f"The value of {id_} is a record's own and never changes, and the key that splits by its hash was "
        "chosen without looking at the records.",
    )


def _other_file(raw: Mapping[str, Any], path: str) -> PrivateValidation | None:
    disjoint, same = raw.get(DISJOINT, False), overlap(raw["path"], path)
    if not isinstance(disjoint, bool):
        raise InvalidValue(f"data.validation.{DISJOINT}", disjoint, "true or false")
    if not disjoint:
        declared = private(raw, parts="", assumption="")
        if declared is None and same:
            raise InvalidValue(
                "data.validation.records",
                "public",
                f"private for records of {path}, which a claim covers",
                "Give another file, or call the records private: training and validation then add.",
            )
        return declared
    if same:
        raise InvalidValue(
            f"data.validation.{DISJOINT}", True, "two files: this one would be disjoint from itself", "Drop it."
        )
    return private(
        raw,
        parts=f"{path} and {raw['path']}, declared to share nobody",
        assumption=f"Nobody has records in both {path} and {raw['path']}, whatever records come or go: declared.",
    )


# What a table declares of weights in the loss and of groups to be judged by.

_TOLD = "Each category is a group, and the accuracy of the worst one is told."
_NEVER_COUNTED = "They are chosen beforehand: a weight that follows from counts of records would tell of each of them."


def weights_of(class_weights: object, weight: object, classes: Sequence[Any], label: str) -> Weights | None:
    """Of `data.class_weights` and `data.weight`; None without either. Raises InvalidValue.

    classes  labels, () of a regression
    label    name of the column that is predicted
    """
    if class_weights is None and weight is None:
        return None
    each: tuple[float, ...] = ()
    if class_weights is not None:
        listed = list(class_weights) if isinstance(class_weights, Sequence) else []
        if not classes or len(listed) != len(classes) or not all(map(_is_weight, listed)) or not any(listed):
            expected = f"{len(classes)} numbers of at least 0, one for each of `classes`, not all 0"
            expected = expected if classes else "no class weights: a regression has no classes"
            raise InvalidValue("data.class_weights", class_weights, expected, _NEVER_COUNTED)
        each = tuple(map(float, listed))
    if weight is None:
        return Weights(classes=each)
    if not isinstance(weight, Mapping) or set(weight) != {"column", "high"}:
        raise InvalidValue("data.weight", weight, "{column: NAME, high: W}", "W is a public bound: more is cut to it.")
    column, high = _other_column("data.weight.column", weight["column"], label), weight["high"]
    if not _is_weight(high) or not high:
        raise InvalidValue("data.weight.high", high, "a finite number above 0", _NEVER_COUNTED)
    return Weights(classes=each, column=column, high=float(high))


def groups_of(groups: object, label: str) -> Groups | None:
    """Of `data.groups`; None without. Raises InvalidValue."""
    if groups is None:
        return None
    if not isinstance(groups, Mapping) or set(groups) != {"column", "categories"}:
        raise InvalidValue("data.groups", groups, "{column: NAME, categories: [...]}", _TOLD)
    column, categories = _other_column("data.groups.column", groups["column"], label), groups["categories"]
    listed = list(categories) if isinstance(categories, Sequence) and not isinstance(categories, str) else []
    texts = tuple(str(one) for one in listed)
    if len(set(texts)) < max(2, len(texts)):
        raise InvalidValue("data.groups.categories", categories, "a list of at least two different values", _TOLD)
    return Groups(column=column, categories=texts)


def _other_column(path: str, column: object, label: str) -> str:
    if not isinstance(column, str) or not column or column == label:
        raise InvalidValue(path, column, f"the name of a column other than the label, {label}", "Name it.")
    return column


def _is_weight(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


# A table as the user declared it, whole and checked: its public facts, and which columns are read.


@dataclass(frozen=True, slots=True)
class Schema:
    """The whole declaration, checked.

    n                 of the whole file, of which `part` may be read alone
    groups_are_texts  whether all categories of `groups` were declared as texts
    """

    n: int
    label: str
    classes: tuple[Any, ...]
    task: Task
    target: tuple[float, float]
    columns: tuple[Column, ...]
    validation: Validation
    unit: Unit | None = None
    weights: Weights | None = None
    groups: Groups | None = None
    test: HeldOut | None = None
    part: RecordsPart | None = None
    groups_are_texts: bool = False

    @property
    def id(self) -> str | None:
        """The column by whose hash records are parted, if any are."""
        found = self.validation.id or (None if self.test is None else self.test.id or None)
        return found or (None if self.part is None else str(self.part.id))

    @property
    def ids(self) -> tuple[str, ...]:
        """Columns that say whose a record is and nothing else: by what each record has there, whatever others have."""
        ids = {self.id, None if self.unit is None else self.unit.column} - {None}
        others = {column.name for column in self.columns} | {self.label}
        others |= set() if self.weights is None else {self.weights.column}
        return tuple(sorted(str(one) for one in ids - others))

    @property
    def texts(self) -> tuple[str, ...]:
        """Columns of a CSV file that are read as they are written: ids, and what is declared as texts. Whether "1" is
        a text would otherwise follow from what all other records have there."""
        own = [column.name for column in self.columns if column.is_text]
        label = [self.label] if self.classes and all(isinstance(one, str) for one in self.classes) else []
        groups = {self.groups.column} if self.groups is not None and self.groups_are_texts else set()
        groups -= {column.name for column in self.columns}
        return tuple(dict.fromkeys((*self.ids, *own, *label, *groups)))

    @property
    def names(self) -> tuple[str, ...]:
        """Columns that are read."""
        ids = [self.id, None if self.unit is None else self.unit.column]
        ids += [None if self.weights is None else self.weights.column or None]
        ids += [None if self.groups is None else self.groups.column]
        own = (column.name for column in self.columns)
        return tuple(dict.fromkeys([*own, self.label, *(one for one in ids if one is not None)]))

    def facts(self) -> PublicFacts:
        """The public facts."""
        features: dict[str, Feature] = {}
        joined = sum(column.width for column in self.columns if not column.own_feature)
        if joined:
            features[JOINED] = Feature(shape=(joined,))
        for column in self.columns:
            if column.own_feature:
                features[column.name] = Feature(shape=column.shape, cardinality=column.codes)
        # Test records go first, and the validation part is one of what is left.
        own = self.n if self.part is None else self.part.size(self.n)
        left = own - (self.test.n if self.test is not None and self.test.path is None else 0)
        held_out = round(left * self.validation.share)
        assumptions = ["n, bounds, categories and classes were declared without looking at the private records."]
        if self.unit is not None:
            assumptions.append(f"Each unit is one value of {self.unit.column}: nobody has two, and no two share one.")
        if self.part is not None:
            assumptions.append(self.part.assumption)
        if self.weights is not None:
            assumptions.append("Weights were declared without looking at the private records, or stand in each record.")
        return PublicFacts(
            dataset="table",
            task=self.task,
            n=left - held_out,
            n_validation=self.validation.n or held_out,
            features=features,
            classes=None if self.task is Task.REGRESSION else len(self.classes),
            target_low=self.target[0],
            target_high=self.target[1],
            assumptions=tuple(assumptions),
            unit=self.unit,
            private_validation=self.validation.private,
            treatment=tuple(self._treatment()),
            weights=self.weights,
            groups=self.groups,
        )

    def _treatment(self) -> Iterator[str]:
        """What `trainables.data.table` does with values that are not as declared."""
        if any(not column.categories and column.codes is None for column in self.columns):
            yield (
                "Numbers beyond the declared low and high of their column, infinite ones too, are set to the nearer "
                "bound; missing ones (NaN, empty) are refused."
            )
        if any(column.categories or column.codes is not None for column in self.columns):
            yield "Categories and codes that were not declared are refused, and so are missing ones."
        if self.task is Task.REGRESSION:
            yield "Targets beyond the declared ends are set to the nearer one; infinite and missing ones are refused."
        else:
            yield "Labels that are no declared class are refused, and so are missing ones."
        if self.weights is not None:
            yield (
                f"The loss of each record is multiplied by its weight ({self.weights}) before its gradient is clipped: "
                "no weight raises what a record can move beyond the clip norm. Metrics are not weighted."
            )
        if self.unit is not None:
            yield (
                f"Rows with the same {self.unit.column} are one unit; of more than {self.unit.max_records} those with "
                "the lowest hash are kept. Missing ids are refused."
            )
        elif self.id is not None:
            yield (
                f"Rows with the same {self.id} fall on the same side of the split, and each still counts "
                "as a record of its own. Missing ids are refused."
            )
        else:
            yield "Rows that are alike are records of their own."


def schema(asked: TableOptions) -> Schema:
    """The declaration in a spec's `data` options. Raises InvalidValue."""
    label = asked.label
    if not isinstance(label, str) or not label:
        raise InvalidValue("data.label", label, "the name of the column to predict", "Add `label: COLUMN`.")
    task, classes, target = _task(asked)
    columns = columns_of(asked.columns)
    apart = {column.name for column in columns if column.own_feature}
    if JOINED in apart and len(apart) < len(columns):
        expected = f"another name of this column: as {JOINED!r} models are asked with all plain columns side by side"
        raise InvalidValue("data.columns", JOINED, expected, "Rename the column.")
    if label in {column.name for column in columns}:
        raise InvalidValue("data.columns", label, "inputs only, not the label", "Remove it from `columns`.")
    part = splits.part_of(asked.part, asked.n, None if asked.unit is None else asked.unit.column)
    own = asked.n if part is None else part.size(asked.n)
    validation = validation_of(asked.validation, own, asked.unit, str(asked.path))
    weights = weights_of(asked.class_weights, asked.weight, classes, label)
    groups = groups_of(asked.groups, label)
    test = splits.held_out(asked.test, own, asked.unit, validation.id, validation.key)
    _check_left(own, validation, test)
    held = (None, "") if test is None else (test.id or None, test.key)
    parts = {"data.validation": (validation.id, validation.key), "data.test": held}
    splits.check_others(part, parts, validation.path if validation.private is not None else None)
    splits.check_file(test, {"data.path": str(asked.path), "data.validation.path": validation.path})
    texts = isinstance(asked.groups, Mapping) and all(isinstance(one, str) for one in asked.groups["categories"])
    return Schema(
        asked.n, label, classes, task, target, columns, validation, asked.unit, weights, groups, test, part, texts
    )


def _check_left(n: int, validation: Validation, test: HeldOut | None) -> None:
    """Records are left to train on, and a private test part shares nobody with validation records that are charged."""
    if test is None or test.path is not None:
        return
    left = n - test.n
    held = round(left * validation.share)
    if left - held < 1 or (validation.share and not held):
        expected = f"a share that leaves records of n={n} to train on"
        remedy = "Make it smaller, or the share of data.validation."
        raise InvalidValue(f"{splits.TEST}.share", test.share, expected, remedy)
    if test.private and validation.private is not None and not validation.private.parts:
        raise InvalidValue(
            f"{splits.TEST}.records",
            "private",
            "validation records that no test record is among: another file with `disjoint: true`, or a share",
            "Who is in both would be charged for both, which nothing here plans.",
        )


def _task(asked: TableOptions) -> tuple[Task, tuple[Any, ...], tuple[float, float]]:
    classes, target = asked.classes, asked.target
    if (classes is None) == (target is None):
        raise InvalidValue(
            "data.classes", classes, "either `classes` (a list or a number) or `target: [low, high]`", "Declare one."
        )
    if target is not None:
        low, high = pair("data.target", target)
        return Task.REGRESSION, (), (low, high)
    if isinstance(classes, int) and not isinstance(classes, bool):
        classes = list(range(classes))
    listed = () if not isinstance(classes, Sequence) or isinstance(classes, str) else tuple(classes)
    if not 2 <= len(set(listed)) == len(listed):
        expected = "at least two labels, each of them once, or their number"
        raise InvalidValue("data.classes", asked.classes, expected, "List them.")
    return Task(asked.task), listed, (0.0, 1.0)
