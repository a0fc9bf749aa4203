"""What a table declares of weights in the loss and of groups to be judged by."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from dpcore.checks import InvalidValue
from trainables.weights import Groups, Weights

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
    column, high = _column("data.weight.column", weight["column"], label), weight["high"]
    if not _is_weight(high) or not high:
        raise InvalidValue("data.weight.high", high, "a finite number above 0", _NEVER_COUNTED)
    return Weights(classes=each, column=column, high=float(high))


def groups_of(groups: object, label: str) -> Groups | None:
    """Of `data.groups`; None without. Raises InvalidValue."""
    if groups is None:
        return None
    if not isinstance(groups, Mapping) or set(groups) != {"column", "categories"}:
        raise InvalidValue("data.groups", groups, "{column: NAME, categories: [...]}", _TOLD)
    column, categories = _column("data.groups.column", groups["column"], label), groups["categories"]
    listed = list(categories) if isinstance(categories, Sequence) and not isinstance(categories, str) else []
    texts = tuple(str(one) for one in listed)
    if len(set(texts)) < max(2, len(texts)):
        raise InvalidValue("data.groups.categories", categories, "a list of at least two different values", _TOLD)
    return Groups(column=column, categories=texts)


def _column(path: str, column: object, label: str) -> str:
    if not isinstance(column, str) or not column or column == label:
        raise InvalidValue(path, column, f"the name of a column other than the label, {label}", "Name it.")
    return column


def _is_weight(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf
