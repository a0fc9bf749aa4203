"""Which results of a sweep leave its store, and when: one decision for the world and for what steers the search.

Views, sampler and early stopping are given `Published` records, which this package alone makes. Nothing here says what
a result costs: a policy decides what leaves, the ledger counts what ran.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NewType, cast

from sweeps.store.records import TrialRecord, TrialState
from trainables.orders import PublicOrder

Published = NewType("Published", TrialRecord)
"""A trial as the world may see it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasePolicy:
    """What leaves of a sweep's trials beyond what was public before they ran.

    at_once  every result, as soon as it is recorded: views are told of it, and it steers sampler and early stopping
    winners  the results of the trials that are best by the sweep's orders, once it is over: of the first objective, or
             of several orders
    """

    at_once: bool = False
    winners: bool = False

    @classmethod
    def called(cls, word: object) -> ReleasePolicy:
        """The policy that a spec calls `word` under privacy.release: a word without a meaning publishes nothing."""
        return _BY_WORD.get(str(word), NOTHING)

    def published(
        self,
        records: Iterable[TrialRecord],
        orders: Sequence[PublicOrder] = (),
        over: bool = False,
        deleted: bool = False,
    ) -> list[Published]:
        """The trials of one sweep as they may be seen, in their order.

        orders   by which winners win
        over     whether the sweep is
        deleted  whether its results are: those that had left keep their claims, with nothing to be ranked by
        """
        listed = list(records)
        if self.at_once:
            return cast("list[Published]", listed)
        best = {best_by(order, listed) for order in orders} if self.winners and over else set()
        if self.winners and deleted:
            best = {one.key for one in listed if one.state is TrialState.COMPLETE}
        return [Published(record if record.key in best else _sealed(record)) for record in listed]

    def published_alone(self, record: TrialRecord) -> Published:
        """One trial of a sweep that is not over."""
        return self.published([record])[0]


OPEN = ReleasePolicy(at_once=True)
WINNERS_ALONE = ReleasePolicy(winners=True)
NOTHING = ReleasePolicy()
_BY_WORD = {"all": OPEN, "best": WINNERS_ALONE, "first": WINNERS_ALONE, "front": WINNERS_ALONE}


def was_published(record: TrialRecord) -> Published:
    """A trial that a view holds: it left when it was written there."""
    return Published(record)


def _sealed(record: TrialRecord) -> TrialRecord:
    """What is public of a trial: what was proposed and planned, and that it was launched. How it ended is a result."""
    if record.state is TrialState.INFEASIBLE:
        return record
    nothing: dict[str, object] = {"metrics": {}, "reports": {}, "guarantee": None, "step": 0, "finished_at": None}
    return replace(record, state=TrialState.PLANNED, reason="", **nothing)  # type: ignore[arg-type]


def best_by(order: PublicOrder, records: Iterable[TrialRecord]) -> str | None:
    """The key of the complete trial that wins by an order; None where none can."""
    ranked = [
        (-worth, record.number, record.key)
        for record in records
        if record.state is TrialState.COMPLETE and (worth := order.worth(_measured(record, order))) is not None
    ]
    return min(ranked)[2] if ranked else None


def _measured(record: TrialRecord, order: PublicOrder) -> dict[str, float]:
    found = {name: record.metric(name) for name, _ in order.weights}
    return {name: value for name, value in found.items() if value is not None}
