"""A sweep of noisy-sgd over several nodes, two workers a trial, by a controller in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from sweeps.privacy.ledger import total
from sweeps.store.errors import StoreError
from sweeps.store.records import TrialState
from sweeps.store.store import Store, open_store
from tests.chaos import witness, witness_sgd
from tests.chaos.journal import Journal
from tests.chaos.nodes import Nodes

ROOT = Path(__file__).parents[2]
# What a load of many processes on few cores may stretch; figures are printed.
PATIENCE_SECONDS = float(os.environ.get("SWEEPS_CHAOS_PATIENCE_SECONDS", "240"))
NAME = "clustered"

SPEC = """
name: clustered
data: {source: digits}
systems:
  witnessed-sgd:
    model: linear
    hidden: 1
    learning_rate: {log_uniform: [0.1, 1]}
    clip_norm: 1.0
    batch_size: 144
    epochs: EPOCHS
privacy: {epsilon: 3, delta: 1.0e-5}
objectives: [{metric: accuracy, goal: maximize}]
search: {sampler: random, trials: TRIALS, seed: 5}
resources: {workers: 2, cpus_per_worker: 1}
execution: {checkpoint_seconds: 0.3, retries: 20}
"""


class Sweep(Journal):
    """The controller's process, and what its records say."""

    longest_seconds = PATIENCE_SECONDS

    def __init__(self, folder: Path, nodes: Nodes, *, trials: int, epochs: float) -> None:
        super().__init__()
        self.trials = trials
        self.folder, self.nodes, self.root = folder, nodes, folder / "state"
        (folder / "spec.yaml").write_text(SPEC.replace("TRIALS", str(trials)).replace("EPOCHS", str(epochs)))
        self.witness = folder / "witness"
        self.witness.mkdir()
        witness_sgd.install(folder / "packages")
        self.extra = {
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(folder / "packages")]),
            witness.FOLDER: str(self.witness),
        }

    def start(self) -> None:
        self.process = subprocess.Popen(
            [
                *self.nodes.enter("driver"),
                *[sys.executable, "-m", "sweeps.cli", "run", str(self.folder / "spec.yaml"), "--name", NAME],
                *["--root", str(self.root), "--address", self.nodes.address],
            ],
            env={**self.nodes.environment(), **self.extra},
            stdout=(self.folder / "output.txt").open("ab"),
            stderr=subprocess.STDOUT,
        )

    def words(self) -> str:
        events = "\n".join(self.log)
        return f"{events}\n{(self.folder / 'output.txt').read_text(errors='replace')[-4000:]}"

    def store(self) -> Store:
        return open_store(f"sqlite:///{self.root}/sweeps.db", create=False)

    def drawn(self) -> dict[tuple[str, int], int]:
        return witness.witnessed(self.witness)

    def finished(self) -> int:
        try:
            return self.store().counts(NAME).get("complete", 0)
        except StoreError:
            return 0

    def in_vain(self) -> None:
        assert self.process.poll() in (None, 0), f"exit code {self.process.returncode}: {self.words()}"

    def check(self) -> None:
        """Nothing lost, doubled or under-charged."""
        store = self.store()
        records, entries = store.trials(NAME), store.ledger(NAME)
        assert [record.number for record in records] == list(range(self.trials)), self.words()
        assert {record.state for record in records} == {TrialState.COMPLETE}, self.words()
        charged = {}
        for entry in entries:
            assert entry.executed_to is not None, f"{entry} was never settled: {self.words()}"
            charged[entry.key, entry.attempt] = entry.executed_to - entry.from_step
        for attempt, draws in self.drawn().items():
            assert draws <= charged[attempt], f"{attempt}: {draws} drawn, {charged[attempt]} charged: {self.words()}"
        for record in records:
            assert record.plan is not None
            assert record.guarantee is not None
            planned = record.planned_steps
            assert record.step == planned, self.words()
            assert record.guarantee.epsilon <= 3
            assert sum(amount for (key, _), amount in charged.items() if key == record.key) >= planned

    def figures(self) -> str:
        spent = total(self.store().ledger(NAME))
        needed = sum(record.step for record in self.store().trials(NAME))
        return (
            f"attempts {spent.attempts}, steps charged {spent.executed}, drawn {sum(self.drawn().values())}, needed "
            f"{needed}; {time.monotonic() - self.began:.0f} s in all"
        )


def ranks(nodes: Nodes, name: str) -> list[int]:
    """Process ids of the workers on a node."""
    return [pid for pid, command in nodes.processes(name).items() if command.startswith("ray::_Worker")]
