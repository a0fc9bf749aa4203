"""A trial's model as a version in MLflow's registry: no pickle, its claim as tags, its card as the description."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

from dpcore.checks import InvalidValue
from sweeps.release.published import Published
from sweeps.store.records import SweepRecord
from sweeps.tracking.mlflow_door import check_there, experiment_of
from sweeps.tracking.models import log
from sweeps.tracking.packaging import claim_tags
from sweeps.tracking.run_reading import identity_of, runs_of_trials
from sweeps.util.waiting import waiting
from trainables.worker.redaction import shown_url

if TYPE_CHECKING:
    from trainables.export.model import ReleasedModel


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


def register(uri: str, name: str, model: ReleasedModel, recorded: SweepRecord, trial: Published) -> RegisteredVersion:
    """Add `model`, that of `trial`, as the next version of the registered model `name`; make that if it is not there.

    uri  of MLflow, which shows the sweep already

    Its signature and its input example come from the declared facts. The version is the last thing made: what fails
    before leaves none. Raises InvalidValue for a name that MLflow refuses or a sweep that it does not show, and
    `UNREACHABLE`.
    """
    check_model_name(name)
    check_there(uri)
    sweep = recorded.name
    with waiting(f"MLflow at {shown_url(uri)}"):
        client = MlflowClient(tracking_uri=uri)
        _, experiment = experiment_of(client, recorded)
        if experiment is None:
            remedy = f"`sweeps track {sweep}` first, and then again."
            raise InvalidValue("sweep", sweep, f"a sweep that MLflow at {shown_url(uri)} shows", remedy)
        runs = runs_of_trials(client, experiment.experiment_id)
    logged = log(client, uri, experiment.experiment_id, runs.get(identity_of(trial)), model, sweep, trial)
    with waiting(f"MLflow at {shown_url(uri)}"):
        _make(client, name)
        made = client.create_model_version(
            name,
            # By its place: MLflow looks a model's own URI up in whatever store is the process's default.
            logged.artifact_location,
            run_id=runs.get(identity_of(trial)),
            tags=claim_tags(model.card, sweep, trial),
            description=model.page,
            model_id=logged.model_id,
        )
    return RegisteredVersion(name, int(made.version))


def _make(client: MlflowClient, name: str) -> None:
    try:
        client.create_registered_model(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
