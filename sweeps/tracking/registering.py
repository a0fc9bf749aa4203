"""A trial's model as a version in MLflow's registry: no pickle, its claim as tags, its card as the description."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

import dpcore
import trainables
from dpcore.checks import InvalidValue
from sweeps.process.waiting import waiting
from sweeps.release.published import Published
from sweeps.tracking.mlflow_door import HEADING, NO_HEADING, TRIAL_KEY, UNREACHABLE, check_there, find_experiment
from sweeps.tracking.mlflow_runs import trial_tags
from sweeps.tracking.run_reading import tagged_runs
from sweeps.tracking.signature import example, signature
from trainables.export import served
from trainables.worker.redaction import shown_url

if TYPE_CHECKING:
    from trainables.export.model import ReleasedModel

_NEEDS = ("mlflow", "numpy", "pandas", "pyarrow", "safetensors", "scipy", "torch")
_LONGEST = 5000


@dataclass(frozen=True, slots=True)
class RegisteredVersion:
    """A version of a model in MLflow's registry. `uri` is what `mlflow.pyfunc.load_model` takes."""

    name: str
    number: int

    @property
    def uri(self) -> str:
        """models:/NAME/VERSION"""
        return f"models:/{self.name}/{self.number}"


def check_model_name(name: str) -> None:
    """Raises InvalidValue for a name that MLflow refuses."""
    if not name.strip() or any(one in name for one in "/:."):
        raise InvalidValue("register", name, "a name of MLflow's registry: not empty, without / : and .")


def register(uri: str, name: str, model: ReleasedModel, sweep: str, trial: Published) -> RegisteredVersion:
    """Add `model`, that of `trial`, as the next version of the registered model `name`; make that if it is not there.

    uri  of MLflow, which shows the sweep already

    Its signature and its input example come from the declared facts. The version is the last thing made: what fails
    before leaves none. Raises InvalidValue for a name that MLflow refuses or a sweep that it does not show, and
    `UNREACHABLE`.
    """
    check_model_name(name)
    check_there(uri)
    with waiting(f"MLflow at {shown_url(uri)}"):
        client, experiment = find_experiment(uri, sweep)
        if experiment is None:
            remedy = f"`sweeps track {sweep}` first, and then again."
            raise InvalidValue("sweep", sweep, f"a sweep that MLflow at {shown_url(uri)} shows", remedy)
        runs = {key: run for run, key in tagged_runs(client, experiment.experiment_id, TRIAL_KEY)}
    tags = claim_tags(model, sweep, trial)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "model"
        _write(model, place, Path(folder) / "exported")
        with waiting(f"MLflow at {shown_url(uri)}"):
            logged = client.create_logged_model(
                experiment.experiment_id, trial.key, source_run_id=runs.get(trial.key), tags=tags
            )
            try:
                client.log_model_artifacts(logged.model_id, str(place))
            except UNREACHABLE:
                client.finalize_logged_model(logged.model_id, "FAILED")
                raise
            client.finalize_logged_model(logged.model_id, "READY")
            _make(client, name)
            made = client.create_model_version(
                name,
                # By its place: MLflow looks a model's own URI up in whatever store is the process's default.
                logged.artifact_location,
                run_id=runs.get(trial.key),
                tags=tags,
                description=model.page,
                model_id=logged.model_id,
            )
    return RegisteredVersion(name, int(made.version))


def claim_tags(model: ReleasedModel, sweep: str, trial: Published) -> dict[str, str]:
    """What a version says of itself: the tags of the trial's run, its epsilon, and what stands above every claim."""
    assert trial.guarantee is not None
    return {
        **trial_tags(trial),
        "sweeps.sweep": sweep,
        "sweeps.epsilon": repr(trial.guarantee.epsilon),
        "sweeps.total": " ".join(model.card["total"])[:_LONGEST],
        HEADING: model.card["heading"] or NO_HEADING,
    }


def _write(model: ReleasedModel, place: Path, exported: Path) -> None:
    """MLflow's folder of the model."""
    import mlflow

    asked = model.preprocessing
    with _quietly():
        mlflow.pyfunc.save_model(
            str(place),
            # Code of ours that travels with it reads the folder: nothing is unpickled.
            loader_module=served.__name__,
            data_path=str(model.save(exported)),
            code_paths=[str(Path(one.__file__ or "").parent) for one in (dpcore, trainables)],
            signature=signature(asked),
            input_example=example(asked),
            # What follows a plus is a build of one index's own.
            pip_requirements=[f"{name}=={version(name).partition('+')[0]}" for name in _NEEDS],
        )


def _make(client: MlflowClient, name: str) -> None:
    try:
        client.create_registered_model(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise


@contextmanager
def _quietly() -> Iterator[None]:
    """Without what MLflow tells of its own steps."""
    logger = logging.getLogger("mlflow")
    before = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(before)
