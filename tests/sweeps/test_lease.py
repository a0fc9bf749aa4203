"""Exactly one controller writes a sweep, whoever else believes so; real processes fight for it."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from sqlalchemy import text

from sweeps.store import lease as lease_module
from sweeps.store.database import Database
from sweeps.store.errors import LeaseHeld, LeaseLost
from sweeps.store.store import open_store
from tests.sweeps.stores import SWEEP, new_database, plan, postgres_server, proposal, record, refusal, settle


@pytest.fixture(scope="module")
def server():
    with postgres_server() as running:
        yield running


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/sweeps.db"
    else:
        server = request.getfixturevalue("server")
        url = new_database(server)
    open_store(url).create_sweep(record())
    return url


HOLD = """
import sys, time
from sweeps.store.store import open_store
lease = open_store(sys.argv[1]).acquire(sys.argv[2], ttl_seconds=float(sys.argv[3]))
print("held", flush=True)
time.sleep(60)
"""


def hold(url, ttl_seconds):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, url, SWEEP, str(ttl_seconds)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    return process


def test_a_living_holder_is_named_and_a_dead_one_is_replaced_at_once(url):
    other = hold(url, ttl_seconds=1000)
    store = open_store(url)
    with pytest.raises(LeaseHeld, match=rf"process {other.pid} on host .* since 20..-"):
        store.acquire(SWEEP)
    other.kill()
    other.wait()
    lease = store.acquire(SWEEP)
    store.launch(lease, proposal(0), plan(), 100)


def test_a_paused_holder_is_replaced_after_its_expiry_and_can_never_write_again(url):
    first = open_store(url)
    old = first.acquire(SWEEP, ttl_seconds=0.3)
    first.launch(old, proposal(0), plan(), 100)
    second = open_store(url)
    with pytest.raises(LeaseHeld):
        second.acquire(SWEEP)
    time.sleep(0.4)
    # Expired and not taken: still the only one, so it may go on.
    first.launch(old, proposal(1), plan(), 100)
    new = second.acquire(SWEEP)
    assert new.token == old.token + 1
    writes = [
        lambda: first.launch(old, proposal(2), plan(), 100),
        lambda: first.relaunch(old, f"{SWEEP}-0", 0, 100),
        lambda: settle(first, old, f"{SWEEP}-0"),
        lambda: first.lose(old, f"{SWEEP}-0", 1, None, ""),
        lambda: first.fail(old, f"{SWEEP}-0", 1, None, ""),
        lambda: first.record_infeasible(old, [(proposal(3), refusal())]),
        lambda: first.set_state(old, "finished"),
        lambda: first.set_fingerprints(old, {}),
        lambda: first.delivered(old, [1]),
        old.renew,
    ]
    for write in writes:
        with pytest.raises(LeaseLost, match="held by process"):
            write()
    old.release()
    second.launch(new, proposal(2), plan(), 100)
    assert second.counts(SWEEP)["running"] == 3


def test_renewing_pushes_the_expiry(url):
    store = open_store(url)
    lease = store.acquire(SWEEP, ttl_seconds=0.6)
    for _ in range(6):
        time.sleep(0.25)
        lease.renew()
    with pytest.raises(LeaseHeld):
        store.acquire(SWEEP)


def test_a_released_lease_is_free_and_writes_no_more(url):
    store = open_store(url)
    lease = store.acquire(SWEEP)
    lease.release()
    with pytest.raises(LeaseLost, match="held by nobody"):
        store.launch(lease, proposal(0), plan(), 100)
    store.acquire(SWEEP)


FIGHT = """
import sys, time
from sweeps.store.errors import LeaseHeld
from sweeps.store.store import open_store
store = open_store(sys.argv[1])
time.sleep(max(0, float(sys.argv[3]) - time.time()))
try:
    store.acquire(sys.argv[2])
except LeaseHeld:
    print("lost")
else:
    print("won", flush=True)
    time.sleep(60)
