"""Models of trials as MLflow shows them beside their runs: no pickle, a signature, the claim as tags."""

from __future__ import annotations

import hashlib
import io
import json
import tempfile
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from mlflow.models import ModelSignature
from mlflow.types import ColSpec, DataType, Schema, TensorSpec
from mlflow.types.schema import Array
from mlflow.utils import get_results_from_paginated_fn
from requests import RequestException

import dpcore
import trainables
from dpcore.checks import InvalidValue
from sweeps.mlflow.read import (
    HEADING,
    NO_HEADING,
    TRIAL_KEY,
    UNREACHABLE,
    check_there,
    experiment_of,
    identity_of,
    runs_of_trials,
)
from sweeps.mlflow.runs import trial_tags
from sweeps.mlflow.sync import DrainRunning, drain_lock
from sweeps.privacy.release import Published
from sweeps.store.records import SweepRecord
from sweeps.util.waiting import wait_for
from trainables.data.table_declaration import Column
from trainables.system import InputSpec, Task
from trainables.worker.redaction import redacted, shown_url

if TYPE_CHECKING:
    from trainables.export.model import ReleasedModel
    from trainables.export.preprocessing import Preprocessing


# What a registered model takes and gives, in MLflow's words, and an example: from declared facts, and no record.

_KINDS = {bool: DataType.boolean, int: DataType.long, float: DataType.double, str: DataType.string}


def signature(asked: Preprocessing) -> ModelSignature:
    """Of a user's own table one column each; else one array for each input, any number of records long."""
    if asked.columns:
        inputs = Schema([ColSpec(_kind(one), one.name) for one in asked.columns])
    else:
        inputs = Schema([TensorSpec(_dtype(one), (-1, *one.shape), name) for name, one in asked.given.items()])
    said: Any = _of(asked.classes) if asked.task is Task.CLASSIFICATION else DataType.double
    if asked.task is Task.TOKENS:
        said = Array(DataType.long)
    shares = [ColSpec(DataType.double, f"probability.{label}") for label in asked.classes]
    return ModelSignature(inputs=inputs, outputs=Schema([ColSpec(said, "prediction"), *shares]))


def example(asked: Preprocessing) -> Any:
    """Two records at the ends of what was declared: a pandas table, or an array [2, *shape] for each input."""
    import pandas as pd

    if asked.columns:
        return pd.DataFrame({one.name: _ends(one) for one in asked.columns})
    return {
        name: np.stack([np.full(one.shape, value, _dtype(one)) for value in _bounds(one)])
        for name, one in asked.given.items()
    }


def _kind(column: Column) -> Any:
    if column.categories:
        return _of(column.categories)
    if column.image or column.tokenizer:
        return DataType.binary if column.image else DataType.string
    kind = DataType.double if column.codes is None else DataType.long
    return Array(kind) if column.shape else kind


def _of(values: Iterable[Any]) -> DataType:
    kinds = {type(one) for one in values}
    return _KINDS.get(kinds.pop(), DataType.string) if len(kinds) == 1 else DataType.string


def _ends(column: Column) -> list[Any]:
    if column.categories:
        return [column.categories[0], column.categories[-1]]
    if column.image or column.tokenizer:
        return [_blank(column.shape)] * 2 if column.image else ["", "a text"]
    ends = (column.low, column.high) if column.codes is None else (0, column.codes - 1)
    size = int(np.prod(column.shape, dtype=int))
    return [[one] * size for one in ends] if column.shape else list(ends)


def _blank(shape: tuple[int, ...]) -> bytes:
    """A black image."""
    from PIL import Image

    content = io.BytesIO()
    Image.new("RGB" if len(shape) == 3 else "L", (shape[-1], shape[-2])).save(content, "PNG")
    return content.getvalue()


def _dtype(feature: InputSpec) -> np.dtype[Any]:
    return np.dtype(np.int64 if feature.cardinality is not None else np.float32)


