"""MLflow as a view of the store: fed by a process of its own, never on the way of a launch, rebuilt at will."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

from sweeps.mlflow import FRONT
from sweeps.privacy.release import PublishedStore
from sweeps.store.errors import StoreError
from sweeps.store.records import Note, SweepRecord, Tag, TrialState, by_trial
from sweeps.util.files import path_of
from sweeps.util.log import Event, say
from sweeps.util.waiting import wait_for
from trainables.worker.redaction import redacted, shown_url

if TYPE_CHECKING:
    from sweeps.mlflow.runs import Experiment


# The link to a sweep's page in MLflow.
#
# Only a link can ask for the runs. MLflow 3.17.2 reads no tag for it: its page takes `workflowType` of the link, else
# what this browser chose last (its local storage), else "genai". A bare `#/experiments/ID` in a fresh browser
# therefore opens the GenAI overview, whatever `mlflow.experimentKind` says.

_PAGE = f"runs?workflowType=machine_learning&compareRunsMode=CHART&viewStateShareKey={FRONT}"
_KEPT = "mlflow-page"


def keep_page(folder: Path, experiment: str) -> None:
    """Leave the link, behind the server's address, in the sweep's folder: whoever prints it does not ask MLflow.

    experiment  its id
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _KEPT).write_text(f"/#/experiments/{experiment}/{_PAGE}")


def kept_page(folder: Path) -> str:
    """What was left there; empty where MLflow was not reached yet."""
    try:
        return (folder / _KEPT).read_text()
    except FileNotFoundError:
        return ""


# At most one process tells MLflow about a sweep: two could each make a run for one trial.


class DrainRunning(RuntimeError):
    """Another process is telling MLflow about this sweep."""


@contextmanager
def drain_lock(
    folder: Path, wait_seconds: float | None = None, give_up: Callable[[], bool] = lambda: False
) -> Iterator[None]:
    """Hold `<folder>/tracking.lock`, which the system releases when its holder dies, however that happens.

    wait_seconds  how long to wait for the holder; default: the patience
    give_up       asked while waiting; True ends the wait

    Raises DrainRunning on entry.
    """
    path = folder / "tracking.lock"
    folder.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        with wait_for(f"the process that is telling MLflow about this sweep ({path})", wait_seconds) as wait:
            while not _locked(file):
                if wait.left() == 0 or give_up():
                    raise DrainRunning(
                        f"{path}: held by another process that is telling MLflow about this sweep. "
                        "Wait for it to end, or end it, then try again."
                    )
                time.sleep(0.1)
        yield


def _locked(file: TextIO) -> bool:
    with suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


STORE_VARIABLE, URI_VARIABLE = "SWEEPS_DRAIN_STORE", "SWEEPS_DRAIN_URI"
LOOK_SECONDS = 0.5
"""Between two looks at what is left, while the end of a sweep waits for it."""


class _Undelivered(RuntimeError):
    """The process gave up, or took nothing for one patience."""


class Drain:
    """Runs the process that tells MLflow what the store's outbox holds, from `start` until the context ends.

    On leaving, it is started if it was not, and what is still waiting is delivered, for as long as it gets less: one
    patience without progress, or a store that is away, ends the process. What is left stays in the outbox, a line on
    stderr says so, and the next drain or `rebuild` delivers it. Nothing here raises because of MLflow.
    """

    def __init__(self, store: PublishedStore, sweep: str, uri: str) -> None:
        self._store, self._sweep, self.uri = store, sweep, uri
        self.log = Path(store.sweep(sweep).root) / sweep / "tracking.log"
        """What the process had to say."""
        self.delivered = False
        """Whether MLflow has everything; known when the context has ended."""
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Drain:
        return self

    def start(self) -> None:
        """Start the process, unless it was started. It imports for seconds: better not beside the first trial's."""
        if self._process is None:
            self._process = self._start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is None or self._process.poll() is not None:
            # One that was killed on its way has left something too.
            self._process = self._start()
        assert self._process.stdin is not None
        # End of file is the sign to deliver the rest and end; a controller that is killed gives the same sign.
        self._process.stdin.close()
        self.delivered = self._ended(self._process) == 0
        if not self.delivered:
            say(
                f"MLflow at {shown_url(self.uri)}: not everything could be delivered (see {self.log}). "
                f"Nothing is lost; deliver it with `sweeps track {self._sweep}`.",
                Event.WARNING,
            )

    def _ended(self, process: subprocess.Popen[bytes]) -> int:
        """Its exit code, after it ended by itself or was ended."""
        left: int | None = None
        try:
            with wait_for(f"MLflow at {shown_url(self.uri)}") as wait:
                while True:
                    with suppress(subprocess.TimeoutExpired):
                        if process.wait(timeout=LOOK_SECONDS) == 0:
                            return 0
                        raise _Undelivered
                    found = self._store.backlog(self._sweep)
                    if left is not None and found < left:
                        wait.came()
                    left = found
                    rest = f"to take the last {left} changes" if left else "to close; it has all changes"
                    wait.what = f"MLflow at {shown_url(self.uri)} {rest}"
                    if wait.left() == 0:
                        raise _Undelivered
        except (StoreError, _Undelivered):
            # Stopped or hung, it would keep the next one from its work: it holds the lock.
            process.kill()
            return process.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        # Both URLs may hold a password, and everybody on the machine can list a process's arguments.
        environment = {**os.environ, STORE_VARIABLE: self._store.url, URI_VARIABLE: self.uri}
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as stream:
            # A session of its own: Ctrl-C in the terminal is for the controller.
            return subprocess.Popen(
                [sys.executable, "-m", "sweeps.mlflow.sync", self._sweep],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=stream,
                stderr=stream,
                start_new_session=True,
            )


