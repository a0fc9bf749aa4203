"""What only a database server can do to a sweep: old schemas, restarts, fights for the lease, refused users."""

import os
import signal
import sqlite3
import subprocess
import sys
import time

import pytest
from sqlalchemy import text

from sweeps.store.errors import StoreError
from sweeps.store.records import TrialState
from sweeps.store.store import open_store
from sweeps.util import waiting
from sweeps.util.waiting import patience
from tests.sweeps.stores import SWEEP, new_database, plan, proposal, record, settle, stopped


@pytest.fixture
def database(server):
    """The URL of a database of its own, as the superuser."""
    return new_database(server)


FIGHT = """
import sys, time
from sweeps.store.errors import LeaseHeld, LeaseLost
from sweeps.store.store import open_store
from tests.sweeps.stores import SWEEP, plan, proposal, settle

store = open_store(sys.argv[1])
until = time.monotonic() + float(sys.argv[2])
while time.monotonic() < until:
    try:
        lease = store.acquire(SWEEP, ttl_seconds=0.3)
        # What an earlier holder left running is settled first, as a controller does at its start.
        for trial in store.trials(SWEEP):
            if trial.state == "running":
                store.lose(lease, trial.key, trial.attempts, None, "taken over")
        for _ in range(20):
            number = max((trial.number for trial in store.trials(SWEEP)), default=-1) + 1
            store.launch(lease, proposal(number), plan(), 100)
            print("launched", number, lease.token, flush=True)
            settle(store, lease, f"{SWEEP}-{number}")
            print("settled", number, lease.token, flush=True)
            lease.renew()
    except (LeaseHeld, LeaseLost):
        time.sleep(0.05)
"""


def test_controllers_that_fight_for_the_lease_lose_and_double_nothing(server, database):
    """Three controllers, a lease of 0.3 s, holders stopped beyond it, and every connection cut now and then."""
    open_store(database).create_sweep(record())
    fighters = [
        subprocess.Popen([sys.executable, "-c", FIGHT, database, "3.5"], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    time.sleep(1.5)
    for turn in range(6):
        victim = fighters[turn % 3]
        os.kill(victim.pid, signal.SIGSTOP)
        time.sleep(0.4)
        os.kill(victim.pid, signal.SIGCONT)
        if turn % 3 == 2:
            server.psql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid();"
            )
    outputs = [fighter.communicate(timeout=60)[0] for fighter in fighters]
    assert [fighter.returncode for fighter in fighters] == [0, 0, 0]
    said = [line.split() for output in outputs for line in output.splitlines()]
    launched = [int(number) for what, number, _ in said if what == "launched"]
    settled = {int(number) for what, number, _ in said if what == "settled"}
    tokens = {int(token) for _, _, token in said}
    assert len(launched) == len(set(launched)) > 10
    assert len(tokens) >= 3
    store = open_store(database)
    trials = {trial.number: trial for trial in store.trials(SWEEP)}
    # Acknowledged is there; what is there beyond was committed just before its writer was stopped.
    assert set(launched) <= set(trials)
    assert sorted(trials) == list(range(len(trials)))
    assert all(trials[number].state is TrialState.COMPLETE for number in settled)
    entries = store.ledger(SWEEP)
    assert len(entries) == len(trials)
    assert sum(entry.executed_to is None for entry in entries) <= 1
    store.close()


@pytest.fixture
def guarded(server, database):
    """A database with a user who needs a password and owns nothing: (its URL without user, the server)."""
    server.psql("DROP ROLE IF EXISTS weak; CREATE ROLE weak LOGIN PASSWORD 'right-secret';")
    rules = server.pgdata / "pg_hba.conf"
    before = rules.read_text()
    rules.write_text(f"local all weak scram-sha-256\n{before}")
    server.psql("SELECT pg_reload_conf();")
    yield database
    rules.write_text(before)
    server.psql("SELECT pg_reload_conf();")


def as_user(url, user):
    return url.replace("postgres:@", f"{user}@")


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        ("weak:wrong-secret", r'password authentication failed for user "weak"\. Check the user and its password'),
        ("weak", "password"),
        ("nobody-here:some-secret", r'role "nobody-here" does not exist\. Create it'),
    ],
)
def test_a_refused_user_is_told_at_once_and_without_the_password(guarded, monkeypatch, user, expected):
    monkeypatch.delenv("PGPASSWORD", raising=False)
    began = time.monotonic()
    with pytest.raises(StoreError, match=expected) as caught:
        open_store(as_user(guarded, user))
    # Waiting changes nothing: only a server that does not answer is waited for.
    assert time.monotonic() - began < patience() / 4
    assert "secret" not in str(caught.value)


