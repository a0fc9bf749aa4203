"""The process that tells MLflow what the outbox holds: `python -m sweeps.tracking.drain --sweep S`, with the URLs of
store and MLflow in its environment.

It ends when its standard input does (the controller closed it, or is gone) and the outbox is empty, with code 0; or
when MLflow cannot be reached by then, with code 3: the rows stay for the next one.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sweeps.release.published import Published
from sweeps.release.publisher import Publisher
from sweeps.store.errors import StoreError
from sweeps.store.records import CurveReport, Note, Tag, TrialState, by_trial
from sweeps.tracking.lock import DrainLock, DrainRunning
from sweeps.tracking.shared_view import keep_page
from sweeps.tracking.view import STORE_VARIABLE, URI_VARIABLE
from trainables.worker.redaction import redacted

if TYPE_CHECKING:
    from sweeps.tracking.mlflow_runs import Experiment

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


def drain(store: Publisher, sweep: str, uri: str, ending: threading.Event) -> int:
    """Deliver until `ending` is set and nothing is left: 0, or EXIT_UNDELIVERED when MLflow stays unreachable.

    Rows leave the outbox after their runs are written, so a kill in between repeats runs, and repeating changes
    nothing.
    """
    from sweeps.tracking.mlflow_door import UNREACHABLE
    from sweeps.tracking.mlflow_runs import Experiment

    experiment: Experiment | None = None
    running, words = RunningTrials(store, sweep), SweepWords(store, sweep)
    pause = 0.0
    give_up_at = float("inf")
    while True:
        last_round = ending.is_set()
        rows = store.outbox(sweep, limit=ROWS_AT_ONCE)
        if not rows and not running.to_say(last_round) and not words.to_say(last_round):
            if last_round:
                return 0
            ending.wait(POLL_SECONDS)
            continue
        try:
            if experiment is None:
                record = store.sweep(sweep)
                experiment = Experiment(uri, record)
                keep_page(Path(record.root) / sweep, experiment.id)
            running.put(experiment, last_round)
            words.put(experiment, last_round)
            keys = dict.fromkeys(row.key for row in rows if row.key is not None)
            written: set[str] = set()
            since = time.monotonic()
            curves = by_trial(store.curves(sweep, keys) if keys else ())
            for trial in store.trials_of(sweep, keys) if keys else ():
                if trial.state is TrialState.RUNNING and not last_round:
                    running.put_one(experiment, trial, curves.get(trial.key, ()))
                else:
                    experiment.put(trial, curves.get(trial.key, ()))
                written.add(trial.key)
                if time.monotonic() - since > DELIVER_SECONDS:
                    store.delivered([row.id for row in rows if row.key in written])
                    since = time.monotonic()
            if any(row.key is None for row in rows):
                curves = by_trial(store.curves(sweep))
                for trial in store.held_back(sweep):
                    experiment.put(trial, curves.get(trial.key, ()))
                experiment.put_sweep(store.sweep(sweep), store.trials(sweep, [TrialState.COMPLETE]))
        except UNREACHABLE as error:
            # What was looked up may be stale after an outage: look again.
            experiment = None
            words.forget()
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


class RunningTrials:
    """Trials that MLflow shows as running: found by a look at the store now and then, and taken back when they are not.

    A launch leaves no row in the outbox, which would have to be written before anything runs.
    """

    def __init__(self, store: Publisher, sweep: str) -> None:
        self._store, self._sweep = store, sweep
        self._shown: set[str] = set()
        self._look_at = time.monotonic() + RUNNING_SECONDS

    def to_say(self, last_round: bool) -> bool:
        """Whether `put` has something to do: a look is due, or, at the end, something is shown that nobody sees run."""
        return bool(self._shown) if last_round else time.monotonic() >= self._look_at

    def put_one(self, experiment: Experiment, trial: Published, curve: Sequence[CurveReport]) -> None:
        """Show that it runs, and what it told so far. Raises what `Experiment.put` raises."""
        experiment.put_running(trial, curve)
        self._shown.add(trial.key)

    def put(self, experiment: Experiment, last_round: bool) -> None:
        """Show those that run now, and what became of those shown before. Raises what `Experiment.put` raises."""
        if not self.to_say(last_round):
            return
        now = {} if last_round else {one.key: one for one in self._store.running(self._sweep)}
        fresh = now.keys() - self._shown
        gone = self._shown - now.keys()
        curves = by_trial(self._store.curves(self._sweep, fresh | gone) if fresh | gone else ())
        for key in [key for key in now if key in fresh]:
            self.put_one(experiment, now[key], curves.get(key, ()))
        if gone:
            for trial in self._store.trials_of(self._sweep, gone):
                experiment.put(trial, curves.get(trial.key, ()))
            self._shown -= gone
        self._look_at = time.monotonic() + RUNNING_SECONDS


class SweepWords:
    """What people call the sweep and say of it, which needs no lease and leaves no row in the outbox: looked at now and
    then, and told where there is something new. A sweep of which nobody says anything asks nothing of MLflow."""

    def __init__(self, store: Publisher, sweep: str) -> None:
        self._store, self._sweep = store, sweep
        self._told = self._found = _NOTHING_SAID
        self._looked_last = False
        self._look_at = 0.0

    def to_say(self, last_round: bool) -> bool:
        """Whether something is not told, by a look every few seconds and one at the end."""
        if (last_round and not self._looked_last) or time.monotonic() >= self._look_at:
            said = [one for one in self._store.requests(self._sweep) if isinstance(one.wanted, Note | Tag)]
            # Requests are only ever appended: their number tells whether one is new.
            self._found = (self._store.sweep(self._sweep).label, len(said))
            self._looked_last = last_round
            self._look_at = time.monotonic() + RUNNING_SECONDS
        return self._found != self._told

    def put(self, experiment: Experiment, last_round: bool) -> None:
        """Tell what is not told. Raises what `Experiment.put_words` raises."""
        if self.to_say(last_round):
            found = self._found
            experiment.put_words(self._store.sweep(self._sweep), self._store.requests(self._sweep))
            self._told = found

    def forget(self) -> None:
        """MLflow may have lost what it was told: all of it is told again."""
        self._told = _NOTHING_SAID


def main() -> int:
    """Entry of the process."""
    parser = argparse.ArgumentParser(prog="python -m sweeps.tracking.drain", description=__doc__)
    parser.add_argument("--sweep", required=True)
    options = parser.parse_args()
    store_url, uri = os.environ[STORE_VARIABLE], os.environ[URI_VARIABLE]
    # The controller needs the processors more; Ray's workers give way to both, by Ray's own niceness of 15.
    os.nice(5)
    ending = threading.Event()
    threading.Thread(target=_wait_for_end_of_input, args=(ending,), daemon=True).start()
    store = Publisher.open(store_url)
    folder = Path(store.sweep(options.sweep).root) / options.sweep
    try:
        with DrainLock(folder, wait_seconds=float("inf"), give_up=ending.is_set):
            return drain(store, options.sweep, uri, ending)
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
    sys.exit(main())
