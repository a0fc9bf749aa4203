"""Models that MLflow has already, and versions of them in its registry: their tags are made those of today.

What a model claims may change after it was logged: an audit refutes it, test records are read, the total grows. Its
files stay as they were, card included; where that card is no longer the one of today, a tag says so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from mlflow import MlflowClient

from sweeps.tracking.mlflow_door import TRIAL_KEY
from sweeps.tracking.packaging import CARD, SWEEP

OUT_OF_DATE = "sweeps.out_of_date"
"""Tag of a model whose files hold a card that is not the one of today."""
READY = "READY"
_WHY = "What is known of this trial has changed since: these tags are of today, the card among its files is not."
_OURS = "sweeps."


class Card(Protocol):
    """What a model says of itself."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        ...

    def page(self) -> str:
        """The same as Markdown."""
        ...


def logged_models(client: MlflowClient, experiment_id: str) -> dict[str, list[Any]]:
    """{key of a trial: its models that are there whole, as MLflow's own records}."""
    found: dict[str, list[Any]] = defaultdict(list)
    token: str | None = None
    while True:
        page = client.search_logged_models([experiment_id], page_token=token)
        for one in page:
            if TRIAL_KEY in one.tags and str(one.status) == READY:
                found[one.tags[TRIAL_KEY]].append(one)
        token = page.token
        if not token:
            return dict(found)


def tell(client: MlflowClient, models: Iterable[Any], tags: Mapping[str, str], page: str) -> None:
    """Make one trial's logged `models`, and the versions made of them, say what is known today. Raises `UNREACHABLE`.

    tags  its claim's (`packaging.claim_tags`)
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
                _tell_version(client, one, tags, page)


def _tell_version(client: MlflowClient, version: Any, tags: Mapping[str, str], page: str) -> None:
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
