"""Empty MLflow databases, the runs that stand in one, and sweeps that do without."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path


@functools.cache
def _empty_database() -> bytes:
    from mlflow import MlflowClient

    with tempfile.TemporaryDirectory() as folder:
        MlflowClient(tracking_uri=f"sqlite:///{folder}/mlflow.db").search_experiments()
        return Path(folder, "mlflow.db").read_bytes()


def prepared(root: Path) -> str:
    """The URI of an MLflow database with empty tables: making them anew takes MLflow seconds."""
    (root / "mlflow.db").write_bytes(_empty_database())
    return f"sqlite:///{root}/mlflow.db"


def runs_of(uri: str, name: str = "views") -> dict[str, list]:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name(name)
    assert experiment is not None
    found: dict[str, list] = {}
    for run in client.search_runs([experiment.experiment_id], max_results=1000):
        found.setdefault(run.data.tags.get("sweeps.trial_key", "parent"), []).append(run)
    return found


class NoViews:
    """In the place of `session.Drain`: an MLflow that is away, without the seconds that a process of its own takes."""

    uri, delivered = "", False

    def __init__(self, *_: object) -> None: ...

    def start(self) -> None: ...

    def __enter__(self) -> NoViews:
        return self

    def __exit__(self, *_: object) -> None: ...
