"""What the runs of a sweep in MLflow say: tags, params and metrics as functions of the store's records alone.

Each is the same whenever it is made, timestamps included: a run that is written twice says it once.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Metric, Param, RunTag
from mlflow.exceptions import MlflowException
from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

from sweeps.mlflow import FRONT, read
from sweeps.privacy.ledger import Assumptions
from sweeps.privacy.release import Published, Release
from sweeps.privacy.wording import REFUTED, is_refuted, quote_of_claim
from sweeps.reporting.front import LABELS, FrontAxis, front, spec_objectives
from sweeps.reporting.summary import best_trial
from sweeps.store.records import DECIDED, EPSILON, CurveReport, Request, SweepRecord, TrialState, notes, tags
from sweeps.util.files import path_of, url_of
from sweeps.util.waiting import patience
from trainables.metrics import STANDARD_ERROR
from trainables.models import shaping
from trainables.worker.redaction import shown_url

_GUARANTEE_TAGS = ("notion", "adjacency", "unit", "status", "accountant", "theorem")
_BEST = "best "


def spec_tags(sweep: SweepRecord) -> dict[str, str]:
    """What a sweep is: what it was asked, its ends of objectives, what its budgets bound, and what leaves: of a sealed
    search the law of its trials and its deadline too."""
    objectives = [{"metric": one.metric, "goal": one.goal} for one in spec_objectives(sweep.spec)]
    # Those of the objectives: a tag has 5000 characters.
    names = {one["metric"] for one in objectives}
    ends = {name: one.model_dump() for name, one in sweep.references.items() if name in names}
    spec = sweep.spec
    tags = {
        read.BEGAN: read.began(sweep),
        "sweeps.digest": sweep.digest,
        read.OBJECTIVES: json.dumps(objectives),
        read.REFERENCES: json.dumps(ends),
        "sweeps.scope": spec.privacy.scope,
        "sweeps.release": spec.privacy.release,
        "sweeps.budgets": json.dumps(list(spec.privacy.epsilon)),
        "sweeps.delta": repr(spec.privacy.delta),
    }
    if (selection := spec.selection) is not None:
        law = selection.model_dump(include={"count", "shape", "mean"}, exclude_none=True)
        tags["sweeps.law"] = json.dumps(law | {"at_most": spec.search.trials})
        tags["sweeps.deadline_minutes"] = repr(selection.deadline_minutes)
    return tags


def trial_tags(trial: Published) -> dict[str, str]:
    """What a trial is and claims, as tags."""
    tags = {
        read.TRIAL_KEY: trial.key,
        "sweeps.number": str(trial.number),
        "sweeps.state": str(trial.state),
        "sweeps.feasible": _flag(trial.state is not TrialState.INFEASIBLE),
        "sweeps.system": trial.system,
        "sweeps.attempts": str(trial.attempts),
    }
    if trial.target_epsilon is not None:
        tags["sweeps.budget"] = f"{trial.target_epsilon:.12g}"
    if trial.reason:
        tags["sweeps.reason"] = shortened(trial.reason, 5000)
    if trial.guarantee is not None:
        claim = trial.guarantee
        tags |= {f"sweeps.{name}": shortened(str(getattr(claim, name)), 5000) for name in _GUARANTEE_TAGS}
        tags["sweeps.delta"] = repr(claim.delta)
        if claim.aimed_at is not None:
            tags["sweeps.aimed_at"] = repr(claim.aimed_at)
        if claim.asserted_by:
            tags[read.ASSERTED_BY] = shortened(claim.asserted_by, 5000)
        assumptions = Assumptions.of([claim])
        tags["sweeps.rests_on"] = assumptions.status(claim)
        quote = quote_of_claim(claim)
        tags |= {"sweeps.quote": str(quote.verdict), "sweeps.quote_as": str(quote)}
        tags[read.ASSUMPTIONS] = shortened("\n".join(assumptions.lines()), 5000)
    return tags


def best_values(sweep: SweepRecord, finished: Sequence[Published]) -> list[Metric]:
    """The score of the trial that is best by each objective that training decides (`best_trial`), at the number of
    trials that it was chosen from."""
    found = []
    for objective in spec_objectives(sweep.spec):
        best = best_trial(finished, objective)
        if best is not None and objective.metric not in DECIDED:
            ranked = [one for one in finished if not is_refuted(one) and one.metric(objective.metric) is not None]
            last = max(one.finished_at or one.proposed_at for one in ranked)
            value = float(best.metric(objective.metric) or 0.0)
            found.append(Metric(sanitized(_BEST + objective.metric), value, milliseconds(last), len(ranked)))
    return found


def params_of(trial: Published) -> dict[str, str]:
    """A trial's configuration."""
    return {sanitized(name): shortened(value, 6000) for name, value in shaping(trial.config).items()}


