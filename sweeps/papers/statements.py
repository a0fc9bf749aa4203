"""Statements of a paper as values: what was printed, and the test that what we measured must pass.

A paper's file lists them by group. Each has `claim` and one of the tests, by its name there:

    holds: a <= b            two numbers or names stand in this relation; or one name, whose value is the answer
    within: 0.01             ours is as near to the printed number; a number or a name
    same_digits: note        ours is written as it was printed
    ordering: [less, more]   two standard errors apart in this direction; both measured on the same splits
    unchanged: [one, other]  `one` passes `other` by no more than `margin`, with two standard errors
    rule: name               a function of the paper's module, called with `given`
    refuted: true            false by proof

    published  a number or a text, "holds" by default
    ours       what was measured; a name in braces alone is the value itself. Numbers are rounded to `digits` (4)
    note       what the verdict rests on, beside what the test says of itself
    tried      what the claim's words go on with once there is a result

All texts are templates over the measured values. Where ours is None, nothing was measured, and nothing is claimed.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from sweeps.papers.results import Answer, Claim, Uncertain, Values, at_most, filled, value

NOT_RUN = "not run in this scope"
ONE_SPLIT = "one split has no standard error"
UNDECIDED = "undecided at two standard errors"
SIGNS = {"<=": operator.le, "<": operator.lt, ">=": operator.ge, ">": operator.gt}


def _number(name: float | str, values: Values) -> float:
    """A value by its name, or a number as it is written."""
    try:
        return float(name)
    except ValueError:
        return float(value(str(name), values))


@dataclass(frozen=True, slots=True)
class Judged:
    """What was measured (None: nothing), whether the statement holds (None: undecided), and by what."""

    ours: Any
    holds: bool | None = None
    note: str = ""


Splits = Mapping[int, float]
"""{split: value}: methods are compared on the same splits, on which they err together."""


def _paired(one: Splits, other: Splits, decided: Callable[[Uncertain], Answer]) -> Judged:
    """By the mean of one minus other over the splits of both."""
    shared = [one[split] - other[split] for split in one if split in other]
    if not shared:
        return Judged(None)
    difference = Uncertain.of(shared)
    alone = math.isnan(difference.error)
    return Judged(f"difference {difference}", *((None, ONE_SPLIT) if alone else decided(difference)))


class Test(Protocol):
    """Decides a statement."""

    def judge(self, values: Values, ours: Any, published: Any) -> Judged:
        """By the measured values."""
        ...


@dataclass(frozen=True, slots=True)
class Holds:
    """A relation of two numbers, "left <= right"; or a name, whose value is the answer."""

    relation: str

    def judge(self, values: Values, ours: Any, published: Any) -> Judged:
        """Exactly, without a tolerance."""
        left, *rest = self.relation.split()
        if not rest:
            return Judged(ours, value(left, values))
        sign, right = rest
        return Judged(ours, bool(SIGNS[sign](_number(left, values), _number(right, values))))


@dataclass(frozen=True, slots=True)
class Within:
    """Ours is as near to the printed number as `by`, a number or a name."""

    by: float | str

    def judge(self, values: Values, ours: Any, published: Any) -> Judged:
        """By the distance of the two."""
        mine = ours.value if isinstance(ours, Uncertain) else ours
        return Judged(ours, bool(abs(mine - float(published)) <= _number(self.by, values)))


@dataclass(frozen=True, slots=True)
class SameDigits:
    """Ours is written as the printed text."""

    note: str

    def judge(self, values: Values, ours: Any, published: Any) -> Judged:
        """By the two texts."""
        same = str(ours) == str(published)
        told = f"{'The same' if same else 'Other last'} digits. {self.note.format_map(values)}"
        return Judged(ours, same, told.strip())


@dataclass(frozen=True, slots=True)
class Ordering:
    """`less` is below `more`, each {split: value}: their mean difference passes two standard errors."""

    less: str
    more: str

    def judge(self, values: Values, ours: Any, published: Any) -> Judged:
        """Split by split; two standard errors in the other direction refute it."""
        return _paired(values[self.more], values[self.less], self._decided)

    def _decided(self, difference: Uncertain) -> Answer:
        if abs(difference.value) <= 2 * difference.error:
            return None, UNDECIDED
        over = "by more than two standard errors"
        return (True, over) if difference.value > 0 else (False, f"the other way round, {over}")


@dataclass(frozen=True, slots=True)
class Unchanged:
    """`one` does not pass `other`, each {split: value}, by more than `margin`: that takes evidence too."""

    one: str
    other: str
    margin: float

    def judge(self, values: Values, ours: Any, published: Any) -> Judged:
        """Split by split, with two standard errors."""
        return _paired(values[self.one], values[self.other], self._decided)

    def _decided(self, difference: Uncertain) -> Answer:
        holds, within = at_most(difference, self.margin), f"margin {self.margin:g}"
        return holds, {True: within, False: f"{within}: passed", None: f"{within}: {UNDECIDED}"}[holds]


@dataclass(frozen=True, slots=True)
class Refuted:
    """False by proof; what is measured only shows it."""

    def judge(self, values: Values, ours: Any, published: Any) -> Judged:
        """No."""
        return Judged(ours, holds=False)


@dataclass(frozen=True, slots=True)
class Rule:
    """A function of the paper's module, `name` among the values: None where nothing was run."""

    name: str
    given: Mapping[str, Any]

    def judge(self, values: Values, ours: Any, published: Any) -> Judged:
        """As the function decides."""
        found: Judged | None = values[self.name](**self.given)
        return found or Judged(None)


