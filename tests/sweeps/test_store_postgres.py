"""What only a database server can do to a sweep: refused users, a server that is stopped, a table that is locked."""

import sqlite3
import time

import pytest
from sqlalchemy import text

from sweeps.store.errors import StoreError
from sweeps.store.store import open_store
from sweeps.util import waiting
from sweeps.util.waiting import patience
from tests.sweeps.stores import SWEEP, new_database, plan, proposal, record, settle, stopped


@pytest.mark.parametrize("user", ["weak:wrong-secret", "weak", "nobody-here:some-secret"])
def test_a_refused_user_is_told_at_once_and_without_the_password(server, monkeypatch, user):
    monkeypatch.delenv("PGPASSWORD", raising=False)
    server.psql("DROP ROLE IF EXISTS weak; CREATE ROLE weak LOGIN PASSWORD 'right-secret';")
    rules = server.pgdata / "pg_hba.conf"
    before, began = rules.read_text(), time.monotonic()
    rules.write_text(f"local all weak scram-sha-256\n{before}")
    server.psql("SELECT pg_reload_conf();")
    try:
        with pytest.raises(StoreError, match="Check the URL, its user and password") as caught:
            open_store(new_database(server).replace("postgres:@", f"{user}@"))
    finally:
        rules.write_text(before)
        server.psql("SELECT pg_reload_conf();")
    # Waiting changes nothing: only a server that does not answer is waited for.
    assert time.monotonic() - began < patience() / 4
    assert "secret" not in str(caught.value)


def test_rights_to_look_are_enough_to_look_and_no_more(server):
    url = new_database(server)
    server.psql("DROP ROLE IF EXISTS reader; CREATE ROLE reader LOGIN;")
    guest = url.replace("postgres:@", "reader@")
    with pytest.raises(StoreError, match=r"permission denied for schema public: the user lacks rights\. Grant"):
        open_store(guest)
    store = open_store(url)
    store.create_sweep(record())
    lease = store.acquire(SWEEP)
    store.launch(lease, proposal(0), plan(), 100)
    store._database.write(
        lambda connection: connection.execute(text("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader"))
    )
    reader = open_store(guest, create=False)
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