def _bounds(feature: InputSpec) -> tuple[float, float]:
    return (feature.low, feature.high) if feature.cardinality is None else (0, feature.cardinality - 1)


# A model as MLflow keeps it: a folder without a pickle, made of declared facts, and what it says of itself as tags.

_NEEDS = ("mlflow", "numpy", "pandas", "pyarrow", "safetensors", "scipy", "torch")
_LONGEST = 5000
SWEEP = "sweeps.sweep"
CARD = "sweeps.card"
"""The digest of the card among a model's files."""


def claim_tags(card: Mapping[str, Any], sweep: str, trial: Published) -> dict[str, str]:
    """What a model with this card says of itself: the tags of the trial's run, its epsilon, what stands above every
    claim, and which card it is."""
    assert trial.guarantee is not None
    return {
        **trial_tags(trial),
        SWEEP: sweep,
        "sweeps.epsilon": repr(trial.guarantee.epsilon),
        "sweeps.total": " ".join(card["total"])[:_LONGEST],
        HEADING: card["heading"] or NO_HEADING,
        CARD: hashlib.sha256(json.dumps(card, sort_keys=True).encode()).hexdigest(),
    }


def write(model: ReleasedModel, place: Path, exported: Path) -> None:
    """MLflow's folder of the model."""
    import mlflow

    asked = model.preprocessing
    mlflow.pyfunc.save_model(
        str(place),
        # Code of ours that travels with it reads the folder: nothing is unpickled.
        loader_module="trainables.export.model",
        data_path=str(model.save(exported)),
        code_paths=[str(Path(one.__file__ or "").parent) for one in (dpcore, trainables)],
        signature=signature(asked),
        input_example=example(asked),
        # What follows a plus is a build of one index's own.
        pip_requirements=[f"{name}=={version(name).partition('+')[0]}" for name in _NEEDS],
    )


# Models that MLflow has already, and versions of them in its registry: their tags are made those of today.
#
# What a model claims may change after it was logged: an audit refutes it, test records are read, the total grows. Its
# files stay as they were, card included; where that card is no longer the one of today, a tag says so.

OUT_OF_DATE = "sweeps.out_of_date"
"""Tag of a model whose files hold a card that is not the one of today."""
READY = "READY"
_WHY = "What is known of this trial has changed since: these tags are of today, the card among its files is not."
_OURS = "sweeps."


def logged_models(client: MlflowClient, experiment_id: str) -> dict[str, list[Any]]:
    """{key of a trial: its models that are there whole, as MLflow's own records}."""

    def page(number: int, token: str | None) -> Any:
        return client.search_logged_models([experiment_id], max_results=number, page_token=token)

    found: dict[str, list[Any]] = defaultdict(list)
    for one in get_results_from_paginated_fn(page, 100):
        if TRIAL_KEY in one.tags and str(one.status) == READY:
            found[one.tags[TRIAL_KEY]].append(one)
    return found


def sync_model_tags(client: MlflowClient, models: Iterable[Any], tags: Mapping[str, str], page: str) -> None:
    """Make one trial's logged `models`, and the versions made of them, say what is known today. Raises `UNREACHABLE`.

    tags  its claim's (`claim_tags`)
    page  its card, which describes the versions
    """
    runs = set()
    for one in models:
        runs.add(one.source_run_id)
        changed, gone = _differences(one.tags, tags)
        if changed:
            client.set_logged_model_tags(one.model_id, changed)
        for name in gone:
            client.delete_logged_model_tag(one.model_id, name)
    for run in runs - {None}:
        for one in client.search_model_versions(f"run_id = '{run}'"):
            if all(one.tags.get(name) == tags[name] for name in (SWEEP, TRIAL_KEY)):
                _sync_version_tags(client, one, tags, page)


def _sync_version_tags(client: MlflowClient, version: Any, tags: Mapping[str, str], page: str) -> None:
    changed, gone = _differences(version.tags, tags)
    for name, value in changed.items():
        client.set_model_version_tag(version.name, version.version, name, value)
    for name in gone:
        client.delete_model_version_tag(version.name, version.version, name)
    if version.description != page:
        client.update_model_version(version.name, version.version, page)


