"""How much of a paper is run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from dpcore import checks

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
