"""What a reproduction returns: claims held against results, tables, plots, and what was cut."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any, Literal

import numpy as np

from dpcore import checks
from dpcore.checks import InvalidValue

Say = Callable[[str], None]
"""Told one line of progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One published number or statement beside ours.

    holds  None with `ours`: measured, and too little to decide; None without: not tried
    note   what the verdict rests on; of a NO its reason, of an open one what is missing. Never blank: a verdict that
           nobody can follow is none. Raises InvalidValue
    """

    claim: str
    published: float | str
    ours: float | str | None
    holds: bool | None
    note: str

    def __post_init__(self) -> None:
        if not self.note.strip():
            raise InvalidValue("note", self.note, f"what the verdict rests on, of the row {self.claim!r}")

    @property
    def verdict(self) -> str:
        """`holds` in a word."""
        if self.holds is None:
            return "not tried" if self.ours is None else "undecided"
        return "yes" if self.holds else "NO"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ResultTable:
    """Numbers behind a figure: `rows` have one cell per column."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[object]]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        rows = [[cell.item() if isinstance(cell, np.generic) else cell for cell in row] for row in self.rows]
        return {"title": self.title, "columns": list(self.columns), "rows": rows}


@dataclass(slots=True)
class Result:
    """All claims of a paper, its figures' numbers and pictures, and what was cut."""

    paper: str
    title: str
    claims: list[Claim] = field(default_factory=list)
    cut: list[str] = field(default_factory=list)
    tables: list[ResultTable] = field(default_factory=list)
    plots: list[Path] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; `rows` are the claims."""
        return {
            "paper": self.paper,
            "title": self.title,
            "rows": [claim.to_dict() for claim in self.claims],
            "cut": list(self.cut),
            "tables": [table.to_dict() for table in self.tables],
            "plots": [str(plot) for plot in self.plots],
        }


# How much of a paper is run.

Grid = Literal["coarse", "paper"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much of a paper is run. What is left out stands in `Result.cut`.

    grid     "coarse": enough points for every claim, minutes on two cores; "paper": the published grid, hours
    repeats  trainings with different seeds for each point; None leaves it to the paper
    quick    seconds: the parts that show that the path works
    """

    grid: Grid = "coarse"
    repeats: int | None = None
    quick: bool = False

    def __post_init__(self) -> None:
        if self.grid not in ("coarse", "paper"):
            raise checks.InvalidValue("grid", self.grid, "coarse or paper")
        if self.repeats is not None:
            checks.count(minimum=1, repeats=self.repeats)

    @property
    def name(self) -> str:
        """Under which a paper's file lists its sizes."""
        return "quick" if self.quick else self.grid


FULL = Effort(grid="paper")


def reduced(ours: Mapping[str, object], full: Mapping[str, object]) -> list[str]:
    """Where the sizes that are run are not the full ones, with both: "epochs 5 instead of 32"."""
    told = ((name, _listed(ours[name]), _listed(full[name])) for name in ours)
    return [f"{name} {mine} instead of {other}" for name, mine, other in told if mine != other]


def _listed(value: object) -> str:
    if isinstance(value, Mapping):
        value = value["choice"]
    if not isinstance(value, tuple | list):
        return f"{value:g}" if isinstance(value, float) else str(value)
    return ", ".join(map(_listed, value))


# Numbers with standard errors, and answers of three values: yes, no, and None where the errors are too large.

Yes = bool | None
Answer = tuple[Yes, str]
"""Whether something holds (None: it is undecided), and the words or numbers that decide it."""


@dataclass(frozen=True, slots=True)
class Uncertain:
    """A number and its standard error; NaN of one value alone."""

    value: float
    error: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Uncertain:
        """The mean of independent values, at least one."""
        found = np.array(list(values), dtype=np.float64)
        error = float(found.std(ddof=1)) / math.sqrt(len(found)) if len(found) > 1 else math.nan
        return cls(float(found.mean()), error)

    def __sub__(self, other: Uncertain) -> Uncertain:
        return Uncertain(self.value - other.value, math.hypot(self.error, other.error))

    def __str__(self) -> str:
        return f"{self.value:.3f}" if math.isnan(self.error) else f"{self.value:.3f} +- {self.error:.3f}"


def at_most(one: Uncertain, margin: float) -> Yes:
    """Whether an estimate is no more than `margin`, at two standard errors; None where they are too large to tell."""
    if one.value + 2 * one.error <= margin:
        return True
    return False if one.value - 2 * one.error > margin else None


def above(one: Uncertain, other: Uncertain, slack: float) -> Yes:
    """Whether `one` is above `other` by more than `slack` and two standard errors; False if it is below by as much."""
    lead = one - other
    return None if abs(lead.value) <= max(slack, 2 * lead.error) else lead.value > 0


def every(answers: Iterable[Yes]) -> Yes:
    """Whether all hold: one that fails decides, one that is open leaves it open."""
    known = list(answers)
    return False if False in known else None if None in known else True


def opposite(answer: Yes) -> Yes:
    """No for yes, yes for no; what is open stays open."""
    return None if answer is None else not answer


# Templates of a paper's file: texts and trees of values in which names in braces stand for measured or given ones.

Values = Mapping[str, Any]
"""Values by the names that a paper's file gives them."""

ALONE = re.compile(r"\{[\w.]+\}")


def value(name: str, values: Values) -> Any:
    """A name among the values, or "name.part" of one: an attribute, or an entry. Raises KeyError, AttributeError."""
    head, *rest = name.split(".")
    return reduce(lambda one, part: one[part] if isinstance(one, Mapping) else getattr(one, part), rest, values[head])


def filled(tree: Any, values: Values) -> Any:
    """A template with its values; of one name in braces alone, the value itself. An entry that becomes None is absent.

    tree  a text, or mappings and lists of such; anything else stays as it is
    """
    if isinstance(tree, str):
        return value(tree[1:-1], values) if ALONE.fullmatch(tree) else tree.format_map(values)
    if isinstance(tree, Mapping):
        made = ((filled(name, values), filled(one, values)) for name, one in tree.items())
        return {name: one for name, one in made if one is not None}
    return [filled(one, values) for one in tree] if isinstance(tree, list) else tree
