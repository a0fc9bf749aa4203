"""MLflow over SQLite: it records what a search of the user's own logs, and runs none."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import mlflow
import numpy as np
import torch

from tests.benchmarks.peers.rows import NotThere


@contextmanager
def _server() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
        mlflow.create_experiment("s", artifact_location=f"file://{folder}/artifacts")
        mlflow.set_experiment("s")
        yield Path(folder)


def killed() -> str:
    raise NotThere("runs are records: `start_run(run_id=...)` writes on, the search is its user's own")


extended = enqueued = stopped = conditional = constrained = pruned = killed


def listed() -> str:
    with _server():
        for x in (0.1, 0.2, 0.3):
            with mlflow.start_run():
                mlflow.log_param("x", x)
                mlflow.log_metric("loss", x)
        table = mlflow.search_runs(filter_string="metrics.loss < 0.25", order_by=["metrics.loss"])
        try:
            mlflow.search_runs(filter_string="params.x > '0.15'")
            knobs = "by knobs too"
        except mlflow.exceptions.MlflowException:
            knobs = "knobs are texts, and have no more and less"
    return f"`search_runs` with filter and order ({len(table)} of 3); {knobs}"


def front() -> str:
    raise NotThere("the page draws a scatter of two metrics; `search_runs` orders by one after the other")


def joined() -> str:
    with _server():
        mlflow.create_experiment("t")
        table = mlflow.search_runs(experiment_names=["s", "t"])
    raise NotThere(f"`search_runs` over two experiments ({len(table)} runs), and no front")


def exported() -> str:
    with _server(), mlflow.start_run():
        model = torch.nn.Linear(2, 1)
        rows = np.zeros((3, 2), dtype=np.float32)
        signature = mlflow.models.infer_signature(rows, rows[:, :1])
        logged = mlflow.pytorch.log_model(model, name="m", signature=signature, input_example=rows)
        folder = Path(mlflow.artifacts.download_artifacts(logged.model_uri))
        kinds = sorted(one.name for one in folder.rglob("*") if one.suffix in (".pth", ".pt2", ".pkl"))
    return f"`pytorch.log_model` with a signature, as {', '.join(kinds)}"


def predicted() -> str:
    return "`mlflow models predict`, `pyfunc.load_model` for what was logged (not tried here)"


def noted() -> str:
    with _server(), mlflow.start_run():
        mlflow.set_tag("mlflow.note.content", "clip is too small")
        mlflow.set_tag("paper", "v2")
    return "`set_tag`, from any process"


def deleted() -> str:
    with _server():
        with mlflow.start_run() as run:
            pass
        mlflow.delete_run(run.info.run_id)
        stage = mlflow.get_run(run.info.run_id).info.lifecycle_stage
    return f"`delete_run`: {stage} until `mlflow gc` removes all of it"


def misspelled() -> str:
    raise NotThere("a parameter is any text")


def charged() -> str:
    raise NotThere("knows no budget")
