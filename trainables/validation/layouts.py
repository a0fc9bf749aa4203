"""Which histogram a task is judged by, and what a report on private validation records then tells."""

from __future__ import annotations

from trainables.system import PublicFacts, Task
from trainables.validation.cells import Cells, ErrorCells, LossCells, ScoreCells
from trainables.validation.declaration import Bins
from trainables.validation.grouped_cells import GroupedCells
from trainables.validation.reports import NOISE_SD


def cells_for(facts: PublicFacts, bins: Bins) -> Cells:
    """The layout of a task, for each of the groups that the data declare where classes are predicted."""
    if facts.groups is not None and facts.task is Task.CLASSIFICATION:
        return GroupedCells(_cells_for(facts, bins), len(facts.groups.categories))
    return _cells_for(facts, bins)


def _cells_for(facts: PublicFacts, bins: Bins) -> ScoreCells | LossCells | ErrorCells:
    if facts.task is Task.REGRESSION:
        return ErrorCells(facts.target_high - facts.target_low, sides=1)
    assert facts.classes is not None
    if facts.task is Task.RATING:
        return ErrorCells(float(facts.classes - 1), sides=2)
    return ScoreCells(facts.classes) if facts.classes == 2 or bins == "score" else LossCells()


def reported(facts: PublicFacts, bins: Bins) -> frozenset[str]:
    """Names of all that a report on private validation records tells."""
    names = cells_for(facts, bins).metrics
    return frozenset(names) | {name + NOISE_SD for name in names}
