"""A store that is gone, stopped or locked: a word, an end within one patience, and no second patience after it."""

import sqlite3
import threading
import time

import pytest
from sqlalchemy import text

from sweeps.store import database
from sweeps.store.errors import StoreError
from sweeps.store.store import open_store
from sweeps.util import waiting
from tests.sweeps.stores import SWEEP, new_database, plan, postgres_server, proposal, record, settle, stopped

PATIENCE = 1.5
SLACK = 4.0
"""What a loaded machine, and libpq's own least time for a connection (2 s), may add."""


@pytest.fixture(scope="module")
def server():
    with postgres_server() as running:
        yield running


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


def test_a_server_that_wakes_up_in_time_costs_only_time(server, store):
    lease = store.acquire(SWEEP)
    woken = threading.Event()

    def sleep():
        with stopped(server):
            woken.set()
            time.sleep(PATIENCE / 2)

    sleeper = threading.Thread(target=sleep)
    sleeper.start()
    woken.wait()
    assert store.launch(lease, proposal(0), plan(), 100).attempt == 1
    sleeper.join()
    assert len(store.ledger(SWEEP)) == 1


def test_a_server_that_is_gone_is_given_up_after_one_patience(server, store, capsys):
    lease = store.acquire(SWEEP)
    server.stop()
    try:
        waited = refused(lambda: store.launch(lease, proposal(0), plan(), 100), "waited for . s.*does not answer")
        assert PATIENCE * 0.9 < waited < PATIENCE + SLACK
        assert "Waiting for the store postgresql://" in capsys.readouterr().err
        assert refused(lambda: store.set_state(lease, "stopped"), "does not answer") < SLACK
    finally:
        server.start()
    store.set_state(lease, "stopped")


def test_a_locked_table_is_given_up_after_one_patience_and_named(server, store, capsys, monkeypatch):
    monkeypatch.setattr(database, "LAST_TRY_SECONDS", 0.3)
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


def test_a_statement_without_an_end_is_given_up(store):
    waited = refused(
        lambda: store._database.read(lambda connection: connection.execute(text("SELECT pg_sleep(60)"))),
        "did not come to the end",
    )
    assert PATIENCE * 0.8 < waited < PATIENCE + SLACK


def test_packets_that_are_swallowed_are_noticed_by_tcp(store):
    """The kernel's part is not tried here: only that it is asked for."""
    asked = store._database.read(lambda connection: connection.connection.dbapi_connection.info.get_parameters())
    assert asked["keepalives"] == "1"
    assert asked["tcp_user_timeout"] == "2000"
    assert int(asked["keepalives_idle"]) + 4 * int(asked["keepalives_interval"]) <= 6


def test_limits_that_the_url_gives_are_kept(server):
    url = server.get_uri() + "&connect_timeout=3&options=-c%20lock_timeout%3D7s"
    opened = open_store(url, patience_seconds=PATIENCE)
    found = opened._database.read(
        lambda connection: (
            connection.execute(text("SHOW lock_timeout")).scalar_one(),
            connection.connection.dbapi_connection.info.get_parameters()["connect_timeout"],
        )
    )
    assert found == ("7s", "3")
    opened.close()


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