def metrics_of(trial: Published, curve: Sequence[CurveReport] = ()) -> list[Metric]:
    """Every report with its errors and the claim beside it, and the end."""
    end = milliseconds(trial.finished_at or trial.proposed_at)
    metrics = []
    reports = dict(trial.reports) or ({trial.step: trial.metrics} if trial.metrics else {})
    reports[trial.step] = trial.metrics
    # By the time at which each was recorded: written again when the trial has ended, it is the same row.
    told = {one.step: milliseconds(one.at) for one in curve}
    # Whoever sees a point of a curve sees what the trial claims with it.
    claim = {} if trial.guarantee is None else {EPSILON: trial.guarantee.epsilon}
    reports = {one.step: {**one.metrics, **claim} for one in curve} | reports
    for step, values in reports.items():
        for name, value in values.items():
            # Of several reports the last one's epsilon is the claim.
            if name != EPSILON or step != trial.step:
                metrics.append(Metric(_named(name), float(value), told.get(step, end), step))
    if trial.guarantee is not None and trial.step:
        metrics.append(Metric(EPSILON, trial.guarantee.epsilon, told.get(trial.step, end), trial.step))
    return metrics


def _named(metric: str) -> str:
    """As MLflow has it: the standard error of accuracy is accuracy.se, beside it in every list."""
    name = sanitized(metric)
    return name.removesuffix(STANDARD_ERROR) + read.ERROR if name.endswith(STANDARD_ERROR) else name


def milliseconds(seconds: float) -> int:
    """A time as MLflow keeps it."""
    return round(seconds * 1000)


def shortened(value: object, limit: int) -> str:
    """A value as text of at most so many characters."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def sanitized(name: str) -> str:
    """A name without what MLflow refuses in one: a refused run would hold up those behind it."""
    return re.sub(r"[^\w\-. :/]", "_", name)


# What MLflow's page of a sweep opens with: trials in the order of the first objective, and the front's chart.
#
# MLflow (3.17) keeps a view that is shared in a tag of the experiment, and opens it by the tag's name in the link. It
# promises no form for either: a page of another version that does not know them opens as it comes, on the same runs.

SHARED_VIEW = f"mlflow.sharedViewState.{FRONT}"


def shared_view(objectives: Sequence[FrontAxis]) -> str:
    """The tag's text. Runs are ordered by a metric, or MLflow would fold the trials into their parent."""
    trained = [one for one in objectives if one.metric not in DECIDED]
    first, *others = trained or list(objectives)
    across = others[0].metric if others else EPSILON
    chart: dict[str, Any] = {
        "type": "SCATTER",
        "uuid": FRONT,
        "metricSectionId": FRONT,
        "xaxis": {"key": across, "type": "METRIC"},
        "yaxis": {"key": first.metric, "type": "METRIC"},
        "runsCountToCompare": 100,
        "deleted": False,
        "isGenerated": False,
    }
    section = {"uuid": FRONT, "name": "Front", "columns": 1, "cardHeight": 480, "display": True}
    return json.dumps(
        {
            "searchFilter": "tags.`sweeps.feasible` = 'true'",
            "orderByKey": _column(first.metric),
            "orderByAsc": first.goal == "minimize",
            "startTime": "ALL",
            "lifecycleFilter": "Active",
            "datasetsFilter": [],
            "modelVersionFilter": "All Runs",
            "selectedColumns": [_column(name) for name in dict.fromkeys([first.metric, across, EPSILON])],
            "runsHiddenMode": "SHOW_ALL",
            "compareRunCharts": [chart],
            "compareRunSections": [{**section, "isReordered": False, "deleted": False, "isGenerated": False}],
            "useGroupedValuesInCharts": True,
            "hideEmptyCharts": False,
        }
    )


def _column(metric: str) -> str:
    return f"metrics.`{metric}`"


# Experiments, runs and artifacts of a sweep in MLflow, found again by their tags.
#
# MLflow gives no run an id of our choosing, so a trial's run is the one tagged `sweeps.trial_key`: looked up once,
# made when missing. Callers hold the drain lock. A run's content depends on the store's record alone, timestamps
# included, so writing it twice leaves one copy.

