"""`track` takes out of MLflow what the store does not say: metrics logged by others, runs that were retagged."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path

import pytest
from mlflow.exceptions import MlflowException

from sweeps.mlflow import read
from sweeps.mlflow.read import read_front
from sweeps.mlflow.runs import Experiment
from sweeps.mlflow.sync import drain, rebuild
from sweeps.privacy.published_store import PublishedStore
from sweeps.reporting.front import sweep_front
from sweeps.reporting.tables import rows
from tests.sweeps import view_sweeps
from tests.sweeps.tracked_runs import prepared, runs_of


def written(uri):
    """All that the trials' runs hold, by trial."""
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("views")
    held = {}
    for run in read.written_runs(client, experiment.experiment_id):
        tags = {name: text for name, text in run.tags.items() if name.startswith("sweeps.")}
        held.setdefault(tags.get("sweeps.trial_key", "none"), []).append((tags, dict(run.params), run.logged))
    return held, {name: text for name, text in experiment.tags.items() if name.startswith("sweeps.")}


def tamper(uri):
    """What a person can do in MLflow, each to another run; the names of the trials."""
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    runs = {key: found[0].info.run_id for key, found in runs_of(uri).items()}
    client.log_metric(runs["views-0"], "accuracy", 0.9999, step=10**6)
    client.log_metric(runs["views-1"], "accuracy", 0.0001, step=-1)
    client.log_metric(runs["views-2"], "a metric of mine", float("nan"))
    client.set_tag(runs["views-3"], "sweeps.trial_key", "views-99")
    client.set_tag(runs["views-4"], "sweeps.trial_key", "views-5")
    client.set_tag(runs["views-6"], "sweeps.parent", "true")
    client.set_tag(runs["views-7"], "sweeps.state", "complete, I think")
    client.delete_tag(runs["views-8"], "sweeps.trial_key")
    client.log_param(runs["views-9"], "a_knob_of_mine", "1")
    client.set_tag(runs["views-10"], "my.note", "a person's own")
    own = client.create_run(runs_of(uri)["views-0"][0].info.experiment_id, run_name="my own")
    client.set_experiment_tag(own.info.experiment_id, "sweeps.search.objectives", "[]")
    return own.info.run_id


@pytest.mark.parametrize("asked", ["tables", "pages"])
def test_what_others_wrote_is_taken_out_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str):
    store = view_sweeps.mixed_sweep(tmp_path)
    uri = prepared(tmp_path)
    ending = threading.Event()
    ending.set()
    assert drain(PublishedStore(store), "views", uri, ending) == 0
    before = written(uri)
    own = tamper(uri)
    assert written(uri) != before
    if asked == "pages":
        # As of a server: MLflow's own calls alone.
        monkeypatch.setattr(read, "SqlAlchemyStore", type("Another", (), {}))
    with monkeypatch.context() as mutant:
        # A view that only writes again what it wrote leaves all of it.
        mutant.setattr(Experiment, "mend", lambda *asked: ())
        with suppress(MlflowException):
            # It even gives up: a run that was retagged has another trial's params, and MLflow changes none.
            rebuild(PublishedStore(store), "views", uri)
        assert written(uri)[0] != before[0]
    told = rebuild(PublishedStore(store), "views", uri).mended
    monkeypatch.undo()
    held, experiment = written(uri)
    assert held.pop("none")[-1] is not None
    expected = dict(before[0])
    expected.pop("none")
    assert held == expected
    assert experiment == before[1]
    for words in (
        "views-0: metric accuracy at step 1000000",
        "views-1: metric accuracy at step -1",
        "views-2: metric",
    ):
        assert any(line.startswith(words) for line in told), told
    assert any("views-99" in line for line in told)
    assert any(line.startswith("views-9: param a_knob_of_mine") for line in told)
    assert any(own in line and "left as it is" in line for line in told)
    assert runs_of(uri)["views-10"][0].data.tags["my.note"] == "a person's own"
    assert rebuild(PublishedStore(store), "views", uri).mended == (f"run {own}: not of this sweep: left as it is.",)
    mixed = ("notion", "status", "adjacency", "delta", "unit")
    shown = read_front(uri, "views", mix=mixed)
    assert [row["key"] for row in rows(shown)] == [row["key"] for row in rows(sweep_front(store, "views", mix=mixed))]