def rebuild(store: PublishedStore, sweep: str, uri: str, folder: Path | None = None) -> int:
    """Make MLflow show what the store holds of `sweep`, and return how many runs of trials it has. May be repeated.

    folder  the sweep's own one here, for the lock; default: where its controller was

    Runs that are missing are made, existing ones brought up to date, second runs of one trial deleted. Raises
    UnknownSweep, DrainRunning (another process is telling MLflow about this sweep), and MLflow's own errors.
    """
    from sweeps.mlflow.runs import Experiment

    record = store.sweep(sweep).kept()
    sweep = record.name
    with drain_lock(folder or Path(record.root) / sweep):
        rows = [row.id for row in store.outbox(sweep, limit=1_000_000)]
        where = f"MLflow at {shown_url(uri)}"
        with wait_for(where):
            experiment = Experiment(uri, record)
        trials, curves = store.trials(sweep), by_trial(store.curves(sweep))
        for trial in trials:
            with wait_for(where):
                experiment.put(trial, curves.get(trial.key, ()))
        experiment.put_sweep(record, [one for one in trials if one.state is TrialState.COMPLETE])
        experiment.put_words(record, store.requests(sweep))
        # Rows that came while this ran stay for the next drain.
        for start in range(0, len(rows), 500):
            store.delivered(rows[start : start + 500])
    return len(trials)


# The end of a sweep's experiment in MLflow.


def delete_experiment(uri: str, sweep: SweepRecord) -> list[str]:
    """Delete a sweep's experiment, as MLflow deletes: until `mlflow gc` it can be restored. What is to be done by hand
    where MLflow cannot be reached, in words."""
    path = path_of(uri)
    if path is not None and not path.exists():
        return []
    from mlflow import MlflowClient

    from sweeps.mlflow.read import UNREACHABLE, experiment_of

    try:
        client = MlflowClient(tracking_uri=uri)
        _, found = experiment_of(client, sweep)
        if found is not None and found.lifecycle_stage != "deleted":
            client.delete_experiment(found.experiment_id)
    except UNREACHABLE as error:
        said = " ".join(str(error).split())[:200]
        return [f"MLflow at {shown_url(uri)} keeps experiment {sweep.name!r}: {said}. Delete it there."]
    return []


# The process that tells MLflow what the outbox holds: `python -m sweeps.mlflow.sync SWEEP`, with the URLs of
# store and MLflow in its environment.
#
# It ends when its standard input does (the controller closed it, or is gone) and the outbox is empty, with code 0; or
# when MLflow cannot be reached by then, with code 3: the rows stay for the next one.

ROWS_AT_ONCE = 100
DELIVER_SECONDS = 2.0
"""Rows of runs that are written leave the outbox at least this often: the controller waits while there is progress."""
POLL_SECONDS = 0.25
RUNNING_SECONDS = 5.0
"""Between two looks at which trials run now."""
LONGEST_PAUSE_SECONDS = 30.0
LAST_TRIES_SECONDS = 5.0
EXIT_UNDELIVERED, EXIT_FAILED = 3, 1
_NOTHING_SAID = ("", 0)
"""No label, and no notes and tags."""


