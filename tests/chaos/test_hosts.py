"""The same sweep over two hosts, each in a network of its own: the cable between them is pulled, and put back."""

from __future__ import annotations

import time

import pytest

from tests.chaos.clustered import NAME, Sweep, ranks
from tests.chaos.hosts import Hosts, allowed

TRIALS, BLINK_SECONDS = 2, 2.0
"""A blink is shorter than what counts as a dead node: see `Nodes.environment`."""


@pytest.mark.chaos
@pytest.mark.outage
@pytest.mark.timeout(900)
def test_a_cable_is_pulled_and_put_back(tmp_path):
    if not allowed():
        pytest.skip("NOT TESTED: hosts that lose each other; this machine lets nobody make network namespaces")
    with Hosts() as hosts:
        sweep = Sweep(tmp_path, hosts, trials=TRIALS, epochs=80.0)
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
        sweep.check()
        assert len(sweep.store().ledger(NAME)) > TRIALS, sweep.words()
        print("\n" + "\n".join(sweep.log), f"\nfrom the cut to new work {moved:.1f} s;", sweep.figures())
