"""The state that the next attempt of a trial goes on from."""

from __future__ import annotations

from sweeps.records import Outcome, TrialRecord
from sweeps.store import Lease, Store
from trainables.worker.attempt import latest_checkpoint
from trainables.worker.files import Folder


def start_of_attempt(
    store: Store, lease: Lease, trials: Folder, record: TrialRecord, to_step: int
) -> tuple[int, int] | None:
    """(attempt, step) of the state to go on from, (0, 0) for none; None where that may not be.

    Published metrics belong to the path of the attempt that reported them: no state before them, and none of an
    earlier attempt, leads on from there.
    """
    attempts = store.attempts_of(record.key)
    reported = max((one.attempt for one in attempts if one.outcome is Outcome.SETTLED), default=0)
    found = latest_checkpoint(
        trials,
        record.key,
        [one.attempt for one in attempts if one.attempt >= reported],
        at_least=record.step,
        below=to_step,
    )
    if found is None:
        return None if record.step else (0, 0)
    attempt, step = found
    for entry in store.ledger_of(record.key):
        if entry.attempt == attempt and entry.executed_to is not None and entry.executed_to < step:
            # It came to light after its attempt was settled: a worker that nobody saw went on.
            store.charge_whole(lease, record.key, attempt)
    return found
