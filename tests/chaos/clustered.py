"""A sweep of noisy-sgd over two nodes, two workers a trial: a worker dies, a node dies, a node joins, a node drains."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sweeps.ledger import total
from sweeps.records import TrialState
from sweeps.store import Store, StoreError
from tests.chaos import witness, witness_sgd
from tests.chaos.nodes import Nodes

ROOT = Path(__file__).parents[2]
# What a load of many processes on few cores may stretch; figures are printed.
PATIENCE_SECONDS = float(os.environ.get("SWEEPS_CHAOS_PATIENCE_SECONDS", "240"))
HANG_SECONDS = 60.0
TRIALS, NAME = 6, "clustered"

SPEC = f"""
name: {NAME}
data: {{source: digits}}
systems:
  witnessed-sgd:
    model: linear
    hidden: 1
    learning_rate: {{log_uniform: [0.1, 1]}}
    clip_norm: 1.0
    batch_size: 144
    epochs: 4.0
privacy: {{epsilon: 3, delta: 1.0e-5}}
objectives: [{{metric: accuracy, goal: maximize}}]
search: {{sampler: random, trials: {TRIALS}, seed: 5}}
resources: {{workers: 2, cpus_per_worker: 1}}
execution: {{checkpoint_seconds: 0.3, retries: 20}}
"""


class Sweep:
    """The controller's process, and what its records say."""

    def __init__(self, folder: Path, nodes: Nodes) -> None:
        self.folder, self.nodes, self.root = folder, nodes, folder / "state"
        (folder / "spec.yaml").write_text(SPEC)
        self.witness = folder / "witness"
        self.witness.mkdir()
        witness_sgd.install(folder / "packages")
        self.extra = {
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(folder / "packages")]),
            witness.FOLDER: str(self.witness),
        }
        self.log: list[str] = []
        self.began = time.monotonic()

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

    def note(self, event: str) -> None:
        self.log.append(f"{time.monotonic() - self.began:6.1f} s  {event}")

    def words(self) -> str:
        events = "\n".join(self.log)
        return f"{events}\n{(self.folder / 'output.txt').read_text(errors='replace')[-4000:]}"

    def store(self) -> Store:
        return Store.open(f"sqlite:///{self.root}/sweeps.db", create=False)

    def drawn(self) -> dict[tuple[str, int], int]:
        return witness.witnessed(self.witness)

    def finished(self) -> int:
        try:
            return self.store().counts(NAME).get("complete", 0)
        except StoreError:
            return 0

    def until(self, what: str, holds: Callable[[], bool]) -> float:
        """Wait for it; seconds waited."""
        began = time.monotonic()
        while not holds():
            assert time.monotonic() - began < PATIENCE_SECONDS, f"waited for {what}: {self.words()}"
            assert self.process.poll() in (None, 0), f"exit code {self.process.returncode}: {self.words()}"
            time.sleep(0.1)
        waited = time.monotonic() - began
        self.note(f"{what} after {waited:.1f} s")
        return waited

    def check(self) -> None:
        """Nothing lost, doubled or under-charged."""
        store = self.store()
        records, entries = store.trials(NAME), store.ledger(NAME)
        assert [record.number for record in records] == list(range(TRIALS)), self.words()
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
            assert record.step == 40
            assert record.guarantee["epsilon"] <= 3
            assert sum(amount for (key, _), amount in charged.items() if key == record.key) >= 40

    def figures(self) -> str:
        spent = total(self.store().ledger(NAME))
        return (
            f"attempts {spent.attempts}, steps charged {spent.executed}, drawn {sum(self.drawn().values())}, needed "
            f"{TRIALS * 40}; {time.monotonic() - self.began:.0f} s in all"
        )


def refusals(nodes: Nodes) -> list[str]:
    """What the head says to its own token, to another one, and to none."""
    ask = f"from sweeps.runner_connect import refusal; print(refusal('127.0.0.1', {nodes.port}))"
    own = {**nodes.environment(), "PYTHONPATH": str(ROOT)}
    asked = [own, {**own, "RAY_AUTH_TOKEN": "ab" * 32}, {**own, "RAY_AUTH_MODE": "disabled", "RAY_AUTH_TOKEN": ""}]
    running = [
        subprocess.Popen([sys.executable, "-c", ask], env=one, stdout=subprocess.PIPE, text=True) for one in asked
    ]
    return [one.communicate(timeout=PATIENCE_SECONDS)[0].strip() for one in running]


def ranks(nodes: Nodes, name: str) -> list[int]:
    return [pid for pid, command in nodes.processes(name).items() if command.startswith("ray::_Worker")]


@pytest.mark.chaos
@pytest.mark.outage
@pytest.mark.timeout(900)
def test_workers_and_nodes_come_and_go(tmp_path):
    with Nodes() as nodes:
        sweep = Sweep(tmp_path, nodes)
        nodes.start("head", cpus=2, **sweep.extra)
        welcome, *refused = refusals(nodes)
        assert welcome == "None"
        assert all("its token is missing or another one" in one for one in refused), refused
        nodes.start("second", cpus=2, **sweep.extra)
        sweep.note("two nodes are up")
        sweep.start()
        sweep.until("a draw on each node", lambda: len(sweep.drawn()) >= 2)

        # One worker, in the middle of a step.
        attempts = set(sweep.drawn())
        sweep.until("workers on the head", lambda: bool(ranks(nodes, "head")))
        os.kill(ranks(nodes, "head")[0], signal.SIGKILL)
        sweep.note("killed one worker")
        longest = sweep.until("a draw of a new attempt", lambda: bool(set(sweep.drawn()) - attempts))

        # The power of a whole node, with a trial's workers on it, half-way.
        sweep.until("half of the trials", lambda: sweep.finished() >= 2 and bool(ranks(nodes, "second")))
        attempts = set(sweep.drawn())
        nodes.kill("second")
        sweep.note("killed the second node")
        nodes.start("third", cpus=2, **sweep.extra)
        sweep.note("a third node joined")
        longest = max(longest, sweep.until("a draw of a new attempt", lambda: bool(set(sweep.drawn()) - attempts)))

        # A notice, and the end of the node that had it.
        sweep.until("workers on the third node", lambda: bool(ranks(nodes, "third")) or sweep.finished() >= TRIALS - 1)
        nodes.drain("third", seconds=2)
        sweep.note("the third node is drained")
        time.sleep(2)
        nodes.kill("third")
        sweep.note("the third node is gone")
        sweep.until("the end", lambda: sweep.process.poll() is not None)
        assert sweep.process.returncode == 0, sweep.words()
        sweep.check()
        lost = [entry for entry in sweep.store().ledger(NAME) if entry.attempt > 1]
        assert len(lost) >= 2, sweep.words()
        print("\n" + "\n".join(sweep.log), f"\nlongest wait for new work {longest:.1f} s;", sweep.figures())
