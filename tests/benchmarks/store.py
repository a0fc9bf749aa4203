"""What the record of truth costs: the two transactions of a trial, and loading whole sweeps.

    python -m tests.benchmarks.store [--json FILE]

Peers, interleaved in the same run: Optuna's RDBStorage (the store that a stock stack would use) on SQLite
for both, and bare sqlite3 with two durable commits a trial, which is the floor of the machine's disk.
"""

from __future__ import annotations

import argparse
import json
import logging
import platform
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import optuna
import sqlalchemy

from sweeps.privacy import ledger
from sweeps.store import schema
from sweeps.store.store import Store, open_store
from tests.sweeps.stores import SWEEP, plan, postgres_server, proposal, record, settle

ROUNDS, TRIALS_PER_ROUND = 5, 60
LOADS = (10_000, 30_000)


def ours(url: str) -> Callable[[int], None]:
    """Two transactions a trial on our store."""
    store = open_store(url)
    store.create_sweep(record())
    lease = store.acquire(SWEEP)

    def trial(number: int) -> None:
        store.launch(lease, proposal(number), plan(), 100)
        settle(store, lease, f"{SWEEP}-{number}")

    return trial


def bare(path: Path) -> Callable[[int], None]:
    """One row inserted and updated in two durable commits."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE trials (number INTEGER PRIMARY KEY, text TEXT)")

    def trial(number: int) -> None:
        connection.execute("INSERT INTO trials VALUES (?, ?)", (number, "x" * 2000))
        connection.execute("UPDATE trials SET text = ? WHERE number = ?", ("y" * 2300, number))

    return trial


def stock(path: Path) -> Callable[[int], None]:
    """Ask with four knobs and tell, random sampler, on Optuna's database."""
    optuna.logging.set_verbosity(logging.ERROR)
    sampler = optuna.samplers.RandomSampler(seed=0)
    study = optuna.create_study(storage=f"sqlite:///{path}", sampler=sampler)

    def trial(number: int) -> None:
        asked = study.ask()
        for knob in range(4):
            asked.suggest_float(f"knob{knob}", 0, 1)
        study.tell(asked, 0.5)

    return trial


def cost_per_trial(folder: Path) -> dict[str, float]:
    """Median milliseconds a trial of each, rounds interleaved."""
    with postgres_server() as server:
        contenders = {
            "sweeps.store on SQLite": ours(f"sqlite:///{folder}/ours.db"),
            "sweeps.store on Postgres": ours(server.get_uri()),  # type: ignore[attr-defined]
            "bare sqlite3, two commits": bare(folder / "bare.db"),
            f"optuna {optuna.__version__} RDBStorage on SQLite": stock(folder / "optuna.db"),
        }
        spent: dict[str, list[float]] = {name: [] for name in contenders}
        for turn in range(ROUNDS):
            for name, trial in contenders.items():
                started = time.perf_counter()
                for number in range(turn * TRIALS_PER_ROUND, (turn + 1) * TRIALS_PER_ROUND):
                    trial(number)
                spent[name].append((time.perf_counter() - started) / TRIALS_PER_ROUND * 1e3)
    return {name: statistics.median(values) for name, values in spent.items()}


def fill(store: Store, number: int) -> None:
    """A sweep of `number` finished trials: one real trial, copied inside the database, by a connection beside ours."""
    name = f"large-{number}"
    store.create_sweep(record(name))
    lease = store.acquire(name)
    store.launch(lease, proposal(0), plan(), 100)
    settle(store, lease, f"{name}-0")
    engine = sqlalchemy.create_engine(store.url)
    with engine.begin() as connection:
        found = sqlalchemy.select(schema.sweeps.c.id).where(schema.sweeps.c.name == name)
        sweep_id = connection.execute(found).scalar_one()
        for table in ("trials", "attempts", "ledger"):
            columns = [
                row[1] for row in connection.exec_driver_sql(f"PRAGMA table_info({table})") if row[1] != "number"
            ]
            listed = ", ".join(columns)
            connection.exec_driver_sql(
                f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {number - 1}) "
                f"INSERT INTO {table} (number, {listed}) SELECT i, {listed} FROM n, {table} "
                f"WHERE sweep_id = {sweep_id} AND number = 0"
            )
    engine.dispose()


def loads(folder: Path) -> dict[str, dict[str, float]]:
    """Median seconds of bulk reads."""
    store = open_store(f"sqlite:///{folder}/large.db")
    results: dict[str, dict[str, float]] = {}
    for number in LOADS:
        fill(store, number)
        name = f"large-{number}"
        readers: dict[str, Callable[[], object]] = {
            "trials, metrics, config, guarantee": partial(store.trials, name),
            "ledger": partial(store.ledger, name),
            "counts": partial(store.counts, name),
            "steps spent": partial(spent, store, name),
        }
        assert len(store.trials(name)) == number
        results[name] = {what: timed(read) for what, read in readers.items()}
    return results


def spent(store: Store, name: str) -> ledger.Spending:
    """Steps in the ledger of a sweep."""
    return ledger.total(store.ledger(name))


def timed(read: Callable[[], object]) -> float:
    """Median of five."""
    seconds = []
    for _ in range(5):
        started = time.perf_counter()
        read()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


def main() -> None:
    """Print the tables; write them as JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        costs, reads = cost_per_trial(folder), loads(folder)
    base = costs["sweeps.store on SQLite"]
    for contender, milliseconds in costs.items():
        print(f"{contender:45} {milliseconds:8.2f} ms a trial   {milliseconds / base:6.2f} x")
    for sweep, seconds in reads.items():
        for what, value in seconds.items():
            print(f"{sweep:15} {what:40} {value:8.3f} s")
    if chosen.json:
        versions = {"python": platform.python_version(), "sqlite": sqlite3.sqlite_version, "optuna": optuna.__version__}
        chosen.json.write_text(json.dumps({"milliseconds": costs, "seconds": reads, "versions": versions}, indent=2))


if __name__ == "__main__":
    main()
