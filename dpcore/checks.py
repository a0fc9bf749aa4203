"""Checks that a value's constructor makes, each with an error that names the value and the way out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from numbers import Integral, Real


class InvalidValue(ValueError):
    """A public parameter is outside its range. The message has name, value, expectation and remedy."""

    def __init__(self, name: str, value: object, expected: str, remedy: str = "") -> None:
        self.name, self.value, self.expected, self.remedy = name, value, expected, remedy
        super().__init__(f"{name}={value!r}: expected {expected}." + (f" {remedy}" if remedy else ""))


class QuotesRecords(InvalidValue):
    """The same of records, in words that may quote them: for whoever has the records, and for no log."""

    @property
    def unquoted(self) -> str:
        """Its kind, and where the rest is."""
        return (
            f"{type(self).__name__}, {self.name}: records are not what was expected of them. What is wrong may quote "
            "one: it is said without `--log json`."
        )


def _each(values: Mapping[str, object], holds: Callable[[float], bool], expected: str) -> None:
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, Real):
            raise InvalidValue(name, value, "a number")
        if not holds(float(value)):
            raise InvalidValue(name, value, expected)


def positive_finite(**values: float) -> None:
    """Each value is a finite real above 0. Raises InvalidValue."""
    _each(values, lambda number: 0 < number < math.inf, "a finite number above 0")


def non_negative_finite(**values: float) -> None:
    """Each value is a finite real of at least 0. Raises InvalidValue."""
    _each(values, lambda number: 0 <= number < math.inf, "a finite number of at least 0")


def non_negative(**values: float) -> None:
    """Each value is a real of at least 0, or infinity, as an epsilon may be. Raises InvalidValue."""
    _each(values, lambda number: number >= 0, "a number of at least 0, or infinity")


def rate(**values: float) -> None:
    """Each value is a sampling rate in (0, 1]. Raises InvalidValue."""
    _each(values, lambda number: 0 < number <= 1, "a sampling rate in (0, 1]")


def probability_open(**values: float) -> None:
    """Each value is strictly between 0 and 1, as a delta must be. Raises InvalidValue."""
    _each(values, lambda number: 0 < number < 1, "a number strictly between 0 and 1")


def probability_below_one(**values: float) -> None:
    """Each value is in [0, 1), as the delta of a claim is. Raises InvalidValue."""
    _each(values, lambda number: 0 <= number < 1, "a number in [0, 1)")


def count(minimum: int = 0, **values: int) -> None:
    """Each value is an integer of at least `minimum`; 3.0 is refused, since steps are counted. Raises InvalidValue."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, Integral) or value < minimum:
            raise InvalidValue(name, value, f"an integer of at least {minimum}")
