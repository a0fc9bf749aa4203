"""The trials of a sweep as its controller has them in memory: what the store holds by now, and what was told of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from sweeps.records import TrialRecord
from sweeps.release.policy import Release
from sweeps.release.published import Published
from sweeps.search import Proposer
from trainables.system import PrivacyPlan


@dataclass(slots=True)
class Roster:
    """Used from one thread.

    release    what may leave the trials: asked before anything of a result is written or told
    proposer   told of each change that the release lets it see
    on_change  called after each committed change, with the trial's record; for progress display only
    records    by key
    running    keys of trials whose launch is in flight
    waiting    keys of trials that are to be launched again, the first one first
    """

    release: Release
    proposer: Proposer
    on_change: Callable[[Published], None] = lambda record: None
    records: dict[str, TrialRecord] = field(default_factory=dict)
    running: set[str] = field(default_factory=set)
    waiting: list[str] = field(default_factory=list)

    def rebuild(self, records: Iterable[TrialRecord]) -> None:
        """Know these trials and no others, of which none runs or waits."""
        self.records = {record.key: record for record in records}
        self.running, self.waiting = set(), []

    def plan_of(self, key: str) -> PrivacyPlan:
        """Of a trial that was launched."""
        plan = self.records[key].plan
        assert plan is not None
        return plan

    def changed(self, record: TrialRecord) -> None:
        """Know a trial's latest state, and tell it. Last of all: the store has it by now."""
        self.records[record.key] = record
        seen = self.release.policy.published_alone(record)
        self.proposer.tell(seen)
        self.on_change(seen)

    def published(self) -> list[Published]:
        """The trials as the world may see them while the sweep runs: all that steers it."""
        return self.release.policy.published(self.records.values())
