"""MLflow as a view: idempotent, rebuilt at will, and read back as the store would answer."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

import sweeps
from dpcore.checks import InvalidValue
from sweeps.execution import requests
from sweeps.mlflow import read
from sweeps.mlflow.read import TRIAL_KEY, experiment_of
from sweeps.mlflow.runs import SHARED_VIEW, Experiment, _prepare
from sweeps.mlflow.sync import drain, kept_page, rebuild
from sweeps.privacy.release import PublishedStore
from sweeps.reporting.front import sweep_front
from sweeps.reporting.tables import rows
from sweeps.store.records import TrialRecord, TrialState
from sweeps.store.store import Store, open_store
from tests.sweeps import view_sweeps
from tests.sweeps.sealed_searches import Search
from tests.sweeps.view_sweeps import prepared, runs_of


def drained(store: Store, uri: str) -> None:
    """Deliver all that there is."""
    ending = threading.Event()
    ending.set()
    assert drain(PublishedStore(store), "views", uri, ending) == 0


@pytest.fixture(scope="module")
def tracked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, str]:
    root = tmp_path_factory.mktemp("tracked")
    store = view_sweeps.mixed_sweep(root)
    uri = prepared(root)
    drained(store, uri)
    return store, uri


def test_one_finished_run_per_trial_and_a_parent(tracked):
    store, uri = tracked
    runs = runs_of(uri)
    assert {key: len(found) for key, found in runs.items()} == {
        key: 1 for key in ["parent", *(trial.key for trial in store.trials("views"))]
    }
    statuses = {key: found[0].info.status for key, found in runs.items()}
    assert statuses.pop("parent") == "FINISHED"
    assert statuses.pop("views-12") == "FAILED"
    assert statuses.pop("views-14") == "SCHEDULED"
    assert set(statuses.values()) == {"FINISHED"}
    assert store.backlog("views") == 0


def test_a_death_while_mlflow_makes_its_tables_leaves_no_half_of_them(tmp_path):
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    dies = (
        "import os, mlflow.store.db.utils as made; made._upgrade_db = lambda engine: os._exit(9)\n"
        f"from sweeps.mlflow.runs import _prepare; _prepare({uri!r})"
    )
    assert subprocess.run([sys.executable, "-c", dies], check=False).returncode == 9
    assert not (tmp_path / "mlflow.db").exists()
    _prepare(uri)
    assert [one.name for one in MlflowClient(tracking_uri=uri).search_experiments()] == ["Default"]


def test_the_page_opens_on_runs_and_the_parent_has_the_best(tracked):
    store, uri = tracked
    client = MlflowClient(tracking_uri=uri)
    assert client.get_experiment_by_name("views").tags["mlflow.experimentKind"] == "custom_model_development"
    parent = runs_of(uri)["parent"][0]
    finished = [trial for trial in store.trials("views") if trial.state == "complete"]
    view = json.loads(client.get_experiment_by_name("views").tags[SHARED_VIEW])
    (chart,) = view["compareRunCharts"]
    assert (chart["xaxis"]["key"], chart["yaxis"]["key"]) == ("epsilon", "accuracy")
    assert (view["orderByKey"], view["orderByAsc"]) == ("metrics.`accuracy`", False)
    experiment = client.get_experiment_by_name("views").experiment_id
    assert kept_page(Path(store.sweep("views").root) / "views").startswith(f"/#/experiments/{experiment}/runs?")
    # Epsilon is an objective too, and decided by nobody's training.
    assert parent.data.metrics == {"best accuracy": max(trial.metrics["accuracy"] for trial in finished)}
    rebuild(PublishedStore(store), "views", uri)
    (best,) = client.get_metric_history(parent.info.run_id, "best accuracy")
    assert best.step == len(finished)


def test_the_parent_of_a_sealed_search_has_its_law_and_its_deadline(tmp_path: Path):
    search = Search(tmp_path)
    uri = prepared(tmp_path)
    Experiment(uri, search.store.sweep(search.name)).put_sweep(search.store.sweep(search.name), ())
    said = runs_of(uri, search.name)["parent"][0].data.tags
    assert json.loads(said["sweeps.law"]) == {"count": "geometric", "mean": 3.0, "at_most": 8}
    assert float(said["sweeps.deadline_minutes"]) == search.spec.selection.deadline_minutes
    assert (said["sweeps.scope"], said["sweeps.release"], float(said["sweeps.delta"])) == ("sweep", "best", 1e-5)


def test_rebuilding_changes_nothing_and_heals(tracked):
    store, uri = tracked
    before = {key: found[0].to_dictionary() for key, found in runs_of(uri).items() if key != "parent"}
    assert rebuild(PublishedStore(store), "views", uri) == 15
    assert {key: found[0].to_dictionary() for key, found in runs_of(uri).items() if key != "parent"} == before
    client = MlflowClient(tracking_uri=uri)
    history = client.get_metric_history(before["views-3"]["info"]["run_id"], "accuracy")
    assert len(history) == 1
    experiment = client.get_experiment_by_name("views").experiment_id
    client.delete_run(before["views-3"]["info"]["run_id"])
    start = before["views-4"]["info"]["start_time"]
    client.create_run(experiment, start_time=start, tags={"sweeps.trial_key": "views-4"})
    rebuild(PublishedStore(store), "views", uri)
    assert {len(found) for found in runs_of(uri).values()} == {1}
    assert len(runs_of(uri)) == 16
    assert not [key for key, found in runs_of(uri).items() if found[0].info.status == "RUNNING"]


def test_what_people_say_of_a_sweep_stands_at_its_parent(tmp_path: Path):
    store = view_sweeps.mixed_sweep(tmp_path)
    uri, name = prepared(tmp_path), "views"

    def parent():
        drained(store, uri)
        return runs_of(uri)["parent"][0]

    def of_people(run):
        return {key: value for key, value in run.data.tags.items() if key.startswith("sweeps.tag.")}

    requests.note(store, name, "looks good")
    requests.tag(store, name, {"paper": "v2", "team": "a"})
    requests.rename(store, name, "better")
    first = parent()
    assert first.info.run_name == "better"
    assert "looks good" in first.data.tags["mlflow.note.content"]
    assert of_people(first) == {"sweeps.tag.paper": "v2", "sweeps.tag.team": "a"}
    again = parent()
    assert again.data.tags == first.data.tags
    requests.tag(store, name, {"team": ""})
    requests.note(store, name, "better than that")
    rebuild(PublishedStore(store), name, uri)
    last = runs_of(uri)["parent"][0]
    assert of_people(last) == {"sweeps.tag.paper": "v2"}
    assert [said in last.data.tags["mlflow.note.content"] for said in ("looks good", "better than that")] == [True] * 2


def test_a_drain_killed_between_run_and_receipt_doubles_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    store = view_sweeps.mixed_sweep(tmp_path, trials=3)
    uri = prepared(tmp_path)

    def killed(self: Store, lease: object, ids: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(type(store), "delivered", killed)
        with pytest.raises(KeyboardInterrupt):
            drained(store, uri)
    assert store.backlog("views") > 0
    drained(store, uri)
    assert {len(found) for found in runs_of(uri).values()} == {1}


def test_not_a_number_and_infinities_come_through(tmp_path: Path):
    store = view_sweeps.mixed_sweep(tmp_path, trials=1)
    uri = prepared(tmp_path)
    trial = store.trials("views")[0]
    odd: TrialRecord = replace(
        trial,
        metrics={"accuracy": 0.5, "loss": math.nan, "ratio": math.inf, "drop": -math.inf},
        guarantee=replace(trial.guarantee, epsilon=math.inf, aimed_at=None),
    )
    Experiment(uri, store.sweep("views")).put(odd)
    record = read.read_front(uri, "views").panels[0].records[0]
    assert math.isnan(record.metrics["loss"])
    assert (record.metrics["ratio"], record.metrics["drop"]) == (math.inf, -math.inf)
    assert record.guarantee.epsilon == math.inf


@pytest.mark.parametrize("paged", [False, True])
def test_the_front_from_mlflow_equals_the_stores(tracked, monkeypatch: pytest.MonkeyPatch, paged: bool):
    """By whole tables, and as from a server in several pages; a run that somebody deleted by hand is left out."""
    if paged:
        monkeypatch.setattr(read, "_PAGE", 4)
        monkeypatch.setattr(read, "SqlAlchemyStore", type("NoStore", (), {}))
    store, uri = tracked
    found, expected = read.read_front(uri, "views"), sweep_front(PublishedStore(store), "views")
    assert len(list(rows(expected))) > 1
    assert list(rows(found)) == list(rows(expected))
    # The same volume up to the same reference, which travels with the experiment.
    assert found.panels[0].hypervolume == expected.panels[0].hypervolume is not None
    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("views").experiment_id
    before = len(read.finished_runs(client, experiment))
    deleted = runs_of(uri)["views-5"][0].info.run_id
    client.delete_run(deleted)
    left = len(read.finished_runs(client, experiment)), len(read.tagged_runs(client, experiment, TRIAL_KEY))
    client.restore_run(deleted)
    assert (before, left) == (12, (11, 14))
    with pytest.raises(InvalidValue, match="nowhere"):
        read.read_front(uri, "nowhere")


def test_the_queries_of_the_guide_and_every_name_on_its_page(tracked, monkeypatch: pytest.MonkeyPatch):
    """What is tagged or measured is told there, but for metrics by their own names."""
    store, uri = tracked
    # Which the page sets, for every test behind this one.
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    page = (Path(sweeps.__file__).parent / "guide/mlflow.md").read_text()
    [code] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    found: dict[str, Any] = {}
    exec(code.replace("sqlite:///.sweeps/mlflow.db", uri).replace("quickstart", "views").replace("'4'", "'1'"), found)
    front = sweep_front(PublishedStore(store), "views").keys()
    assert sorted(found["front"]["tags.sweeps.trial_key"]) == sorted(front)
    assert len(found["trials"]) == len(store.trials("views"))
    of_one = [one for one in store.trials("views", [TrialState.COMPLETE]) if one.target_epsilon == 1]
    assert found["best"]["metrics.accuracy"].item() == max(one.metrics["accuracy"] for one in of_one)
    runs = [run for listed in runs_of(uri).values() for run in listed]
    named = {tag for run in runs for tag in run.data.tags if tag.startswith("sweeps.")}
    assert {tag for tag in named if f"`{tag}`" not in page} == set()


# Two sweeps of one name from two stores, and one MLflow: their trials have equal keys.


ACCURACIES = {"one": 0.61, "two": 0.72}


def swept(root: Path, created_at: float, accuracy: float) -> Store:
    root.mkdir()
    store = view_sweeps.new_sweep(root, created_at=created_at)
    lease = store.acquire("views")
    view_sweeps.complete(store, lease, 0, accuracy)
    store.set_state(lease, "finished")
    lease.release()
    return store


def accuracies(client: MlflowClient, store: Store) -> list[float]:
    """Everything that MLflow ever had of the accuracy of its one trial, in the experiment that is its own."""
    _, experiment = experiment_of(client, store.sweep("views"))
    (run,) = client.search_runs([experiment.experiment_id], f"tags.`{TRIAL_KEY}` = 'views-0'")
    return [one.value for one in client.get_metric_history(run.info.run_id, "accuracy")]


@pytest.fixture
def both(tmp_path):
    """Two stores, and an MLflow that was told of both."""
    uri = prepared(tmp_path)
    stores = {
        name: swept(tmp_path / name, 1.7e9 + number, accuracy)
        for number, (name, accuracy) in enumerate(ACCURACIES.items())
    }
    for store in stores.values():
        drained(store, uri)
    return stores, uri, MlflowClient(tracking_uri=uri)


def test_each_has_its_own_runs_and_no_result_of_the_other(both):
    stores, uri, client = both
    assert {name: accuracies(client, store) for name, store in stores.items()} == {
        name: [accuracy] for name, accuracy in ACCURACIES.items()
    }
    names = [experiment_of(client, store.sweep("views"))[0] for store in stores.values()]
    assert names[0] == "views"
    assert names[1].startswith("views-")
    for store in stores.values():
        rebuild(PublishedStore(store), "views", uri)
    assert [accuracies(client, store) for store in stores.values()] == [[0.61], [0.72]], (
        "rebuilding one takes nothing else"
    )


def went_on(root: Path, first: Path, accuracy: float) -> Store:
    """A copy of the store in `first`, which completes one more trial."""
    shutil.copytree(first, root)
    store = open_store(f"sqlite:///{root}/sweeps.db")
    lease = store.acquire("views")
    view_sweeps.complete(store, lease, 1, accuracy)
    store.set_state(lease, "finished")
    lease.release()
    return store


def test_copies_that_both_go_on_have_a_run_for_each_result(tmp_path):
    uri = prepared(tmp_path)
    client = MlflowClient(tracking_uri=uri)
    swept(tmp_path / "first", 1.7e9, 0.5).close()
    copies = [went_on(tmp_path / name, tmp_path / "first", accuracy) for name, accuracy in ACCURACIES.items()]
    for store in copies:
        drained(store, uri)
    _, experiment = experiment_of(client, copies[0].sweep("views"))
    runs = client.search_runs([experiment.experiment_id], f"tags.`{TRIAL_KEY}` = 'views-1'")
    said = [[one.value for one in client.get_metric_history(run.info.run_id, "accuracy")] for run in runs]
    assert sorted(said) == [[0.61], [0.72]]
