"""Any process may die at any moment, a store may vanish, and what a worker left may be damaged: all is charged.

SWEEPS_CHAOS_KILLS=N asks for N kills in all, of `make chaos` 40. The suite's three strike one of each kind.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from mlflow import MlflowClient

from sweeps.search.proposer import Proposer
from sweeps.spec.parse import load_spec
from sweeps.store.records import TrialRecord, TrialState
from tests.chaos import witness
from tests.chaos.harness import HANG_SECONDS, Attacked, Victim, below, held
from trainables.worker.files import with_checksum

SHORT = witness.spec("short", trials=60, steps=(3, 6), step_seconds=0.02, checkpoint_seconds=0.05)
LONG = witness.spec("long", trials=14, steps=(15, 25), step_seconds=0.1)
SLOW = witness.spec("slow", trials=10, steps=(15, 25), step_seconds=0.4)
VICTIMS: tuple[Victim, ...] = ("worker", "controller", "raylet")
ROUNDS = max(1, int(os.environ.get("SWEEPS_CHAOS_KILLS", "3")) // len(VICTIMS))


def unbroken(text: str) -> list[dict[str, object]]:
    """What a sweep that nobody strikes would propose."""
    spec = load_spec(text, systems={witness.WITNESSED_MEAN.name: witness.WITNESSED_MEAN})
    proposer = Proposer(spec)
    proposals = (proposer.propose() for _ in range(spec.search.trials))
    return [dict(one.config) for one in proposals if one is not None]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_kills_lose_nothing_double_nothing_and_charge_everything(tmp_path: Path, seed: int) -> None:
    text, trials = ((LONG, 14), (SHORT, 60))[seed % 2]
    draw = random.Random(seed)
    sweep = Attacked(tmp_path, text, trials)
    sweep.torture(draw.sample(VICTIMS, len(VICTIMS)), draw)
    sweep.check(f"seed {seed}", f"killed {dict(sweep.struck)}")
    store = sweep.opened()
    assert [dict(record.config) for record in store.trials(sweep.name)] == unbroken(text)
    keys = sorted(record.key for record in store.trials(sweep.name))
    store.close()
    client = MlflowClient(f"sqlite:///{sweep.root}/mlflow.db")
    experiment = client.get_experiment_by_name(sweep.name)
    assert experiment is not None
    runs = [run for run in client.search_runs([experiment.experiment_id]) if "sweeps.trial_key" in run.data.tags]
    assert sorted(run.data.tags["sweeps.trial_key"] for run in runs) == keys
    assert {run.info.status for run in runs} == {"FINISHED"}


def under_charged(sweep: Attacked) -> dict[tuple[str, int], tuple[int, int]]:
    """{(key, attempt): (drawn, charged)} of all that drew more than it is charged."""
    with closing(sweep.opened()) as store:
        charged = {(entry.key, entry.attempt): entry.steps_spent for entry in store.ledger(sweep.name)}
    return {one: (n, charged.get(one, 0)) for one, n in sweep.drawn().items() if n > charged.get(one, 0)}


@pytest.mark.outage
@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", ["deleted", "replaced by an older copy", "its log deleted"])
def test_a_store_that_vanishes_stops_the_sweep_before_more_is_drawn(tmp_path: Path, fault: str) -> None:
    sweep = Attacked(tmp_path, LONG, 14)
    sweep.start()
    sweep.until("three attempts", lambda: sweep.attempts() >= 3)
    path = sweep.root / "sweeps.db"
    if fault == "deleted":
        path.unlink()
    elif fault == "its log deleted":
        path.with_name("sweeps.db-wal").unlink()
    else:
        with closing(sqlite3.connect(path)) as before, closing(sqlite3.connect(tmp_path / "older.db")) as copy:
            before.backup(copy)
        time.sleep(1)
        (tmp_path / "older.db").rename(path)
    sweep.note(f"store {fault}, {sum(sweep.drawn().values())} drawn")
    sweep.end(2)
    (kept,) = sweep.root.glob("sweeps.db.kept-*")
    assert "Nothing more is launched, and what runs is stopped" in sweep.text(), sweep.words()
    after = sweep.drawn()
    time.sleep(2)
    assert sweep.drawn() == after, "something runs on"
    # No attempt began that the copy does not know, and each drew no more than it is charged there.
    for part in ("", "-wal", "-shm"):
        path.with_name(f"sweeps.db{part}").unlink(missing_ok=True)
    kept.rename(path)
    assert under_charged(sweep) == {}
    sweep.go_on()
    sweep.check(f"store {fault}")


def newest_checkpoint(folder: Path) -> Path:
    return max(folder.glob("checkpoint.*.npz"), key=lambda path: int(path.name.split(".")[1]))


def states_one(folder: Path) -> None:
    for name in ("horizon.json", "horizon.copy.json"):
        place = f"{folder.parent.name}/{folder.name}/{name}"
        (folder / name).write_bytes(with_checksum(place, b'{"until_step": 1}'))


def both_deleted(folder: Path) -> None:
    (folder / "horizon.json").unlink()
    (folder / "horizon.copy.json").unlink()


def another_trials(folder: Path) -> None:
    others = [path for path in folder.parents[1].glob("*/*/horizon.json") if path.parent != folder]
    (folder / "horizon.json").write_bytes(others[0].read_bytes())


FAULTS: dict[str, Callable[[Path], object]] = {
    "both horizons say 1": states_one,
    "horizon of 0 bytes": lambda folder: (folder / "horizon.json").write_bytes(b""),
    "horizon of garbage": lambda folder: (folder / "horizon.json").write_bytes(b"\xff{[" * 99),
    "horizon of another trial": another_trials,
    "both horizons deleted": both_deleted,
    "newest checkpoint of 0 bytes": lambda folder: newest_checkpoint(folder).write_bytes(b""),
    "newest checkpoint cut in half": lambda folder: newest_checkpoint(folder).write_bytes(
        newest_checkpoint(folder).read_bytes()[:200]
    ),
}


def stopped_worker(sweep: Attacked, but: set[str]) -> tuple[int, Path]:
    """(pid, folder) of a worker in the middle of an attempt that has two checkpoints; from here on it does nothing.

    A worker is known by the witness's file, which it holds open.
    """
    limit = time.monotonic() + 3 * HANG_SECONDS
    while True:
        assert sweep.process.poll() is None, sweep.words()
        assert time.monotonic() < limit, f"no checkpoint: {sweep.words()}"
        with closing(sweep.opened()) as store:
            running = store.trials(sweep.name, states=[TrialState.RUNNING])
        now = {f"{one.key}.{one.attempts}" for one in running}
        for pid, command in below(sweep.process.pid):
            for key, _, attempt in (name.rpartition(".") for name in now & held(pid, sweep.witness)):
                folder = sweep.root / sweep.name / "trials" / key / attempt
                if key in but or not command.startswith("ray::") or len(list(folder.glob("checkpoint.*.npz"))) < 2:
                    continue
                os.kill(pid, signal.SIGSTOP)
                with closing(sweep.opened()) as store:
                    (record,) = store.trials_of(sweep.name, [key])
                if record.state is TrialState.RUNNING and not ended(folder, record):
                    return pid, folder
                os.kill(pid, signal.SIGCONT)
        time.sleep(0.05)


def ended(folder: Path, record: TrialRecord) -> bool:
    """Whether the attempt has its last checkpoint, or was given up."""
    return (folder / f"checkpoint.{record.planned_steps}.npz").exists() or (folder / "fence").exists()


@pytest.mark.outage
@pytest.mark.timeout(900)
def test_records_that_lie_or_are_damaged_cost_their_own_attempt(tmp_path: Path) -> None:
    sweep = Attacked(tmp_path, SLOW, 10)
    done: dict[tuple[str, int], str] = {}
    sweep.start()
    sweep.until("its record", sweep.recorded)
    for what, damage in FAULTS.items():
        pid, folder = stopped_worker(sweep, but={key for key, _ in done})
        damage(folder)
        os.kill(pid, signal.SIGKILL)
        done[folder.parent.name, int(folder.name)] = what
        sweep.note(f"{folder.parent.name}.{folder.name}: {what}")
    sweep.end(0)
    with closing(sweep.opened()) as store:
        entries = {(one.key, one.attempt): one for one in store.ledger(sweep.name)}
    for attempted, what in done.items():
        # All that it was reserved is charged.
        assert entries[attempted].executed_to == entries[attempted].to_step, f"{what}: {entries[attempted]}"
    assert under_charged(sweep) == {}
    sweep.check("damaged")
