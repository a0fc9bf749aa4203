"""Experiments, runs and artifacts of a sweep in MLflow, found again by their tags.

MLflow gives no run an id of our choosing, so a trial's run is the one tagged `sweeps.trial_key`: looked up once,
made when missing. Callers hold the drain lock. A run's content depends on the store's record alone, timestamps
included, so writing it twice leaves one copy.
"""

from __future__ import annotations

import json
import re
import sqlite3
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Param, RunTag
from mlflow.exceptions import MlflowException
from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

from sweeps.front.pareto import spec_objectives
from sweeps.release.policy import Release
from sweeps.release.published import Published
from sweeps.release.quoting import REFUTED, is_refuted
from sweeps.store.records import CurveReport, Request, SweepRecord, TrialState, notes, tags
from sweeps.tracking.mlflow_door import (
    DESCRIPTION,
    HEADING,
    NO_HEADING,
    PARENT,
    TAGGED,
    TRIAL_KEY,
    experiment_of,
)
from sweeps.tracking.run_content import (
    bests,
    metrics_of,
    milliseconds,
    params_of,
    shortened,
    spec_tags,
    trial_tags,
    unrecorded,
)
from sweeps.tracking.run_reading import Identity, identity_of, tagged_runs, written_runs
from sweeps.tracking.shared_view import TAG, shared_view
from sweeps.util.files import path_of
from sweeps.util.waiting import patience
from trainables.worker.redaction import shown_url

Curves = Mapping[str, Sequence[CurveReport]]
"""{key of a trial: what it told at planned steps}"""
_METRICS_AT_ONCE = 1000
_KIND = {"mlflow.experimentKind": "custom_model_development"}
"""What a new experiment is about. It does not decide what a link opens (`shared_view.py`)."""
_OURS = "sweeps."
_STATUS = {
    TrialState.COMPLETE: "FINISHED",
    TrialState.FAILED: "FAILED",
    # Never launched: the tag `sweeps.feasible` tells it apart, as the proposer is told "completed, but violated".
    TrialState.INFEASIBLE: "FINISHED",
    # Not over. Whoever sees it run says so (`put_running`): "running" must not outlive the controller.
    TrialState.PLANNED: "SCHEDULED",
    TrialState.RUNNING: "SCHEDULED",
}
_SWEEP_STATUS = {
    "finished": "FINISHED",
    "exhausted": "FINISHED",
    "stopped": "KILLED",
    "out of hours": "KILLED",
    "out of budget": "KILLED",
}


class UserRefused(MlflowException):
    """The server knows no such user, or the user may not do this; the message says what to do."""

    def __init__(self, uri: str, answer: str) -> None:
        super().__init__(
            f"MLflow at {shown_url(uri)} refuses this user ({answer}). Set MLFLOW_TRACKING_USERNAME and "
            "MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN, to a user who may write experiments. Nothing is lost: "
            "`sweeps track` delivers it later."
        )


_REFUSALS = {"401": "unknown user or wrong password", "403": "no rights"}


def _refusal(uri: str, error: MlflowException) -> UserRefused | None:
    found = re.search(r"failed with error code (401|403) ", str(error))
    return None if found is None else UserRefused(uri, _REFUSALS[found[1]])


