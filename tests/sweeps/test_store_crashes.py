"""Killed between any two statements, disconnected in mid-write: all of a transaction or nothing of it."""

import itertools
import os
import signal
import sqlite3
import subprocess
from pathlib import Path

import pytest
from sqlalchemy import event

from sweeps.store.database import Place
from sweeps.store.errors import StoreError, StoreVanished
from sweeps.store.records import TrialState
from sweeps.store.store import open_store
from tests.sweeps.fake_workers import NAME, FakeSweep, launched
from tests.sweeps.stores import SWEEP, new_database, plan, proposal, record, refusal, settle
from trainables.worker.attempt import Cancelled

CUT = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid();"
)
"""Every connection to the server."""


def live(url: str, statements: int, acknowledge: int) -> None:
    """One life of a trial, one statement counted after the other; the process kills itself before the given one.

    Each write that returned is written to the descriptor `acknowledge` by its name.
    """
    store = open_store(url)
    lease = store.acquire(SWEEP)
    left = statements

    def count(*_):
        nonlocal left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1

    for moment in ("before_cursor_execute", "after_cursor_execute", "commit"):
        event.listen(store._database._engine, moment, count)

    again, other = f"{SWEEP}-2", f"{SWEEP}-3"
    writes = {
        "infeasible": lambda: store.record_infeasible(lease, proposal(0), refusal()),
        "launch": lambda: store.launch(lease, proposal(2), plan(), 100),
        "lose": lambda: store.lose(lease, again, 1, 60, "gone"),
        "relaunch": lambda: store.relaunch(lease, again, 40, 100),
        "settle": lambda: settle(store, lease, again, attempt=2),
        "launch other": lambda: store.launch(lease, proposal(3), plan(), 100),
        "fail": lambda: store.fail(lease, other, 1, None, "nan"),
    }
    for name, write in writes.items():
        write()
        os.write(acknowledge, f"{name}\n".encode())


PLANNED, RUNNING, COMPLETE = TrialState.PLANNED, TrialState.RUNNING, TrialState.COMPLETE
FAILED = TrialState.FAILED
# What the store holds after each committed write: state of each trial, executed_to of each entry, outbox kinds.
INFEASIBLE = [TrialState.INFEASIBLE]
TOLD = ["infeasible"]
AFTER = {
    "": ([], [], []),
    "infeasible": (INFEASIBLE, [], TOLD),
    "launch": ([*INFEASIBLE, RUNNING], [None], TOLD),
    "lose": ([*INFEASIBLE, PLANNED], [60], [*TOLD, "lost"]),
    "relaunch": ([*INFEASIBLE, RUNNING], [60, None], [*TOLD, "lost"]),
    "settle": ([*INFEASIBLE, COMPLETE], [60, 100], [*TOLD, "lost", "settled"]),
    "launch other": ([*INFEASIBLE, COMPLETE, RUNNING], [60, 100, None], [*TOLD, "lost", "settled"]),
    "fail": ([*INFEASIBLE, COMPLETE, FAILED], [60, 100, 100], [*TOLD, "lost", "settled", "failed"]),
}
ORDER = list(AFTER)


def held(store):
    return (
        [trial.state for trial in store.trials(SWEEP)],
        [entry.executed_to for entry in store.ledger(SWEEP)],
        [row.kind for row in store.outbox(SWEEP)],
    )


