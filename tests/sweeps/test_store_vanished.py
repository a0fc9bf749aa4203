"""A store that is deleted, moved or replaced under a running sweep: no noise is drawn that no ledger knows."""

import os
import shutil
import sqlite3
from pathlib import Path

import pytest

from sweeps.store.database import Place
from sweeps.store.errors import StoreVanished
from sweeps.store.store import open_store
from tests.sweeps.fake_workers import NAME, FakeSweep, Worker, memory_folder
from trainables.worker.attempt import Cancelled


@pytest.fixture
def sweep():
    with memory_folder() as folder:
        yield FakeSweep(folder)


def launch(sweep):
    worker = Worker(sweep.controller.decide(), sweep.trials, sweep.executed)
    sweep.workers.append(worker)
    return worker


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
    running = launch(sweep)
    before = sweep.store.ledger(NAME)
    path = sweep.folder / "store.db"
    fault(path)
    with pytest.raises(StoreVanished, match=r"Nothing more is launched, and what runs is stopped\. All that") as gone:
        sweep.controller.decide()
    assert "sweeps resume" in str(gone.value)
    # The heartbeat notices too, between two reservations.
    with pytest.raises(StoreVanished):
        sweep.lease.renew()
    sweep.controller.outcomes.fence_running()
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


def test_without_its_folder_too_the_message_says_what_is_left_to_do(sweep):
    launch(sweep)
    shutil.rmtree(sweep.folder)
    with pytest.raises(StoreVanished, match="count every trial whose folder is there with its whole plan"):
        sweep.controller.decide()
    sweep.folder.mkdir()


def test_a_store_that_vanishes_inside_a_transaction_launches_nothing(sweep, monkeypatch):
    """Deleted after the first look: the reservation is committed, and nobody would find it."""
    launch(sweep)
    checks = Place.check
    path = sweep.folder / "store.db"

    def look_then_lose(self):
        checks(self)
        path.unlink(missing_ok=True)

    monkeypatch.setattr(Place, "check", look_then_lose)
    with pytest.raises(StoreVanished):
        sweep.controller.decide()
