"""Seconds to the front of 30,000 trials from the store, as a Python call and as a cold command.

Ours  `sweep_front` on a SQLite store: reading, checking guarantees, front and hypervolume; over epsilon and two
      measured objectives, all trials non-dominated: the worst case.
Peer  Optuna's own sort of the same points, already in memory (`optuna.study._multi_objective`), which needs neither
      a store nor guarantees.

Run: python -m tests.benchmarks.front [--trials 30000]
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import typer
from sqlalchemy import create_engine, insert, select

from sweeps.privacy.release import PublishedStore
from sweeps.reporting.front import sweep_front
from sweeps.store import schema
from sweeps.store.schema import dumps
from sweeps.store.store import Store
from tests.sweeps import view_sweeps

OBJECTIVES = [
    {"metric": "accuracy", "goal": "maximize"},
    {"metric": "epsilon", "goal": "minimize"},
    {"metric": "seconds", "goal": "minimize"},
]


def points(trials: int) -> np.ndarray:
    """(trials, 3): accuracy, epsilon, seconds, none of them dominated."""
    direction = np.abs(np.random.default_rng(0).normal(size=(trials, 3))) + 1e-3
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    return np.stack([direction[:, 0], 1.01 - direction[:, 1], 1.01 - direction[:, 2]], axis=1)


def fill(root: Path, values: np.ndarray) -> Store:
    """A store whose sweep `views` has finished trials with these values; written in bulk."""
    store = view_sweeps.new_sweep(root, objectives=OBJECTIVES)
    engine = create_engine(f"sqlite:///{root}/sweeps.db")
    rows = []
    with engine.begin() as connection:
        sweep_id = connection.execute(select(schema.sweeps.c.id)).scalar_one()
        for number, (accuracy, epsilon, seconds) in enumerate(values.tolist()):
            config = view_sweeps.config_of(number)
            claim = view_sweeps.guarantee(epsilon)
            rows.append(
                {
                    "sweep_id": sweep_id,
                    "number": number,
                    "state": "complete",
                    "config": dumps(config),
                    "seed": str(number),
                    "violations": "{}",
                    "reason": "",
                    "metrics": dumps({"accuracy": accuracy, "seconds": seconds, "epsilon": epsilon}),
                    "guarantee": dumps(claim.to_dict()),
                    "step": 10,
                    "attempts": 1,
                    "proposed_at": 1.7e9,
                    "finished_at": 1.7e9 + number,
                    "plan": dumps(view_sweeps.plan(config, epsilon).to_dict()),
                }
            )
        connection.execute(insert(schema.trials), rows)
    engine.dispose()
    return store


def optuna_seconds(values: np.ndarray) -> float:
    """One non-dominated sort of the points that Optuna would do for `best_trials`."""
    from optuna.study._multi_objective import _is_pareto_front

    losses = values * [-1, 1, 1]
    started = time.perf_counter()
    _is_pareto_front(losses, assume_unique_lexsorted=False)
    return time.perf_counter() - started


def main(trials: int = 30_000, repeats: int = 3) -> None:
    values = points(trials)
    rounds = []
    with tempfile.TemporaryDirectory() as folder:
        store = fill(Path(folder), values)
        command = [sys.executable, "-m", "sweeps.cli", "pareto", "views", "--root", folder]
        for _ in range(repeats):
            started = time.perf_counter()
            sweep_front(PublishedStore(store), "views")
            called = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            rounds.append((called - started, time.perf_counter() - called, optuna_seconds(values)))
    for name, seconds in zip(("call", "command", "Optuna's sort"), zip(*rounds, strict=True), strict=True):
        print(f"{name:14} {statistics.median(seconds):.3f} s")


if __name__ == "__main__":
    typer.run(main)