def lived(url: str, statements: int) -> tuple[int, str]:
    """(code, the last write acknowledged) of a process that lived `live` on this store up to a statement."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            live(url, statements, writing)
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as told:
        names = told.read().splitlines()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), names[-1] if names else ""


def test_a_kill_between_any_two_statements_leaves_whole_transactions(tmp_path):
    kills, code = 0, -signal.SIGKILL
    for statements in itertools.count(step=5):
        url = f"sqlite:///{tmp_path}/{statements}.db"
        store = open_store(url)
        store.create_sweep(record())
        store.close()
        code, acknowledged = lived(url, statements)
        store = open_store(url, create=False)
        following = ORDER[min(ORDER.index(acknowledged) + 1, len(ORDER) - 1)]
        # What was acknowledged is there; the write under way is there whole or not at all.
        assert held(store) in (AFTER[acknowledged], AFTER[following]), (statements, acknowledged)
        running = sum(trial.state is RUNNING for trial in store.trials(SWEEP))
        assert running == sum(entry.executed_to is None for entry in store.ledger(SWEEP))
        # The dead holder is replaced at once, and the sweep goes on.
        lease = store.acquire(SWEEP)
        for trial in store.trials(SWEEP, states=[RUNNING]):
            store.lose(lease, trial.key, trial.attempts, None, "the controller ended while it ran")
        assert store.counts(SWEEP)["running"] == 0
        store.close()
        if code != -signal.SIGKILL:
            break
        kills += 1
    assert (code, acknowledged) == (0, "fail")
    assert kills >= 12


def test_a_connection_cut_in_mid_write_loses_and_doubles_nothing(server):
    store = open_store(new_database(server))
    store.create_sweep(record())
    lease = store.acquire(SWEEP)
    victims = iter(range(3, 10_000, 11))
    target = [next(victims)]
    seen = [0]

    def cut(connection, cursor, statement, parameters, context, executemany):
        seen[0] += 1
        if seen[0] == target[0]:
            target[0] = next(victims)
            server.psql(CUT)

    event.listen(store._database._engine, "before_cursor_execute", cut)
    for number in range(6):
        assert store.launch(lease, proposal(number), plan(), 100).attempt == 1
        store.lose(lease, f"{SWEEP}-{number}", 1, 30, "gone")
        assert store.relaunch(lease, f"{SWEEP}-{number}", 30, 100).attempt == 2
        settle(store, lease, f"{SWEEP}-{number}", attempt=2)
    event.remove(store._database._engine, "before_cursor_execute", cut)
    assert seen[0] > 60
    assert store.counts(SWEEP)["complete"] == 6
    assert [entry.executed_to for entry in store.ledger(SWEEP)] == [30, 100] * 6
    assert [row.kind for row in store.outbox(SWEEP)] == ["lost", "settled"] * 6
    store.close()


@pytest.mark.parametrize("write", ["launch", "relaunch", "settle"])
def test_an_answer_lost_after_the_commit_is_recognised(server, write):
    """The commit arrives, its acknowledgement does not: the repetition must find its own work and leave it."""
    store = open_store(new_database(server))
    store.create_sweep(record())
    lease = store.acquire(SWEEP)
    if write != "launch":
        store.launch(lease, proposal(0), plan(), 100)
    if write == "relaunch":
        store.lose(lease, f"{SWEEP}-0", 1, 30, "gone")
    once = [True]
    engine = store._database._engine
    commit = engine.dialect.do_commit

    def commit_and_cut(connection):
        commit(connection)
        if once.pop() if once else False:
            server.psql(CUT)
            connection.cursor().execute("SELECT 1")

    engine.dialect.do_commit = commit_and_cut
    if write == "launch":
        assert store.launch(lease, proposal(0), plan(), 100).attempt == 1
    elif write == "relaunch":
        assert store.relaunch(lease, f"{SWEEP}-0", 30, 100).attempt == 2
    else:
        settle(store, lease, f"{SWEEP}-0")
    assert once == []
    expected = {"launch": [None], "relaunch": [30, None], "settle": [100]}[write]
    assert [entry.executed_to for entry in store.ledger(SWEEP)] == expected
    store.close()


# A store that is deleted, moved or replaced under a running sweep: no noise is drawn that no ledger knows.


@pytest.fixture
def sweep(folder):
    return FakeSweep(folder)


def deleted(path: Path) -> None:
    path.unlink()


def moved(path: Path) -> None:
    path.rename(path.with_name("moved.db"))


def replaced_by_a_copy(path: Path) -> None:
    """By what SQLite itself would take for the same store."""
    with sqlite3.connect(path) as before, sqlite3.connect(path.with_name("copy.db")) as copy:
        before.backup(copy)
    os.replace(path.with_name("copy.db"), path)


def without_its_log(path: Path) -> None:
    path.with_name(f"{path.name}-wal").unlink()


FAULTS = (deleted, moved, replaced_by_a_copy, without_its_log)


@pytest.mark.parametrize("fault", FAULTS)
def test_nothing_is_launched_into_a_store_that_is_gone_and_what_it_held_is_kept(sweep, fault):
    running = launched(sweep)
    before = sweep.store.ledger(NAME)
    path = sweep.folder / "store.db"
    fault(path)
    with pytest.raises(StoreVanished, match=r"Nothing more is launched, and what runs is stopped\. All that") as gone:
        sweep.controller.decide()
    assert "sweeps resume" in str(gone.value)
    # The heartbeat notices too, between two reservations.
    with pytest.raises(StoreVanished):
        sweep.lease.renew()
    sweep.controller.fence_running()
    with pytest.raises(Cancelled):
        running.reserve_until(1)
    assert not sweep.executed
    sweep.store.close()
    # As the message says.
    (kept,) = sweep.folder.glob("store.db.kept-*")
    for part in ("", "-wal", "-shm"):
        (sweep.folder / f"store.db{part}").unlink(missing_ok=True)
    kept.rename(path)
    with sqlite3.connect(path) as opened:
        # This process stands for the controller that ended.
        opened.execute("UPDATE leases SET holder = NULL, expires_at = 0")
    opened.close()
    sweep.store = open_store(f"sqlite:///{path}", create=False)
    assert sweep.store.ledger(NAME) == before
    sweep.start()
    sweep.finish()
    sweep.check_end(trials=5)


def test_a_store_that_vanishes_inside_a_transaction_launches_nothing(sweep, monkeypatch):
    """Deleted after the first look: the reservation is committed, and nobody would find it."""
    launched(sweep)
    checks = Place.check
    path = sweep.folder / "store.db"

    def look_then_lose(self):
        checks(self)
        path.unlink(missing_ok=True)

    monkeypatch.setattr(Place, "check", look_then_lose)
    with pytest.raises(StoreVanished):
        sweep.controller.decide()


# A full disk.


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"NOT TESTED: a really full disk; this machine lets nobody mount a small one: {mounted.stderr}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_stops_the_sweep_and_loses_nothing(small_disk):
    store = open_store(f"sqlite:///{small_disk}/sweeps.db")
    store.create_sweep(record())
    lease = store.acquire(SWEEP)
    written = []

    def fill() -> None:
        while True:
            written.append(store.launch(lease, proposal(len(written)), plan(), 100).key)

    with pytest.raises(StoreError, match=r"full.*Free space, then go on with `sweeps resume`"):
        fill()
    assert len(written) > 20
    assert [one.key for one in store.trials(SWEEP)] == written
    # With room again, the sweep goes on where it stood.
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    store.launch(lease, proposal(len(written)), plan(), 100)
    assert store.counts(SWEEP)["running"] == len(written) + 1
    store.close()


def test_reservations_are_written_through_to_the_disk(tmp_path):
    store = open_store(f"sqlite:///{tmp_path}/sweeps.db")
    asked = ("journal_mode", "synchronous", "foreign_keys")
    values = store._database.write(
        lambda connection: [connection.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in asked]
    )
    full = 2
    assert values == ["wal", full, 1]
