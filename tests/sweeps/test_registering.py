"""A model in MLflow's registry: no pickle in it, its claim as tags, and the answers of the trial's model."""

from __future__ import annotations

import io
import json
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
from sweeps.mlflow.models import example, signature
from sweeps.mlflow.read import NO_HEADING
from tests.sweeps.published_sweeps import NAME, REASON, publish, swept
from tests.sweeps.test_export_systems import table
from trainables.data.table_declaration import Column
from trainables.export.preprocessing import Preprocessing
from trainables.system import InputSpec, Task

CONFIG = {"model": "linear", "learning_rate": 0.5, "clip_norm": 1.0, "batch_size": 50, "epochs": 2}
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
        "systems": {"noisy-sgd": CONFIG},
        "privacy": {"epsilon": 8.0, "delta": 1e-4},
        "objectives": [{"metric": "accuracy", "goal": "maximize"}],
        "search": {"sampler": "random", "trials": 2},
        **sections,
    }


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    root = tmp_path_factory.mktemp("registered")
    swept(root, raw(table(root)))
    return sweeps.open(NAME, root=root)


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


def test_no_pickle_is_in_it_and_a_pickle_would_be_seen(own, version, tmp_path):
    source = client(own).get_model_version("incomes", str(version.number)).source
    place = Path(download_artifacts(source, dst_path=str(tmp_path), tracking_uri=own.workspace.tracking_uri))
    files = [one for one in place.rglob("*") if one.is_file()]
    assert {"MLmodel", "input_example.json", "program.pt2", "weights.safetensors"} <= {one.name for one in files}
    assert not [found for one in files for found in pickles(one.name, one.read_bytes())]
    # The paths of this machine stay here.
    assert not [one.name for one in files if own.workspace.root.encode() in one.read_bytes()]
    kept = io.BytesIO()
    import torch

    torch.save(torch.zeros(2), kept)
    assert list(pickles("x", kept.getvalue()))


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
    swept(tmp_path, raw(data, search={"sampler": "random", "trials": 1}), views=False)
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
