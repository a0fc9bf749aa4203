"""Real sweeps in real processes: signals, full disks, trials that end badly, MLflow that is away, early stopping."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import termios
import time
from itertools import pairwise
from pathlib import Path

import pytest

from sweeps.mlflow.sync import rebuild
from sweeps.privacy.ledger import spending, total
from sweeps.privacy.published_store import PublishedStore
from sweeps.store.records import TrialState
from sweeps.store.store import Store, open_store
from sweeps.util.exits import ExitCode
from tests.sweeps import awkward

ROOT = Path(__file__).parents[2]
SLOW = """
name: slow
data: {source: uniform, n: 100}
systems: {noisy-mean: {clip: {uniform: [0.2, 1.0]}, steps: 400, step_seconds: 0.05}}
privacy: {epsilon: 1.0, delta: 1.0e-5}
objectives: [{metric: expected_error}]
search: {sampler: random, trials: 3, seed: 0}
execution: {checkpoint_seconds: 0.2}
"""
MOODS = """
name: moods
data: {source: uniform, n: 100}
systems: {awkward-mean: {mood: {choice: [fine, nan, raise, die, hang, stop]}, steps: 3}}
privacy: {epsilon: 1.0, delta: 1.0e-5}
objectives: [{metric: expected_error}]
search: {sampler: grid, trials: 6, seed: 0}
execution: {retries: 1, checkpoint_seconds: 2}
limits: {stall_seconds: 8}
tracking: {uri: "http://127.0.0.1:9"}
"""
HALVING = """
name: halving
data: {source: uniform, n: 1000}
systems: {noisy-mean: {clip: {uniform: [0.2, 1.0]}, shrinkage: {uniform: [0, 1]}, steps: 16}}
privacy: {epsilon: 1.0, delta: 1.0e-5}
objectives: [{metric: expected_error}]
search: {sampler: random, trials: 8, seed: 0}
early_stopping: {method: asha, reduction: 2, rungs: 3}
"""


class Sweep:
    """Commands on one sweep of one folder."""

    def __init__(self, folder: Path, text: str, root: Path | None = None) -> None:
        self.spec = folder / "spec.yaml"
        self.spec.write_text(text)
        self.name = text.split("name: ")[1].split("\n")[0]
        self.root = root or folder / "state"
        self.tracking = f"sqlite:///{folder}/mlflow.db"
        awkward.install(folder / "packages")
        self.environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(folder / "packages")]),
            "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
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
        limit = time.monotonic() + 180
        while time.monotonic() < limit and process.poll() is None:
            found = self.root.glob(f"{self.name}/trials/*/*/checkpoint.*.npz")
            if any(path.stat().st_mtime > self.started for path in found):
                return
            time.sleep(0.1)
        process.kill()
        raise AssertionError(process.communicate()[0])


def settled(sweep: Sweep) -> Store:
    """Nothing runs, nothing is unsettled, nobody holds the sweep."""
    store = sweep.store()
    assert store.counts(sweep.name)["running"] == 0
    assert total(store.ledger(sweep.name)).open == 0
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


def test_a_closed_pipe_changes_nothing_and_a_closed_terminal_stops_cleanly(tmp_path):
    sweep = Sweep(tmp_path, SLOW)
    sweep.started = time.time()
    process, terminal = on_a_terminal(sweep, "run", str(sweep.spec))
    assert process.stdout is not None
    # As `| head -1` does it.
    assert process.stdout.readline().startswith("Sweep slow")
    process.stdout.close()
    sweep.until_steps(process)
    log = sweep.root / "slow" / "controller.log"
    limit = time.monotonic() + 60
    while not (log.exists() and "stdout is closed" in log.read_text()) and time.monotonic() < limit:
        assert process.poll() is None
        time.sleep(0.1)
    assert "stdout is closed (Broken pipe). The sweep goes on" in log.read_text()
    assert process.poll() is None
    # The kernel hangs up on every process of the terminal's foreground, Ray's included.
    os.close(terminal)
    assert process.wait(120) == ExitCode.INTERRUPTED
    assert f"sweeps resume slow --root {sweep.root}" in log.read_text()
    assert "does not answer any more" not in log.read_text()
    assert settled(sweep).sweep("slow").state == "stopped"


def test_ctrl_c_and_sigterm_stop_cleanly_and_a_second_one_at_once(tmp_path):
    sweep = Sweep(tmp_path, SLOW)
    process = sweep.start("run", str(sweep.spec))
    sweep.until_steps(process)
    # Stopped and woken, as Ctrl-Z and a laptop's lid do it: it says so, blames nobody, and goes on.
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(6.5)
    os.kill(process.pid, signal.SIGCONT)
    log = sweep.root / "slow" / "controller.log"
    log.touch()
    limit = time.monotonic() + 60
    while "was stopped" not in log.read_text() and time.monotonic() < limit:
        time.sleep(0.1)
    assert re.search(r"This process was stopped for \d+ s\. Its lease still holds: slow goes on\.", log.read_text())
    assert process.poll() is None
    # As a terminal does it: to every process of the group.
    os.killpg(process.pid, signal.SIGINT)
    output = sweep.end(process, 130)
    assert f"sweeps resume slow --root {sweep.root}" in output
    store = settled(sweep)
    assert store.sweep("slow").state == "stopped"
    first = total(store.ledger("slow"))
    assert 0 < first.executed < 3 * 400

    process = sweep.start("resume", "slow")
    sweep.until_steps(process)
    process.terminate()
    assert "sweeps resume slow" in sweep.end(process, 130)
    settled(sweep)
    again = total(store.ledger("slow"))
    assert again.executed > first.executed
    # What had begun went on from its checkpoint: at most one interval of 4 steps is paid again. (An attempt that was
    # reserved and left no horizon is charged whole.)
    entries = store.ledger("slow")
    begun = 0
    for lost, relaunched in pairwise(entries):
        if lost.key == relaunched.key and lost.executed_to < lost.to_step:
            assert relaunched.from_step >= lost.executed_to - 4
            begun += 1
    assert begun > 0

    process = sweep.start("resume", "slow")
    sweep.until_steps(process)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    began = time.monotonic()
    sweep.end(process, 130)
    assert time.monotonic() - began < 10
    # Whoever leaves at once leaves the settling to the next start; the lease of a dead process is free.
    store.acquire("slow").release()


def test_trials_that_end_badly_fail_alone_and_mlflow_may_be_away(tmp_path):
    sweep = Sweep(tmp_path, MOODS)
    output = sweep.run("run", str(sweep.spec), code=ExitCode.SOME_FAILED)
    assert "1 complete, 5 failed" in output
    assert "5 trials failed. The first:" in output
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
    assert "lost 2 times" in by_mood["die"].reason
    assert "retries" in by_mood["die"].reason
    spent = spending(store.ledger("moods"))
    assert spent[by_mood["die"].key].executed >= 2
    for mood in ("hang", "stop"):
        # Silent for ever, charged to its horizon each time, and tried again like any lost worker.
        silent = by_mood[mood]
        assert f"{silent.key}.1: it showed no sign of life for " in output
        assert "lost 2 times (it showed no sign of life for " in silent.reason
        assert "limits.stall_seconds ended it" in silent.reason
        assert [entry.steps_spent for entry in store.ledger("moods") if entry.key == silent.key] == [1, 1]
    assert store.backlog("moods") >= 4
    assert rebuild(PublishedStore(store), "moods", sweep.tracking).runs == 6
    assert store.backlog("moods") == 0
    shown = json.loads(sweep.run("show", "moods", "--json"))
    assert shown["state"] == "finished"
    assert shown["trials"] == {"complete": 1, "running": 0, "failed": 5, "infeasible": 0, "planned": 0}


def test_early_stopping_charges_rungs_and_claims_whole_plans(tmp_path):
    sweep = Sweep(tmp_path, HALVING)
    sweep.run("run", str(sweep.spec))
    store = settled(sweep)
    records = store.trials("halving")
    assert len(records) == 8
    assert {record.step for record in records} <= {4, 8, 16}
    stopped = [record for record in records if record.step == 4]
    whole = [record for record in records if record.step == 16]
    assert len(stopped) >= 4
    assert whole
    assert all(0.99 < record.guarantee.epsilon <= 1 for record in records)
    assert all(record.metrics["epsilon"] == record.guarantee.epsilon for record in records)
    spent = spending(store.ledger("halving"))
    for record in records:
        assert spent[record.key].executed == spent[record.key].path == record.step
        assert spent[record.key].attempts == {4: 1, 8: 2, 16: 3}[record.step]


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"A FULL DISK WAS NOT TRIED: mounting a small one takes root ({mounted.stderr.strip()})")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_stops_the_sweep_and_it_goes_on_when_there_is_room(tmp_path, small_disk):
    text = SLOW.replace("steps: 400", "steps: 40").replace("trials: 3", "trials: 6")
    sweep = Sweep(tmp_path, text, root=small_disk / "state")
    process = sweep.start("run", str(sweep.spec), "--tracking", sweep.tracking)
    sweep.until_steps(process)
    filler = small_disk / "filler"
    with pytest.raises(OSError, match="No space left"):
        filler.write_bytes(b"x" * 16_000_000)
    output = sweep.end(process, 2)
    assert "space" in output
    assert "resume" in output
    filler.unlink()
    output = sweep.run("resume", "slow", "--tracking", sweep.tracking)
    assert "6 complete." in output
    store = settled(sweep)
    for record in store.trials("slow"):
        assert record.step == 40
        assert spending(store.ledger("slow"))[record.key].path == 40
