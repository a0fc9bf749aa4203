"""A sweep's end for good: its results and files go; what was spent on the records stays, and so does its name."""

from __future__ import annotations

import shutil
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from dpcore.checks import InvalidValue
from sweeps.process.workspace import Workspace
from sweeps.records import SweepRecord, SweepState, TrialState
from sweeps.release import refuting
from sweeps.sealed.opening import SealedPlaces
from sweeps.store import Store
from sweeps.tracking.deletion import deleted_experiment
from trainables.worker.attempt import Attempt
from trainables.worker.files import NotAFolder

GOES = (
    "Checkpoints, metrics, reports, logs and audits go, for good, and its MLflow experiment as MLflow "
    "deletes: until `mlflow gc` it can be restored there."
)
STAYS = (
    "What was spent on the records stays: plans, claims, every charged step, spec, identity of the data, notes. "
    "Its name is never used again."
)
_OVER = (SweepState.FINISHED, SweepState.EXHAUSTED, SweepState.DELETED)
DELETED = "deleted by its user"
LONGEST = 300
"""Letters of what a store says: of a refusal it names every object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAnswer:
    """What came of a deletion.

    left  what could not be removed and is to be removed by hand, one sentence each
    """

    sweep: str
    left: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join([f"Deleted {self.sweep!r}. {STAYS}", *self.left])


def delete(workspace: Workspace, sweep: str) -> DeleteAnswer:
    """Delete a sweep that nobody runs. What a kill in the middle leaves is deleted by the same call again.

    Raises UnknownSweep, LeaseHeld (somebody runs it), StoreError, and InvalidValue where a sweep that is not over
    started from its results.
    """
    with closing(workspace.open_store()) as store:
        record = store.sweep(sweep)
        _check_nobody_needs(store, record)
        lease = store.acquire(record.name)
        try:
            for trial in store.trials(record.name, states=[TrialState.RUNNING]):
                # A worker that nobody sees any more may go on until it looks: it is charged whole.
                with suppress(OSError, NotAFolder, InvalidValue):
                    Attempt.of(workspace.of(record).trials(record.name), trial.key, trial.attempts).fence()
                store.fail(lease, trial.key, trial.attempts, None, DELETED)
            refuting.tell(store, record.name, _folders(workspace, record))
            # The key first: what else of a sealed search cannot be removed here can then not be read either.
            with suppress(OSError, NotAFolder, InvalidValue):
                SealedPlaces.of(workspace.of(record), record.name).destroy()
            store.erase(lease)
        finally:
            lease.release()
    uri = record.spec.tracking_uri or workspace.tracking_uri
    left = (*_files_left(workspace, record), *deleted_experiment(uri, record))
    return DeleteAnswer(sweep=record.called, left=left)


def _check_nobody_needs(store: Store, record: SweepRecord) -> None:
    names = [
        other.called
        for other in store.sweeps()
        if other.state not in _OVER and {other.spec.warm_start, other.spec.chosen_from} & {record.name, record.label}
    ]
    if names:
        raise InvalidValue(
            "sweep",
            record.called,
            f"one from whose results no other started: {', '.join(names)} did, and is not over",
            "End or delete that one first.",
        )


def _folders(workspace: Workspace, record: SweepRecord) -> list[Path]:
    """Those of a sweep on this machine: where it is looked for, and where it was run."""
    return list(dict.fromkeys((workspace.folder(record.name), Path(record.root) / record.name)))


def _files_left(workspace: Workspace, record: SweepRecord) -> list[str]:
    left = []
    for folder in _folders(workspace, record):
        try:
            shutil.rmtree(folder)
        except FileNotFoundError:
            if str(folder.parent) == record.root != workspace.root:
                left.append(f"Its files in {folder} are not on this machine: remove them there.")
        except OSError as error:
            left.append(f"Remove {folder}: {error.strerror}.")
    try:
        place = workspace.of(record)
        # On an object store the folder of the sweep is there too: an empty object of its name.
        (place.trials(record.name) if place.records is None else place.records_of(record.name)).clear()
    except (OSError, NotAFolder, InvalidValue) as error:
        said = " ".join(str(error).split())
        left.append(
            f"The workers' records could not be removed: {said if len(said) <= LONGEST else said[:LONGEST] + '...'} "
            f"The same call finishes it once that is mended: `sweeps delete {record.called}`."
        )
    return left
