"""Any process may die at any moment, a store may vanish, and what a worker left may be damaged: all is charged.

SWEEPS_CHAOS_KILLS=N asks for N kills in all, of `make chaos` 40. The suite's two strike a worker and the controller.
"""

from __future__ import annotations

import os
import random
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
from mlflow import MlflowClient

from sweeps.search.proposer import Proposer
from tests.chaos import witness
from tests.chaos.harness import Attacked, Victim
from tests.sweeps import toys
from trainables.data import SOURCES

pytestmark = pytest.mark.chaos

SHORT = witness.spec("short", trials=60, steps=(3, 6), step_seconds=0.02, checkpoint_seconds=0.05)
LONG = witness.spec("long", trials=14, steps=(15, 25), step_seconds=0.1)
VICTIMS: tuple[Victim, ...] = ("worker", "controller", "raylet")
KILLS = int(os.environ.get("SWEEPS_CHAOS_KILLS", "2"))
SHORTEST = witness.spec("shortest", trials=8, steps=(10, 15), step_seconds=0.1)
SIZES = (LONG, SHORT) if len(VICTIMS) <= KILLS else (SHORTEST,)


def unbroken(raw: dict[str, object]) -> list[dict[str, object]]:
    """What a sweep that nobody strikes would propose."""
    spec = toys.loaded(raw, {witness.WITNESSED_MEAN.name: witness.WITNESSED_MEAN}, SOURCES)
    proposer = Proposer(spec)
    proposals = (proposer.propose() for _ in range(spec.search.trials))
    return [dict(one.config) for one in proposals if one is not None]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(max(1, KILLS // len(VICTIMS))))
def test_kills_lose_nothing_double_nothing_and_charge_everything(tmp_path: Path, seed: int) -> None:
    spec = SIZES[seed % len(SIZES)]
    draw = random.Random(seed)
    sweep = Attacked(tmp_path, spec)
    victims = VICTIMS[:KILLS]
    sweep.torture(draw.sample(victims, len(victims)), draw, (0, 1) if spec == SHORTEST else (0, 1, 2, 3, 5))
    sweep.check(f"seed {seed}", f"killed {dict(sweep.struck)}")
    store = sweep.opened()
    assert [dict(record.config) for record in store.trials(sweep.name)] == unbroken(spec)
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
@pytest.mark.parametrize("fault", ["deleted", "replaced by an older copy"])
def test_a_store_that_vanishes_stops_the_sweep_before_more_is_drawn(tmp_path: Path, fault: str) -> None:
    sweep = Attacked(tmp_path, LONG)
    sweep.start()
    sweep.until("three attempts", lambda: sweep.attempts() >= 3)
    path = sweep.root / "sweeps.db"
    if fault == "deleted":
        path.unlink()
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
