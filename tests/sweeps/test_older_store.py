"""A store from a backup beside records that went on: no command claims, writes or deletes by it, and views say so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import sweeps
from sweeps.cli.show import show
from sweeps.mlflow.sync import rebuild
from sweeps.privacy.published_store import PublishedStore
from sweeps.store.errors import StoreOlder
from sweeps.store.workspace import Workspace
from sweeps.sweep import Sweep
from tests.sweeps import view_sweeps
from tests.sweeps.tracked_runs import runs_of


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    """Its records hold a trial that the store does not know; MLflow was told of it before."""
    root = tmp_path_factory.mktemp("older")
    view_sweeps.mixed_sweep(root).close()
    workspace = Workspace.at(root)
    rebuild(PublishedStore.open(workspace), "views", workspace.tracking_uri, workspace.folder("views"))
    (workspace.folder("views") / "trials" / "views-99" / "1").mkdir(parents=True)
    sweeps.new_key(root / "key.pem")
    return sweeps.open("views", root=root)


COMMANDS: dict[str, Callable[[Sweep], object]] = {
    "certify": lambda one: one.certify(
        key=Path(one.workspace.root) / "key.pem",
        approved_by="a person",
        because="a reason that is long",
        ranges="by hand, on no data",
    ),
    "enqueue": lambda one: one.enqueue({"learning_rate": 0.1}),
    "model": lambda one: one.model(0),
    "audit": lambda one: one.audit(0),
    "gc": lambda one: one.gc(),
    "track": lambda one: one.track(),
    "delete": lambda one: one.delete(),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_what_claims_writes_or_deletes_is_refused_and_changes_nothing(older: Sweep, command: str):
    uri = older.workspace.tracking_uri
    before = {key: [run.info.run_id for run in runs] for key, runs in runs_of(uri).items()}
    with pytest.raises(StoreOlder, match="views-99"):
        COMMANDS[command](older)
    assert {key: [run.info.run_id for run in runs] for key, runs in runs_of(uri).items()} == before
    assert len(PublishedStore.open(older.workspace).trials("views")) == 15


def test_views_are_headed_by_it(older: Sweep, capsys: pytest.CaptureFixture[str]):
    said = "OLDER STORE: it does not know trial views-99"
    assert older.overview().heading.startswith(said)
    assert older.front().front.heading.startswith(said)
    assert said in older.report().read_text()
    show("views", root=Path(older.workspace.root))
    assert said in " ".join(capsys.readouterr().out.split())
