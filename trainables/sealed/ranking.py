"""Which trials of a sealed search leave: total orders, fixed in public, of what trials put out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from trainables.knobs import knobs, read
from trainables.orders import PublicOrder
from trainables.sealed.drawn import Slot


@knobs
class Budgeted:
    """What every configuration names beside its knobs: the epsilon of its budget."""

    target_epsilon: float


Ranks = tuple[float, ...]
"""A trial's place in each order; by each the smaller leaves."""


class Ranking(Protocol):
    """Orders of the trials, as functions of what one of them puts out."""

    @property
    def count(self) -> int:
        """How many orders: as many trials leave at most."""
        ...

    def ranks(self, slot: Slot, metrics: Mapping[str, float]) -> Ranks | None:
        """The place in each order; None for a trial that never leaves."""
        ...


@dataclass(frozen=True, slots=True)
class BestScores:
    """The best by each order. A trial without finite values ranks last in all of them: it never leaves.

    Equal ones are parted by their slots, which are exchangeable: as by a coin that no record decides.
    """

    orders: tuple[PublicOrder, ...]

    @property
    def count(self) -> int:
        """See `Ranking.count`."""
        return len(self.orders)

    def ranks(self, slot: Slot, metrics: Mapping[str, float]) -> Ranks | None:
        """See `Ranking.ranks`."""
        found = [order.worth(metrics) for order in self.orders]
        worths = [worth for worth in found if worth is not None]
        if len(worths) < len(found) or not all(map(math.isfinite, metrics.values())):
            return None
        return tuple(-worth for worth in worths)


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

    @property
    def count(self) -> int:
        """See `Ranking.count`."""
        return 1

    def ranks(self, slot: Slot, metrics: Mapping[str, float]) -> Ranks | None:
        """See `Ranking.ranks`."""
        value = metrics.get(self.metric, math.nan)
        if not all(math.isfinite(one) for one in (value, *metrics.values())):
            return None
        met = value >= self.target if self.at_least else value <= self.target
        return (read(Budgeted, slot.config).target_epsilon,) if met else None
