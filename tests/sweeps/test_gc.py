"""`sweeps gc`: which checkpoints go, which stay, and that a sweep goes on after it as it would have."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import sweeps
from dpcore.checks import InvalidValue
from sweeps.cli.main import app
from sweeps.cli.show import show
from sweeps.execution import gc, requests
from sweeps.execution.gc import collect
from sweeps.execution.resume import extended
from sweeps.mlflow.sync import rebuild
from sweeps.privacy.release import PublishedStore
from sweeps.spec.parse import load_spec
from sweeps.store.errors import LeaseHeld, StoreOlder, SweepExists
from sweeps.store.records import Extension, Refutation, TrialState
from sweeps.store.workspace import Workspace
from sweeps.sweep import Sweep
from tests.sweeps import view_sweeps
from tests.sweeps.fake_workers import ASHA, NAME, SPEC, FakeSweep
from tests.sweeps.stores import plan, proposal, record, settle
from tests.sweeps.view_sweeps import new_sweep, runs_of
from trainables.worker.attempt import Attempt


def attempt(trials, key, number=1):
    return Attempt.of(trials, key, number)


@pytest.fixture
def swept(tmp_path):
    """Twelve finished trials, one failed and one lost that goes on, each with checkpoints; nobody drives it."""
    store = new_sweep(tmp_path)
    lease = store.acquire("views")
    trials = Workspace.at(tmp_path).of(store.sweep("views")).trials("views")
    for number in range(12):
        view_sweeps.complete(store, lease, number)
    store.fail(lease, view_sweeps.launch(store, lease, 12), 1, 3, "loss=nan")
    store.lose(lease, view_sweeps.launch(store, lease, 13), 1, 5, "gone")
    view_sweeps.refuse(store, lease, 14)
    for number in range(14):
        worker = attempt(trials, f"views-{number}")
        worker.claim(0)
        worker.reserve_until(10)
        worker.save(5, {"total": np.full(100, float(number))})
        worker.save(10, {"total": np.full(100, float(number))})
    store.set_state(lease, "finished")
    lease.release()
    return tmp_path, trials


def left(trials):
    return [number for number in range(14) if attempt(trials, f"views-{number}").steps()]


def test_what_is_on_the_front_or_goes_on_stays_and_nothing_else(swept):
    root, trials = swept
    opened = sweeps.open("views", root=root)
    front = {int(key.rpartition("-")[2]) for key in opened.front().keys}
    expected = sorted({*front, opened.best().number, 13})
    before = sum(attempt(trials, f"views-{number}").checkpoint_bytes() for number in range(14))
    dry = opened.gc(dry_run=True)
    assert left(trials) == list(range(14))
    done = opened.gc()
    after = sum(attempt(trials, f"views-{number}").checkpoint_bytes() for number in range(14))
    assert left(trials) == expected != list(range(14))
    assert (done.trials, done.bytes, done.on_front) == (dry.trials, dry.bytes, dry.on_front)
    assert done.bytes == before - after > 0
    assert done.going_on == ("views-13",)
    assert "Would delete the checkpoints of" in str(dry)
    assert f"{done.bytes:,} bytes" in str(done)
    assert "An extension loses nothing" in str(done)
    # What shows what was executed stays, and a second collection finds nothing.
    assert {"claim", "horizon.json"} <= set(attempt(trials, "views-0").folder.names())
    again = opened.gc()
    assert (again.trials, again.bytes, left(trials)) == ((), 0, expected)


def test_a_paused_trial_is_promoted_after_a_collection_as_before(tmp_path, monkeypatch):
    sweep = FakeSweep(tmp_path, ASHA)
    monkeypatch.setattr(Workspace, "trials", lambda self, name: sweep.trials)
    sweep.finish()
    sweep.lease.release()
    paused = {one.key: one.attempts for one in sweep.store.trials(NAME) if one.step < one.planned_steps}
    found = collect(Workspace.at(tmp_path, store=f"sqlite:///{tmp_path}/store.db"), NAME)
    assert paused.keys() == set(found.going_on) != set()
    sweep.spec = extended(sweep.spec, [Extension(trials=20, launched=5, at=1.0)])
    sweep.start()
    sweep.finish()
    ended = sweep.store.trials(NAME)
    assert {one.state for one in ended} == {TrialState.COMPLETE}
    assert any(one.attempts > paused.get(one.key, one.attempts) for one in ended), "one of them was promoted"


# A sweep is called otherwise, or deleted: what finds it, what goes, and what it spent stays.


@pytest.fixture
def place(tmp_path):
    """A workspace with a sweep of one finished trial and one that runs nowhere any more, and files of both."""
    workspace = Workspace.at(tmp_path)
    store = workspace.open_store(create=True)
    begin(store, workspace, NAME)
    lease = store.acquire(NAME)
    store.launch(lease, proposal(0), plan(), 100)
    settle(store, lease, f"{NAME}-0")
    store.launch(lease, proposal(1), plan(), 100)
    store.set_state(lease, "finished")
    lease.release()
    for number in range(2):
        folder = workspace.folder(NAME) / "trials" / f"{NAME}-{number}"
        folder.mkdir(parents=True)
        (folder / "checkpoint").write_text("weights")
    yield workspace, store
    store.close()


def begin(store, workspace, name, **search):
    spec = load_spec({**SPEC, "name": name, "search": {**SPEC["search"], **search}})
    changes = {"fingerprints": {"data": "d"}, "root": workspace.root, "created_at": time.time()}
    store.create_sweep(record(name, spec=spec, **changes))


def command(workspace, *words, **options):
    return CliRunner().invoke(app, [*words, "--root", workspace.root], catch_exceptions=False, **options)


def test_a_new_name_finds_a_sweep_whose_keys_stay(place):
    workspace, store = place
    assert command(workspace, "rename", NAME, "better").exit_code == 0
    for name in (NAME, "better"):
        found = sweeps.open(name, root=workspace.root)
        assert (found.name, found.counts["complete"], len(found.ledger())) == (NAME, 1, 2)
        assert next(found.overview().lines()) == f"better ({NAME} in keys and folders)  finished"
        assert [one.key for one in found._published.trials(name)] == [f"{NAME}-0", f"{NAME}-1"]
        assert command(workspace, "show", name, "--json").exit_code == 0
    assert sweeps.list_sweeps(root=workspace.root)["sweep"].tolist() == ["better"]
    requests.note(store, "better", "by its label")
    assert "by its label" in sweeps.open(NAME, root=workspace.root).notes[0]


def test_a_deleted_sweep_keeps_what_it_spent_and_nothing_else(place):
    workspace, store = place
    before = store.ledger(NAME)
    sweep = sweeps.open(NAME, root=workspace.root)
    sweep.tag("kept=yes")
    answer = sweep.delete()
    assert answer.left == ()
    assert not workspace.folder(NAME).exists()
    assert [(one.key, one.steps_spent) for one in store.ledger(NAME)] == [(one.key, one.steps_spent) for one in before]
    assert (store.outbox(NAME), [one for one in store.curves(NAME) if one.metrics]) == ([], [])
    with pytest.raises(SweepExists):
        begin(store, workspace, NAME)
    done, cut = store.trials(NAME)
    assert (done.metrics, done.plan, done.state) == ({}, plan(), TrialState.COMPLETE)
    assert (cut.state, store.ledger(NAME)[-1].executed_to) == (TrialState.FAILED, 100)
    assert (sweep.state, sweep.tags, store.sweep(NAME).fingerprints) == ("deleted", {"kept": "yes"}, {"data": "d"})
    shown = sweep.overview()
    assert shown.ledger.spent.executed == 200
    assert shown.ledger.procedure.trials == 2
    assert sweep.delete().left == ()


def test_what_an_audit_refuted_stays_refuted_when_its_folder_goes(place):
    """An audit of a time when the store was not told: its verdict lies in its folder alone."""
    workspace, store = place
    [done] = store.trials(NAME, states=[TrialState.COMPLETE])
    verdict = {"trial": done.key, "system": done.system, "number": 1, "outcome": "refuted"}
    folder = workspace.folder(NAME) / "audits" / "1"
    folder.mkdir(parents=True)
    (folder / "audit.json").write_text(json.dumps(verdict))
    before = PublishedStore(store).refuted(NAME)
    gc.delete(workspace, NAME)
    assert not folder.exists()
    assert (
        PublishedStore(store).refuted(NAME)
        == before
        == {done.system: Refutation(trial=done.key, system=done.system, audit=1)}
    )
    gc.delete(workspace, NAME)
    assert sum(isinstance(one.wanted, Refutation) for one in store.requests(NAME)) == 1


def test_a_sweep_that_somebody_runs_or_needs_is_not_deleted(place):
    workspace, store = place
    sweep = sweeps.open(NAME, root=workspace.root)
    lease = store.acquire(NAME)
    with pytest.raises(LeaseHeld, match="Stop that one"):
        sweep.delete()
    lease.release()
    begin(store, workspace, "later", sampler="tpe", warm_start=NAME)
    with pytest.raises(InvalidValue, match="later did, and is not over"):
        sweep.delete()
    assert (workspace.folder(NAME) / "trials").exists()
    assert store.trials(NAME)[0].metrics
    sweeps.open("later", root=workspace.root).delete()
    sweep.delete()


# A store from a backup beside records that went on: no command claims, writes or deletes by it, and views say so.


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
