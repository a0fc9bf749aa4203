"""Two nodes, two workers a trial, through `sweeps run` itself: a node has notice, and its trial moves."""

import pytest

from sweeps.privacy.ledger import total
from tests.chaos.clustered import NAME, Sweep, ranks
from tests.chaos.nodes import Nodes
from trainables.worker.attempt import NODE_LEAVES


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
