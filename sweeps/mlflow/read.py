"""The one door to MLflow: what it raises, and how its runs are named and found. The package sets it before it loads."""

from __future__ import annotations

import hashlib
import json
import math
import os
import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from mlflow import MlflowClient
from mlflow.entities import LifecycleStage, ViewType
from mlflow.exceptions import MlflowException
from mlflow.store.tracking.dbmodels.models import SqlLatestMetric, SqlParam, SqlRun, SqlTag
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
from mlflow.telemetry.client import set_telemetry_client
from mlflow.utils import get_results_from_paginated_fn
from requests import RequestException
from sqlalchemy import literal, select
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError

from dpcore.checks import InvalidValue
from dpcore.guarantee import Guarantee
from sweeps.privacy.ledger import sentences_of
from sweeps.privacy.release import Published, was_published
from sweeps.reporting.front import Front, FrontAxis, front
from sweeps.spec.sections import FrontOptions, Reference
from sweeps.store.records import EPSILON, SweepRecord, TrialRecord, TrialState
from sweeps.util.waiting import patience, wait_for
from trainables.metrics import STANDARD_ERROR
from trainables.worker.redaction import shown_url

set_telemetry_client()

UNREACHABLE = (MlflowException, RequestException, SQLAlchemyError, OSError)
"""What MLflow raises when it, its database or its artifacts cannot be reached or refuse."""

TRIAL_KEY, STATE = "sweeps.trial_key", "sweeps.state"
PARENT = "sweeps.parent"
BEGAN = "sweeps.began"
"""Tag of experiment and parent run: whose they are (`experiment_of`)."""
OBJECTIVES = "sweeps.search.objectives"
REFERENCES = "sweeps.front.reference"
HEADING = "sweeps.heading"
"""Tag of experiment and runs: what stands above every claim of the sweep (`sweeps.privacy.release`)."""
NO_HEADING = "none"
ASSERTED_BY = "sweeps.asserted_by"
"""The modules on whose word alone the claim stands; absent where it is counted here."""
DESCRIPTION = "mlflow.note.content"
"""MLflow's own page shows it as the description."""
TAGGED = "sweeps.tag."
"""What the tags begin with that people gave the sweep."""
FRONT_TAG = "sweeps.front"
"""Whether a finished trial is on the front of its sweep: true or false."""
ERROR = ".se"
"""Behind the name of a metric: its standard error."""
ASSUMPTIONS = "sweeps.assumptions"
"""Those, numbered, one a line."""
LARGEST = 1.797e308
"""MLflow keeps an infinity as the largest double."""

_PAGE = 500
"""Runs in one answer of a server; MLflow takes about two seconds to put them together, and many more under load."""
_TIMEOUT, _RETRIES = "MLFLOW_HTTP_REQUEST_TIMEOUT", "MLFLOW_HTTP_REQUEST_MAX_RETRIES"
_SHORT = {_TIMEOUT: "10", _RETRIES: "1"}


def check_there(uri: str) -> None:
    """A reader makes nothing: MLflow itself would create the database, or the folder, of a misspelt URI.

    Raises InvalidValue for a file that is no MLflow database, or a folder that is none; a server answers for itself.
    """
    scheme = uri.partition("://")[0] if "://" in uri else uri.partition(":")[0] if uri.startswith("file:") else ""
    if scheme.partition("+")[0] == "sqlite":
        place = make_url(uri).database or ""
        if not _holds_runs(place):
            raise InvalidValue("--mlflow", uri, "an MLflow database that is there", f"Is {place!r} spelt right?")
    elif scheme in ("", "file") and not Path(uri.removeprefix("file://").removeprefix("file:")).is_dir():
        expected = "http://HOST:PORT of an MLflow server, sqlite:///FILE, postgresql://..., or a folder that is there"
        raise InvalidValue("--mlflow", uri, expected, "Give the URI of MLflow first, then the experiment.")


def _holds_runs(place: str) -> bool:
    if not Path(place).is_file():
        return False
    with closing(sqlite3.connect(f"file:{quote(str(Path(place).absolute()))}?mode=ro", uri=True)) as opened:
        try:
            return bool(opened.execute("SELECT 1 FROM sqlite_master WHERE name = 'experiments'").fetchall())
        except sqlite3.DatabaseError:
            return False


