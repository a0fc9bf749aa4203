"""Which trial of a sealed search leaves: a total order, fixed in public, of what trials put out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from trainables.knobs import knobs, read
from trainables.sealed.drawn import Slot


@knobs
class Budgeted:
    """What every configuration names beside its knobs: the epsilon of its budget."""

    target_epsilon: float


class Ranking(Protocol):
    """An order of the trials, as a function of what one of them puts out."""

    def rank(self, slot: Slot, metrics: Mapping[str, float]) -> tuple[float, ...] | None:
        """The smaller leaves; None for a trial that never does."""
        ...


@dataclass(frozen=True, slots=True)
class BestScore:
    """The best by one metric. A trial without a finite value ranks last: it never leaves.

    Equal ones are parted by their slots, which are exchangeable: as by a coin that no record decides.
    """

    metric: str
    maximised: bool

    def rank(self, slot: Slot, metrics: Mapping[str, float]) -> tuple[float, ...] | None:
        """See `Ranking.rank`."""
        value = metrics.get(self.metric, math.nan)
        if not all(math.isfinite(one) for one in (value, *metrics.values())):
            return None
        return (-value if self.maximised else value,)


@dataclass(frozen=True, slots=True)
class FirstSuccess:
    """The first that meets a public target, in the secret order of slots: no success is better than another, but for
    the budget that its trial had; the cheapest goes before.

    target    of the metric, as the trial puts it out: a noisy score is held against it as it is
    at_least  whether a success has at least the target; else it has at most that
    """

    metric: str
    target: float
    at_least: bool

    def rank(self, slot: Slot, metrics: Mapping[str, float]) -> tuple[float, ...] | None:
        """See `Ranking.rank`."""
        value = metrics.get(self.metric, math.nan)
        if not all(math.isfinite(one) for one in (value, *metrics.values())):
            return None
        met = value >= self.target if self.at_least else value <= self.target
        return (read(Budgeted, slot.config).target_epsilon,) if met else None
