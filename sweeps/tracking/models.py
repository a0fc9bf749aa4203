"""Models of trials as MLflow shows them beside their runs: no pickle, a signature, the claim as tags."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlflow import MlflowClient

from sweeps.process.waiting import waiting
from sweeps.release.published import Published
from sweeps.tracking.lock import DrainLock, DrainRunning
from sweeps.tracking.mlflow_door import TRIAL_KEY, UNREACHABLE, find_experiment
from sweeps.tracking.packaging import claim_tags, write
from sweeps.tracking.run_reading import tagged_runs
from trainables.worker.redaction import redacted, shown_url

if TYPE_CHECKING:
    from trainables.export.model import ReleasedModel

_READY = "READY"


def shown_models(
    uri: str,
    sweep: str,
    folder: Path,
    models: Iterable[tuple[Published, ReleasedModel]],
    left_out: MutableMapping[str, str],
) -> list[str]:
    """Log each model to the experiment of `sweep` unless it is there, and return the keys of those that are.

    folder    the sweep's own, for the lock: two processes would log twice
    left_out  {key: why}, which is added to

    An MLflow that is away, or has no such experiment, ends it: what was not logged is not there, and nothing else is
    lost. Nothing here raises because of MLflow.
    """
    there: list[str] = []
    key = "the others"
    try:
        with DrainLock(folder):
            client, experiment = find_experiment(uri, sweep)
            if experiment is None:
                raise OSError(f"MLflow has no experiment {sweep!r} yet")
            runs = {key: run for run, key in tagged_runs(client, experiment.experiment_id, TRIAL_KEY)}
            known = _known(client, experiment.experiment_id)
            for trial, model in models:
                key = trial.key
                try:
                    if key not in known:
                        log(client, uri, experiment.experiment_id, runs.get(key), model, sweep, trial)
                except ValueError as error:
                    # A model of the user's own that is no program.
                    left_out[key] = str(error)
                else:
                    there.append(key)
    except (*UNREACHABLE, DrainRunning) as error:
        left_out[key] = f"{redacted(str(error)).splitlines()[0]}. `sweeps track {sweep}` shows it later."
    return there


def log(
    client: MlflowClient,
    uri: str,
    experiment_id: str,
    run_id: str | None,
    model: ReleasedModel,
    sweep: str,
    trial: Published,
) -> Any:
    """Log one model, READY when all of it is there, and return MLflow's own record. Raises `UNREACHABLE`."""
    with tempfile.TemporaryDirectory() as made:
        place = Path(made) / "model"
        write(model, place, Path(made) / "exported")
        with waiting(f"MLflow at {shown_url(uri)}"):
            tags = claim_tags(model, sweep, trial)
            logged = client.create_logged_model(experiment_id, trial.key, source_run_id=run_id, tags=tags)
            try:
                client.log_model_artifacts(logged.model_id, str(place))
            except UNREACHABLE:
                client.finalize_logged_model(logged.model_id, "FAILED")
                raise
            client.finalize_logged_model(logged.model_id, _READY)
    return logged


def _known(client: MlflowClient, experiment_id: str) -> set[str]:
    """Keys of the trials whose models are there."""
    found: set[str] = set()
    token: str | None = None
    while True:
        page = client.search_logged_models([experiment_id], page_token=token)
        found |= {one.tags[TRIAL_KEY] for one in page if TRIAL_KEY in one.tags and str(one.status) == _READY}
        token = page.token
        if not token:
            return found