def test_the_password_may_come_from_the_environment(server, guarded, monkeypatch):
    monkeypatch.setenv("PGPASSWORD", "right-secret")
    weak = as_user(guarded, "weak")
    with pytest.raises(StoreError, match=r"permission denied for schema public: the user lacks rights\. Grant"):
        open_store(weak)
    store = open_store(guarded)
    store.create_sweep(record())
    lease = store.acquire(SWEEP)
    store.launch(lease, proposal(0), plan(), 100)
    with pytest.raises(StoreError, match=r"permission denied for table .*: the user lacks rights"):
        open_store(weak)
    # Rights to look are enough to look, and no more.
    store._database.write(
        lambda connection: connection.execute(text("GRANT SELECT ON ALL TABLES IN SCHEMA public TO weak"))
    )
    reader = open_store(weak, create=False)
    assert reader.counts(SWEEP)["running"] == 1
    with pytest.raises(StoreError, match="the user lacks rights"):
        reader.acquire(SWEEP)
    settle(store, lease, f"{SWEEP}-0")
    assert reader.counts(SWEEP)["complete"] == 1
    reader._database.close()
    store.close()


# A store that is gone, stopped or locked: a word, an end within one patience, and no second patience after it.


PATIENCE = 1.5
SLACK = 4.0
"""What a loaded machine, and libpq's own least time for a connection (2 s), may add."""


@pytest.fixture
def store(server, monkeypatch):
    monkeypatch.setattr(waiting, "WORD_SECONDS", 0.5)
    opened = open_store(new_database(server), patience_seconds=PATIENCE)
    opened.create_sweep(record())
    yield opened
    opened.close()


def refused(work, match):
    """Seconds until it was."""
    began = time.monotonic()
    with pytest.raises(StoreError, match=match):
        work()
    return time.monotonic() - began


def test_a_stopped_server_is_given_up_after_one_patience_with_a_word_before(server, store, capsys):
    lease = store.acquire(SWEEP)
    with stopped(server):
        waited = refused(lambda: store.launch(lease, proposal(0), plan(), 100), "does not answer.*sweeps resume")
        assert PATIENCE * 0.9 < waited < PATIENCE + SLACK
        assert "Waiting for the store postgresql://" in capsys.readouterr().err
        # Whoever ends now has more to write, and asks a server that is known to be silent.
        assert refused(lambda: store.set_state(lease, "stopped"), "does not answer") < SLACK
        assert refused(lease.release, "does not answer") < SLACK
    assert store.launch(lease, proposal(0), plan(), 100).attempt == 1
    settle(store, lease, f"{SWEEP}-0")
    assert store.counts(SWEEP)["complete"] == 1


def test_a_locked_table_is_given_up_after_one_patience_and_named(server, store, capsys, monkeypatch):
    monkeypatch.setattr("sweeps.store.database.LAST_TRY_SECONDS", 0.3)
    lease = store.acquire(SWEEP)
    other = open_store(store._database.url, create=False)
    with other._database._writers.begin() as connection:
        connection.execute(text("LOCK TABLE leases IN ACCESS EXCLUSIVE MODE"))
        waited = refused(lambda: store.launch(lease, proposal(0), plan(), 100), "another session holds a lock")
        assert PATIENCE * 0.8 < waited < PATIENCE + SLACK
        # Readers pass. The next write is tried for a moment only, its line is cut, and still the lock is the reason.
        assert [one.name for one in store.sweeps()] == [SWEEP]
        again = refused(lambda: store.launch(lease, proposal(0), plan(), 100), "another session holds a lock")
        assert again < PATIENCE / 2
    assert "Waiting for the store postgresql://" in capsys.readouterr().err
    assert store.launch(lease, proposal(0), plan(), 100).attempt == 1
    other.close()


def test_a_stopped_holder_of_the_sqlite_file_is_waited_for_once(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(waiting, "WORD_SECONDS", 0.5)
    store = open_store(f"sqlite:///{tmp_path}/sweeps.db", patience_seconds=PATIENCE)
    store.create_sweep(record())
    lease = store.acquire(SWEEP)
    other = sqlite3.connect(tmp_path / "sweeps.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    waited = refused(lambda: store.launch(lease, proposal(0), plan(), 100), "waited for . s.*holds it locked.*fuser")
    assert PATIENCE * 0.9 < waited < PATIENCE + SLACK
    assert f"Waiting for the store {tmp_path}/sweeps.db," in capsys.readouterr().err
    assert refused(lambda: store.set_state(lease, "stopped"), "holds it locked") < SLACK
    other.execute("ROLLBACK")
    store.set_state(lease, "stopped")
    other.close()
    store.close()
