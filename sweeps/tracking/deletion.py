"""The end of a sweep's experiment in MLflow."""

from __future__ import annotations

from sweeps.store.records import SweepRecord
from sweeps.tracking.mlflow_door import UNREACHABLE, experiment_of
from sweeps.util.files import path_of
from trainables.worker.redaction import shown_url


def deleted_experiment(uri: str, sweep: SweepRecord) -> list[str]:
    """Delete a sweep's experiment, as MLflow deletes: until `mlflow gc` it can be restored. What is to be done by hand
    where MLflow cannot be reached, in words."""
    path = path_of(uri)
    if path is not None and not path.exists():
        return []
    from mlflow import MlflowClient

    try:
        client = MlflowClient(tracking_uri=uri)
        _, found = experiment_of(client, sweep)
        if found is not None and found.lifecycle_stage != "deleted":
            client.delete_experiment(found.experiment_id)
    except UNREACHABLE as error:
        said = " ".join(str(error).split())[:200]
        return [f"MLflow at {shown_url(uri)} keeps experiment {sweep.name!r}: {said}. Delete it there."]
    return []
