"""A sweep of noisy-sgd over two nodes, two workers a trial: a worker dies, a node dies, a node joins, a node drains."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from sweeps.privacy.ledger import total
from tests.chaos.clustered import NAME, PATIENCE_SECONDS, ROOT, Sweep, ranks
from tests.chaos.nodes import Nodes
from trainables.worker.attempt import NODE_LEAVES

TRIALS = 6


def refusals(nodes: Nodes) -> list[str]:
    """What the head says to its own token, to another one, and to none."""
    ask = f"from sweeps.ray.cluster import refusal; print(refusal('127.0.0.1', {nodes.port}))"
    own = {**nodes.environment(), "PYTHONPATH": str(ROOT)}
    asked = [own, {**own, "RAY_AUTH_TOKEN": "ab" * 32}, {**own, "RAY_AUTH_MODE": "disabled", "RAY_AUTH_TOKEN": ""}]
    running = [
        subprocess.Popen([sys.executable, "-c", ask], env=one, stdout=subprocess.PIPE, text=True) for one in asked
    ]
    return [one.communicate(timeout=PATIENCE_SECONDS)[0].strip() for one in running]


@pytest.mark.chaos
@pytest.mark.outage
@pytest.mark.timeout(900)
def test_workers_and_nodes_come_and_go(tmp_path):
    with Nodes() as nodes:
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
        longest = sweep.until("a draw of a new attempt", lambda: bool(set(sweep.drawn()) - attempts))

        # The power of a whole node, with a trial's workers on it, half-way.
        sweep.until("half of the trials", lambda: sweep.finished() >= 2 and bool(ranks(nodes, "second")))
        attempts = set(sweep.drawn())
        nodes.kill("second")
        sweep.note("killed the second node")
        nodes.start("third", cpus=2, **sweep.extra)
        sweep.note("a third node joined")
        longest = max(longest, sweep.until("a draw of a new attempt", lambda: bool(set(sweep.drawn()) - attempts)))

        # A notice, and the end of the node that had it.
        sweep.until("workers on the third node", lambda: bool(ranks(nodes, "third")) or sweep.finished() >= TRIALS - 1)
        nodes.drain("third", seconds=2)
        sweep.note("the third node is drained")
        time.sleep(2)
        nodes.kill("third")
        sweep.note("the third node is gone")
        sweep.until("the end", lambda: sweep.process.poll() is not None)
        assert sweep.process.returncode == 0, sweep.words()
        sweep.check()
        lost = [entry for entry in sweep.store().ledger(NAME) if entry.attempt > 1]
        assert len(lost) >= 2, sweep.words()
        print("\n" + "\n".join(sweep.log), f"\nlongest wait for new work {longest:.1f} s;", sweep.figures())


@pytest.mark.chaos
@pytest.mark.outage
@pytest.mark.timeout(400)
def test_a_trial_leaves_a_node_that_is_to_go_and_no_step_is_paid_twice(tmp_path):
    with Nodes() as nodes:
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
        attempts = sweep.store().attempts(NAME)
        assert [one.reason for one in attempts if one.reason] == [NODE_LEAVES], sweep.words()
        print("\n" + "\n".join(sweep.log))
        needed = sum(record.step for record in sweep.store().trials(NAME))
        assert total(sweep.store().ledger(NAME)).executed == sum(sweep.drawn().values()) == needed, sweep.figures()
