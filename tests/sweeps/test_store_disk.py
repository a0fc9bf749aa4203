"""Full disks, read-only folders, locked and foreign files, and files of every released schema version."""

import os
import subprocess
import sys

import pytest

from sweeps.store.errors import StoreError
from sweeps.store.records import TrialState
from sweeps.store.store import open_store
from tests.sweeps.stores import SWEEP, plan, proposal, record, settle

# Launches trials until the store refuses; prints what was acknowledged, then the refusal.
FILL = """
import resource, signal, sys
from sweeps.store.errors import StoreError
from sweeps.store.store import open_store
from tests.sweeps.stores import SWEEP, plan, proposal, settle

store = open_store(sys.argv[1])
lease = store.acquire(SWEEP)
if len(sys.argv) > 2:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
number = 0
try:
    while number < 5000:
        store.launch(lease, proposal(number), plan(), 100)
        print(number, "launched", flush=True)
        settle(store, lease, f"{SWEEP}-{number}")
        print(number, "settled", flush=True)
        number += 1
except StoreError as error:
    print(error, flush=True)
    store.counts(SWEEP)
    sys.exit(0)
sys.exit("never refused")
"""


def fill(url, *limit):
    done = subprocess.run(
        [sys.executable, "-c", FILL, url, *map(str, limit)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    *acknowledged, message = done.stdout.strip().split("\n")
    return [line.split() for line in acknowledged], message


def assert_nothing_lost(url, acknowledged):
    store = open_store(url)
    states = {str(trial.number): trial.state for trial in store.trials(SWEEP)}
    for number, what in acknowledged:
        expected = {TrialState.COMPLETE} if what == "settled" else {TrialState.COMPLETE, TrialState.RUNNING}
        assert states[number] in expected
    assert len(states) - len({number for number, _ in acknowledged}) in (0, 1)
    # With room again, the sweep goes on where it stood.
    lease = store.acquire(SWEEP)
    for trial in store.trials(SWEEP, states=[TrialState.RUNNING]):
        settle(store, lease, trial.key)
    store.launch(lease, proposal(9000), plan(), 100)
    assert store.counts(SWEEP)["running"] == 1
    store.close()


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
    url = f"sqlite:///{small_disk}/sweeps.db"
    open_store(url).create_sweep(record())
    acknowledged, message = fill(url)
    assert len(acknowledged) > 20
    assert "full" in message
    assert "Free space, then go on with `sweeps resume`" in message
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    assert_nothing_lost(url, acknowledged)


@pytest.fixture
def read_only_folder(tmp_path):
    folder = tmp_path / "read-only"
    folder.mkdir()
    open_store(f"sqlite:///{folder}/old.db").create_sweep(record())
    if os.geteuid() != 0:
        folder.chmod(0o500)
        (folder / "old.db").chmod(0o400)
        yield folder
        folder.chmod(0o700)
        return
    # Modes mean nothing to root: a read-only mount does.
    for arguments in (["--bind", str(folder), str(folder)], ["-o", "remount,ro,bind", str(folder)]):
        mounted = subprocess.run(["mount", *arguments], capture_output=True, text=True)
        if mounted.returncode:
            pytest.skip(f"NOT TESTED: a read-only folder; root may not mount one here: {mounted.stderr}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_read_only_folder_is_named(read_only_folder):
    for path in (read_only_folder / "new.db", read_only_folder / "below" / "new.db", read_only_folder / "old.db"):
        with pytest.raises(StoreError, match=f"{read_only_folder}.*[Cc]hoose another --root or --store"):
            open_store(f"sqlite:///{path}").create_sweep(record("another"))


def test_a_file_that_is_no_database_is_left_alone(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("not a database, " * 100)
    with pytest.raises(StoreError, match="not a SQLite database"):
        open_store(f"sqlite:///{path}")
    assert path.read_text() == "not a database, " * 100


def test_reservations_are_written_through_to_the_disk(tmp_path):
    store = open_store(f"sqlite:///{tmp_path}/sweeps.db")
    asked = ("journal_mode", "synchronous", "foreign_keys")
    values = store._database.write(
        lambda connection: [connection.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in asked]
    )
    full = 2
    assert values == ["wal", full, 1]
