"""Weights of records in what is minimised, and groups that a model is judged by: declared, never computed from records.

The loss of a record is multiplied by its weight, and the gradient of that product is clipped. So whatever a weight is,
one record (one unit, whose gradients are added up before the clip) moves a clipped sum by the clip norm at most: events
and claims are those without weights. That argument is about a clip which comes after the weight. A proof that bounds
the loss itself, its slope or its curvature has other constants under weights, and a distance that is measured between
gradients is another one: systems with such a proof take no weights here (`trainables.claims.check_weights`).

A weight that followed from records, such as one over the share of a class, would move with every one of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpcore import checks


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """The weight of a record: that of its class times the value of its column.

    classes  one number for each class, at least 0 and one above 0; () weighs all classes alike
    column   name of the column with the weight of each record; "" where there is none
    high     largest value of that column: values are cut to 0..high

    Raises InvalidValue.
    """

    classes: tuple[float, ...] = ()
    column: str = ""
    high: float = 1.0

    def __post_init__(self) -> None:
        checks.positive_finite(high=self.high)
        if self.classes:
            for one in self.classes:
                checks.non_negative_finite(class_weights=one)
            checks.positive_finite(largest_class_weight=max(self.classes))

    @property
    def largest(self) -> float:
        """That any record can have."""
        return max(self.classes, default=1.0) * (self.high if self.column else 1.0)

    def __str__(self) -> str:
        classes = f"its class's of {', '.join(f'{one:g}' for one in self.classes)}" if self.classes else ""
        column = f"its {self.column} in 0..{self.high:g}" if self.column else ""
        return " times ".join(filter(None, (classes, column)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """Groups of records that a model's accuracy is told of.

    column      whose value is a record's group
    categories  all of them, as texts
    """

    column: str
    categories: tuple[str, ...]
