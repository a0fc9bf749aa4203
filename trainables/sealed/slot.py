"""One trial of a sealed search, in memory: nothing is written while it runs, and nothing of a worse one afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dpcore.randomness import Streams
from trainables.sealed.drawn import SealedDraw
from trainables.sealed.ranking import Ranking
from trainables.sealed.standing import Candidate
from trainables.system import Dataset, State, TrialGroup
from trainables.worker.results import Curve
from trainables.worker.trial import RecordedRun, train

NOT_KEPT = "what failed in a sealed trial is kept nowhere"


@dataclass(slots=True)
class MemoryRecords:
    """The records of an attempt that a `RecordedRun` asks for, in memory: the last state, and no file."""

    state: State | None = None
    where: str = field(default=NOT_KEPT)

    def may_execute(self, until_step: int) -> None:
        """A slot that is lost is run again from its start, with the same noise: no horizon is noted."""

    def save(
        self, step: int, state: State, result: Mapping[str, Any] | None = None, curve: Curve | None = None
    ) -> None:
        """Keep the last state."""
        if result is not None:
            self.state = {name: value.copy() for name, value in state.items()}

    def explain(self, text: str) -> str:
        """What failed may quote a record: it is forgotten."""
        return self.where

    def move(self) -> None:
        """Nothing to be noted."""


class OutOfTime(Exception):
    """The announced end came before that of the slot."""


def run_slot(
    drawn: SealedDraw, number: int, key: str, group: TrialGroup, data: Dataset, ranking: Ranking
) -> Candidate | None:
    """Train slot `number`; None where it may never leave: it failed, or has no finite score.

    key    of the winner, whichever it will be
    group  of no members: how to execute, what to measure, what is withheld, and the seconds that are left

    The same slot again is the same trial, bit for bit where the machine computes alike: its noise, batches and initial
    weights follow from the draw. Raises OutOfTime, and OSError where the data or the machine went away.
    """
    slot = drawn.slots[number]
    member = slot.member(key)
    records = MemoryRecords()
    streams = Streams(secret=drawn.coins.of("slot", number), seed=slot.seed, key=key, attempt=1)
    run = RecordedRun(member=member, start_step=0, state=None, streams=streams, attempt=records)
    refused = train(group, [run], data)
    if run.result is None or records.state is None:
        if refused.get(key, ("", ""))[0] == "overran":
            raise OutOfTime
        return None
    metrics = run.result["metrics"]
    ranks = ranking.ranks(slot, metrics)
    if ranks is None:
        return None
    return Candidate(slot=number, ranks=ranks, metrics=metrics, state=records.state)
