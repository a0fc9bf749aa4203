"""Models that MLflow shows once a sweep is over: of the front or by number, only such as may leave, each once."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.artifacts import download_artifacts

import sweeps
from sweeps import export
from sweeps.api import with_models
from sweeps.execution.end import SweepEnd
from sweeps.execution.gc import collect
from sweeps.export import show_models
from tests.sweeps.published_sweeps import NAME, publish, swept
from tests.sweeps.test_export_systems import table
from tests.sweeps.test_registering import pickles

LINEAR = {"model": "linear", "learning_rate": {"choice": [0.5, 0.001]}, "clip_norm": 1.0, "batch_size": 50, "epochs": 2}


def raw(data, **sections):
    return {
        "name": NAME,
        "data": data,
        "systems": {"noisy-sgd": LINEAR},
        "privacy": {"epsilon": [2.0, 8.0], "delta": 1e-4},
        "objectives": [{"metric": "accuracy", "goal": "maximize"}, {"metric": "epsilon", "goal": "minimize"}],
        "search": {"sampler": "grid", "trials": 4},
        **sections,
    }


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    root = tmp_path_factory.mktemp("shown")
    swept(root, raw(table(root)))
    return sweeps.open(NAME, root=root)


def all_in_mlflow(sweep):
    client = MlflowClient(tracking_uri=sweep.workspace.tracking_uri)
    experiment = client.get_experiment_by_name(sweep.name)
    return list(client.search_logged_models([experiment.experiment_id]))


def shown_by_mlflow(sweep):
    return {one.tags["sweeps.trial_key"]: one for one in all_in_mlflow(sweep)}


def ended(**fields):
    counts = {"complete": 4, "failed": 0}
    return SweepEnd(sweep=NAME, state="finished", counts=counts, seconds=0.0, ranked=4, **fields)


def test_the_front_is_shown_once_with_claims_and_no_record(own, tmp_path, monkeypatch):
    front = set(own.front().table()["key"])
    # MLflow had not everything, or the sweep goes on: nothing is exported.
    with monkeypatch.context() as patched:
        patched.setattr(export, "exported", None)
        assert with_models(ended(), own.workspace).models is None
    found = with_models(ended(tracking=own.workspace.tracking_uri), own.workspace).models
    assert (set(found.trials), dict(found.left_out), found.more) == (front, {}, 0)
    logged = shown_by_mlflow(own)
    assert logged.keys() == front
    for key, one in logged.items():
        claim = own.trial(key).guarantee
        assert (one.tags["sweeps.epsilon"], one.tags["sweeps.notion"]) == (repr(claim.epsilon), str(claim.notion))
        assert own.workspace.root not in json.dumps(dict(one.tags))
    # Again: those that are there stay, and nothing is doubled. `track` does the same.
    assert set(own.track().models.trials) == front
    assert {key: one.model_id for key, one in shown_by_mlflow(own).items()} == {
        key: one.model_id for key, one in logged.items()
    }
    place = next(iter(logged.values())).artifact_location
    files = [one for one in Path(download_artifacts(place, dst_path=str(tmp_path))).rglob("*") if one.is_file()]
    assert not [found for one in files for found in pickles(one.name, one.read_bytes())]
    example = json.loads(next(one for one in files if one.name == "input_example.json").read_text())
    # At the ends of what was declared: no record is there.
    assert example["data"] == [[0, "a", [0, 0, 0]], [1, "c", [1, 1, 1]]]


def test_a_large_front_is_cut_to_the_best_and_large_models_are_named(own, monkeypatch):
    class Everyone:
        keys = staticmethod(lambda: [f"{NAME}-{number}" for number in range(4)])

    monkeypatch.setattr(export, "sweep_front", lambda *_, **__: Everyone)
    monkeypatch.setattr(export, "AT_MOST", 1)
    found = show_models(own.workspace, NAME)
    assert (found.trials, found.more) == ((own.best().key,), 3)
    assert "more: `sweeps export`" in "".join(found.lines())
    # As if MLflow had none yet.
    monkeypatch.setattr("sweeps.mlflow.models.logged_models", lambda *_: {})
    monkeypatch.setattr(export, "LARGEST_BYTES", 1)
    assert "bytes" in show_models(own.workspace, NAME).left_out[own.best().key]


def test_a_claim_that_is_refuted_later_is_refuted_in_every_model_that_mlflow_has(own):
    """Runs alone were told: models of the front, registered ones too, went on as proved, with their old quote."""
    before = own.track().models.trials
    version = own.register(own.best().number, "told")
    client = MlflowClient(tracking_uri=own.workspace.tracking_uri)
    there = {one.model_id for one in all_in_mlflow(own)}
    audit = Path(own.workspace.folder(NAME)) / "audits" / "1" / "audit.json"
    audit.parent.mkdir(parents=True)
    verdict = {"trial": f"{NAME}-0", "system": "noisy-sgd", "number": 1, "outcome": "refuted"}
    audit.write_text(json.dumps(verdict))
    try:
        # No front is left: what was on it is walked all the same, and nothing refuted is logged.
        assert own.track().models.trials == ()
        told = all_in_mlflow(own)
        assert {one.model_id for one in told} == there
        for tags in (
            *(one.tags for one in told),
            (found := client.get_model_version("told", str(version.number))).tags,
        ):
            assert (tags["sweeps.status"], tags["sweeps.quote"]) == ("refuted", "refuted")
            assert tags["sweeps.heading"].startswith("REFUTED")
            assert "tags are of today" in tags["sweeps.out_of_date"]
        assert "REFUTED" in found.description
    finally:
        shutil.rmtree(audit.parent)
    assert own.track().models.trials == before
    assert {one.model_id for one in all_in_mlflow(own)} == there
    assert not [
        one for one in all_in_mlflow(own) if "sweeps.out_of_date" in one.tags or one.tags["sweeps.quote"] == "refuted"
    ]


def test_a_model_whose_card_has_changed_is_logged_again_once(own, monkeypatch):
    """As test records that were read since do, or a total that grew."""
    front = own.track().models.trials
    before = {one.model_id for one in all_in_mlflow(own)}
    monkeypatch.setattr("sweeps.export.scores_of", lambda _: ())
    for _ in range(2):
        assert own.track().models.trials == front
        new = [one for one in all_in_mlflow(own) if one.model_id not in before]
        assert sorted(one.tags["sweeps.trial_key"] for one in new) == sorted(front)
    marked = {one.model_id for one in all_in_mlflow(own) if "sweeps.out_of_date" in one.tags}
    assert marked == before


def test_trials_by_number_are_kept_by_gc_and_none_means_none(tmp_path):
    first = raw(table(tmp_path), search={"sampler": "grid", "trials": 2}, tracking={"models": "0,1"})
    swept(tmp_path, first, views=False)
    sweep = sweeps.open(NAME, root=tmp_path)
    assert collect(sweep.workspace, NAME, dry_run=True).trials == ()
    publish(sweep.workspace)
    assert show_models(sweep.workspace, NAME).trials == (f"{NAME}-0", f"{NAME}-1")
