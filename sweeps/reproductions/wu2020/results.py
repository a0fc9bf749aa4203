"""Trials as means over public splits, with the standard errors of split means."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from sweeps.records import TrialRecord
from sweeps.reproductions.wu2020.published import Row

LAST = "last_"


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean and its standard error; NaN of one split alone."""

    value: float
    error: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Mean:
        """Of independent values, at least one."""
        found = np.array(list(values), dtype=np.float64)
        error = float(found.std(ddof=1)) / math.sqrt(len(found)) if len(found) > 1 else math.nan
        return cls(float(found.mean()), error)

    def __str__(self) -> str:
        return f"{self.value:.3f}" if math.isnan(self.error) else f"{self.value:.3f} +- {self.error:.3f}"


@dataclass(slots=True)
class Measurements:
    """Finished trials by split. Repeats on one split share its members, so they are averaged before anything else."""

    _values: dict[tuple[str, int, int], list[dict[str, float]]] = field(default_factory=dict)
    splits: list[int] = field(default_factory=list)
    epsilons: dict[str, float] = field(default_factory=dict)
    """Largest claim of each system."""

    def add(self, split: int, trials: Iterable[TrialRecord]) -> None:
        """The trials of one split."""
        self.splits.append(split)
        for trial in trials:
            if trial.guarantee is None:
                continue
            system = str(trial.config["system"])
            key = (system, int(trial.config.get("hidden", 0)), split)
            self._values.setdefault(key, []).append(dict(trial.metrics))
            epsilon = float(trial.guarantee["epsilon"])
            self.epsilons[system] = max(epsilon, self.epsilons.get(system, 0.0))

    def by_split(self, system: str, hidden: int, metric: str) -> dict[int, float]:
        """{split: mean over its trainings}; a split where none reported the metric is absent."""
        found = {}
        for split in self.splits:
            values = [one[metric] for one in self._values.get((system, hidden, split), []) if metric in one]
            if values:
                found[split] = float(np.mean(values))
        return found

    def mean(self, system: str, hidden: int, metric: str) -> Mean | None:
        """Over splits; None when nothing was trained."""
        values = self.by_split(system, hidden, metric).values()
        return Mean.of(values) if values else None

    def row(self, row: Row, hidden: int, metric: str) -> Mean | None:
        """A metric of a published row."""
        return self.mean(row.system, hidden, metric_of(row, metric))

    def difference(self, one: tuple[str, str], other: tuple[str, str], hidden: int) -> Mean | None:
        """(system, metric) minus (system, metric), split by split."""
        left, right = (self.by_split(system, hidden, metric) for system, metric in (one, other))
        shared = [split for split in left if split in right]
        return Mean.of(left[split] - right[split] for split in shared) if shared else None

    def trainings(self, system: str, hidden: int) -> int:
        """How many finished."""
        return sum(
            len(values) for (name, units, _), values in self._values.items() if (name, units) == (system, hidden)
        )


def metric_of(row: Row, metric: str) -> str:
    """A plain row is the last iterate alone; a `+` row the average of the last three."""
    return metric if row.ensemble else LAST + metric
