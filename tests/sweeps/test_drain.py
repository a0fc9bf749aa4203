"""The process that delivers to MLflow: alone, silent, patient with outages, and gone when its sweep is."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from mlflow.exceptions import MlflowException

from sweeps.mlflow.runs import Experiment
from sweeps.mlflow.sync import Drain, DrainRunning, drain, drain_lock, rebuild
from sweeps.privacy.release import PublishedStore
from sweeps.store.records import TrialRecord
from sweeps.util import waiting
from tests.sweeps import view_sweeps
from tests.sweeps.view_sweeps import prepared, runs_of


def test_the_process_delivers_while_the_sweep_runs_and_ends_with_it(tmp_path: Path):
    store = view_sweeps.new_sweep(tmp_path)
    uri = prepared(tmp_path)
    lease = store.acquire("views")
    with Drain(PublishedStore(store), "views", uri) as running:
        running.start()
        assert running._process is not None
        # Whoever may run `ps` reads every argument: both URLs may hold a password.
        while not (arguments := Path(f"/proc/{running._process.pid}/cmdline").read_bytes()):
            assert running._process.poll() is None
        assert b"sweeps.mlflow.sync" in arguments
        assert str(tmp_path).encode() not in arguments
        view_sweeps.complete(store, lease, 0)
        deadline = time.monotonic() + 60
        while store.backlog("views") and time.monotonic() < deadline:
            time.sleep(0.1)
        assert store.backlog("views") == 0, "nothing was delivered during the sweep"
        with pytest.raises(DrainRunning, match="another process"), drain_lock(tmp_path / "views", wait_seconds=0.2):
            pass
        # A drain that is killed is followed by another one at the end.
        running._process.send_signal(signal.SIGKILL)
        running._process.wait()
        view_sweeps.complete(store, lease, 1)
    assert store.backlog("views") == 0
    assert {len(found) for found in runs_of(uri).values()} == {1}
    assert len(runs_of(uri)) == 3


@pytest.mark.chaos
@pytest.mark.outage
def test_a_controller_that_is_killed_leaves_a_drain_that_delivers_and_ends(tmp_path: Path):
    store = view_sweeps.mixed_sweep(tmp_path, trials=2)
    uri = prepared(tmp_path)
    code = (
        "import os, signal; from sweeps.mlflow.sync import Drain;"
        "from sweeps.privacy.release import PublishedStore;"
        f"from sweeps.store.workspace import Workspace; store = PublishedStore.open(Workspace.at({str(tmp_path)!r}));"
        f"Drain(store, 'views', {uri!r}).start();"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    with drain_lock(tmp_path / "views", wait_seconds=0.0):
        pass  # not yet started
    deadline = time.monotonic() + 60
    while store.backlog("views") and time.monotonic() < deadline:
        time.sleep(0.1)
    assert store.backlog("views") == 0
    with drain_lock(tmp_path / "views", wait_seconds=20.0):
        pass  # and gone


def test_a_stopped_process_is_ended_after_one_patience_and_the_next_one_finds_the_way_free(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SWEEPS_PATIENCE", "1.5")
    monkeypatch.setattr(waiting, "WORD_SECONDS", 0.5)
    store = view_sweeps.mixed_sweep(tmp_path, trials=2)
    backlog = store.backlog("views")
    running = Drain(PublishedStore(store), "views", prepared(tmp_path))
    running.start()
    assert running._process is not None
    running._process.send_signal(signal.SIGSTOP)
    leaving = threading.Thread(target=running.__exit__, args=(None, None, None))
    leaving.start()
    leaving.join(8)
    assert not leaving.is_alive()
    said = capsys.readouterr().err
    assert "Waiting for MLflow at sqlite:///" in said
    assert f"to take the last {backlog} changes" in said
    assert "sweeps track views" in said
    assert not running.delivered
    assert store.backlog("views") == backlog
    rebuild(PublishedStore(store), "views", prepared(tmp_path))
    assert store.backlog("views") == 0


def test_an_outage_in_mid_sweep_is_caught_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    store = view_sweeps.mixed_sweep(tmp_path, trials=3)
    uri = prepared(tmp_path)
    put, calls = Experiment.put, []

    def flaky(self: Experiment, trial: TrialRecord, curve: object = (), **given: bool) -> None:
        calls.append(trial.key)
        if len(calls) in (2, 4):
            raise MlflowException("the server is restarting")
        put(self, trial, curve)

    monkeypatch.setattr(Experiment, "put", flaky)
    ending = threading.Event()
    ending.set()
    assert drain(PublishedStore(store), "views", uri, ending) == 0
    assert {len(found) for found in runs_of(uri).values()} == {1}
    assert len(runs_of(uri)) == 7


def test_telemetry_is_off():
    code = (
        "import os; [os.environ.pop(n, None) for n in list(os.environ) if n.startswith(('PYTEST', 'CI', 'GITHUB'))];"
        "import sweeps.mlflow.read; from mlflow.telemetry.client import get_telemetry_client as client;"
        "print(client() is None)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "True\n"
