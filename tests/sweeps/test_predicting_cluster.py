"""Predictions on a running cluster of two nodes, from an object store and into it, with the keys of whoever asks."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest
import torch

import sweeps
from tests.sweeps.clusters import ray_cluster
from tests.sweeps.object_stores import BUCKET, object_store
from trainables.data.table_declaration import Column
from trainables.export.model import ReleasedModel
from trainables.export.preprocessing import Preprocessing
from trainables.system import Feature, Task

pytestmark = [pytest.mark.chaos, pytest.mark.outage, pytest.mark.timeout(1800)]


def model_in(folder):
    """A released model of one column."""
    asked = Preprocessing(
        task=Task.CLASSIFICATION,
        features={"table": Feature(shape=(1,))},
        columns=(Column("x", 0, 10),),
        classes=("low", "high"),
    )
    ReleasedModel(torch.nn.Linear(1, 2).eval(), asked, {}).save(folder)
    return folder


def test_a_cluster_without_keys_predicts_with_those_of_whoever_asks(tmp_path):
    model, local = model_in(tmp_path / "model"), tmp_path / "new"
    local.mkdir()
    for name, n in (("a", 3000), ("b", 1500)):
        values = np.random.default_rng(n).uniform(0, 10, n)
        pq.write_table(pa.table({"x": values}), local / f"{name}.parquet", row_group_size=500)
    with object_store() as store, ray_cluster(cpus=1) as cluster:
        cluster.add_node(1)
        for path in local.iterdir():
            store.client().upload_file(str(path), BUCKET, f"new/{path.name}")
        options = f"?scheme=http&region=us-east-1&endpoint_override={store.url.removeprefix('http://')}"
        files = [f"s3://{BUCKET}/new/{name}.parquet{options}" for name in "ab"]
        words = ["predict", str(model), *files, "--address", cluster.address]
        # Ray's workers give way to everybody else: beside other work they start late.
        asking = {**store.worker, "SWEEPS_PATIENCE": "600"}
        said = cluster.run(*words, "--output", f"s3://{BUCKET}/said{options}", seconds=900, **asking)
        assert "4,500 rows in 2 files" in said
        names = sorted(key.rpartition("/")[2] for key in store.keys("said") if not key.endswith("/"))
        assert names[0] == "_SUCCESS"
        assert len(names) == 3, "the model was sent to the workers, and is gone"

        filesystem = pyarrow.fs.S3FileSystem(
            access_key=store.worker["AWS_ACCESS_KEY_ID"],
            secret_key=store.worker["AWS_SECRET_ACCESS_KEY"],
            scheme="http",
            endpoint_override=store.url.removeprefix("http://"),
            region="us-east-1",
        )
        found = pq.read_table(f"{BUCKET}/said", filesystem=filesystem).to_pandas()
        refused = cluster.run(*words, "--output", f"s3://{BUCKET}/said{options}", code=2, **asking)
        assert "not there yet" in refused
        secrets = (store.worker["AWS_SECRET_ACCESS_KEY"], store.worker["AWS_ACCESS_KEY_ID"])
        logs = [one.read_bytes() for one in (cluster.folder / "ray").rglob("*") if one.is_file()]
        assert not [secret for secret in secrets if any(secret.encode() in text for text in logs)]
    expected = pd.concat([sweeps.predict(model, local / f"{name}.parquet") for name in "ab"], ignore_index=True)
    assert found["row"].tolist() == [*range(3000), *range(1500)]
    assert found["prediction"].tolist() == expected["prediction"].tolist()
    # The same sums in batches of other sizes.
    assert np.allclose(found["probability.low"], expected["probability.low"], rtol=0, atol=1e-6)
