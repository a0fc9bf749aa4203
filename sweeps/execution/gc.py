"""Which checkpoints of a sweep nobody will ask for again, and their deletion; encoded records go with them.

Kept are those of trials that may still run: not ended, or paused by early stopping, which an extension may promote
(without its state a promoted trial would fail, and what it had reported with it). And those whose model may be asked
for: on the front by the spec's own objectives, of each kind of claim, and the best by the first of them. New trials
only ever take a place on that front, so an extension asks for no other. Records that say what was executed all stay.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dpcore.checks import InvalidValue
from sweeps.export import asked_by_name
from sweeps.mlflow.sync import delete_experiment
from sweeps.privacy.ledger import count_text
from sweeps.privacy.release import Published, PublishedStore, tell
from sweeps.privacy.wording import was_stopped
from sweeps.reporting.front import LABELS, spec_objectives, sweep_front
from sweeps.selection.run import SealedPlaces
from sweeps.store.records import SweepRecord, SweepState, TrialState
from sweeps.store.store import Store
from sweeps.store.workspace import Workspace
from trainables.kept import clear
from trainables.worker.attempt import Attempt

ENDED = (TrialState.COMPLETE, TrialState.FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """What came of a collection.

    trials    keys of those whose checkpoints went, or would go
    bytes     that they took
    on_front  keys of those that keep theirs for their models
    going_on  keys of those that keep theirs because they may still run
    encoded   bytes of encoded records and features below the root, which are made again where they are needed
    dry_run   whether nothing was deleted
    """

    sweep: str
    trials: tuple[str, ...]
    bytes: int
    on_front: tuple[str, ...]
    going_on: tuple[str, ...]
    encoded: int = 0
    dry_run: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    def __str__(self) -> str:
        done = "Would delete" if self.dry_run else "Deleted"
        lines = [
            f"{done} the checkpoints of {count_text(len(self.trials), 'trial')} of {self.sweep}: {self.bytes:,} bytes.",
            f"Kept: {len(self.on_front)} on the front or best, {len(self.going_on)} that may still run.",
        ]
        if self.encoded:
            lines.append(f"{done} encoded records that nobody reads now: {self.encoded:,} bytes.")
        if self.trials:
            lines.append(
                "What this loses: models off the front can be exported no more, though another objective might ask for "
                "them. An extension loses nothing by it: what it may promote is kept."
            )
        return "\n".join(lines)


def collect(workspace: Workspace, sweep: str, *, dry_run: bool = False) -> Collected:
    """Delete the checkpoints of `sweep` that nobody will ask for again, and what is kept of any records that no process
    has open.

    dry_run  only say which, and how large they are

    Raises UnknownSweep, LeaseHeld where a controller runs it, StoreError, OSError for records that cannot be listed.
    """
    with closing(workspace.open_store()) as store, store.acquire(sweep):
        record = store.sweep(sweep)
        trials = workspace.of(record).trials(sweep)
        seen = PublishedStore(store, workspace)
        seen.check_not_stale(sweep)
        published = seen.trials(sweep)
        going_on = {one.key for one in published if one.state not in ENDED and one.plan is not None}
        if record.spec.early_stopping is not None:
            going_on |= {one.key for one in published if was_stopped(one)}
        asked_for = _asked_for(seen, sweep, published)
        gone, freed = [], 0
        for one in published:
            if one.state not in ENDED or one.key in going_on or one.key in asked_for:
                continue
            size = 0
            for number in range(1, one.attempts + 1):
                attempt = Attempt.of(trials, one.key, number)
                size += attempt.checkpoint_bytes()
                if not dry_run:
                    attempt.discard()
            if size:
                gone.append(one.key)
                freed += size
        return Collected(
            sweep=sweep,
            trials=tuple(gone),
            bytes=freed,
            on_front=tuple(one.key for one in published if one.key in asked_for),
            going_on=tuple(one.key for one in published if one.key in going_on),
            encoded=clear(workspace.features, dry_run=dry_run),
            dry_run=dry_run,
        )


def _asked_for(seen: PublishedStore, sweep: str, published: Collection[Published]) -> set[str]:
    """Keys of the trials on the front, of the best by the first objective, and of those whose models the spec names."""
    first = spec_objectives(seen.sweep(sweep).spec)[0]
    sign = -1.0 if first.goal == "maximize" else 1.0
    ranked = [
        (sign * value, one.number, one.key)
        for one in published
        if one.state is TrialState.COMPLETE and (value := one.metric(first.metric)) is not None and value == value
    ]
    named = asked_by_name(seen, sweep)
    front = {min(ranked)[2], *sweep_front(seen, sweep, mix=LABELS, as_refuted=True).keys()} if ranked else set()
    return named | front


# A sweep's end for good: its results and files go; what was spent on the records stays, and so does its name.

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
        with suppress(OSError, InvalidValue):
            # Records on another machine are left there.
            PublishedStore(store, workspace).check_not_stale(record.name)
        with store.acquire(record.name) as lease:
            for trial in store.trials(record.name, states=[TrialState.RUNNING]):
                # A worker that nobody sees any more may go on until it looks: it is charged whole.
                with suppress(OSError, InvalidValue):
                    Attempt.of(workspace.of(record).trials(record.name), trial.key, trial.attempts).fence()
                store.fail(lease, trial.key, trial.attempts, None, DELETED)
            tell(store, record.name, _folders(workspace, record))
            # The key first: what else of a sealed search cannot be removed here can then not be read either.
            with suppress(OSError, InvalidValue):
                SealedPlaces.of(workspace.of(record), record.name).destroy()
            store.erase(lease)
    uri = record.spec.tracking.uri or workspace.tracking_uri
    left = (*_files_left(workspace, record), *delete_experiment(uri, record))
    return DeleteAnswer(sweep=record.called, left=left)


def _check_nobody_needs(store: Store, record: SweepRecord) -> None:
    names = [
        other.called
        for other in store.sweeps()
        if other.state not in _OVER
        and {other.spec.search.warm_start, other.spec.search.chosen_from} & {record.name, record.label}
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
    except (OSError, InvalidValue) as error:
        said = " ".join(str(error).split())
        left.append(
            f"The workers' records could not be removed: {said if len(said) <= LONGEST else said[:LONGEST] + '...'} "
            f"The same call finishes it once that is mended: `sweeps delete {record.called}`."
        )
    return left
