"""One-dimensional domains: where a searched knob takes its values, and how they are drawn.

`draw` maps a uniform number to a value, so a domain is also a fixed public prior: independent proposals are
draws from it by construction.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any, Literal, get_args

from dpcore.checks import InvalidValue
from trainables.system import Scalar

Kind = Literal["uniform", "log_uniform", "int_uniform", "int_log_uniform", "choice"]
KINDS: tuple[str, ...] = get_args(Kind)
When = tuple[tuple[str, tuple[Scalar, ...]], ...]
"""Other knobs of the system, each with the values of which it has to have one."""


def is_one_of(value: Scalar, values: Iterable[Scalar]) -> bool:
    """Whether `value` is among them; True is no 1."""
    return any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """Values of one knob.

    kind       `uniform`, `log_uniform`: floats in [low, high]; `int_uniform`, `int_log_uniform`: integers from
               low to high, both included; `choice`: one of `values`, equally likely, without an order
    points     how many values a grid takes from a range (all of them for integers when None)
    step       of `uniform` and `int_uniform`: the distance of two values, of which there are whole ones from low to
               high; a grid takes all
    when       the knob is there only where all of this holds; empty: always. A knob that is not there holds nothing
    """

    kind: Kind
    low: float = 0.0
    high: float = 0.0
    values: tuple[Scalar, ...] = ()
    points: int | None = None
    step: float | None = None
    when: When = ()

    @property
    def integer(self) -> bool:
        """Whether its values are whole numbers by kind."""
        return self.kind.startswith("int")

    @property
    def log(self) -> bool:
        """Whether it is uniform in the logarithm."""
        return "log" in self.kind

    @property
    def separate(self) -> bool:
        """Whether its values can be told one by one: another knob may then depend on them."""
        return self.kind == "choice" or self.integer or self.step is not None

    @property
    def count(self) -> int:
        """How many values a stepped range has."""
        assert self.step is not None
        return int((Decimal(str(self.high)) - Decimal(str(self.low))) / Decimal(str(self.step))) + 1

    def stepped(self, number: int) -> Scalar:
        """Value `number` of a stepped range, counted from 0 at low; exact in decimals, as people write steps."""
        value = Decimal(str(self.low)) + number * Decimal(str(self.step))
        return int(value) if self.integer else float(value)

    def nearest(self, value: float) -> Scalar:
        """The value of its own that is nearest to one in its range, which arithmetic may have moved off a step."""
        if self.step is not None:
            return self.stepped(round((value - self.low) / self.step))
        return int(value) if self.integer else float(value)

    def draw(self, u: float) -> Scalar:
        """The value at quantile `u` in [0, 1). Integers of a log range own [k - 1/2, k + 1/2] on the log axis."""
        if self.kind == "choice":
            return self.values[min(int(u * len(self.values)), len(self.values) - 1)]
        if self.step is not None:
            return self.stepped(min(int(u * self.count), self.count - 1))
        if self.kind == "int_uniform":
            return min(int(self.low) + int(u * (int(self.high) - int(self.low) + 1)), int(self.high))
        if self.kind == "uniform":
            return min(max(self.low + u * (self.high - self.low), self.low), self.high)
        half = 0.5 if self.integer else 0.0
        bottom, top = math.log(self.low - half), math.log(self.high + half)
        value = min(max(math.exp(bottom + u * (top - bottom)), self.low), self.high)
        return min(max(round(value), int(self.low)), int(self.high)) if self.integer else value

    def contains(self, value: Scalar) -> bool:
        """Whether `value` is one of its values (0.5 is no integer, True is no 1)."""
        if self.kind == "choice":
            return any(type(value) is type(own) and value == own for own in self.values)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        within = self.low <= value <= self.high and (not self.integer or float(value).is_integer())
        return within and (self.step is None or self.nearest(value) == value)

    @property
    def grid_size(self) -> int:
        """How many values a grid takes at most, without a look at them; of a continuous range only with `points`."""
        if self.kind == "choice":
            return len(self.values)
        return self.count if self.step is not None else self.points or int(self.high) - int(self.low) + 1

    def grid(self) -> tuple[Scalar, ...]:
        """Its values on a grid. Raises ValueError for a continuous range without `points`."""
        if self.kind == "choice":
            return self.values
        if self.step is not None:
            return tuple(self.stepped(number) for number in range(self.count))
        if self.points is None:
            if not self.integer:
                raise ValueError(f"{self.kind}: a grid over a continuous range needs `points`")
            return tuple(range(int(self.low), int(self.high) + 1))
        if self.points == 1 or self.low == self.high:
            return (int(self.low) if self.integer else self.low,)
        values: list[Scalar] = []
        for i in range(self.points):
            share = i / (self.points - 1)
            if self.log:
                value = math.exp(math.log(self.low) * (1 - share) + math.log(self.high) * share)
            else:
                value = self.low * (1 - share) + self.high * share
            value = min(max(value, self.low), self.high)
            values.append(round(value) if self.integer else value)
        # The logarithm's round-off must not move the ends that a person wrote down.
        values[0], values[-1] = (int(self.low), int(self.high)) if self.integer else (self.low, self.high)
        return tuple(dict.fromkeys(values))

    def to_dict(self) -> dict[str, Any]:
        """As it is written in a spec."""
        when = {"when": {name: list(values) for name, values in self.when}} if self.when else {}
        if self.kind == "choice":
            return {"choice": list(self.values), **when}
        ends = [int(self.low), int(self.high)] if self.integer else [self.low, self.high]
        step = self.step if self.step is None or not self.integer else int(self.step)
        others = {"points": self.points, "step": step}
        return {self.kind: ends} | {name: value for name, value in others.items() if value is not None} | when

    @classmethod
    def from_dict(cls, written: Mapping[str, Any]) -> Domain:
        """Of what `to_dict` says."""
        kind: Any = next(name for name in KINDS if name in written)
        when = tuple((name, tuple(values)) for name, values in written.get("when", {}).items())
        if kind == "choice":
            return cls(kind=kind, values=tuple(written[kind]), when=when)
        (low, high), step = map(float, written[kind]), written.get("step")
        step = None if step is None else float(step)
        return cls(kind=kind, low=low, high=high, points=written.get("points"), step=step, when=when)

    @property
    def condition(self) -> str:
        """Where it is there, in words; empty for everywhere."""
        return " and ".join(f"{name} is {' or '.join(map(str, values))}" for name, values in self.when)

    def __str__(self) -> str:
        return self._range() + (f", when {self.condition}" if self.when else "")

    def _range(self) -> str:
        if self.kind == "choice":
            return "one of " + ", ".join(str(value) for value in self.values)
        low, high = (f"{end:.6g}" for end in (self.low, self.high))
        step = "" if self.step is None else f" in steps of {self.step:.6g}"
        return f"{self.kind} {low} .. {high}{step}" + (f" ({self.points} points)" if self.points else "")


# A knob that takes the value of another one: `clip_norm: {same_as: noisy-sgd.clip_norm}`.
#
# Within a system the two have one value, which a point states once, under the name of the other. Across systems a
# knob has the other's values, so that a point means the same in both: each trial is of one system.

SAME_AS = "same_as"


@dataclass(frozen=True, slots=True)
class SameAs:
    """The value of `knob` of `system`."""

    system: str
    knob: str

    @classmethod
    def from_dict(cls, written: Mapping[str, Any]) -> SameAs:
        """Of what `to_dict` says; without a system where that is left out."""
        named: str = written[SAME_AS]
        # A system of one's own is called package.module:object.
        dot = named.find(".", named.find(":") + 1)
        return cls(named[: max(dot, 0)], named[dot + 1 :])

    def to_dict(self) -> dict[str, str]:
        """As it is written in a spec."""
        return {SAME_AS: f"{self.system}.{self.knob}"}

    def __str__(self) -> str:
        return f"same as {self.system}.{self.knob}"


Knob = Scalar | Domain | SameAs
Knobs = dict[str, Knob]
"""Of one system, by name."""


# Values as people write them in a spec, on a command line or in Python: which value of a knob is meant.


def as_number(value: object) -> float | None:
    """The number meant by a number or a numeric text; None for anything else, truth values included."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def meant(knob: Scalar | Domain, value: object) -> Scalar | None:
    """The value of the knob that a person wrote; None where it has none such.

    knob  its domain, or the one value at which it is fixed
    """
    number = as_number(value)
    if isinstance(knob, Domain) and knob.kind != "choice":
        if number is None or not knob.contains(number):
            return None
        return int(number) if knob.integer else number
    values = knob.values if isinstance(knob, Domain) else (knob,)
    # The one that is written so, else the number that is meant.
    for own in values:
        if isinstance(own, str | bool) and type(own) is type(value) and own == value:
            return own
    return next((own for own in values if not isinstance(own, str | bool) and own == number), None)


