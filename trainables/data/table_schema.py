"""A table as the user declared it, whole and checked: its public facts, and which columns are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpcore.checks import InvalidValue
from trainables.data import test_part, tuning_part
from trainables.data.table_columns import JOINED, Column, columns_of, pair
from trainables.data.table_options import TableOptions
from trainables.data.table_validation import Validation, validation_of
from trainables.data.table_weights import groups_of, weights_of
from trainables.data.test_part import HeldOut
from trainables.data.tuning_part import RecordsPart
from trainables.system import Feature, PublicFacts, Task
from trainables.units import Unit
from trainables.weights import Groups, Weights


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
    part = tuning_part.part_of(asked.part, asked.n, None if asked.unit is None else asked.unit.column)
    own = asked.n if part is None else part.size(asked.n)
    validation = validation_of(asked.validation, own, asked.unit, str(asked.path))
    weights = weights_of(asked.class_weights, asked.weight, classes, label)
    groups = groups_of(asked.groups, label)
    test = test_part.held_out(asked.test, own, asked.unit, validation.id, validation.key)
    _check_left(own, validation, test)
    held = (None, "") if test is None else (test.id or None, test.key)
    parts = {"data.validation": (validation.id, validation.key), "data.test": held}
    tuning_part.check_others(part, parts, validation.path if validation.private is not None else None)
    test_part.check_file(test, {"data.path": str(asked.path), "data.validation.path": validation.path})
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
        raise InvalidValue(f"{test_part.HERE}.share", test.share, expected, remedy)
    if test.private and validation.private is not None and not validation.private.parts:
        raise InvalidValue(
            f"{test_part.HERE}.records",
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