def drain(store: PublishedStore, sweep: str, uri: str, ending: threading.Event) -> int:
    """Deliver until `ending` is set and nothing is left: 0, or EXIT_UNDELIVERED when MLflow stays unreachable.

    Rows leave the outbox after their runs are written, so a kill in between repeats runs, and repeating changes
    nothing.
    """
    from sweeps.mlflow.read import UNREACHABLE
    from sweeps.mlflow.runs import Experiment
    from sweeps.reporting.front import spec_objectives

    experiment: Experiment | None = None
    # What no row of the outbox tells: what people say, and which trials run (a row would be written before they do).
    found = told = _NOTHING_SAID
    shown: set[str] = set()
    changed: set[str] = set()
    pause = front_at = 0.0
    look_at = time.monotonic() + RUNNING_SECONDS
    give_up_at = float("inf")
    while True:
        last_round = ending.is_set()
        rows = store.outbox(sweep, limit=ROWS_AT_ONCE)
        if last_round or time.monotonic() >= look_at:
            # Requests are only ever appended: their number tells whether one is new.
            said = [one for one in store.requests(sweep) if isinstance(one.wanted, Note | Tag)]
            found = (store.sweep(sweep).label, len(said))
            changed = shown.symmetric_difference(() if last_round else (one.key for one in store.running(sweep)))
            look_at = time.monotonic() + RUNNING_SECONDS
        if not rows and not changed and found == told:
            if last_round:
                return 0
            ending.wait(POLL_SECONDS)
            continue
        try:
            if experiment is None:
                record = store.sweep(sweep)
                experiment = Experiment(uri, record)
                keep_page(Path(record.root) / sweep, experiment.id)
            if found != told:
                experiment.put_words(store.sweep(sweep), store.requests(sweep))
                told = found
            keys = changed | {row.key for row in rows if row.key is not None}
            written: set[str] = set()
            since = time.monotonic()
            curves = by_trial(store.curves(sweep, keys) if keys else ())
            for trial in store.trials_of(sweep, keys) if keys else ():
                is_running = trial.state is TrialState.RUNNING and not last_round
                experiment.put(trial, curves.get(trial.key, ()), as_running=is_running)
                (shown.add if is_running else shown.discard)(trial.key)
                written.add(trial.key)
                if time.monotonic() - since > DELIVER_SECONDS:
                    store.delivered([row.id for row in rows if row.key in written])
                    since = time.monotonic()
            changed = set()
            if written and time.monotonic() >= front_at:
                finished = store.trials(sweep, [TrialState.COMPLETE])
                experiment.put_front(spec_objectives(store.sweep(sweep).spec), finished)
                front_at = time.monotonic() + RUNNING_SECONDS
            if any(row.key is None for row in rows):
                curves = by_trial(store.curves(sweep))
                for trial in store.held_back(sweep):
                    experiment.put(trial, curves.get(trial.key, ()))
                experiment.put_sweep(store.sweep(sweep), store.trials(sweep, [TrialState.COMPLETE]))
        except UNREACHABLE as error:
            # What was looked up may be stale after an outage: look again.
            experiment, told, look_at = None, _NOTHING_SAID, 0.0
            if last_round:
                give_up_at = min(give_up_at, time.monotonic() + LAST_TRIES_SECONDS)
            if time.monotonic() >= give_up_at:
                _log(f"{store.backlog(sweep)} changes not delivered: {_one_line(error)}")
                return EXIT_UNDELIVERED
            pause = min(max(0.5, 2 * pause), 1.0 if last_round else LONGEST_PAUSE_SECONDS)
            _log(f"MLflow refuses or does not answer, trying again in {pause:.1f} s: {_one_line(error)}")
            if last_round:
                time.sleep(pause)
            else:
                ending.wait(pause)
            continue
        pause, give_up_at = 0.0, float("inf")
        store.delivered([row.id for row in rows])


def main() -> int:
    """Entry of the process."""
    sweep = sys.argv[-1]
    store_url, uri = os.environ[STORE_VARIABLE], os.environ[URI_VARIABLE]
    # The controller needs the processors more; Ray's workers give way to both, by Ray's own niceness of 15.
    os.nice(5)
    ending = threading.Event()
    threading.Thread(target=_wait_for_end_of_input, args=(ending,), daemon=True).start()
    store = PublishedStore.at(store_url)
    folder = Path(store.sweep(sweep).root) / sweep
    try:
        with drain_lock(folder, wait_seconds=float("inf"), give_up=ending.is_set):
            return drain(store, sweep, uri, ending)
    except (DrainRunning, StoreError) as error:
        _log(str(error))
        return EXIT_UNDELIVERED
    except Exception:
        _log(traceback.format_exc())
        return EXIT_FAILED
    finally:
        store.close()


def _wait_for_end_of_input(ending: threading.Event) -> None:
    while sys.stdin.buffer.read(1024):
        pass
    ending.set()


def _one_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:500]


def _log(message: str) -> None:
    print(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {redacted(message)}", flush=True)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # Everything is written and closed. What Python does at its end takes seconds once MLflow is imported.
    os._exit(code)
