"""The declared columns of a table: numbers within bounds, categories, codes, and lists of such."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpcore.checks import InvalidValue

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