def _differences(there: Mapping[str, str], tags: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Tags to be set and names of those to be taken away."""
    own = there.get(CARD, "unknown")
    wanted = dict(tags) if own == tags[CARD] else {**tags, CARD: own, OUT_OF_DATE: _WHY}
    changed = {name: value for name, value in wanted.items() if there.get(name) != value}
    return changed, [name for name in there if name.startswith(_OURS) and name not in wanted]


def log_models(
    uri: str,
    recorded: SweepRecord,
    folder: Path,
    trials: Mapping[str, Published],
    asked: Collection[str],
    card_of: Callable[[Published], tuple[dict[str, Any], str]],
    model_of: Callable[[Published], ReleasedModel],
    left_out: MutableMapping[str, str],
) -> list[str]:
    """Log the models of `asked` to the experiment of a sweep unless they are there with the card of today, and return
    the keys of those that are. What MLflow has of any trial says afterwards what is known today.

    folder    the sweep's own, for the lock: two processes would log twice
    trials    {key: trial}, all of the sweep
    card_of   the card of today of a trial's model, as JSON values and as Markdown; where its claim is refuted, too
    model_of  the model, where it may leave; both raise ValueError or OSError, which says why there is none
    left_out  {key: why}, which is added to

    An MLflow that is away, or has no such experiment, ends it: what was not logged is not there, and nothing else is
    lost. Nothing here raises because of MLflow.
    """
    there: list[str] = []
    key, sweep = "the others", recorded.name
    try:
        with drain_lock(folder):
            client = MlflowClient(tracking_uri=uri)
            _, experiment = experiment_of(client, recorded)
            if experiment is None:
                raise OSError(f"MLflow has no experiment {sweep!r} yet")
            runs = runs_of_trials(client, experiment.experiment_id)
            known = logged_models(client, experiment.experiment_id)
            for key in [*asked, *(one for one in known if one in trials and one not in asked)]:
                trial, models = trials[key], known.get(key, [])
                try:
                    card, page = card_of(trial)
                    tags = claim_tags(card, sweep, trial)
                    sync_model_tags(client, models, tags, page)
                    if key not in asked:
                        continue
                    if not any(one.tags.get(CARD) == tags[CARD] for one in models):
                        model = model_of(trial)
                        log(client, uri, experiment.experiment_id, runs.get(identity_of(trial)), model, sweep, trial)
                except RequestException:
                    # An OSError too, and of MLflow itself.
                    raise
                except (ValueError, OSError) as error:
                    # A model of the user's own that is no program, a file that is gone, a claim refuted since, ...
                    said = redacted(str(error))
                    left_out[key] = said if key in asked else f"what it says of it may be of before: {said}"
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
        with wait_for(f"MLflow at {shown_url(uri)}"):
            tags = claim_tags(model.card, sweep, trial)
            logged = client.create_logged_model(experiment_id, trial.key, source_run_id=run_id, tags=tags)
            try:
                client.log_model_artifacts(logged.model_id, str(place))
            except UNREACHABLE:
                client.finalize_logged_model(logged.model_id, "FAILED")
                raise
            client.finalize_logged_model(logged.model_id, READY)
    return logged


# A trial's model as a version in MLflow's registry: no pickle, its claim as tags, its card as the description.


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
    with wait_for(f"MLflow at {shown_url(uri)}"):
        client = MlflowClient(tracking_uri=uri)
        _, experiment = experiment_of(client, recorded)
        if experiment is None:
            remedy = f"`sweeps track {sweep}` first, and then again."
            raise InvalidValue("sweep", sweep, f"a sweep that MLflow at {shown_url(uri)} shows", remedy)
        runs = runs_of_trials(client, experiment.experiment_id)
    logged = log(client, uri, experiment.experiment_id, runs.get(identity_of(trial)), model, sweep, trial)
    with wait_for(f"MLflow at {shown_url(uri)}"):
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