def experiment_of(client: MlflowClient, sweep: SweepRecord) -> tuple[str, Any]:
    """Name and experiment of a sweep, None in its place when it has none yet.

    It is called as the sweep is. Where a sweep of that name from another store has that experiment (two people and one
    server; two folders), this one's has its beginning in its name: in one, trials of equal keys would be one run, with
    the results of both under one claim.
    """
    own = began(sweep)
    for name in (sweep.name, f"{sweep.name}-{hashlib.sha256(own.encode()).hexdigest()[:8]}"):
        found = client.get_experiment_by_name(name)
        if found is None or found.tags.get(BEGAN) == own:
            break
    return name, found


def began(sweep: SweepRecord) -> str:
    """What tells a sweep from another one of the same name: the moment of its beginning, as its store has it."""
    return repr(sweep.created_at)


def active_runs(client: MlflowClient, experiment_id: str, condition: str) -> list[Any]:
    """The active runs that meet MLflow's own filter `condition`, oldest first."""
    oldest_first = ["attributes.start_time ASC"]

    def page(number: int, token: str | None) -> Any:
        return client.search_runs([experiment_id], condition, ViewType.ACTIVE_ONLY, number, oldest_first, token)

    return list(get_results_from_paginated_fn(page, _PAGE))


@contextmanager
def patient_requests(uri: str) -> Iterator[None]:
    """For reading while a person waits: a busy server may take as long as patience allows for each answer, not ten
    seconds twice, and not in silence. What the environment says of MLflow's own limits holds."""
    before = {name: os.environ[name] for name in _SHORT}
    if before == _SHORT:
        os.environ[_TIMEOUT], os.environ[_RETRIES] = str(max(1, round(patience()))), "0"
    try:
        with wait_for(f"MLflow at {shown_url(uri)}"):
            yield
    finally:
        os.environ.update(before)


def from_mlflow(value: float) -> float:
    """A metric's value as it was before MLflow replaced infinities."""
    return math.copysign(math.inf, value) if abs(value) >= LARGEST else value


# The runs of an experiment with their tags, params and latest metrics, as fast as the tracking URI allows.
#
# A tracking URI that is a database is read by three queries over whole tables; MLflow's own search builds an object
# for every single tag there, and takes minutes for 30,000 runs. A server is asked page by page, since it offers
# nothing else. Both give the same runs.


@dataclass(slots=True)
class TrialRun:
    """One run as text and numbers; `metrics` are the latest ones, as MLflow keeps them."""

    tags: Mapping[str, str]
    params: Mapping[str, str]
    metrics: Mapping[str, float]


def finished_runs(client: MlflowClient, experiment_id: str) -> list[TrialRun]:
    """The runs of complete trials, in no particular order."""
    store = client._tracking_client.store
    if isinstance(store, SqlAlchemyStore):
        found = _whole(store, experiment_id)
    else:
        listed = active_runs(client, experiment_id, f"tags.`{STATE}` = '{TrialState.COMPLETE}'")
        found = [TrialRun(run.data.tags, run.data.params, run.data.metrics) for run in listed]
    return [run for run in found if TRIAL_KEY in run.tags and run.tags.get(STATE) == TrialState.COMPLETE]


def _whole(store: SqlAlchemyStore, experiment_id: str) -> list[TrialRun]:
    chosen = select(SqlRun.run_uuid).where(*_active(experiment_id))
    tables = {SqlTag: SqlTag.value, SqlParam: SqlParam.value, SqlLatestMetric: SqlLatestMetric.value}
    found: dict[Any, dict[str, dict[str, Any]]] = {table: defaultdict(dict) for table in tables}
    with store.ManagedSessionMaker() as session:
        # Tags first: a run that is finished meanwhile then has values without tags, and is left for the next time.
        for table, value in tables.items():
            is_nan = table.is_nan if table is SqlLatestMetric else literal(False)
            asked = select(table.run_uuid, table.key, value, is_nan).where(table.run_uuid.in_(chosen))
            for run, key, one, nan in session.connection().execute(asked):
                found[table][run][key] = math.nan if nan else one
    tags, params, metrics = found.values()
    return [TrialRun(own, params[run], metrics[run]) for run, own in tags.items()]


def _active(experiment_id: str) -> tuple[Any, Any]:
    return SqlRun.experiment_id == int(experiment_id), SqlRun.lifecycle_stage == LifecycleStage.ACTIVE


Identity = tuple[str, int]
"""Of a trial among runs: its key, and when it was proposed, in milliseconds. Copies of a store that both go on have
equal keys, and results of their own."""


def identity_of(trial: Published) -> Identity:
    """By which its run is found."""
    return trial.key, round(trial.proposed_at * 1000)


