"""Two sweeps of one name from two stores, and one MLflow: people with a server, or somebody with two folders.

Their trials have equal keys. In one experiment the results of both stood in one run, under the claim of one. So they
did of two copies of one store that both went on: these are one sweep, with one beginning.
"""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest
from mlflow import MlflowClient

from sweeps.mlflow.read import BEGAN, TRIAL_KEY, experiment_of
from sweeps.mlflow.sync import deleted_experiment, drain, rebuild
from sweeps.privacy.published_store import PublishedStore
from sweeps.store.store import Store, open_store
from tests.sweeps import view_sweeps
from tests.sweeps.tracked_runs import prepared

ACCURACIES = {"one": 0.61, "two": 0.72}


def swept(root: Path, created_at: float, accuracy: float) -> Store:
    root.mkdir()
    store = view_sweeps.new_sweep(root, created_at=created_at)
    lease = store.acquire("views")
    view_sweeps.complete(store, lease, 0, accuracy)
    store.set_state(lease, "finished")
    lease.release()
    return store


def told(store: Store, uri: str) -> None:
    ending = threading.Event()
    ending.set()
    assert drain(PublishedStore(store), "views", uri, ending) == 0


def shown(client: MlflowClient, store: Store) -> list[float]:
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
        told(store, uri)
    return stores, uri, MlflowClient(tracking_uri=uri)


def test_each_has_its_own_runs_and_no_result_of_the_other(both):
    stores, uri, client = both
    assert {name: shown(client, store) for name, store in stores.items()} == {
        name: [accuracy] for name, accuracy in ACCURACIES.items()
    }
    names = [experiment_of(client, store.sweep("views"))[0] for store in stores.values()]
    assert names[0] == "views"
    assert names[1].startswith("views-")
    for store in stores.values():
        rebuild(PublishedStore(store), "views", uri)
    assert [shown(client, store) for store in stores.values()] == [[0.61], [0.72]], "rebuilding one takes nothing else"


def test_deleting_one_leaves_that_of_the_other(both):
    stores, uri, client = both
    assert deleted_experiment(uri, stores["two"].sweep("views")) == []
    assert shown(client, stores["one"]) == [0.61]
    assert deleted_experiment(uri, stores["one"].sweep("views")) == []
    assert client.get_experiment_by_name("views").lifecycle_stage == "deleted"


def test_an_experiment_of_an_earlier_release_goes_on_as_that_of_the_first_who_comes(both):
    stores, uri, client = both
    first = client.get_experiment_by_name("views").experiment_id
    client.set_experiment_tag(first, BEGAN, "")
    client.delete_experiment_tag(first, BEGAN)
    assert experiment_of(client, stores["one"].sweep("views"))[1].experiment_id == first
    rebuild(PublishedStore(stores["one"]), "views", uri)
    assert client.get_experiment_by_name("views").tags[BEGAN] == repr(1.7e9)
    assert shown(client, stores["one"]) == [0.61]


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
        told(store, uri)
    _, experiment = experiment_of(client, copies[0].sweep("views"))
    runs = client.search_runs([experiment.experiment_id], f"tags.`{TRIAL_KEY}` = 'views-1'")
    said = [[one.value for one in client.get_metric_history(run.info.run_id, "accuracy")] for run in runs]
    assert sorted(said) == [[0.61], [0.72]]
