"""What a reproduction returns: claims held against results, tables, plots, and what was cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

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
