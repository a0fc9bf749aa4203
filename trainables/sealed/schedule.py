"""The announced times of a sealed search: nothing that its trials do moves them."""

from __future__ import annotations

import math
from dataclasses import dataclass

MARGIN_SECONDS, MARGIN_SHARE = 10.0, 0.1
"""Between the last record and the release, at most; as a share of the whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Seconds since 1970 by the clocks of the machines.

    begins    when it was announced
    deadline  when the winner leaves
    cadence   seconds between two records of a worker
    """

    begins: float
    deadline: float
    cadence: float

    @property
    def last(self) -> float:
        """When workers write for the last time: what is not done by then does not count."""
        return self.deadline - min(MARGIN_SECONDS, MARGIN_SHARE * (self.deadline - self.begins))

    @property
    def records(self) -> int:
        """How many times are announced, the last among them."""
        return 1 + math.floor((self.last - self.begins) / self.cadence)

    def at(self, number: int) -> float:
        """The announced time `number`, from 0 to `records` - 1."""
        return self.last - (self.records - 1 - number) * self.cadence

    def following(self, now: float) -> int | None:
        """The first announced time after `now`; None after the last."""
        if now >= self.last:
            return None
        return max(0, self.records - 1 - math.floor((self.last - now) / self.cadence))
