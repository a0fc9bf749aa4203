"""Whole sweeps without Ray, for the exam of the publisher: controller, workers, store, MLflow, report; and a system
that reports one recognisable number of the training records.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeps.execution import session
from sweeps.execution.controller import Controller
from sweeps.mlflow.sync import rebuild
from sweeps.privacy.release import PublishedStore
from sweeps.reporting.html import write_report
from sweeps.spec.parse import load_spec
from sweeps.store.lease import Lease
from sweeps.store.records import TrialRecord
from sweeps.store.store import Store, open_store
from sweeps.store.workspace import Workspace
from tests.sweeps import specs
from tests.sweeps.final_runs import ran
from tests.sweeps.stores import controller_of
from trainables.metrics import Dependence, Metric
from trainables.system import Dataset, DatasetSpec, Run, RunSettings, State
from trainables.systems.noisy_mean import NoisyMean

NAME = "published"
REASON = "a reason that is long enough"
PLANTED = 0.7381462950173641
"""Of the training records, without noise."""

_FORMS = (repr(PLANTED)[:12].encode(), struct.pack("<d", PLANTED), struct.pack(">d", PLANTED))
"""As text, as NumPy keeps it, as SQLite does."""


class _Telling:
    def __init__(self, run: Run) -> None:
        self._run = run

    def __getattr__(self, name: str) -> Any:
        return getattr(self._run, name)

    def checkpoint(self, step: int, state: State, metrics: Mapping[str, float]) -> None:
        self._run.checkpoint(step, state, {**metrics, "planted": PLANTED})


class LeakyMean(NoisyMean):
    """The toy, which tells one number more."""

    name = "leaky-mean"

    def fit(self, runs: Sequence[Run], data: Dataset, execution: RunSettings) -> None:
        """As the toy."""
        super().fit([_Telling(run) for run in runs], data, execution)  # type: ignore[misc]


class DeclaringMean(LeakyMean):
    """It says what that number is."""

    metrics = (
        *NoisyMean.metrics,
        Metric(name="planted", goal="minimize", doc="planted", released="the records", depends=Dependence.RAW),
    )


def leaky(**sections: Any) -> dict[str, Any]:
    """A spec of the leaky system."""
    return specs.mean(
        NAME,
        trials=2,
        **{
            "data": {"source": "uniform", "n": 100},
            "systems": {"leaky-mean": {"clip": {"uniform": [0.2, 1.0]}, "steps": 4}},
            "objectives": [{"metric": "estimate"}],
            **sections,
        },
    )


def attacked(**sections: Any) -> dict[str, Any]:
    """A spec that asks how well members can be told."""
    return specs.digits(
        NAME,
        trials=2,
        **{"privacy": {"epsilon": 1.0, "delta": 1e-5}, "objectives": [{"metric": "membership_auc"}], **sections},
    )


@dataclass
class Controlled:
    """A sweep that was just created, its lease, and the controller that runs it."""

    workspace: Workspace
    store: Store
    lease: Lease
    controller: Controller


def controlled(root: Path, raw: Mapping[str, Any], facts: DatasetSpec | None = None) -> Controlled:
    """As a session makes it.  facts  where the source's declared ones are not those"""
    spec, workspace = load_spec(raw), Workspace.at(root)
    name = session.create(spec, workspace)
    store = open_store(workspace.store_url)
    lease = store.acquire(name)
    controller = controller_of(store, lease, spec, workspace.trials(name), facts=facts)
    return Controlled(workspace, store, lease, controller)


def swept(
    root: Path, raw: Mapping[str, Any], told: list[TrialRecord] | None = None, *, views: bool = True
) -> Workspace:
    """The workspace after the whole sweep, with its MLflow and report unless `views` is false.

    told  hears what screen and sampler hear
    """
    ran(raw, root, told=told)
    workspace = Workspace.at(root)
    if views:
        publish(workspace)
    return workspace


def publish(workspace: Workspace) -> None:
    """MLflow and the report, anew."""
    store = open_store(workspace.store_url)
    rebuild(PublishedStore(store), NAME, workspace.tracking_uri, workspace.folder(NAME))
    write_report(PublishedStore(store), NAME, workspace.report(NAME))
    store.close()


def planted_in(folder: Path) -> set[str]:
    """Names, below `folder`, of the files that hold the planted number."""
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and any(form in path.read_bytes() for form in _FORMS)
    }


def holding(folder: Path, word: str) -> set[str]:
    """Names, below `folder`, of the files that say `word`; of a page what is shown, not its style and libraries, and of
    a model in MLflow not the code of ours that travels with it."""
    found = set()
    for path in folder.rglob("*"):
        if path.is_file() and "artifacts/code/" not in path.as_posix():
            text = path.read_bytes()
            if path.suffix == ".html":
                text = re.sub(rb"<style>.*?</style>|<script>.*?</script>", b"", text, flags=re.DOTALL)
            if word.encode() in text:
                found.add(str(path.relative_to(folder)))
    return found
