"""What differs between the frozen corpus and what is computed now."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml

from tests.corpus import freeze

CLOSE = 1e-6
"""Relative: how far a number may be on another machine, where kernels round in another order."""
STEPPED, CLOSE_STEPS = ("auc",), 1e-4
"""Metrics that jump where the last digit makes two scores change places, and how far they may on another machine."""
WIDE, CLOSE_OF_WIDE = ("fits > rmsprop*", "fits > sgld*", "fits > psgld*"), 2e-4
"""Trainings that claim nothing, and divide by small sums or report differences of near-equal numbers; likewise."""
ABSENT = "(absent)"


@dataclass(frozen=True, slots=True)
class Difference:
    """One value that is not as it was frozen.

    where  part, name and path, parted by " > "
    near   both are numbers, or arrays, within `CLOSE` of each other
    """

    where: str
    frozen: Any
    now: Any
    near: bool = False

    def __str__(self) -> str:
        return f"{self.where}: frozen {_short(self.frozen)}, now {_short(self.now)}"


@dataclass(frozen=True, slots=True)
class Known:
    """A difference that has a reason. `near`: only as far as it stays within `CLOSE`."""

    where: str
    reason: str
    near: bool = False

    def covers(self, one: Difference) -> bool:
        """Whether this is that difference."""
        return fnmatchcase(one.where, self.where) and (one.near or not self.near)


def known_differences() -> list[Known]:
    """Those of `differences.yaml`."""
    listed = yaml.safe_load((Path(__file__).parent / "differences.yaml").read_text()) or []
    return [Known(**one) for one in listed]


def frozen(part: str) -> tuple[Mapping[str, str], dict[str, Any]]:
    """The machine that froze a part, and its values."""
    read = json.loads((freeze.FROZEN / f"{part}.json").read_text())
    return read["machine"], read["values"]


def compared(part: str, now: Iterator[tuple[str, Any]]) -> list[Difference]:
    """All differences of one part, known or not."""
    machine, values = frozen(part)
    walk = _Walk(exact=machine == freeze.machine())
    found, seen = [], set()
    with freeze.one_thread():
        for name, value in now:
            seen.add(name)
            found += walk.differences(f"{part} > {name}", values.get(name, ABSENT), freeze.plain(value))
    # Records are compared as far as they are at hand.
    gone = [] if part == "records" else values.keys() - seen
    return found + [Difference(f"{part} > {name}", values[name], ABSENT) for name in sorted(gone)]


@dataclass(frozen=True, slots=True)
class _Walk:
    exact: bool

    def differences(self, where: str, frozen: Any, now: Any) -> list[Difference]:
        """Every leaf that differs."""
        if isinstance(frozen, dict) and isinstance(now, dict):
            if {"bits", "type", "shape"} <= frozen.keys() & now.keys():
                return self._array(where, frozen, now)
            names = [*frozen, *(name for name in now if name not in frozen)]
            parts = [(name, frozen.get(name, ABSENT), now.get(name, ABSENT)) for name in names]
        elif isinstance(frozen, list) and isinstance(now, list) and len(frozen) == len(now):
            parts = [(str(index), one, other) for index, (one, other) in enumerate(zip(frozen, now, strict=True))]
        else:
            return self._leaf(where, frozen, now)
        return [one for name, *two in parts for one in self.differences(f"{where} > {name}", *two)]

    def _leaf(self, where: str, frozen: Any, now: Any) -> list[Difference]:
        if frozen == now and isinstance(frozen, bool) == isinstance(now, bool):
            return []
        numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in (frozen, now))
        if numbers and math.isnan(frozen) and math.isnan(now):
            return []
        close = CLOSE_STEPS if where.endswith(STEPPED) else _close(where)
        near = numbers and math.isclose(frozen, now, rel_tol=close, abs_tol=1e-12)
        return [] if near and not self.exact else [Difference(where, frozen, now, near)]

    def _array(self, where: str, frozen: Any, now: Any) -> list[Difference]:
        if frozen["bits"] == now["bits"]:
            return []
        alike = (frozen["type"], frozen["shape"]) == (now["type"], now["shape"]) and "sums" in frozen
        near = alike and all(
            abs(one - other) <= _close(where) * frozen["size"] + 1e-12
            for one, other in zip(frozen["sums"], now["sums"], strict=True)
        )
        return [] if near and not self.exact else [Difference(where, frozen, now, near)]


def _close(where: str) -> float:
    return CLOSE_OF_WIDE if any(fnmatchcase(where, one) for one in WIDE) else CLOSE


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 200 else f"{text[:200]}..."
