"""Models of trials as MLflow shows them beside their runs: no pickle, a signature, the claim as tags."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from mlflow import MlflowClient

from sweeps.release.published import Published
from sweeps.store.records import SweepRecord
from sweeps.tracking.lock import DrainLock, DrainRunning
from sweeps.tracking.mlflow_door import UNREACHABLE, experiment_of
from sweeps.tracking.packaging import CARD, claim_tags, write
from sweeps.tracking.run_reading import identity_of, runs_of_trials
from sweeps.tracking.told_models import READY, Card, logged_models, tell
from sweeps.util.waiting import waiting
from trainables.worker.redaction import redacted, shown_url

if TYPE_CHECKING:
    from trainables.export.model import ReleasedModel


class Exports(Protocol):
    """Cards and models of a sweep's trials, as they are today. Both raise ValueError, which says why there is none."""

    def card(self, trial: Published) -> Card:
        """Of a trial whose claim is refuted too."""
        ...

    def model(self, trial: Published) -> ReleasedModel:
        """Only where it may leave."""
        ...


def shown_models(
    uri: str,
    recorded: SweepRecord,
    folder: Path,
    trials: Mapping[str, Published],
    asked: Collection[str],
    exports: Exports,
    left_out: MutableMapping[str, str],
) -> list[str]:
    """Log the models of `asked` to the experiment of a sweep unless they are there with the card of today, and return
    the keys of those that are. What MLflow has of any trial says afterwards what is known today.

    folder    the sweep's own, for the lock: two processes would log twice
    trials    {key: trial}, all of the sweep
    left_out  {key: why}, which is added to

    An MLflow that is away, or has no such experiment, ends it: what was not logged is not there, and nothing else is
    lost. Nothing here raises because of MLflow.
    """
    there: list[str] = []
    key, sweep = "the others", recorded.name
    try:
        with DrainLock(folder):
            client = MlflowClient(tracking_uri=uri)
            _, experiment = experiment_of(client, recorded)
            if experiment is None:
                raise OSError(f"MLflow has no experiment {sweep!r} yet")
            runs = runs_of_trials(client, experiment.experiment_id)
            known = logged_models(client, experiment.experiment_id)
            for key in [*asked, *(one for one in known if one in trials and one not in asked)]:
                trial, models = trials[key], known.get(key, [])
                try:
                    card = exports.card(trial)
                    tags = claim_tags(card.to_dict(), sweep, trial)
                    tell(client, models, tags, card.page())
                    if key not in asked:
                        continue
                    if not any(one.tags.get(CARD) == tags[CARD] for one in models):
                        model = exports.model(trial)
                        log(client, uri, experiment.experiment_id, runs.get(identity_of(trial)), model, sweep, trial)
                except ValueError as error:
                    # A model of the user's own that is no program, a claim that was refuted since, ...
                    left_out[key] = str(error) if key in asked else f"what it says of it may be of before: {error}"
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
            tags = claim_tags(model.card, sweep, trial)
            logged = client.create_logged_model(experiment_id, trial.key, source_run_id=run_id, tags=tags)
            try:
                client.log_model_artifacts(logged.model_id, str(place))
            except UNREACHABLE:
                client.finalize_logged_model(logged.model_id, "FAILED")
                raise
            client.finalize_logged_model(logged.model_id, READY)
    return logged