# Relations between knobs that have to hold: `learning_rate * clip_norm <= 10`.
#
#     relation    or of ands of comparisons:  a <= b, a < b, a >= b, a > b, a == b, a != b, and chains of them
#     a, b        names of knobs (and target_epsilon), numbers, + - * / ** and parentheses
#
# Parsed once and never evaluated as Python. A relation speaks of the points that have all of its knobs: of no other
# system, and of no point where one of them is not there. All that it reads is public, so breaking one costs nothing.


_DOT = "__dot__"

_DOTTED = re.compile(r"\b([A-Za-z_]\w*)\.(?=[A-Za-z_])")
LONGEST = 500
"""Characters of a relation."""
FORM = "a relation such as `learning_rate * clip_norm <= 10`: knobs, numbers, + - * / **, comparisons, and, or"
UNCOUNTED = 1.0
"""How far off a relation is that no number says: `a != b`, a division by zero."""
LEAST, MOST = 1e-9, 1e6

_ARITHMETIC: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
_HOLDS: Mapping[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.LtE: operator.le,
    ast.Lt: operator.lt,
    ast.GtE: operator.ge,
    ast.Gt: operator.gt,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


@dataclass(frozen=True, slots=True)
class Constraint:
    """One relation.

    text   in canonical spelling: what it is called wherever it is broken
    names  knobs that it speaks of
    """

    text: str
    names: frozenset[str]
    _tree: ast.expr

    @staticmethod
    @cache
    def parse(text: str) -> Constraint:
        """Raises InvalidValue for what is no relation."""
        if len(text) > LONGEST:
            raise InvalidValue("constraint", text, f"at most {LONGEST} characters")
        try:
            # Names with a dot as one word, which `with` is to Python as well.
            tree = ast.parse(_DOTTED.sub(rf"\1{_DOT}", text.strip()), mode="eval").body
            names = frozenset(_named(node.id) for node in ast.walk(tree) if isinstance(node, ast.Name))
            _off(tree, dict.fromkeys(names, 1.0))
            return Constraint(_named(ast.unparse(tree)), names, tree)
        except (SyntaxError, ValueError, OverflowError, MemoryError, RecursionError) as error:
            raise InvalidValue("constraint", text, FORM) from error

    def violation(self, values: Mapping[str, Scalar]) -> float:
        """How far the values are from meeting it: 0 where they do, else above 0, in logarithms of ratios if both sides
        are positive. `values` has all of `names`."""
        return min(_off(self._tree, {name: float(values[name]) for name in self.names}), MOST)


def _named(text: str) -> str:
    return text.replace(_DOT, ".")


def _off(node: ast.expr, values: Mapping[str, float]) -> float:
    """How far values are from meeting a relation. Raises ValueError for what is none: every part is looked at."""
    match node:
        case ast.BoolOp(op=op, values=inner):
            return (sum if isinstance(op, ast.And) else min)([_off(one, values) for one in inner])
        case ast.Compare(left=left, ops=ops, comparators=others) if all(type(op) in _HOLDS for op in ops):
            numbers = [_number(one, values) for one in (left, *others)]
            if any(map(math.isnan, numbers)):
                return UNCOUNTED
            pairs = zip(ops, numbers, numbers[1:], strict=False)
            return sum(0.0 if _HOLDS[type(op)](left, right) else _gap(op, left, right) for op, left, right in pairs)
    raise ValueError(FORM)


def _number(node: ast.expr, values: Mapping[str, float]) -> float:
    """A side of a comparison, not a number where arithmetic has none. Raises ValueError for what is no side."""
    match node:
        case ast.Name(id=name):
            return values[_named(name)]
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool) and math.isfinite(value):
            return float(value)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_number(operand, values)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            first, second = _number(left, values), _number(right, values)
            try:
                number = _ARITHMETIC[type(op)](first, second)
            except (ZeroDivisionError, OverflowError):
                return math.nan
            # A root of a negative number is complex.
            return math.nan if isinstance(number, complex) else number
    raise ValueError(FORM)


def _gap(op: ast.cmpop, left: float, right: float) -> float:
    low, high = sorted((left, right))
    if isinstance(op, ast.NotEq) or not (math.isfinite(low) and math.isfinite(high)):
        return UNCOUNTED
    relative = math.log(high / low) if low > 0 else (high - low) / max(abs(low), abs(high), LEAST)
    return max(relative, LEAST)
