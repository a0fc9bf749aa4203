"""A worker of a sealed search, from its start to the announced end.

It runs its slots one after the other, in memory, and says nothing in between: nothing is written while one runs, and
nothing of a worse one afterwards. Beside it a thread writes what it stands at, at each announced time, whether or not
there is anything new: to the one of its two files whose turn it is, always as long. A worker that is lost begins again
at the slot that it was in, and what it had not written yet it runs again, the same.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from dpcore.randomness import Streams
from trainables.parallel.ray_shared import SharedData
from trainables.sealed.search import HEAD_BYTES, Box, Candidate, Ranking, Schedule, SealedDraw, Standing, best_of
from trainables.system import Dataset, Launch, State
from trainables.worker.attempt import Curve
from trainables.worker.files import Damaged, Folder
from trainables.worker.ray import Credentials
from trainables.worker.trial import LaunchContext, RecordedRun, train

NOT_KEPT = "what failed in a sealed trial is kept nowhere"


@dataclass(slots=True)
class MemoryRecords:
    """The records of an attempt that a `RecordedRun` asks for, in memory: the last state, and no file."""

    state: State | None = None

    def reserve_until(self, until_step: int) -> None:
        """A slot that is lost is run again from its start, with the same noise: no horizon is noted."""

    def save(
        self, step: int, state: State, result: Mapping[str, Any] | None = None, curve: Curve | None = None
    ) -> None:
        """Keep the last state."""
        if result is not None:
            self.state = {name: value.copy() for name, value in state.items()}

    def explain(self, text: str) -> str:
        """What failed may quote a record: it is forgotten."""
        return NOT_KEPT

    def move(self) -> None:
        """Nothing to be noted."""


class OutOfTime(Exception):
    """The announced end came before that of the slot."""


def run_slot(
    drawn: SealedDraw, number: int, key: str, group: Launch, data: Dataset, ranking: Ranking
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
    refused = train([run], LaunchContext(group=group, data=data))
    if run.result is None or records.state is None:
        if refused.get(key, ("", ""))[0] == "overran":
            raise OutOfTime
        return None
    metrics = run.result["metrics"]
    ranks = ranking.ranks(slot, metrics)
    if ranks is None:
        return None
    return Candidate(slot=number, ranks=ranks, metrics=metrics, state=records.state)


DRAW = "draw"
"""The file of what was drawn."""
TWO = ("a", "b")
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedWork:
    """All that the workers of one search have in common. Nothing in it depends on a record.

    folder    of their files
    workers   how many there are; worker w runs slots w, w + workers, ...
    room      bytes of the largest model that is kept
    winner    the key that every slot runs under, whichever leaves
    group     how each slot executes; of no members
    """

    folder: Folder
    box: Box
    schedule: Schedule
    workers: int
    room: int
    winner: str
    group: Launch
    ranking: Ranking

    def keep_drawn(self, drawn: SealedDraw) -> None:
        """Write what was drawn, durably, before anything runs."""
        body = drawn.to_bytes()
        size = -(-len(body) // _BLOCK) * _BLOCK
        self.folder.write(DRAW, self.box.seal(self._place(DRAW), body, size))

    def drawn(self) -> SealedDraw:
        """What was drawn. Raises Damaged."""
        return SealedDraw.from_bytes(self._opened(DRAW, DRAW))

    def keep(self, worker: int, standing: Standing) -> None:
        """Write where a worker stands, to the file whose turn it is. Raises TooLarge, OSError."""
        body = standing.to_bytes()
        name = f"{worker}.{TWO[standing.written % len(TWO)]}"
        size = self.ranking.count * (self.room + HEAD_BYTES)
        self.folder.write(name, self.box.seal(self._place(str(worker)), body, size))

    def fits(self, found: Candidate) -> bool:
        """Whether it can be written, whatever else is."""
        return len(Standing(following=found.slot, best=(found,)).to_bytes()) <= self.room + HEAD_BYTES

    def standing(self, worker: int) -> Standing:
        """Where a worker stands by its newer file. Without one it begins anew, which gives the same trials again."""
        found = [Standing(following=worker)]
        for one in TWO:
            with suppress(Damaged):
                found.append(Standing.from_bytes(self._opened(f"{worker}.{one}", str(worker))))
        return max(found, key=lambda standing: standing.written)

    def best(self) -> tuple[Candidate, ...]:
        """The trial that leaves by each order; empty where none may, or not all of them were done in time.

        Raises Damaged.
        """
        count = self.drawn().count
        standings = [self.standing(worker) for worker in range(self.workers)]
        if any(one.following < count for one in standings):
            return ()
        return best_of(*(found for one in standings for found in one.best))

    def _place(self, name: str) -> str:
        return f"{self.winner}/{name}"

    def _opened(self, name: str, place: str) -> bytes:
        content = self.folder.read(name)
        if content is None:
            raise Damaged(f"{self.folder.url}/{name}: not there")
        return self.box.open(self._place(place), content)


@contextmanager
def keeping(work: SealedWork, worker: int, standing: Standing) -> Iterator[Callable[[Standing], None]]:
    """Writes where a worker stands at the announced times, from a thread of its own, while the block runs.

    What it yields is told where it stands from then on.
    """
    at, over = deque([standing], maxlen=1), threading.Event()

    def loop() -> None:
        while (number := work.schedule.following(time.time())) is not None:
            if over.wait(max(0.0, work.schedule.at(number) - time.time())):
                return
            # A place that refuses a write may take the next one.
            with suppress(OSError):
                work.keep(worker, replace(at[-1], written=number))

    thread = threading.Thread(target=loop, daemon=True, name="keeper")
    thread.start()
    try:
        yield at.append
    except BaseException:
        over.set()
        raise
    finally:
        thread.join()


def serve(work: SealedWork, worker: int, data: Dataset) -> None:
    """Run the slots of `worker` until the last announced time, whether they take that long or not.

    Raises Damaged where what was drawn is gone.
    """
    drawn, standing = work.drawn(), work.standing(worker)
    with keeping(work, worker, standing) as now:
        while standing.following < drawn.count and (left := work.schedule.last - time.time()) > 0:
            group = replace(work.group, seconds=left)
            try:
                found = run_slot(drawn, standing.following, work.winner, group, data, work.ranking)
            except OutOfTime:
                break
            except OSError:
                # The machine or the records went away: the same slot again, the same.
                time.sleep(min(1.0, work.schedule.cadence))
                continue
            standing = after(work, standing, found)
            now(standing)


def after(work: SealedWork, standing: Standing, found: Candidate | None) -> Standing:
    """Where a worker stands once it ran the slot that followed."""
    further = replace(standing, following=standing.following + work.workers)
    # How large a model is follows from its configuration alone: one that is too large ranks last, as one that failed.
    left = found if found is not None and work.fits(found) else None
    return further if left is None else replace(further, best=best_of(*standing.best, left))


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteWork:
    """The work as it travels through the object store of a cluster, with the records beside it."""

    work: SealedWork
    data: SharedData
    credentials: Credentials


def serve_remotely(remote: RemoteWork, worker: int) -> None:
    """`serve` as Ray calls it. Nothing that is printed meanwhile is kept: how much it is would tell how many ran."""
    remote.credentials.take()
    with _silent():
        serve(remote.work, worker, remote.data.get())


@contextmanager
def _silent() -> Iterator[None]:
    kept = [os.dup(number) for number in (1, 2)]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        for number in (1, 2):
            os.dup2(nowhere, number)
        yield
    finally:
        for number, before in zip((1, 2), kept, strict=True):
            os.dup2(before, number)
            os.close(before)
        os.close(nowhere)
