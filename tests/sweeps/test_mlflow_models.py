"""Models in MLflow: of the front or by number once a sweep is over, and in its registry; no pickle, claims as tags."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from mlflow import MlflowClient
from mlflow.artifacts import download_artifacts

import sweeps
from dpcore.checks import InvalidValue
from sweeps import export
from sweeps.api import with_models
from sweeps.execution.gc import collect
from sweeps.execution.session import SweepEnd
from sweeps.export import show_models
from sweeps.mlflow.models import example, signature
from sweeps.mlflow.read import NO_HEADING
from tests.sweeps.published_sweeps import NAME, REASON, publish, swept
from tests.sweeps.test_export_systems import table
from trainables.data.table_declaration import Column
from trainables.export.preprocessing import Preprocessing
from trainables.system import InputSpec, Task

LINEAR = {"model": "linear", "learning_rate": {"choice": [0.5, 0.001]}, "clip_norm": 1.0, "batch_size": 50, "epochs": 2}

LOADED = """
import json, sys
import mlflow, pandas as pd
mlflow.set_tracking_uri(sys.argv[1])
model = mlflow.pyfunc.load_model(sys.argv[2])
said = model.predict(pd.read_parquet(sys.argv[3]).drop(columns="label"))
import trainables
example = model.predict(model.input_example)
print(json.dumps([trainables.__file__, "sweeps" in sys.modules, said.to_dict("list"), len(example)]))
"""


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
    asked = json.loads(next(one for one in files if one.name == "input_example.json").read_text())
    # At the ends of what was declared: no record is there.
    assert asked["data"] == [[0, "a", [0, 0, 0]], [1, "c", [1, 1, 1]]]


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


# In the registry.


@pytest.fixture(scope="module")
def version(own):
    return own.register(1, "incomes")


def client(sweep):
    return MlflowClient(tracking_uri=sweep.workspace.tracking_uri)


def pickles(name, content):
    """Names of what is a pickle, in archives too."""
    if content[:2] == b"PK":
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for inner in archive.namelist():
                yield from pickles(f"{name}/{inner}", archive.read(inner))
    elif name.endswith((".pkl", ".pickle")) or (content[:1] == b"\x80" and content[1:2] in b"\x02\x03\x04\x05"):
        yield name


def test_it_answers_as_the_trials_model_does_with_the_code_that_travels_with_it(own, version):
    held = own.workspace.root + "/held.parquet"
    done = subprocess.run(
        [sys.executable, "-I", "-B", "-c", LOADED, own.workspace.tracking_uri, version.uri, held],
        capture_output=True,
        text=True,
        check=True,
        cwd=own.workspace.root,
    )
    where, ours, said, examples = json.loads(done.stdout.splitlines()[-1])
    assert "/artifacts/code/trainables/" in where
    assert (ours, examples) == (False, 2)
    expected = own.model(1).predict(pd.read_parquet(held)).table()
    assert said["prediction"] == list(expected["prediction"])
    assert np.allclose(said["probability.yes"], expected["probability.yes"], rtol=0, atol=1e-6)


def test_the_version_carries_claim_card_and_run(own, version):
    record = own.trial(1)
    found = client(own).get_model_version("incomes", str(version.number))
    assert (found.tags["sweeps.epsilon"], found.tags["sweeps.delta"]) == (repr(record.guarantee.epsilon), "0.0001")
    assert found.tags["sweeps.trial_key"] == f"{NAME}-1"
    assert found.tags["sweeps.rests_on"].startswith("proved")
    assert found.tags["sweeps.heading"] == NO_HEADING
    assert "all trials together" in found.tags["sweeps.total"]
    assert found.description == own.model(1).page
    run = client(own).get_run(found.run_id)
    assert run.data.tags["sweeps.trial_key"] == f"{NAME}-1"


def test_arrays_are_asked_by_name_and_a_heading_stands_in_the_tags(tmp_path, monkeypatch):
    # Loading puts the code that travels with the model in front.
    monkeypatch.setattr(sys, "path", list(sys.path))
    data = {"source": "digits", "limit": 600, "records_are_public": REASON}
    swept(tmp_path, raw(data, search={"sampler": "grid", "trials": 1}), views=False)
    sweep = sweeps.open(NAME, root=tmp_path)
    with pytest.raises(InvalidValue, match=r"MLflow database|sweeps track"):
        sweep.register(0, "digits")
    publish(sweep.workspace)
    made = sweep.register(0, "digits")
    tags = client(sweep).get_model_version("digits", str(made.number)).tags
    assert "PUBLIC RECORDS" in tags["sweeps.heading"]
    import mlflow

    model = mlflow.pyfunc.load_model(
        client(sweep).get_model_version_download_uri("digits", str(made.number)), suppress_warnings=True
    )
    images = np.zeros((3, 8, 8), dtype=np.float32)
    assert len(model.predict({"image": images})) == 3


def test_signature_and_example_are_those_of_the_declaration():
    asked = Preprocessing(
        task=Task.CLASSIFICATION,
        features={"table": InputSpec(shape=(4,)), "codes": InputSpec(shape=(2,), cardinality=7)},
        columns=(
            Column("age", 0, 100),
            Column("sort", categories=("a", "b")),
            Column("year", categories=(1, 2)),
            Column("codes", codes=7, shape=(2,)),
        ),
        classes=(0, 1),
    )
    said = {one.name: str(one.type) for one in signature(asked).inputs}
    assert [one.split(".")[-1] for one in map(said.get, ("age", "sort", "year"))] == ["double", "string", "long"]
    assert example(asked)["codes"].tolist() == [[0, 0], [6, 6]]
    arrays = Preprocessing(task=Task.REGRESSION, features={"codes": InputSpec(shape=(2,), cardinality=7)})
    assert signature(arrays).inputs.inputs[0].shape == (-1, 2)
    assert signature(arrays).outputs.input_names() == ["prediction"]
    assert example(arrays)["codes"].dtype == np.int64
