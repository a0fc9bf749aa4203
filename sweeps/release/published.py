"""Which results of a sweep leave its store, and when: one decision for the world and for what steers the search.

Views, sampler and early stopping are given `Published` records, which this package alone makes. Nothing here says what
a result costs: a policy decides what leaves, the ledger counts what ran.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NewType, cast

from sweeps.records import TrialRecord, TrialState

Published = NewType("Published", TrialRecord)
"""A trial as the world may see it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasePolicy:
    """What leaves of a sweep's trials beyond what was public before they ran.

    at_once  every result, as soon as it is recorded: views are told of it, and it steers sampler and early stopping
    winner   the results of one trial, once the sweep is over: the one that is best by the first objective
    """

    at_once: bool = False
    winner: bool = False

    @classmethod
    def called(cls, word: object) -> ReleasePolicy:
        """The policy that a spec calls `word` under privacy.release: a word without a meaning publishes nothing."""
        return _BY_WORD.get(str(word), NOTHING)

    def published(
        self, records: Iterable[TrialRecord], objective: tuple[str, str] | None = None, over: bool = False
    ) -> list[Published]:
        """The trials of one sweep as they may be seen, in their order.

        objective  (metric, goal) by which a winner wins
        over       whether the sweep is
        """
        listed = list(records)
        if self.at_once:
            return cast("list[Published]", listed)
        best = _best(listed, objective) if self.winner and over and objective is not None else None
        return [Published(record if record is best else _sealed(record)) for record in listed]

    def published_alone(self, record: TrialRecord) -> Published:
        """One trial of a sweep that is not over."""
        return self.published([record])[0]


OPEN = ReleasePolicy(at_once=True)
WINNER_ONLY = ReleasePolicy(winner=True)
NOTHING = ReleasePolicy()
_BY_WORD = {"all": OPEN, "best": WINNER_ONLY, "first": WINNER_ONLY}


def was_published(record: TrialRecord) -> Published:
    """A trial that a view holds: it left when it was written there."""
    return Published(record)


def _sealed(record: TrialRecord) -> TrialRecord:
    """What is public of a trial: what was proposed and planned, and that it was launched. How it ended is a result."""
    if record.state is TrialState.INFEASIBLE:
        return record
    nothing: dict[str, object] = {"metrics": {}, "reports": {}, "guarantee": None, "step": 0, "finished_at": None}
    return replace(record, state=TrialState.PLANNED, reason="", **nothing)  # type: ignore[arg-type]


def _best(records: list[TrialRecord], objective: tuple[str, str]) -> TrialRecord | None:
    metric, goal = objective
    sign = 1.0 if goal == "minimize" else -1.0
    ranked = [
        (sign * value, record.number, record)
        for record in records
        if record.state is TrialState.COMPLETE and (value := record.metric(metric)) is not None
    ]
    return min(ranked, key=lambda one: one[:2])[2] if ranked else None
