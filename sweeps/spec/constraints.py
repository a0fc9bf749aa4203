"""Relations between knobs that have to hold: `learning_rate * clip_norm <= 10`.

    relation    or of ands of comparisons:  a <= b, a < b, a >= b, a > b, a == b, a != b, and chains of them
    a, b        names of knobs (and target_epsilon), numbers, + - * / ** and parentheses

Parsed once and never evaluated as Python. A relation speaks of the points that have all of its knobs: of no other
system, and of no point where one of them is not there. All that it reads is public, so breaking one costs nothing.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from dpcore.checks import InvalidValue
from trainables.system import Scalar

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


Values = Mapping[str, float]
Function = Callable[[Values], float]


@dataclass(frozen=True, slots=True)
class Constraint:
    """One relation.

    text   in canonical spelling: what it is called wherever it is broken
    names  knobs that it speaks of
    """

    text: str
    names: frozenset[str]
    _off: Function

    @classmethod
    def parse(cls, text: str) -> Constraint:
        """Raises InvalidValue for what is no relation."""
        return _parsed(text)

    def violation(self, values: Mapping[str, Scalar]) -> float:
        """How far the values are from meeting it: 0 where they do, else above 0, in logarithms of ratios if both sides
        are positive. `values` has all of `names`."""
        return min(self._off({name: float(values[name]) for name in self.names}), MOST)


@cache
def _parsed(text: str) -> Constraint:
    if len(text) > LONGEST:
        raise InvalidValue("constraint", text, f"at most {LONGEST} characters")
    try:
        # Names with a dot as one word, which `with` is to Python as well.
        tree = ast.parse(_DOTTED.sub(rf"\1{_DOT}", text.strip()), mode="eval").body
        names = frozenset(_named(node.id) for node in ast.walk(tree) if isinstance(node, ast.Name))
        return Constraint(_named(ast.unparse(tree)), names, _relation(tree))
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        if isinstance(error, InvalidValue):
            raise
        raise InvalidValue("constraint", text, FORM) from error


def _named(text: str) -> str:
    return text.replace(_DOT, ".")


def _relation(node: ast.expr) -> Function:
    """How far values are from meeting it. Raises InvalidValue for what is no relation."""
    match node:
        case ast.BoolOp(op=op, values=inner):
            parts = [_relation(one) for one in inner]
            joined = sum if isinstance(op, ast.And) else min
            return lambda values: joined([part(values) for part in parts])
        case ast.Compare(left=left, ops=ops, comparators=others) if all(type(op) in _HOLDS for op in ops):
            sides = [_number(one) for one in (left, *others)]
            return lambda values: _off(ops, sides, values)
    raise InvalidValue("constraint", ast.unparse(node), FORM)


def _number(node: ast.expr) -> Function:
    """A side of a comparison. Raises InvalidValue for what is no number."""
    match node:
        case ast.Name(id=name):
            written = _named(name)
            return lambda values: values[written]
        case ast.Constant(value=bool()):
            pass
        case ast.Constant(value=int() | float() as value) if math.isfinite(float(value)):
            return lambda values: float(value)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = _number(operand)
            return lambda values: -inner(values)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            call, first, second = _ARITHMETIC[type(op)], _number(left), _number(right)
            return lambda values: _real(call(first(values), second(values)))
    raise InvalidValue("constraint", ast.unparse(node), FORM)


def _real(number: float) -> float:
    # A root of a negative number is complex.
    return math.nan if isinstance(number, complex) else number


def _off(ops: Sequence[ast.cmpop], sides: Sequence[Function], values: Values) -> float:
    try:
        numbers = [side(values) for side in sides]
    except (ZeroDivisionError, OverflowError):
        return UNCOUNTED
    pairs = zip(ops, numbers, numbers[1:], strict=False)
    return sum(0.0 if _HOLDS[type(op)](left, right) else _gap(op, left, right) for op, left, right in pairs)


def _gap(op: ast.cmpop, left: float, right: float) -> float:
    low, high = sorted((left, right))
    if isinstance(op, ast.NotEq) or not (math.isfinite(low) and math.isfinite(high)):
        return UNCOUNTED
    relative = math.log(high / low) if low > 0 else (high - low) / max(abs(low), abs(high), LEAST)
    return max(relative, LEAST)
