"""The histogram of a task, counted for each declared group of records apart.

A record is in one group, by its own value of a declared column, and so still in one cell of the whole: cells are
disjoint, and one record more or less changes one count by one. Mechanism, sensitivity and event are those of
`dpcore.mechanisms.noisy_histogram` with more cells. What more cells cost is noise: a number over all groups adds up the
noise of each, a number of one group has fewer records under the same noise.

How many records a group has is private: the noised count stands for it. A group whose noised count is below `FEWEST`
standard deviations of its noise says nothing of its accuracy, and is left out of the worst; `smallest_group` says so.
Where none is left there is no worst one, and nothing is said of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpcore.mechanisms.histogram_estimates import Estimate, mean
from trainables.validation.cells import Cells, Codes, Floats

if TYPE_CHECKING:
    from trainables.validation.judgements import Judgements

FEWEST = 2.0


@dataclass(frozen=True, slots=True)
class GroupedCells:
    """group x the cells of `each`, these running fastest."""

    each: Cells
    groups: int

    @property
    def size(self) -> int:
        """How many cells there are."""
        return self.groups * self.each.size

    @property
    def metrics(self) -> tuple[str, ...]:
        """What its counts say."""
        return (*self.each.metrics, "worst_group_accuracy", "smallest_group")

    @property
    def right(self) -> Floats:
        """Which cells of a group are of records that are predicted right [each.size]."""
        return self.each.right

    def of(self, judged: Judgements) -> Codes:
        """The cell of each record [n]."""
        assert judged.groups is not None
        cells: Codes = judged.groups * self.each.size + self.each.of(judged)
        return cells

    def estimates(self, counts: Floats, deviation: float, between: tuple[float, float]) -> Mapping[str, Estimate]:
        """See `Cells.estimates`. The noise of the worst accuracy is that of the group which has it.

        Without a worst accuracy where every group is below its noise.
        """
        table = counts.reshape(self.groups, self.each.size)
        found = dict(self.each.estimates(table.sum(axis=0), deviation * math.sqrt(self.groups), between))
        totals, noise = table.sum(axis=1), deviation * math.sqrt(self.each.size)
        held = (1.0, between[1])
        enough = [mean(one, self.right, held, deviation).clipped(0.0, 1.0) for one in table[totals >= FEWEST * noise]]
        if enough:
            found["worst_group_accuracy"] = min(enough, key=lambda one: one.value)
        return found | {"smallest_group": Estimate(float(np.min(totals)), noise)}
