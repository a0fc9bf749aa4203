"""`sweeps gc`: which checkpoints go, which stay, and that a sweep goes on after it as it would have."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import sweeps
from sweeps.cli.main import app
from sweeps.execution.gc import collect
from sweeps.execution.resume import extended
from sweeps.store.errors import LeaseHeld
from sweeps.store.records import Extension, TrialState
from sweeps.util.workspace import Workspace
from tests.sweeps import view_sweeps
from tests.sweeps.fake_workers import ASHA, NAME, FakeSweep
from tests.sweeps.view_sweeps import new_sweep
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
        worker.may_execute(10)
        worker.save(5, {"total": np.full(100, float(number))})
        worker.save(10, {"total": np.full(100, float(number))})
    store.set_state(lease, "finished")
    lease.release()
    return tmp_path, trials


def left(trials):
    return [number for number in range(14) if attempt(trials, f"views-{number}").checkpoints.steps()]


def test_what_is_on_the_front_or_goes_on_stays_and_nothing_else(swept):
    root, trials = swept
    opened = sweeps.open("views", root=root)
    front = {int(key.rpartition("-")[2]) for key in opened.front().keys}
    expected = sorted({*front, opened.best().number, 13})
    before = sum(attempt(trials, f"views-{number}").checkpoints.size() for number in range(14))
    dry = opened.gc(dry_run=True)
    assert left(trials) == list(range(14))
    done = opened.gc()
    after = sum(attempt(trials, f"views-{number}").checkpoints.size() for number in range(14))
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


def test_the_command_says_the_same(swept):
    root, trials = swept
    answer = CliRunner().invoke(app, ["gc", "views", "--root", str(root), "--dry-run", "--json"])
    assert json.loads(answer.output) == sweeps.open("views", root=root).gc(dry_run=True).to_dict()
    CliRunner().invoke(app, ["gc", "views", "--root", str(root)])
    assert len(left(trials)) < 14


def test_a_sweep_that_runs_is_left_alone(swept):
    root, trials = swept
    lease = Workspace.at(root).open_store().acquire("views")
    for dry_run in (True, False):
        with pytest.raises(LeaseHeld):
            sweeps.open("views", root=root).gc(dry_run=dry_run)
    lease.release()
    assert left(trials) == list(range(14))


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