class Experiment:
    """One sweep in MLflow: a parent run, and a child run per trial. Raises `UNREACHABLE` from every method."""

    def __init__(self, uri: str, sweep: SweepRecord) -> None:
        _prepare(uri)
        self._uri, self._sweep = uri, sweep.name
        heading = Release.recorded(sweep.spec).heading
        self._heading = {HEADING: shortened(heading or NO_HEADING, 5000)}
        if heading:
            self._heading[DESCRIPTION] = heading
        self._client = MlflowClient(tracking_uri=uri)
        self._runs: dict[Identity, str] = {}
        self._parent = ""
        try:
            self._id, existed = self._open(sweep)
            if existed:
                self._find_runs()
            if not self._parent:
                self._make_parent(sweep)
        except MlflowException as error:
            refused = _refusal(uri, error)
            if refused is None:
                raise
            raise refused from error

    @property
    def id(self) -> str:
        """MLflow's own id of the experiment."""
        return self._id

    def put(self, trial: Published, curve: Sequence[CurveReport] = ()) -> None:
        """Make the trial's run say what the record says, and what it told at planned steps."""
        run_id = self._runs.get(identity_of(trial))
        tags = self._tags_of(trial) | {"mlflow.parentRunId": self._parent}
        artifacts = ""
        if run_id is None:
            run = self._client.create_run(
                self._id,
                run_name=trial.key,
                start_time=identity_of(trial)[1],
                tags=tags,
            )
            run_id, artifacts, tags = run.info.run_id, run.info.artifact_uri, {}
        metrics = metrics_of(trial, curve)
        for start in range(0, max(1, len(metrics)), _METRICS_AT_ONCE):
            self._client.log_batch(
                run_id,
                metrics=metrics[start : start + _METRICS_AT_ONCE],
                params=[] if start else [Param(name, text) for name, text in params_of(trial).items()],
                tags=[] if start else [RunTag(name, value) for name, value in tags.items()],
            )
        if trial.plan is not None:
            artifacts = artifacts or self._client.get_run(run_id).info.artifact_uri
            self._artifact(artifacts, "plan.json", trial.plan.to_dict())
        end = None if trial.finished_at is None else milliseconds(trial.finished_at)
        status = _STATUS[trial.state]
        if status == "SCHEDULED":
            self._client.update_run(run_id, status=status)
        else:
            self._client.set_terminated(run_id, status=status, end_time=end or milliseconds(trial.proposed_at))
        self._runs[identity_of(trial)] = run_id

    def put_running(self, trial: Published, curve: Sequence[CurveReport] = ()) -> None:
        """Make its run say that it runs. Whoever does this puts it again when it is over, or when nobody looks."""
        self.put(trial, curve)
        self._client.update_run(self._runs[identity_of(trial)], status="RUNNING")

    def mend(self, trials: Iterable[Published], curves: Curves = MappingProxyType({})) -> tuple[str, ...]:
        """Take out what the store does not say, whoever wrote it; one sentence each.

        What was logged once cannot be taken out of a run: such a run is deleted, and `put` makes it anew. So is a run
        that bears our tags and is no trial's. Runs of others are left, and named.
        """
        known = {trial.key: trial for trial in trials}
        told = []
        for run in written_runs(self._client, self._id):
            key = run.tags.get(TRIAL_KEY)
            if run.run_id == self._parent:
                continue
            if key in known and self._runs.get(identity_of(known[key])) == run.run_id:
                expected = self._tags_of(known[key])
                for name in sorted(name for name in run.tags if name.startswith(_OURS) and name not in expected):
                    self._client.delete_tag(run.run_id, name)
                    told.append(f"{key}: tag {name} is not in the store: taken out.")
                if (strange := unrecorded(known[key], run, curves.get(key, ()))) is not None:
                    self._delete(run.run_id)
                    told.append(f"{key}: {strange} is not in the store: the run is made anew.")
            elif any(name.startswith(_OURS) for name in run.tags):
                self._delete(run.run_id)
                told.append(f"run {run.run_id}: tagged {TRIAL_KEY}={key!r}, which is no trial of this sweep: deleted.")
            else:
                told.append(f"run {run.run_id}: not of this sweep: left as it is.")
        return tuple(told)

    def _delete(self, run_id: str) -> None:
        self._client.delete_run(run_id)
        self._runs = {key: one for key, one in self._runs.items() if one != run_id}

    def _tags_of(self, trial: Published) -> dict[str, str]:
        tags = trial_tags(trial) | self._heading
        if is_refuted(trial):
            said = (f"REFUTED: {REFUTED.sentence}.", self._heading.get(DESCRIPTION))
            tags[DESCRIPTION] = " ".join(filter(None, said))
        return tags

    def forget(self, trials: Iterable[Published]) -> None:
        """Delete these trials' runs, to be made anew: a metric that was written once cannot be taken out of a run.

        MLflow itself keeps deleted runs until `mlflow gc`.
        """
        for trial in trials:
            if (run_id := self._runs.get(identity_of(trial))) is not None:
                self._delete(run_id)

    def put_sweep(self, sweep: SweepRecord, finished: Sequence[Published]) -> None:
        """Make the parent run say where the sweep stands, under which heading, and the best of its finished trials."""
        for best in bests(sweep, finished):
            self._client.log_metric(self._parent, best.key, best.value, best.timestamp, best.step)
        self._client.set_experiment_tag(self._id, TAG, shared_view(spec_objectives(sweep.spec)))
        for name, value in (spec_tags(sweep) | self._heading).items():
            self._client.set_experiment_tag(self._id, name, value)
            if name != DESCRIPTION:
                self._client.set_tag(self._parent, name, value)
        self._client.set_tag(self._parent, "sweeps.state", str(sweep.state))
        status = _SWEEP_STATUS.get(str(sweep.state))
        if status is None:
            self._client.update_run(self._parent, status="RUNNING")
        else:
            self._client.set_terminated(self._parent, status=status)

    def put_words(self, sweep: SweepRecord, requests: Iterable[Request]) -> None:
        """Make the parent run have the sweep's name, and show its notes and tags, with what stands above its claims.

        A tag of ours that nobody gives the sweep any more is taken away. Tags of others are left.
        """
        said = list(requests)
        wanted = {f"{TAGGED}{key}": value for key, value in tags(said).items()}
        text = "\n\n".join(filter(None, [self._heading.get(DESCRIPTION), *notes(said)]))
        run = self._client.get_run(self._parent)
        wanted |= {DESCRIPTION: shortened(text, 5000)} if text else {}
        for name, value in wanted.items():
            if run.data.tags.get(name) != value:
                self._client.set_tag(self._parent, name, value)
        ours = (name for name in run.data.tags if name == DESCRIPTION or name.startswith(TAGGED))
        for name in [name for name in ours if name not in wanted]:
            self._client.delete_tag(self._parent, name)
        if run.info.run_name != sweep.called:
            self._client.update_run(self._parent, name=sweep.called)

    def _open(self, sweep: SweepRecord) -> tuple[str, bool]:
        name, found = experiment_of(self._client, sweep)
        if found is None:
            location = _artifact_location(self._uri, name)
            tags = {**spec_tags(sweep), **self._heading, **_KIND}
            return self._client.create_experiment(name, location, tags), False
        if found.lifecycle_stage == "deleted":
            self._client.restore_experiment(found.experiment_id)
        return found.experiment_id, True

    def _find_runs(self) -> None:
        for run_id, key, start in tagged_runs(self._client, self._id, TRIAL_KEY):
            if (key, start) in self._runs:
                self._client.delete_run(run_id)
            else:
                self._runs[key, start] = run_id
        for run_id, flag, _ in tagged_runs(self._client, self._id, PARENT):
            # A trial's run that somebody tagged so is no parent.
            if flag == "true" and run_id not in self._runs.values():
                self._parent = run_id

    def _make_parent(self, sweep: SweepRecord) -> None:
        tags = {PARENT: "true", "sweeps.sweep": sweep.name, **spec_tags(sweep), **self._heading}
        run = self._client.create_run(
            self._id, run_name=sweep.name, start_time=milliseconds(sweep.created_at), tags=tags
        )
        self._parent = run.info.run_id
        self._artifact(run.info.artifact_uri, "spec.json", sweep.spec.canonical)

    def _artifact(self, location: str, name: str, content: Mapping[str, Any]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            path.write_text(json.dumps(content, indent=1))
            get_artifact_repository(location, tracking_uri=self._uri).log_artifact(str(path))


def _prepare(uri: str) -> None:
    path = path_of(uri)
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path, timeout=min(20.0, patience()))
    try:
        # Kept in the file: readers such as the web page then never wait for the writer, and a run costs a third less.
        connection.execute("PRAGMA journal_mode=WAL")
    except sqlite3.Error as error:
        raise OSError(f"{path}: {error}") from error
    finally:
        connection.close()


def _artifact_location(uri: str, sweep: str) -> str | None:
    path = path_of(uri)
    return None if path is None else (path.absolute().parent / "mlartifacts" / sweep).as_uri()