def runs_of_trials(client: MlflowClient, experiment_id: str) -> dict[Identity, str]:
    """{trial: run id}; of several runs of one trial the newest."""
    return {(key, start): run for run, key, start in tagged_runs(client, experiment_id, TRIAL_KEY)}


def tagged_runs(client: MlflowClient, experiment_id: str, tag: str) -> list[tuple[str, str, int]]:
    """(run id, value, start in milliseconds) of every active run that has this tag, oldest first."""
    store = client._tracking_client.store
    if not isinstance(store, SqlAlchemyStore):
        found = active_runs(client, experiment_id, f"tags.`{tag}` != ''")
        return [(run.info.run_id, run.data.tags[tag], run.info.start_time) for run in found]
    with store.ManagedSessionMaker() as session:
        statement = (
            select(SqlTag.run_uuid, SqlTag.value, SqlRun.start_time)
            .join(SqlRun)
            .where(SqlTag.key == tag, *_active(experiment_id))
            .order_by(SqlRun.start_time, SqlRun.run_uuid)
        )
        return [(run, value, start) for run, value, start in session.connection().execute(statement)]


# The front of a sweep read from MLflow alone, for people who have only its tracking URI.

_GUARANTEE = ("notion", "adjacency", "unit", "status", "accountant", "theorem")


def read_front(
    uri: str,
    experiment: str,
    objectives: Sequence[FrontAxis] | None = None,
    mix: Collection[str] = (),
    reference: Mapping[str, Reference] | None = None,
    as_refuted: bool = False,
) -> Front:
    """The front of the sweep that has this experiment.

    objectives, reference  those of the sweep's spec, kept as tags of the experiment, unless given
    mix, as_refuted        as of `sweeps.reporting.front.front`

    Raises InvalidValue for an unknown experiment, MixedGuarantees as `front` does.
    """
    check_there(uri)
    with patient_requests(uri):
        client = MlflowClient(tracking_uri=uri)
        found = client.get_experiment_by_name(experiment)
    if found is None:
        raise InvalidValue(
            "experiment", experiment, f"an experiment at {shown_url(uri)}", "Experiments are named after sweeps."
        )
    chosen = list(objectives or ())
    if not chosen:
        if OBJECTIVES not in found.tags:
            raise InvalidValue("objectives", None, f"objectives, as the experiment has no tag {OBJECTIVES}")
        chosen = [FrontAxis(one["metric"], one["goal"]) for one in json.loads(found.tags[OBJECTIVES])]
    recorded = FrontOptions(reference=json.loads(found.tags.get(REFERENCES, "{}")))
    ends = {**recorded.reference, **(reference or {})}
    with patient_requests(uri):
        records = [was_published(_record(run)) for run in finished_runs(client, found.experiment_id)]
        heading = str(found.tags.get(HEADING, NO_HEADING))
        records.sort(key=lambda record: record.number)
        shown = front(records, chosen, mix=mix, reference=ends, sweep=experiment, as_refuted=as_refuted)
    return shown if heading == NO_HEADING else replace(shown, heading=heading)


def _record(run: TrialRun) -> TrialRecord:
    """The trial of a run."""
    tags, params = run.tags, run.params
    metrics = {
        name.removesuffix(ERROR) + STANDARD_ERROR if name.endswith(ERROR) else name: from_mlflow(value)
        for name, value in run.metrics.items()
    }
    config: Mapping[str, Any] = {name: _typed(text) for name, text in params.items()}
    guarantee = None
    if "sweeps.delta" in tags and EPSILON in metrics:
        aimed_at = float(tags["sweeps.aimed_at"]) if "sweeps.aimed_at" in tags else None
        guarantee = Guarantee.from_dict(
            {
                **{name: tags[f"sweeps.{name}"] for name in _GUARANTEE},
                "epsilon": metrics[EPSILON],
                "asserted_by": tags.get(ASSERTED_BY, ""),
                "delta": float(tags["sweeps.delta"]),
                "assumptions": sentences_of(tags.get(ASSUMPTIONS, "")),
                "aimed_at": aimed_at,
                "epsilon_lower": None,
            }
        )
    return TrialRecord(
        key=tags[TRIAL_KEY],
        number=int(tags["sweeps.number"]),
        state=TrialState(tags["sweeps.state"]),
        config=config,
        seed=0,
        plan=None,
        violations={},
        metrics=metrics,
        guarantee=guarantee,
    )


def _typed(text: str) -> bool | int | float | str:
    """The value of a param, which MLflow keeps as text."""
    if text in ("True", "False"):
        return text == "True"
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text
