"""The rows of the comparison of modes, as values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from sweeps.advice.proxy import Proxy
from trainables.system import Scalar


class BudgetFor(StrEnum):
    """What the budget of a mode bounds."""

    SWEEP = "the sweep"
    """Everything that leaves, the choice among the trials included."""
    EACH_TRIAL = "each trial"
    """All of them together have another epsilon, which is the one in the row."""
    ONE_RUN = "one run"
    """Without a search, of a configuration that was fixed without a look at the records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeRow:
    """What one mode would do with the whole budget, for trials like the one in the middle of the space.

    mode      its name in the table
    setting   what asks for it in a spec; "" where nothing does yet
    trials    in words: how many, or their law
    parameter, noise  name and solved values, the least noise first; () where the system solves none
    spent     epsilon of one trial by itself at the spec's delta, the least first: what a trial may spend
    chance    that some trial comes from the best tenth of the prior; None where trials do not touch these records
    chance_at_most  likewise, where results may lead the search: what its bounds allow, and `chance` is then what they
              leave whatever the results; None where nothing leads it
    expected  number of trials
    most      number of trials at the worst: what an announced deadline has to cover
    work      of all trials: expected, and at the worst; in the system's unit
    epsilon, delta  of everything that leaves; infinite where nothing is promised
    budget_for  what the budget bounds
    status    of the weakest claim among the trials, or no-claim where results let the total grow
    theorem   by which they are counted
    says      in a sentence: what leaves, and what it takes
    declare   what the specs of two sweeps would have to declare for it; "" where it is one sweep
    refused   what the checks of a spec say where nothing but the mode is changed; "" where nothing is in the way
    """

    mode: str
    setting: str
    trials: str
    parameter: str
    noise: tuple[float, ...]
    spent: tuple[float, ...]
    chance: float | None
    expected: float
    most: int
    work: tuple[float, float]
    epsilon: float
    delta: float
    budget_for: BudgetFor
    status: str
    theorem: str
    says: str
    chance_at_most: float | None = None
    declare: str = ""
    refused: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoRow:
    """A mode that the middle of this space cannot have, and why."""

    mode: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Every mode at one budget of the whole procedure.

    config     the configuration that all rows plan: the middle of the space, or the first draw that may be launched
    epsilon, delta  the budget: the largest epsilon of the spec
    speed      seconds per unit of work in the rehearsal; None without one
    at_once    trials that run at the same time
    proxy      a sweep on public records by which results are predicted; None where none is named
    """

    spec: str
    system: str
    config: Mapping[str, Scalar]
    epsilon: float
    delta: float
    adjacency: str
    unit: str
    speed: float | None
    at_once: int
    rows: tuple[ModeRow, ...]
    without: tuple[NoRow, ...]
    proxy: Proxy | None = None

    def row(self, mode: str) -> ModeRow:
        """The row of this name. Raises KeyError."""
        for one in self.rows:
            if one.mode == mode:
                return one
        raise KeyError(mode)

    def hours(self, row: ModeRow) -> tuple[float, float] | None:
        """Hours that all trials of a mode take, expected and at the worst, at the rehearsal's speed on this machine."""
        if self.speed is None:
            return None
        expected, worst = (work * self.speed / self.at_once / 3600 for work in row.work)
        return expected, worst

    def predicted(self, row: ModeRow) -> tuple[float, ...]:
        """By the proxy, the metric of what a mode would choose: at the least and at the largest of what a trial may
        spend. Empty without a proxy, beyond its budgets, and for a first success, which is as good as its target.

        In `public` the choice is the proxy's own.
        """
        if self.proxy is None or row.mode.startswith("first"):
            return ()
        ends = sorted({row.spent[0], row.spent[-1]}) if row.spent else []
        trials = row.expected if row.chance is not None else math.inf
        found = [self.proxy.predicted(epsilon, trials) for epsilon in ends]
        return tuple(value for value in found if value is not None) if None not in found else ()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; an infinite epsilon is the string "inf"."""
        out = asdict(self)
        for plain, row in zip(out["rows"], self.rows, strict=True):
            plain["hours"] = self.hours(row)
            plain["predicted"] = self.predicted(row)
            if math.isinf(row.epsilon):
                plain["epsilon"] = "inf"
        return out
