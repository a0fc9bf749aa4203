"""What a sweep rests on falls silent: it says so in seconds, ends or goes on within one patience, charges all."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from sweeps.privacy.published_store import PublishedStore
from sweeps.util.exits import ExitCode
from tests.chaos import witness
from tests.chaos.harness import CLUSTER_LOST, HANG_SECONDS, Attacked, below
from tests.sweeps.clusters import Nodes, free_ports
from tests.sweeps.stores import new_database, postgres_server, server_processes

PATIENCE = 45.0
"""Ray starts within it on a loaded machine too."""
SLACK = 10.0
"""What a loaded machine adds to any of it."""

pytestmark = [pytest.mark.chaos, pytest.mark.outage, pytest.mark.timeout(900)]


def silenced(folder: Path, *, store: str = "", tracking: str = "", trials: int = 8, patience: float = PATIENCE):
    """A sweep beside which something falls silent."""
    text = witness.spec("silent", trials=trials, steps=(15, 25), step_seconds=0.1)
    options = ["--tracking", tracking] if tracking else []
    limited = f"{text}limits: {{stall_seconds: 20}}\n"
    return Attacked(folder, limited, trials, *options, store=store, SWEEPS_PATIENCE=str(patience))


@pytest.fixture(scope="module")
def server():
    with postgres_server() as running:
        yield running


def said_in(quiet: float) -> str:
    return f"longest silence {quiet:.1f} s"


@pytest.fixture
def database(server):
    return new_database(server)


@pytest.mark.parametrize("fault", ["stopped", "gone", "locked"])
def test_a_postgres_that_falls_silent(tmp_path, server, database, fault):
    sweep = silenced(tmp_path, store=database)
    sweep.start()
    sweep.until("two trials", lambda: sweep.finished() >= 2)
    began = sweep.note(f"Postgres is {fault}")
    with contextlib.ExitStack() as silence:
        if fault == "stopped":
            frozen = server_processes(server)
            for pid in frozen:
                os.kill(pid, signal.SIGSTOP)
            silence.callback(lambda: [os.kill(pid, signal.SIGCONT) for pid in frozen])
        elif fault == "gone":
            server.stop()
            silence.callback(server.start)
        else:
            other = sweep.opened()
            silence.callback(other.close)
            connection = silence.enter_context(other._database._writers.connect())
            connection.execute(text("LOCK TABLE leases IN ACCESS EXCLUSIVE MODE"))
        sweep.end(ExitCode.BAD_INPUT)
        ended = sweep.note("the controller ended")
    quiet = sweep.longest_silence(began, ended)
    said = sweep.text()
    assert "Waiting for the store postgresql://" in said, said
    assert f"giving up after {PATIENCE:.0f} s (SWEEPS_PATIENCE)" in said
    assert "holds a lock" in said if fault == "locked" else "does not answer" in said
    assert "sweeps resume" in said
    assert "Traceback" not in said
    # One patience for the store; the end of Ray and of MLflow's feeder beside it.
    assert ended - began < 2 * PATIENCE + SLACK, sweep.words()
    sweep.go_on()
    sweep.check(f"Postgres {fault}: code 2 after {ended - began:.1f} s, then resumed", said_in(quiet))


@contextlib.contextmanager
def mlflow_server(folder: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """(address, the process that leads its group)."""
    (port,) = free_ports(1)
    words = ["server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    words += ["--backend-store-uri", f"sqlite:///{folder}/there.db", "--artifacts-destination", str(folder / "there")]
    with (folder / "mlflow.log").open("wb") as log:
        process = subprocess.Popen(
            [str(Path(sys.executable).parent / "mlflow"), *words], stdout=log, stderr=log, start_new_session=True
        )
    address = f"http://127.0.0.1:{port}"
    limit = time.monotonic() + 400
    try:
        while True:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{address}/health", timeout=5):
                break
            assert process.poll() is None, (folder / "mlflow.log").read_text()[-3000:]
            assert time.monotonic() < limit
            time.sleep(0.3)
        yield address, process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_an_mlflow_that_is_stopped(tmp_path):
    from sweeps.mlflow.sync import rebuild

    with mlflow_server(tmp_path) as (address, process):
        sweep = silenced(tmp_path, tracking=address)
        sweep.start()
        sweep.until("two trials", lambda: sweep.finished() >= 2)
        sweep.note("MLflow is stopped")
        os.killpg(process.pid, signal.SIGSTOP)
        sweep.until("the last trial", lambda: sweep.finished() == sweep.trials)
        began = time.monotonic()
        sweep.end(0)
        ended = sweep.note("the controller ended")
        said = sweep.text()
        assert f"Waiting for MLflow at {address} to take the last" in said, said
        assert "deliver it with `sweeps track silent`" in said
        assert ended - began < PATIENCE + 3 * SLACK, sweep.words()
        os.killpg(process.pid, signal.SIGCONT)
        store = sweep.opened()
        assert store.backlog("silent") > 0
        rebuild(PublishedStore(store), "silent", address)
        assert store.backlog("silent") == 0
        store.close()
        quiet = sweep.longest_silence(began, ended)
        sweep.check(
            "MLflow stopped", f"code 0, {ended - began:.1f} s after the last trial; then tracked", said_in(quiet)
        )


def test_a_worker_that_is_stopped(tmp_path):
    sweep = silenced(tmp_path, trials=12)
    process = sweep.start()
    sweep.until("two trials", lambda: sweep.finished() >= 2)
    worker = next(pid for pid, command in below(process.pid) if command.startswith("ray::ImplicitFunc"))
    os.kill(worker, signal.SIGSTOP)
    began = sweep.note("a worker is stopped")
    longest, last, finished = 0.0, began, sweep.finished()
    while process.poll() is None:
        if (now := sweep.finished()) > finished:
            longest, last, finished = max(longest, time.monotonic() - last), time.monotonic(), now
        time.sleep(0.2)
    sweep.end(0)
    sweep.note("the controller ended")
    # The trial that it ran was ended for it, or it was given none while it was stopped.
    ends = [line for line in sweep.text().splitlines() if "showed no sign of life" in line]
    assert ends, sweep.words()
    quiet = sweep.longest_silence(began, time.monotonic())
    sweep.check("a worker stopped", f"{ends[0]} Longest time without a finished trial {longest:.1f} s", said_in(quiet))


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
    began = sweep.note("the first controller is woken")
    os.kill(first.pid, signal.SIGCONT)
    code = first.wait(240)
    sweep.note(f"it ended with code {code}")
    said = sweep.text()
    assert "Ray cluster does not answer" not in said, sweep.words()
    if taken:
        assert code == ExitCode.BAD_INPUT, sweep.words()
        assert "this process was stopped for" in said, sweep.words()
        assert "and another took its place" in said
        assert f"held by process {second.pid} on host" in said
        assert second.wait(240) == 0, sweep.words()
    else:
        assert code == 0, sweep.words()
        assert "This process was stopped for 3" in said, sweep.words()
        assert "Its lease still holds: silent goes on." in said
    quiet = sweep.longest_silence(began, time.monotonic())
    seen = "code 2 and who holds it" if taken else "said so, went on"
    sweep.check(f"controller stopped, {'another' if taken else 'nobody'} took over", seen, said_in(quiet))


SERVERS = ("gcs/gcs_server", "raylet/raylet")


@pytest.mark.parametrize("silenced", [SERVERS, SERVERS[:1]])
def test_a_cluster_that_falls_silent_ends_the_controller_with_the_way_to_go_on(tmp_path, silenced):
    text = witness.spec("silent", trials=50, steps=(40, 40), step_seconds=0.1)
    (tmp_path / "cluster").mkdir()
    own = witness.watched(tmp_path / "cluster")
    with Nodes() as nodes:
        nodes.start("head", cpus=2, **{name: own[name] for name in ("PYTHONPATH", witness.FOLDER)})
        token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": nodes.token, "SWEEPS_PATIENCE": "30"}
        sweep = Attacked(tmp_path, text, 50, "--address", nodes.address, **token)
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
