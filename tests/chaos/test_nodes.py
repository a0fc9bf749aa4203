"""A sweep over several nodes: workers and nodes die, join and drain, a cable is pulled, memory runs out."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sweeps.privacy.ledger import spending
from sweeps.store.records import Outcome, TrialState
from sweeps.store.store import open_store
from sweeps.util.exits import ExitCode
from tests.chaos import witness
from tests.chaos.harness import LONGEST_SECONDS, ROOT
from tests.chaos.nodes import Hosts, QuickNodes, Sweep, allowed, ranks
from tests.sweeps import specs
from trainables.worker.attempt import NODE_LEAVES

TRIALS = 6
BLINK_SECONDS = 2.0
"""Shorter than what counts as a dead node: see `Nodes.environment`."""

pytestmark = [pytest.mark.chaos, pytest.mark.outage, pytest.mark.timeout(900)]


def refusals(nodes: QuickNodes) -> list[str]:
    """What the head says to its own token, to another one, and to none."""
    ask = f"from sweeps.ray.cluster import refusal; print(refusal('127.0.0.1', {nodes.port}))"
    own = {**nodes.environment(), "PYTHONPATH": str(ROOT)}
    asked = [own, {**own, "RAY_AUTH_TOKEN": "ab" * 32}, {**own, "RAY_AUTH_MODE": "disabled", "RAY_AUTH_TOKEN": ""}]
    running = [
        subprocess.Popen([sys.executable, "-c", ask], env=one, stdout=subprocess.PIPE, text=True) for one in asked
    ]
    return [one.communicate(timeout=LONGEST_SECONDS)[0].strip() for one in running]


def test_workers_and_nodes_come_and_go(tmp_path):
    with QuickNodes() as nodes:
        sweep = Sweep(tmp_path, nodes, trials=TRIALS, epochs=4.0)
        nodes.start("head", cpus=2, **sweep.extra)
        welcome, *refused = refusals(nodes)
        assert welcome == "None"
        assert all("its token is missing or another one" in one for one in refused), refused
        nodes.start("second", cpus=2, **sweep.extra)
        sweep.note("two nodes are up")
        sweep.start()
        sweep.until("a draw on each node", lambda: len(sweep.drawn()) >= 2)

        # One worker, in the middle of a step.
        attempts = set(sweep.drawn())
        sweep.until("workers on the head", lambda: bool(ranks(nodes, "head")))
        os.kill(ranks(nodes, "head")[0], signal.SIGKILL)
        sweep.note("killed one worker")
        sweep.until("a draw of a new attempt", lambda: bool(set(sweep.drawn()) - attempts))

        # The power of a whole node, with a trial's workers on it, half-way.
        sweep.until("half of the trials", lambda: sweep.finished() >= 2 and bool(ranks(nodes, "second")))
        attempts = set(sweep.drawn())
        nodes.kill("second")
        sweep.note("killed the second node")
        nodes.start("third", cpus=2, **sweep.extra)
        sweep.note("a third node joined")
        sweep.until("a draw of a new attempt", lambda: bool(set(sweep.drawn()) - attempts))
        sweep.until("the end", lambda: sweep.process.poll() is not None)
        assert sweep.process.returncode == 0, sweep.words()
        sweep.check()
        lost = [entry for entry in sweep.opened().ledger(sweep.name) if entry.attempt > 1]
        assert len(lost) >= 2, sweep.words()


def test_a_trial_leaves_a_node_that_is_to_go_and_no_step_is_paid_twice(tmp_path):
    with QuickNodes() as nodes:
        sweep = Sweep(tmp_path, nodes, trials=2, epochs=40.0)
        nodes.start("head", cpus=2, **sweep.extra)
        nodes.start("second", cpus=2, **sweep.extra)
        sweep.start()
        sweep.until("a draw of each trial", lambda: len(sweep.drawn()) == 2)
        assert len(ranks(nodes, "head")) == len(ranks(nodes, "second")) == 2, "each trial has a node's two workers"
        nodes.drain("second", seconds=300)
        sweep.note("the second node has notice")
        sweep.until("a draw of a new attempt", lambda: len(sweep.drawn()) > 2 or sweep.process.poll() is not None)
        assert len(sweep.drawn()) == 3, sweep.words()
        assert not ranks(nodes, "second"), "its workers ended while it was still there"
        sweep.until("the end", lambda: sweep.process.poll() is not None)
        assert sweep.process.returncode == 0, sweep.words()
        sweep.check()
        attempts = sweep.opened().attempts(sweep.name)
        assert [one.reason for one in attempts if one.reason] == [NODE_LEAVES], sweep.words()
        needed = sum(record.step for record in sweep.opened().trials(sweep.name))
        assert spending(sweep.opened().ledger(sweep.name)).executed == sum(sweep.drawn().values()) == needed, (
            sweep.words()
        )


def test_a_cable_is_pulled_and_put_back(tmp_path):
    if not allowed():
        pytest.skip("NOT TESTED: hosts that lose each other; this machine lets nobody make network namespaces")
    with Hosts() as hosts:
        sweep = Sweep(tmp_path, hosts, trials=2, epochs=80.0)
        hosts.start("head", cpus=2, **sweep.extra)
        hosts.start("second", cpus=2, **sweep.extra)
        sweep.note("two hosts are up")
        sweep.start()
        sweep.until("workers on the second host", lambda: bool(ranks(hosts, "second")) and len(sweep.drawn()) >= 2)

        # A blink: whatever runs goes on.
        drawn = sum(sweep.drawn().values())
        hosts.cut()
        time.sleep(BLINK_SECONDS)
        hosts.restore()
        sweep.note(f"the cable was out for {BLINK_SECONDS:g} s")
        sweep.until("more draws", lambda: sum(sweep.drawn().values()) > drawn + 10)
        assert {attempt for _, attempt in sweep.drawn()} == {1}, sweep.words()

        # Long enough to be given up. The host lives on: its workers may draw until their horizon.
        sweep.until("workers on the second host", lambda: bool(ranks(hosts, "second")))
        hosts.cut()
        sweep.note("the cable is out")
        moved = sweep.until("a new attempt", lambda: any(attempt > 1 for _, attempt in sweep.drawn()))
        hosts.restore()
        sweep.note("the cable is back")
        sweep.until("the end of the host that was given up", lambda: not ranks(hosts, "second"))
        hosts.kill("second")
        hosts.start("third", cpus=2, **sweep.extra)
        sweep.note("a host joined")
        sweep.until("the end", lambda: sweep.process.poll() is not None)
        assert sweep.process.returncode == 0, sweep.words()
        assert len(sweep.opened().ledger(sweep.name)) > 2, sweep.words()
        sweep.check(f"from the cut to new work {moved:.1f} s")


HUNGRY = specs.mean(
    "hungry",
    trials=5,
    systems={"hungry-mean": {"clip": {"uniform": [0.2, 1.0]}, "steps": 3}},
    resources={"concurrency": 1},
    execution={"retries": 1},
)
MARGIN = 2 * 2**30
"""The monitor strikes when the machine uses this much more than it does now."""


def memory() -> dict[str, int]:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines}


@pytest.mark.skipif(memory()["MemAvailable"] < witness.HungryMean.most + 2**30, reason="needs 6 GB of free memory")
def test_a_worker_out_of_memory_costs_its_trial_an_attempt_and_nobody_else_anything(tmp_path):
    (tmp_path / "spec.yaml").write_text(json.dumps(HUNGRY))
    now = memory()
    threshold = 1 - (now["MemAvailable"] - MARGIN) / now["MemTotal"]
    environment = {
        **witness.watched(tmp_path),
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
