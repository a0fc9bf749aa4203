"""The runs of an experiment with their tags, params and latest metrics, as fast as the tracking URI allows.

A tracking URI that is a database is read by three queries over whole tables; MLflow's own search builds an object for
every single tag there, and takes minutes for 30,000 runs. A server is asked page by page, since it offers nothing else.
Both give the same runs: MLflow's own translation of its filter language decides in either case.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import LifecycleStage
from mlflow.store.tracking.dbmodels.models import SqlLatestMetric, SqlMetric, SqlParam, SqlRun, SqlTag
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore, _get_sqlalchemy_filter_clauses
from mlflow.utils.search_utils import SearchUtils
from sqlalchemy import Connection, Select, select

from sweeps.release.published import Published
from sweeps.tracking.mlflow_door import TRIAL_KEY, pages
from sweeps.util.files import collector_paused


@dataclass(slots=True)
class TrialRun:
    """One run as text and numbers; `metrics` are the latest ones, as MLflow keeps them."""

    tags: Mapping[str, str]
    params: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)


def read_trial_runs(client: MlflowClient, experiment_id: str, condition: str) -> list[TrialRun]:
    """The runs of trials that meet MLflow's own filter `condition`, in no particular order."""
    store = client._tracking_client.store
    with collector_paused():
        if isinstance(store, SqlAlchemyStore):
            return _whole(store, experiment_id, condition)
        return paged(client, experiment_id, condition)


def paged(client: MlflowClient, experiment_id: str, condition: str) -> list[TrialRun]:
    """By MLflow's public search, from any kind of tracking URI."""
    return [
        TrialRun(tags=run.data.tags, params=run.data.params, metrics=run.data.metrics)
        for run in pages(client, experiment_id, condition)
        # Not in the condition: a second one on tags makes SQLite take seconds more for each page.
        if TRIAL_KEY in run.data.tags
    ]


@dataclass(frozen=True, slots=True)
class WrittenRun:
    """An active run of whoever it is, with all that was ever logged to it.

    logged  (metric, step, value); a value that is not a number is None, an infinity what MLflow makes of it
    """

    run_id: str
    tags: Mapping[str, str]
    params: Mapping[str, str]
    logged: frozenset[tuple[str, int, float | None]]


def written_runs(client: MlflowClient, experiment_id: str) -> list[WrittenRun]:
    """Every active run of the experiment. A server is asked for each metric of each run."""
    store = client._tracking_client.store
    with collector_paused():
        if isinstance(store, SqlAlchemyStore):
            return _written(store, experiment_id)
        found = ((run.info.run_id, run.data) for run in pages(client, experiment_id, ""))
        return [WrittenRun(run, held.tags, held.params, _history(client, run, held.metrics)) for run, held in found]


def _history(client: MlflowClient, run_id: str, metrics: Iterable[str]) -> frozenset[tuple[str, int, float | None]]:
    return frozenset(
        (one.key, one.step, None if math.isnan(one.value) else one.value)
        for name in metrics
        for one in client.get_metric_history(run_id, name)
    )


def _written(store: SqlAlchemyStore, experiment_id: str) -> list[WrittenRun]:
    chosen = select(SqlRun.run_uuid).where(*_active(experiment_id))
    with store.ManagedSessionMaker() as session:
        connection = session.connection()
        tags: dict[str, dict[str, str]] = {run: {} for (run,) in connection.execute(chosen)}
        tags |= _texts(connection, SqlTag, chosen)
        params = _texts(connection, SqlParam, chosen)
        logged: dict[str, set[tuple[str, int, float | None]]] = defaultdict(set)
        columns = [SqlMetric.step, SqlMetric.value, SqlMetric.is_nan]
        for run, key, step, value, is_nan in _rows(connection, SqlMetric, columns, chosen):
            logged[run].add((key, step, None if is_nan else value))
    return [WrittenRun(run, own, params.get(run, {}), frozenset(logged[run])) for run, own in tags.items()]


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
        found = pages(client, experiment_id, f"tags.`{tag}` != ''")
        return [(run.info.run_id, run.data.tags[tag], run.info.start_time) for run in found]
    with store.ManagedSessionMaker() as session:
        statement = (
            select(SqlTag.run_uuid, SqlTag.value, SqlRun.start_time)
            .join(SqlRun)
            .where(SqlTag.key == tag, *_active(experiment_id))
            .order_by(SqlRun.start_time, SqlRun.run_uuid)
        )
        return [(run, value, start) for run, value, start in session.connection().execute(statement)]


def _whole(store: SqlAlchemyStore, experiment_id: str, condition: str) -> list[TrialRun]:
    with store.ManagedSessionMaker() as session:
        chosen = _chosen(store, session, experiment_id, condition)
        connection = session.connection()
        # Tags first: a run that is finished meanwhile then has values without tags, and is left for the next time.
        tags, params = (_texts(connection, table, chosen) for table in (SqlTag, SqlParam))
        runs = {run: TrialRun(own, params.get(run, {})) for run, own in tags.items() if TRIAL_KEY in own}
        columns = [SqlLatestMetric.value, SqlLatestMetric.is_nan]
        for run, key, number, is_nan in _rows(connection, SqlLatestMetric, columns, chosen):
            if run in runs:
                runs[run].metrics[key] = float("nan") if is_nan else number
        return list(runs.values())


def _chosen(store: SqlAlchemyStore, session: Any, experiment_id: str, condition: str) -> Select[Any]:
    """Ids of the runs, joined as MLflow's search joins them."""
    parsed = SearchUtils.parse_search_filter(condition)
    attributes, joined, data_sets = _get_sqlalchemy_filter_clauses(parsed, session, store._get_dialect())
    chosen = select(SqlRun.run_uuid)
    for one in joined:
        chosen = chosen.join(one)
    for one in data_sets:
        chosen = chosen.join(one, SqlRun.run_uuid == one.c.destination_id)
    return chosen.where(*_active(experiment_id), *attributes)


def _active(experiment_id: str) -> tuple[Any, Any]:
    return SqlRun.experiment_id == int(experiment_id), SqlRun.lifecycle_stage == LifecycleStage.ACTIVE


def _texts(connection: Connection, table: Any, chosen: Select[Any]) -> dict[str, dict[str, str]]:
    """{run: {key: value}} of a table of texts."""
    found: dict[str, dict[str, str]] = {}
    for run, key, value in _rows(connection, table, [table.value], chosen):
        found.setdefault(run, {})[key] = value
    return found


def _rows(connection: Connection, table: Any, values: list[Any], chosen: Select[Any]) -> Iterable[Any]:
    statement = select(table.run_uuid, table.key, *values).where(table.run_uuid.in_(chosen))
    return connection.execute(statement).all()
