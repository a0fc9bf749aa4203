"""How much of a paper is run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dpcore import checks

Grid = Literal["coarse", "paper"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much of a paper is run. What is left out stands in `Result.cut`.

    grid     "coarse": enough points for every claim, minutes on two cores; "paper": the published grid, hours
    repeats  trainings with different seeds for each point; None leaves it to the paper's module
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
