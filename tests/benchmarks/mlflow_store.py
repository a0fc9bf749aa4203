"""An MLflow database of many finished trials, written in bulk: what the drain would write, in seconds instead of hours.

The first trial is written by the drain's own door and copied row by row, so that the bulk rows cannot drift from it.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mlflow.store.tracking.dbmodels.models import SqlLatestMetric, SqlMetric, SqlParam, SqlRun, SqlTag
from sqlalchemy import create_engine, insert, select

from sweeps.mlflow import runs
from sweeps.mlflow.read import TRIAL_KEY
from sweeps.mlflow.runs import Experiment
from sweeps.privacy.release import Published
from sweeps.store.records import SweepRecord

AT_ONCE = 2000


def fill(root: Path, sweep: SweepRecord, trials: Sequence[Published]) -> str:
    """Tracking URI of a new database in `root` with one experiment: a parent run and a run for each trial."""
    uri = f"sqlite:///{root}/mlflow.db"
    experiment = Experiment(uri, sweep)
    experiment.put(trials[0])
    experiment.put_sweep(sweep, ())
    engine = create_engine(uri)
    with engine.begin() as connection:
        wanted = select(SqlTag.run_uuid).where(SqlTag.key == TRIAL_KEY)
        first = connection.execute(wanted).scalar_one()
        run = _row(connection, SqlRun, first)
        tags = {row.key: row.value for row in connection.execute(select(SqlTag).where(SqlTag.run_uuid == first))}
        for start in range(1, len(trials), AT_ONCE):
            chosen = [(uuid.uuid4().hex, trial) for trial in trials[start : start + AT_ONCE]]
            connection.execute(insert(SqlRun.__table__), [_run(run, first, name, trial) for name, trial in chosen])
            connection.execute(insert(SqlTag.__table__), _tags(tags, chosen))
            connection.execute(insert(SqlParam.__table__), _params(chosen))
            metrics = _metrics(chosen)
            connection.execute(insert(SqlLatestMetric.__table__), metrics)
            connection.execute(insert(SqlMetric.__table__), metrics)
    engine.dispose()
    return uri


@contextmanager
def serving(uri: str) -> Iterator[str]:
    """The address of an MLflow server over that database, on this machine alone."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--backend-store-uri", uri, "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    server = subprocess.Popen(
        [sys.executable, "-m", "mlflow", "server", *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        limit = time.monotonic() + 180
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                assert time.monotonic() < limit, "the server did not start within 180 s"
                time.sleep(0.2)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait()


def _row(connection: Any, table: Any, run: str) -> dict[str, Any]:
    return dict(connection.execute(select(table.__table__).where(table.run_uuid == run)).one()._mapping)


def _run(first: dict[str, Any], old: str, name: str, trial: Published) -> dict[str, Any]:
    start, end = round(trial.proposed_at * 1000), round((trial.finished_at or trial.proposed_at) * 1000)
    uri = first["artifact_uri"].replace(old, name)
    return first | {
        "run_uuid": name,
        "name": trial.key,
        "start_time": start,
        "end_time": end,
        "artifact_uri": uri,
    }


def _tags(first: dict[str, str], chosen: Sequence[tuple[str, Published]]) -> list[dict[str, Any]]:
    return [
        {"run_uuid": name, "key": key, "value": value}
        for name, trial in chosen
        for key, value in (first | {"mlflow.runName": trial.key} | runs.trial_tags(trial)).items()
    ]


def _params(chosen: Sequence[tuple[str, Published]]) -> list[dict[str, Any]]:
    return [
        {"run_uuid": name, "key": key, "value": runs.shortened(value, 6000)}
        for name, trial in chosen
        for key, value in trial.config.items()
    ]


def _metrics(chosen: Sequence[tuple[str, Published]]) -> list[dict[str, Any]]:
    return [
        {
            "run_uuid": name,
            "key": one.key,
            "value": one.value,
            "timestamp": one.timestamp,
            "step": one.step,
            "is_nan": False,
        }
        for name, trial in chosen
        for one in runs.metrics_of(trial)
    ]
