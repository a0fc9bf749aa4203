"""MLflow as a view of the store: fed by a process of its own, never on the way of a launch, rebuilt at will."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from sweeps.release.policy import Release
from sweeps.release.publisher import Publisher
from sweeps.store.errors import StoreError
from sweeps.store.records import TrialState, by_trial
from sweeps.tracking.lock import DrainLock
from sweeps.util.log import Event, say
from sweeps.util.waiting import waiting
from trainables.worker.redaction import shown_url

if TYPE_CHECKING:
    from sweeps.export.at_the_end import ModelsShown

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

    def __init__(self, store: Publisher, sweep: str, uri: str) -> None:
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
            with waiting(f"MLflow at {shown_url(self.uri)}") as wait:
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
                [sys.executable, "-m", "sweeps.tracking.drain", "--sweep", self._sweep],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=stream,
                stderr=stream,
                start_new_session=True,
            )


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What `rebuild` did.

    runs    of trials, that MLflow shows now
    mended  what was found that the store does not say, one sentence each
    models  what MLflow shows of the models; None where nobody looked
    """

    runs: int
    mended: tuple[str, ...]
    models: ModelsShown | None = None


def rebuild(store: Publisher, sweep: str, uri: str, folder: Path | None = None) -> Rebuilt:
    """Make MLflow show exactly what the store holds of `sweep`. May be repeated.

    folder  the sweep's own one here, for the lock; default: where its controller was

    Runs that are missing are made, existing ones brought up to date, second runs of one trial deleted. What others
    logged to a run or tagged it with is taken out (`Experiment.mend`). Runs of a sweep from before metrics said on what
    they depend, which may hold some that are withheld now, are deleted and made anew. Raises UnknownSweep, DrainRunning
    (another process is telling MLflow about this sweep), and MLflow's own errors.
    """
    from sweeps.tracking.mlflow_runs import Experiment

    record = store.sweep(sweep).kept()
    sweep = record.name
    with DrainLock(folder or Path(record.root) / sweep):
        rows = [row.id for row in store.outbox(sweep, limit=1_000_000)]
        where = f"MLflow at {shown_url(uri)}"
        with waiting(where):
            experiment = Experiment(uri, record)
        trials, curves = store.trials(sweep), by_trial(store.curves(sweep))
        if not Release.recorded(record.spec).stated:
            experiment.forget(trials)
        with waiting(where):
            mended = experiment.mend(trials, curves)
        for trial in trials:
            with waiting(where):
                experiment.put(trial, curves.get(trial.key, ()))
        experiment.put_sweep(record, [one for one in trials if one.state is TrialState.COMPLETE])
        experiment.put_words(record, store.requests(sweep))
        # Rows that came while this ran stay for the next drain.
        for start in range(0, len(rows), 500):
            store.delivered(rows[start : start + 500])
    return Rebuilt(runs=len(trials), mended=mended)