"""


def test_of_several_controllers_exactly_one_wins(url):
    start = str(time.time() + 3)
    fighters = [
        subprocess.Popen([sys.executable, "-c", FIGHT, url, SWEEP, start], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    outcomes = [fighter.stdout.readline().strip() for fighter in fighters]
    for fighter in fighters:
        fighter.kill()
        fighter.wait()
    assert sorted(outcomes) == ["lost", "lost", "lost", "won"]


def test_a_stopped_process_is_not_taken_for_dead(url):
    other = hold(url, ttl_seconds=1000)
    os.kill(other.pid, signal.SIGSTOP)
    try:
        with pytest.raises(LeaseHeld):
            open_store(url).acquire(SWEEP)
    finally:
        other.kill()
        other.wait()


def test_a_reused_process_id_and_another_machine(monkeypatch):
    own = lease_module.this_process(since=0.0, acquisition="x")
    assert not own.is_dead()
    # The same process id, started at another time: the holder is gone.
    reused = lease_module.Holder(own.host, own.machine, own.pid, own.pid_started + "1", 0.0, "x")
    assert reused.is_dead()
    # A process id of another machine, or of another container on this one, says nothing here.
    elsewhere = lease_module.Holder(own.host, own.machine + "1", 2**22 + 1, "1", 0.0, "x")
    assert not elsewhere.is_dead()


def stamped_ahead(url, monkeypatch, hours=1.0):
    """A holder elsewhere, whose lease a clock that was ahead has stamped."""
    store = open_store(url)
    now = Database.now
    monkeypatch.setattr(lease_module, "_machine", lambda: f"{BOOT} elsewhere")
    monkeypatch.setattr(Database, "now", lambda self, connection: now(self, connection) + 3600 * hours)
    lease = store.acquire(SWEEP, ttl_seconds=0.5)
    monkeypatch.undo()
    return store, lease


BOOT = lease_module._machine().partition(" ")[0]


def test_a_clock_that_was_ahead_blocks_no_longer_than_the_lease_was_meant_to_last(url, monkeypatch):
    stamped_ahead(url, monkeypatch)
    second = open_store(url)
    with pytest.raises(LeaseHeld, match=r"its lease ends in [01] s"):
        second.acquire(SWEEP)
    time.sleep(0.7)
    second.acquire(SWEEP)


def test_a_living_holder_keeps_a_lease_that_was_cut_to_its_length(url, monkeypatch):
    store, lease = stamped_ahead(url, monkeypatch)
    second = open_store(url)
    for _ in range(4):
        with pytest.raises(LeaseHeld):
            second.acquire(SWEEP)
        time.sleep(0.25)
        lease.renew()
    store.launch(lease, proposal(0), plan(), 100)


def test_without_the_cut_it_would_block_for_an_hour(url, monkeypatch):
    stamped_ahead(url, monkeypatch)
    monkeypatch.setattr(lease_module, "_set", lambda connection, sweep_id, **values: None)
    second = open_store(url)
    with pytest.raises(LeaseHeld):
        second.acquire(SWEEP)
    time.sleep(0.7)
    with pytest.raises(LeaseHeld):
        second.acquire(SWEEP)


def test_a_holder_of_an_earlier_boot_is_gone_where_it_can_only_have_run_here(monkeypatch):
    own = lease_module.this_process(since=0.0, acquisition="x")
    boot, space = own.machine.split(" ", 1)
    earlier = replace(own, machine=f"{boot}-before {space}")
    assert earlier.is_dead(on_this_host=True)
    assert not earlier.is_dead()
    # Another container of this boot: its process ids say nothing here, so that its lease has to run out.
    assert not replace(own, machine=f"{boot} another", pid=2**22 + 1).is_dead(on_this_host=True)


def test_without_the_check_of_the_token_the_exam_would_fail(url, monkeypatch):
    store = open_store(url)
    old = store.acquire(SWEEP, ttl_seconds=0.0)
    store.acquire(SWEEP)
    monkeypatch.setattr(lease_module.Lease, "check", lambda self, connection: connection.execute(text("SELECT 1")))
    store.launch(old, proposal(0), plan(), 100)
    assert store.counts(SWEEP)["running"] == 1