_METRICS_AT_ONCE = 1000
_KIND = {"mlflow.experimentKind": "custom_model_development"}
"""What a new experiment is about. It does not decide what a link opens (`SHARED_VIEW`)."""
_OURS = "sweeps."
_STATUS = {
    TrialState.COMPLETE: "FINISHED",
    TrialState.FAILED: "FAILED",
    # Never launched: the tag `sweeps.feasible` tells it apart, as the proposer is told "completed, but violated".
    TrialState.INFEASIBLE: "FINISHED",
    # Not over. Whoever sees it run says so (`as_running`): "running" must not outlive the controller.
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


_REFUSALS = {"401": "unknown user or wrong password", "403": "no rights"}


class Experiment:
    """One sweep in MLflow: a parent run, and a child run per trial. Raises `UNREACHABLE` from every method."""

    def __init__(self, uri: str, sweep: SweepRecord) -> None:
        _prepare(uri)
        self._uri, self._sweep = uri, sweep.name
        heading = Release.of(sweep.spec).heading
        self._heading = {read.HEADING: shortened(heading or read.NO_HEADING, 5000)}
        if heading:
            self._heading[read.DESCRIPTION] = heading
        self._client = MlflowClient(tracking_uri=uri)
        self._runs: dict[read.Identity, str] = {}
        self._on_front: set[read.Identity] = set()
        self._parent = ""
        try:
            self._id, existed = self._open(sweep)
            if existed:
                self._find_runs()
            if not self._parent:
                self._make_parent(sweep)
        except MlflowException as error:
            if found := re.search(r"failed with error code (401|403) ", str(error)):
                raise MlflowException(
                    f"MLflow at {shown_url(uri)} refuses this user ({_REFUSALS[found[1]]}). Set "
                    "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN, to a user who "
                    "may write experiments. Nothing is lost: `sweeps track` delivers it later."
                ) from error
            raise

    @property
    def id(self) -> str:
        """MLflow's own id of the experiment."""
        return self._id

    def put(self, trial: Published, curve: Sequence[CurveReport] = (), *, as_running: bool = False) -> None:
        """Make the trial's run say what the record says, and what it told at planned steps.

        as_running  say that it runs: whoever does this puts it again when that is over, or when nobody looks
        """
        known = self._runs.get(read.identity_of(trial))
        tags = self._tags_of(trial) | {"mlflow.parentRunId": self._parent}
        if known is None:
            start = read.identity_of(trial)[1]
            run = self._client.create_run(self._id, run_name=trial.key, start_time=start, tags=tags)
            tags = {}
        else:
            run = self._client.get_run(known)
            for name in [name for name in run.data.tags if name.startswith(_OURS) and name not in tags]:
                self._client.delete_tag(known, name)
        run_id = run.info.run_id
        metrics = metrics_of(trial, curve)
        for start in range(0, max(1, len(metrics)), _METRICS_AT_ONCE):
            self._client.log_batch(
                run_id,
                metrics=metrics[start : start + _METRICS_AT_ONCE],
                params=[] if start else [Param(name, text) for name, text in params_of(trial).items()],
                tags=[] if start else [RunTag(name, value) for name, value in tags.items()],
            )
        if trial.plan is not None:
            self._artifact(run.info.artifact_uri, "plan.json", trial.plan.to_dict())
        end = None if trial.finished_at is None else milliseconds(trial.finished_at)
        status = _STATUS[trial.state]
        if status == "SCHEDULED":
            self._client.update_run(run_id, status="RUNNING" if as_running else status)
        else:
            self._client.set_terminated(run_id, status=status, end_time=end or milliseconds(trial.proposed_at))
        self._runs[read.identity_of(trial)] = run_id

    def _tags_of(self, trial: Published) -> dict[str, str]:
        tags = trial_tags(trial) | self._heading
        if trial.state is TrialState.COMPLETE:
            tags[read.FRONT_TAG] = _flag(read.identity_of(trial) in self._on_front)
        if is_refuted(trial):
            said = (f"REFUTED: {REFUTED.sentence}.", self._heading.get(read.DESCRIPTION))
            tags[read.DESCRIPTION] = " ".join(filter(None, said))
        return tags

    def put_front(self, objectives: Sequence[FrontAxis], finished: Sequence[Published]) -> None:
        """Make the tag `sweeps.front` of every finished trial say whether it is on the front now."""
        found = front(finished, objectives, mix=LABELS, may_be_empty=True)
        keys = set(found.keys())
        now = {read.identity_of(trial) for trial in finished if trial.key in keys}
        for one in (now ^ self._on_front) & self._runs.keys():
            self._client.set_tag(self._runs[one], read.FRONT_TAG, _flag(one in now))
        self._on_front = now

    def put_sweep(self, sweep: SweepRecord, finished: Sequence[Published]) -> None:
        """Make the parent run say where the sweep stands, under which heading, and the best of its finished trials."""
        self.put_front(spec_objectives(sweep.spec), finished)
        for best in best_values(sweep, finished):
            self._client.log_metric(self._parent, best.key, best.value, best.timestamp, best.step)
        self._client.set_experiment_tag(self._id, SHARED_VIEW, shared_view(spec_objectives(sweep.spec)))
        for name, value in (spec_tags(sweep) | self._heading).items():
            self._client.set_experiment_tag(self._id, name, value)
            if name != read.DESCRIPTION:
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
        wanted = {f"{read.TAGGED}{key}": value for key, value in tags(said).items()}
        text = "\n\n".join(filter(None, [self._heading.get(read.DESCRIPTION), *notes(said)]))
        run = self._client.get_run(self._parent)
        wanted |= {read.DESCRIPTION: shortened(text, 5000)} if text else {}
        for name, value in wanted.items():
            if run.data.tags.get(name) != value:
                self._client.set_tag(self._parent, name, value)
        ours = (name for name in run.data.tags if name == read.DESCRIPTION or name.startswith(read.TAGGED))
        for name in [name for name in ours if name not in wanted]:
            self._client.delete_tag(self._parent, name)
        if run.info.run_name != sweep.called:
            self._client.update_run(self._parent, name=sweep.called)

    def _open(self, sweep: SweepRecord) -> tuple[str, bool]:
        name, found = read.experiment_of(self._client, sweep)
        if found is None:
            location = _artifact_location(self._uri, name)
            tags = {**spec_tags(sweep), **self._heading, **_KIND}
            return self._client.create_experiment(name, location, tags), False
        if found.lifecycle_stage == "deleted":
            self._client.restore_experiment(found.experiment_id)
        return found.experiment_id, True

    def _find_runs(self) -> None:
        for run_id, key, start in read.tagged_runs(self._client, self._id, read.TRIAL_KEY):
            if (key, start) in self._runs:
                self._client.delete_run(run_id)
            else:
                self._runs[key, start] = run_id
        flags = {run_id: flag for run_id, flag, _ in read.tagged_runs(self._client, self._id, read.FRONT_TAG)}
        self._on_front = {one for one, run_id in self._runs.items() if flags.get(run_id) == _flag(True)}
        for run_id, flag, _ in read.tagged_runs(self._client, self._id, read.PARENT):
            # A trial's run that somebody tagged so is no parent.
            if flag == "true" and run_id not in self._runs.values():
                self._parent = run_id

    def _make_parent(self, sweep: SweepRecord) -> None:
        tags = {read.PARENT: "true", "sweeps.sweep": sweep.name, **spec_tags(sweep), **self._heading}
        run = self._client.create_run(
            self._id, run_name=sweep.name, start_time=milliseconds(sweep.created_at), tags=tags
        )
        self._parent = run.info.run_id
        self._artifact(run.info.artifact_uri, "spec.json", sweep.spec.canonical())

    def _artifact(self, location: str, name: str, content: Mapping[str, Any]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            path.write_text(json.dumps(content, indent=1))
            get_artifact_repository(location, tracking_uri=self._uri).log_artifact(str(path))


def _flag(value: bool) -> str:
    return str(value).lower()


def _prepare(uri: str) -> None:
    path = path_of(uri)
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        _make_tables(path)
    connection = sqlite3.connect(path, timeout=min(20.0, patience()))
    try:
        # Kept in the file: readers such as the web page then never wait for the writer, and a run costs a third less.
        connection.execute("PRAGMA journal_mode=WAL")
    except sqlite3.Error as error:
        raise OSError(f"{path}: {error}") from error
    finally:
        connection.close()


def _make_tables(path: Path) -> None:
    """MLflow's tables in a file of another name, which takes its own once it has them all: half of them would break
    the database for every sweep of the root."""
    from mlflow.store.db.utils import _initialize_tables, create_sqlalchemy_engine

    whole = path.with_name(f"{path.name}.{os.getpid()}.part")
    engine = create_sqlalchemy_engine(url_of(whole))
    try:
        _initialize_tables(engine)
        engine.dispose()
        # Not over one that another process has made meanwhile.
        with suppress(FileExistsError):
            os.link(whole, path)
    finally:
        engine.dispose()
        whole.unlink(missing_ok=True)


def _artifact_location(uri: str, sweep: str) -> str | None:
    path = path_of(uri)
    return None if path is None else (path.absolute().parent / "mlartifacts" / sweep).as_uri()