def untried(claim: str, why: str, published: float | str = "holds") -> Claim:
    """A claim that nothing was measured for."""
    return Claim(claim=claim, published=published, ours=None, holds=None, note=why)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One row of the claims table; see the file's head."""

    claim: str
    test: Test
    published: float | str = "holds"
    ours: str = ""
    note: str = ""
    tried: str = ""
    digits: int = 4

    @classmethod
    def read(cls, row: Mapping[str, Any]) -> Statement:
        """One row of a paper's file. Raises KeyError, TypeError."""
        rest = dict(row)
        (kind,) = rest.keys() & TESTS.keys()
        given = rest.pop(kind)
        extra = [rest.pop(name) for name in ("margin", "given") if name in rest]
        if kind == "rule" and not extra:
            extra = [{}]
        arguments = given if isinstance(given, list) else [] if given is True else [given]
        return cls(test=TESTS[kind](*arguments, *extra), **rest)

    def held(self, values: Values, why: str = "") -> Claim:
        """The claim against the values; with `why`, not tried for that reason."""
        claim, published = self.claim.format_map(values), filled(self.published, values)
        measured = None if why else filled(self.ours, values)
        found = Judged(None) if measured is None else self.test.judge(values, measured, published)
        if found.ours is None:
            return untried(claim, why or NOT_RUN, published)
        ours, published = (
            round(one, self.digits) if isinstance(one, float) else one for one in (found.ours, published)
        )
        note = "; ".join(filter(None, (self.note.format_map(values), found.note)))
        return Claim(
            claim=claim + self.tried.format_map(values),
            published=published,
            ours=ours if isinstance(ours, float | int) else str(ours),
            holds=found.holds,
            note=note,
        )


TESTS: Mapping[str, Any] = {
    "holds": Holds,
    "within": Within,
    "same_digits": SameDigits,
    "ordering": Ordering,
    "unchanged": Unchanged,
    "rule": Rule,
    "refuted": Refuted,
}


def hold(statements: Iterable[Statement], values: Values, why: str = "") -> list[Claim]:
    """Each statement against the values; with `why`, all of them not tried for that reason."""
    return [one.held(values, why) for one in statements]
