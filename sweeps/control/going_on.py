"""The state that the next attempt of a trial goes on from."""

from __future__ import annotations

from dataclasses import dataclass

from sweeps.records import TrialRecord
from sweeps.store import Lease, Store
from trainables.worker.attempt import latest_checkpoint
from trainables.worker.files import Folder
from trainables.worker.results import Curve


@dataclass(frozen=True, slots=True)
class Start:
    """Where an attempt begins.

    attempt  whose checkpoint it goes on from; 0: from scratch
    step     of that checkpoint
    curve    what that attempt had told by then
    """

    attempt: int
    step: int
    curve: Curve


@dataclass(frozen=True, slots=True)
class Lost:
    """Nothing may go on: the state after `step` steps is gone, and metrics of it have been published."""

    step: int


def start_of_attempt(store: Store, lease: Lease, trials: Folder, record: TrialRecord, to_step: int) -> Start | Lost:
    """What the next attempt goes on from.

    Published metrics belong to the path of the attempt that reported them: no state before them, and none of an
    earlier attempt, leads on from there.
    """
    published = store.curves(lease.sweep, [record.key])
    # The last one: whoever told of later steps went on from a state after all the others.
    attempt, step = (published[-1].attempt, published[-1].step) if published else (0, 0)
    found = latest_checkpoint(
        trials,
        record.key,
        [one.attempt for one in store.attempts_of(record.key) if one.attempt >= attempt],
        at_least=step,
        below=to_step,
    )
    if found is None:
        return Lost(step) if published else Start(0, 0, {})
    number, checkpoint = found
    for entry in store.ledger_of(record.key):
        if entry.attempt == number and entry.executed_to is not None and entry.executed_to < checkpoint.step:
            # It came to light after its attempt was settled: a worker that nobody saw went on.
            store.charge_whole(lease, record.key, number)
    return Start(number, checkpoint.step, checkpoint.curve)
