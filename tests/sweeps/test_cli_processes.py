"""Real sweeps in real processes: signals, full disks, trials that end badly, MLflow that is away."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from sweeps.privacy.ledger import spending
from sweeps.store.records import TrialState
from sweeps.store.store import Store, open_store
from sweeps.util.exits import ExitCode
from tests.sweeps import awkward, specs
from tests.sweeps.stores import until
from tests.sweeps.view_sweeps import prepared

ROOT = Path(__file__).parents[2]
CLIP = {"clip": {"uniform": [0.2, 1.0]}}
SLOW = specs.mean(
    "slow",
    trials=3,
    systems={"noisy-mean": {**CLIP, "steps": 400, "step_seconds": 0.05}},
    execution={"checkpoint_seconds": 0.2},
)
MOODS = specs.mean(
    "moods",
    systems={"awkward-mean": {"mood": {"choice": ["fine", "nan", "raise", "die", "stop"]}, "steps": 3}},
    search={"sampler": "grid", "trials": 5, "seed": 0},
    execution={"retries": 0, "checkpoint_seconds": 1},
    limits={"stall_seconds": 4},
    tracking={"uri": "http://127.0.0.1:9"},
)


class Sweep:
    """Commands on one sweep of one folder."""

    def __init__(self, folder: Path, spec: Mapping[str, Any]) -> None:
        self.spec = folder / "spec.yaml"
        # JSON is YAML.
        self.spec.write_text(json.dumps(spec))
        self.name = spec["name"]
        self.root = folder / "state"
        self.tracking = prepared(folder)
        awkward.install(folder / "packages")
        self.environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(folder / "packages")]),
            "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
            "SWEEPS_TRACKING": self.tracking,
        }

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        self.started = time.time()
        return subprocess.Popen(
            [sys.executable, "-m", "sweeps.cli", *arguments, "--root", str(self.root)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            env=self.environment,
        )

    def end(self, process: subprocess.Popen[str], code: int, seconds: float = 300) -> str:
        """Its output, after it ended with this code."""
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        assert process.returncode == code, output
        assert "Traceback" not in output
        assert "Token authentication" not in output
        return output

    def run(self, *arguments: str, code: int = 0) -> str:
        return self.end(self.start(*arguments), code)

    def store(self) -> Store:
        return open_store(f"sqlite:///{self.root}/sweeps.db", create=False)

    def until_steps(self, process: subprocess.Popen[str]) -> None:
        """Wait until one of its workers has kept a checkpoint."""
        kept = f"{self.name}/trials/*/*/checkpoint.*.npz"
        until(lambda: any(path.stat().st_mtime > self.started for path in self.root.glob(kept)), process)


def settled(sweep: Sweep) -> Store:
    """Nothing runs, nothing is unsettled, nobody holds the sweep."""
    store = sweep.store()
    assert store.counts(sweep.name)["running"] == 0
    assert spending(store.ledger(sweep.name)).open == 0
    store.acquire(sweep.name).release()
    return store


def on_a_terminal(sweep: Sweep, *arguments: str) -> tuple[subprocess.Popen[str], int]:
    """(the command on a terminal of its own, but for stdout, which is a pipe; the terminal's other end)."""
    outer, inner = os.openpty()

    def lead() -> None:
        # A suite that runs under nohup would hand that on.
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        os.setsid()
        fcntl.ioctl(inner, termios.TIOCSCTTY, 0)

    process = subprocess.Popen(
        [sys.executable, "-m", "sweeps.cli", *arguments, "--root", str(sweep.root)],
        stdin=inner,
        stdout=subprocess.PIPE,
        stderr=inner,
        text=True,
        preexec_fn=lead,
        env=sweep.environment,
    )
    os.close(inner)
    return process, outer


@pytest.mark.chaos
@pytest.mark.outage
def test_a_closed_pipe_changes_nothing_and_a_closed_terminal_stops_cleanly(tmp_path):
    sweep = Sweep(tmp_path, SLOW)
    sweep.started = time.time()
    process, terminal = on_a_terminal(sweep, "run", str(sweep.spec))
    assert process.stdout is not None
    # As `| head -1` does it.
    assert process.stdout.readline().startswith("slow ·")
    process.stdout.close()
    sweep.until_steps(process)
    log = sweep.root / "slow" / "controller.log"
    until(lambda: log.exists() and "stdout is closed" in log.read_text(), process)
    assert "stdout is closed (Broken pipe). The sweep goes on" in log.read_text()
    assert process.poll() is None
    # The kernel hangs up on every process of the terminal's foreground, Ray's included.
    os.close(terminal)
    assert process.wait(120) == ExitCode.INTERRUPTED
    assert f"sweeps resume slow --root {sweep.root}" in log.read_text()
    assert "does not answer any more" not in log.read_text()
    assert settled(sweep).sweep("slow").state == "stopped"


def test_ctrl_c_stops_cleanly_and_a_second_signal_at_once(tmp_path):
    sweep = Sweep(tmp_path, SLOW)
    process = sweep.start("run", str(sweep.spec))
    sweep.until_steps(process)
    # As a terminal does it: to every process of the group.
    os.killpg(process.pid, signal.SIGINT)
    output = sweep.end(process, 130)
    assert f"sweeps resume slow --root {sweep.root}" in output
    store = settled(sweep)
    assert store.sweep("slow").state == "stopped"
    first = spending(store.ledger("slow"))
    assert 0 < first.executed < 3 * 400

    process = sweep.start("resume", "slow")
    sweep.until_steps(process)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    began = time.monotonic()
    sweep.end(process, 130)
    assert time.monotonic() - began < 10
    # What had begun went on from its checkpoint: at most one interval of 4 steps is paid again. (An attempt that was
    # reserved and left no horizon is charged whole.)
    begun = [
        (lost, again)
        for lost, again in pairwise(store.ledger("slow"))
        if lost.key == again.key and lost.executed_to < lost.to_step
    ]
    assert begun
    assert all(again.from_step >= lost.executed_to - 4 for lost, again in begun)
    # Whoever leaves at once leaves the settling to the next start; the lease of a dead process is free.
    store.acquire("slow").release()


def test_trials_that_end_badly_fail_alone_and_mlflow_may_be_away(tmp_path):
    sweep = Sweep(tmp_path, MOODS)
    output = sweep.run("run", str(sweep.spec), code=ExitCode.SOME_FAILED)
    assert "1 complete, 4 failed" in output
    assert "4 trials failed. The first:" in output
    assert output.count("failed: expected_error=nan") == 2, "once as it happens, once at the end"
    assert "(exit code 4)" in output.splitlines()[-1]
    assert "mlflow ui" not in output
    assert "sweeps track moods" in output
    assert "its worker process ended (killed, crashed, or out of memory)" in output
    store = settled(sweep)
    by_mood = {str(record.config["mood"]): record for record in store.trials("moods")}
    assert by_mood["fine"].state is TrialState.COMPLETE
    assert "expected_error=nan" in by_mood["nan"].reason
    # The message may quote a record: the store and MLflow learn the kind and the place, the folder keeps the text.
    raised = by_mood["raise"]
    assert raised.reason.startswith("ArithmeticError (awkward.py, line ")
    assert "the mood is bad" not in raised.reason
    assert "lost 1 times" in by_mood["die"].reason
    assert "retries" in by_mood["die"].reason
    assert spending(store.ledger("moods", by_mood["die"].key)).executed >= 1
    # Silent for ever, and charged to its horizon like any lost worker.
    silent = by_mood["stop"]
    assert f"{silent.key}.1: it showed no sign of life for " in output
    assert "limits.stall_seconds ended it" in silent.reason
    assert [entry.steps_spent for entry in store.ledger("moods") if entry.key == silent.key] == [1]
    assert store.backlog("moods") >= 4
    shown = json.loads(sweep.run("show", "moods", "--json"))
    assert shown["state"] == "finished"
    assert shown["trials"] == {"complete": 1, "running": 0, "failed": 4, "infeasible": 0, "planned": 0}
