"""Trials that take memory until the node's monitor ends their workers: retried within limits, and the sweep goes on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sweeps.store.records import Outcome, TrialState
from sweeps.store.store import open_store
from sweeps.util.exits import ExitCode
from tests.chaos import hungry
from tests.chaos.harness import ROOT

SPEC = """
name: hungry
data: {source: uniform, n: 500}
systems: {hungry-mean: {clip: {uniform: [0.2, 1.0]}, steps: 3}}
privacy: {epsilon: 1.0, delta: 1.0e-5}
objectives: [{metric: expected_error, goal: minimize}]
search: {sampler: random, trials: 5, seed: 7}
resources: {concurrency: 1}
execution: {retries: 1}
"""
MARGIN = 2 * 2**30
"""The monitor strikes when the machine uses this much more than it does now."""


def memory() -> dict[str, int]:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines}


@pytest.mark.chaos
@pytest.mark.outage
@pytest.mark.timeout(600)
@pytest.mark.skipif(memory()["MemAvailable"] < hungry.MOST + 2**30, reason="needs 6 GB of free memory")
def test_a_worker_out_of_memory_costs_its_trial_an_attempt_and_nobody_else_anything(tmp_path):
    hungry.install(tmp_path / "packages")
    (tmp_path / "spec.yaml").write_text(SPEC)
    now = memory()
    threshold = 1 - (now["MemAvailable"] - MARGIN) / now["MemTotal"]
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path / "packages")]),
        "RAY_memory_usage_threshold": f"{threshold:.4f}",
        "RAY_memory_monitor_refresh_ms": "100",
    }
    command = ["run", str(tmp_path / "spec.yaml"), "--root", str(tmp_path / "state")]
    done = subprocess.run(
        [sys.executable, "-m", "sweeps.cli", *command], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == ExitCode.SOME_FAILED, done.stdout + done.stderr
    store = open_store(f"sqlite:///{tmp_path}/state/sweeps.db", create=False)
    states = {record.number: record.state for record in store.trials("hungry")}
    assert states == {number: TrialState.FAILED if number == 2 else TrialState.COMPLETE for number in range(5)}
    ends = [(one.key, one.attempt, one.outcome, one.reason) for one in store.attempts("hungry") if one.reason]
    why = "its worker was ended because the node ran out of memory"
    assert ends == [
        ("hungry-1", 1, Outcome.LOST, why),
        ("hungry-2", 1, Outcome.LOST, why),
        (
            "hungry-2",
            2,
            Outcome.FAILED,
            f"its worker was lost 2 times ({why}); more than execution.retries allow",
        ),
    ]
    # Each had noted that it may execute all of its steps: they are charged.
    assert all(entry.steps_spent == 3 for entry in store.ledger("hungry"))
    store.close()
