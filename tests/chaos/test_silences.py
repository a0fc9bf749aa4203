"""What a sweep rests on falls silent: it says so in seconds, ends or goes on within one patience, charges all."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

import pytest

from sweeps.util.exits import ExitCode
from tests.chaos import witness
from tests.chaos.harness import CLUSTER_LOST, HANG_SECONDS, Attacked
from tests.sweeps.clusters import Nodes
from tests.sweeps.stores import new_database, postgres_server, stopped

PATIENCE = 45.0
"""Ray starts within it on a loaded machine too."""
SLACK = 10.0
"""What a loaded machine adds to any of it."""

pytestmark = [pytest.mark.chaos, pytest.mark.outage, pytest.mark.timeout(900)]


def silenced(folder: Path, *, store: str = "", trials: int = 8):
    """A sweep beside which something falls silent."""
    spec = witness.spec("silent", trials=trials, steps=(15, 25), step_seconds=0.1)
    return Attacked(folder, spec, store=store, SWEEPS_PATIENCE=str(PATIENCE))


@pytest.fixture(scope="module")
def server():
    with postgres_server() as running:
        yield running


@pytest.fixture
def database(server):
    return new_database(server)


@pytest.mark.parametrize("fault", ["stopped", "gone"])
def test_a_postgres_that_falls_silent(tmp_path, server, database, fault):
    sweep = silenced(tmp_path, store=database)
    sweep.start()
    sweep.until("two trials", lambda: sweep.finished() >= 2)
    began = sweep.note(f"Postgres is {fault}")
    with contextlib.ExitStack() as silence:
        if fault == "stopped":
            silence.enter_context(stopped(server))
        else:
            server.stop()
            silence.callback(server.start)
        sweep.end(ExitCode.BAD_INPUT)
        ended = sweep.note("the controller ended")
    said = sweep.text()
    assert "Waiting for the store postgresql://" in said, said
    assert f"giving up after {PATIENCE:.0f} s (SWEEPS_PATIENCE)" in said
    assert "does not answer" in said
    assert "sweeps resume" in said
    assert "Traceback" not in said
    # One patience for the store; the end of Ray and of MLflow's feeder beside it.
    assert ended - began < 2 * PATIENCE + SLACK, sweep.words()
    sweep.go_on()
    sweep.check(f"Postgres {fault}: code 2 after {ended - began:.1f} s, then resumed")


@pytest.mark.parametrize("taken", [True, False], ids=["another took over", "nobody took over"])
def test_a_controller_that_is_stopped_blames_nobody_for_it(tmp_path, taken):
    sweep = silenced(tmp_path, trials=30)
    first = sweep.start()
    sweep.until("two trials", lambda: sweep.finished() >= 2)
    os.kill(first.pid, signal.SIGSTOP)
    sweep.note("the controller is stopped")
    time.sleep(35)
    if taken:
        before = sweep.finished()
        second = sweep.start()
        sweep.until("another controller's trial", lambda: sweep.finished() > before or second.poll() is not None)
    sweep.note("the first controller is woken")
    os.kill(first.pid, signal.SIGCONT)
    code = first.wait(240)
    sweep.note(f"it ended with code {code}")
    said = sweep.text()
    assert "Ray cluster does not answer" not in said, sweep.words()
    if taken:
        assert code == ExitCode.BAD_INPUT, sweep.words()
        assert f"held by process {second.pid} on host" in said
        assert second.wait(240) == 0, sweep.words()
    else:
        assert code == 0, sweep.words()
    seen = "code 2 and who holds it" if taken else "went on"
    sweep.check(f"controller stopped, {'another' if taken else 'nobody'} took over", seen)


SERVERS = ("gcs/gcs_server", "raylet/raylet")


@pytest.mark.parametrize("silenced", [SERVERS, SERVERS[:1]])
def test_a_cluster_that_falls_silent_ends_the_controller_with_the_way_to_go_on(tmp_path, silenced):
    spec = witness.spec("silent", trials=50, steps=(40, 40), step_seconds=0.1)
    (tmp_path / "cluster").mkdir()
    own = witness.watched(tmp_path / "cluster")
    with Nodes() as nodes:
        nodes.start("head", cpus=2, **{name: own[name] for name in ("PYTHONPATH", witness.FOLDER)})
        token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": nodes.token, "SWEEPS_PATIENCE": "30"}
        sweep = Attacked(tmp_path, spec, "--address", nodes.address, **token)
        sweep.start()
        sweep.until("three attempts", lambda: sweep.attempts() >= 3)
        for pid, line in nodes.processes("head").items():
            if any(name in line for name in silenced):
                os.kill(pid, signal.SIGSTOP)
        sweep.note("the cluster is silent")
        ended = sweep.end(CLUSTER_LOST)
    print(f"\nsilent for {ended:.1f} s until the controller ended")
    assert ended < HANG_SECONDS
    assert "does not answer any more. Nothing is lost" in sweep.text(), sweep.words()
    assert "Waiting for the Ray cluster to answer," in sweep.text()
    assert f"sweeps resume silent --root {sweep.root} --address {nodes.address}" in sweep.text()
    store = sweep.opened()
    # What was running is reserved, and so charged, until a controller comes back and looks.
    assert store.counts("silent")["running"] >= 1
    assert all(entry.executed_to is not None or entry.steps_spent == 40 for entry in store.ledger("silent"))
    store.close()
