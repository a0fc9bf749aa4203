"""A whole sealed search on a real Ray is killed and goes on: the draw stays, and the winner is that of its draw."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from sweeps.selection.run import ANNOUNCED, Announcement, SealedPlaces, opened
from sweeps.spec.parse import load_spec, public_facts
from sweeps.store.records import SweepState
from sweeps.store.workspace import Workspace
from tests.sweeps import sealed_searches
from trainables.data import SOURCES
from trainables.sealed import Candidate, SealedWork, Standing, after, run_slot
from trainables.system import Dataset

pytestmark = [pytest.mark.chaos, pytest.mark.outage]
SPEC = {
    **sealed_searches.SPEC,
    "name": "killed",
    "systems": {"noisy-mean": {"clip": {"uniform": [0.2, 1.0]}, "steps": 4, "step_seconds": 0.5}},
    "search": {"trials": 6, "sampler": "random"},
    "selection": {"deadline_minutes": 2.0, "mean": 3, "megabytes": 0.01},
}


def start(*words: str, root: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "sweeps.cli", *words, "--root", str(root)]
    environment = {**os.environ, "RAY_worker_niceness": "0"}
    log = (root.parent / "log").open("ab")
    return subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)


def winner_of(work: SealedWork, data: Dataset) -> Candidate:
    """The best of every worker's chain, by a plain loop over the draw."""
    drawn, found = work.drawn(), []
    for worker in range(work.workers):
        standing = Standing(following=worker)
        while standing.following < drawn.count:
            one = run_slot(drawn, standing.following, work.winner, work.group, data, work.ranking)
            standing = after(work, standing, one)
        found += standing.best
    return min(found, key=lambda one: (one.ranks, one.slot))


@pytest.mark.parametrize("seconds", [8.0, 30.0])
def test_a_search_that_is_killed_goes_on_to_the_winner_of_its_draw(tmp_path: Path, seconds: float) -> None:
    root, file = tmp_path / "root", tmp_path / "spec.yaml"
    file.write_text(yaml.safe_dump(SPEC))
    root.mkdir()
    running = start("run", str(file), root=root)
    workspace, spec = Workspace.at(root), load_spec(SPEC)
    places = SealedPlaces.of(workspace, "killed")
    while not (places.own / ANNOUNCED).exists():
        assert running.poll() is None
        time.sleep(0.1)
    time.sleep(seconds)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    store = workspace.open_store()
    work = opened(store.sweep("killed"), spec, public_facts(spec), workspace, {})
    drawn, sizes = work.drawn(), work.folder.sizes()
    best = winner_of(work, SOURCES["uniform"].load(spec.data.options()))
    going_on = start("resume", "killed", root=root)
    time.sleep(15)
    assert work.drawn() == drawn
    assert work.folder.sizes() == sizes
    assert not store.trials("killed")
    announced = Announcement.read(places.own)
    assert going_on.wait(timeout=240) == 0, (tmp_path / "log").read_text()
    assert time.time() >= announced.schedule.deadline
    assert store.sweep("killed").state is SweepState.FINISHED
    [winner] = store.trials("killed")
    assert (winner.number, winner.metrics["estimate"]) == (0, best.metrics["estimate"])
    assert dict(winner.config) == dict(drawn.slots[best.slot].config)
