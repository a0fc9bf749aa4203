"""MLflow as a view of the store: fed by a process of its own, never on the way of a launch, rebuilt at will."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from sweeps.publishing import Release
from sweeps.store import Store
from sweeps.tracking.lock import DrainLock
from trainables.redaction import shown_url

STORE_VARIABLE, URI_VARIABLE = "SWEEPS_DRAIN_STORE", "SWEEPS_DRAIN_URI"
WAIT_SECONDS = 900.0
"""How long the end of a sweep waits for a drain that is still making progress."""


class Drain:
    """Runs the process that tells MLflow what the store's outbox holds, for as long as the context lasts.

    On leaving, what is still waiting is delivered; when MLflow cannot be reached the rows stay in the outbox, a line
    on stderr says so, and the next drain or `rebuild` delivers them. Nothing here raises because of MLflow.
    """

    def __init__(self, store_url: str, sweep: str, uri: str) -> None:
        self._store_url, self._sweep, self.uri = store_url, sweep, uri
        self.delivered = False
        """Whether MLflow has everything; known when the context has ended."""
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Drain:
        self._process = self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        if self._process.poll() is not None:
            # It was killed on its way: one more delivers what it left.
            self._process = self._start()
        assert self._process.stdin is not None
        # End of file is the sign to deliver the rest and end; a controller that is killed gives the same sign.
        self._process.stdin.close()
        try:
            code: int | None = self._process.wait(timeout=WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            code = None
        self.delivered = code == 0
        if not self.delivered:
            print(
                f"MLflow at {shown_url(self.uri)}: not everything could be delivered (see {self.log}). "
                f"Nothing is lost; deliver it with `sweeps track {self._sweep}`.",
                file=sys.stderr,
            )

    @property
    def log(self) -> Path:
        """What the process had to say."""
        store = Store.open(self._store_url, create=False)
        try:
            return Path(store.sweep(self._sweep).root) / self._sweep / "tracking.log"
        finally:
            store.close()

    def _start(self) -> subprocess.Popen[bytes]:
        # Both URLs may hold a password, and everybody on the machine can list a process's arguments.
        environment = {**os.environ, STORE_VARIABLE: self._store_url, URI_VARIABLE: self.uri}
        log = self.log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as stream:
            # A session of its own: Ctrl-C in the terminal is for the controller.
            return subprocess.Popen(
                [sys.executable, "-m", "sweeps.tracking.drain", "--sweep", self._sweep],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=stream,
                stderr=stream,
                start_new_session=True,
            )


def rebuild(store: Store, sweep: str, uri: str, folder: Path | None = None) -> int:
    """Make MLflow show exactly what the store holds of `sweep`; the number of trials' runs. May be repeated.

    folder  the sweep's own one here, for the lock; default: where its controller was

    Runs that are missing are made, existing ones brought up to date, second runs of one trial deleted; so are runs of
    a sweep from before metrics said on what they depend, which may hold some that are withheld now. Raises
    UnknownSweep, DrainRunning (another process is telling MLflow about this sweep), and MLflow's own errors.
    """
    from sweeps.tracking.mlflow_runs import Experiment

    record = store.sweep(sweep)
    with DrainLock(folder or Path(record.root) / sweep, wait_seconds=20.0):
        waiting = [row.id for row in store.outbox(sweep, limit=1_000_000)]
        experiment = Experiment(uri, record)
        trials = store.trials(sweep)
        if not Release.recorded(record.spec).stated:
            experiment.forget()
        for trial in trials:
            experiment.put(trial)
        experiment.put_sweep(record)
        # Rows that came while this ran stay for the next drain.
        for start in range(0, len(waiting), 500):
            store.delivered(None, waiting[start : start + 500])
    return len(trials)
