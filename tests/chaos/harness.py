"""Runs real sweeps in real processes, kills parts of them at random moments, and checks what must hold afterwards."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from sweeps.privacy.ledger import total
from sweeps.store.errors import StoreError
from sweeps.store.records import TrialState
from sweeps.store.store import Store, open_store
from tests.chaos import witness

ROOT = Path(__file__).parents[2]
HANG_SECONDS = 60.0
CLUSTER_LOST = 75
Victim = Literal["controller", "worker", "raylet"]

SHORT = witness.spec("short", trials=60, steps=(3, 6), step_seconds=0.02, seed=7, checkpoint_seconds=0.05, fronts=True)
LONG = witness.spec("long", trials=14, steps=(15, 25), step_seconds=0.1, fronts=True)


@dataclass
class Tortured:
    """One sweep under attack. `log` is what happened, for the failure message."""

    folder: Path
    spec: str
    seed: int
    name: str = "tortured"
    log: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.root = self.folder / "state"
        self.spec_path = self.folder / "spec.yaml"
        self.spec_path.write_text(self.spec)
        self.process: subprocess.Popen[bytes] | None = None
        self.opened: Store | None = None
        self.struck: Counter[str] = Counter()
        self.longest_wait = 0.0
        self.witness = self.folder / "witness"
        self.witness.mkdir()
        witness.install(self.folder / "packages")
        self.began = time.monotonic()
        self.output = (self.folder / "output.txt").open("ab")

    # -- processes ----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Run the sweep, or resume it when its record exists."""
        arguments = ["run", str(self.spec_path), "--name", self.name]
        if self.recorded():
            arguments = ["resume", self.name]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "sweeps.cli", *arguments, "--root", str(self.root)],
            stdout=self.output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=witness.environment(self.folder / "packages", self.witness),
        )
        self.note(f"{arguments[0]} pid {self.process.pid}")

    def recorded(self) -> bool:
        """Whether the sweep's row is there; a kill may have come before the first table."""
        if self.opened is None and (self.root / "sweeps.db").exists():
            try:
                opened = open_store(f"sqlite:///{self.root}/sweeps.db", create=False)
            except StoreError:
                return False
            if self.name in {sweep.name for sweep in opened.sweeps()}:
                self.opened = opened
        return self.opened is not None

    def store(self) -> Store:
        assert self.recorded()
        assert self.opened is not None
        return self.opened

    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def attempts(self) -> int:
        return len(self.store().ledger(self.name)) if self.recorded() else 0

    def wait(self, seconds: float) -> int:
        """Exit code of the controller; a hang is a failure."""
        assert self.process is not None
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill_group()
            raise AssertionError(f"hung for {seconds:.0f} s: {self.log}\n{self.tail()}") from None

    def check_exit(self) -> None:
        """A controller that is down was killed by us, or ended because its cluster died; anything else is a failure."""
        if self.process is not None:
            code = self.process.returncode
            assert code in (-signal.SIGKILL, CLUSTER_LOST), f"exit code {code}: {self.log}\n{self.tail()}"

    def kill_group(self) -> None:
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def tail(self) -> str:
        return (self.folder / "output.txt").read_text(errors="replace")[-3000:]

    def waited(self, since: float) -> None:
        self.longest_wait = max(self.longest_wait, time.monotonic() - since)

    def figures(self) -> str:
        """One line about what happened."""
        spent = total(self.store().ledger(self.name))
        drawn = sum(witness.witnessed(self.witness).values())
        victims = ", ".join(f"{count} {victim}" for victim, count in sorted(self.struck.items()))
        return (
            f"kills: {victims}; attempts {spent.attempts}, steps charged {spent.executed}, drawn {drawn}, "
            f"needed {spent.path}, in excess {spent.excess}; longest wait {self.longest_wait:.1f} s; "
            f"{time.monotonic() - self.began:.0f} s in all"
        )

    def note(self, event: str) -> None:
        self.log.append(f"{time.monotonic() - self.began:.1f} s {event}")

    # -- kills --------------------------------------------------------------------------------------------

    def strike(self, victim: Victim) -> bool:
        """Kill one part now; False when there was none of that kind."""
        assert self.process is not None
        if victim == "controller":
            os.kill(self.process.pid, signal.SIGKILL)
            self.process.wait()
        else:
            pids = [pid for pid, command in self.descendants() if _is(victim, command)]
            if not pids:
                return False
            os.kill(self.random.choice(pids), signal.SIGKILL)
        self.struck[victim] += 1
        self.note(f"killed {victim} after {self.attempts()} attempts")
        if victim == "raylet":
            began = time.monotonic()
            code = self.wait(HANG_SECONDS)
            self.waited(began)
            assert "go on with" in self.tail(), self.tail()
            assert code == CLUSTER_LOST, f"exit code {code} after losing the raylet: {self.log}\n{self.tail()}"
        return True

    def descendants(self) -> list[tuple[int, str]]:
        """(pid, command line) of every process below the controller."""
        assert self.process is not None
        children: dict[int, list[int]] = {}
        commands: dict[int, str] = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                status = (entry / "stat").read_text().rpartition(")")[2].split()
                commands[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            children.setdefault(int(status[1]), []).append(int(entry.name))
        found, queue = [], [self.process.pid]
        while queue:
            for pid in children.get(queue.pop(), []):
                found.append((pid, commands[pid]))
                queue.append(pid)
        return found

    def torture(self, kills: int, victims: tuple[Victim, ...] = ("controller", "worker", "raylet")) -> int:
        """Strike `kills` times at random moments, restart when it is down, then let it finish. Returns the kills."""
        done = 0
        planned = [self.random.choice(victims) for _ in range(kills)]
        while done < kills:
            if not self.alive():
                if self.process is not None and self.process.returncode == 0:
                    break
                self.check_exit()
                self.start()
            before = self.attempts()
            # Some strikes hit the start, most hit a moment after a few more launches.
            wanted = before + self.random.choice([0, 1, 2, 3, 5])
            limit = (began := time.monotonic()) + HANG_SECONDS
            while self.alive() and self.attempts() < wanted:
                assert time.monotonic() < limit, f"no launch for {HANG_SECONDS:.0f} s: {self.log}\n{self.tail()}"
                time.sleep(0.02)
            self.waited(began)
            time.sleep(self.random.uniform(0, 0.4))
            if self.alive() and self.strike(planned[done]):
                done += 1
        if not self.alive() and (self.process is None or self.process.returncode != 0):
            self.check_exit()
            self.start()
        code = self.wait(2 * HANG_SECONDS)
        assert code == 0, f"exit code {code}: {self.log}\n{self.tail()}"
        return done

    # -- what must hold -----------------------------------------------------------------------------------

    def check(self, trials: int, proposals: list[dict[str, object]]) -> None:
        """Nothing lost, doubled or under-charged; proposals as in an unbroken sweep; MLflow tells the same."""
        store = self.store()
        records = store.trials(self.name)
        where = f"{self.log}\n{self.tail()}"
        assert [record.number for record in records] == list(range(trials)), where
        assert {record.state for record in records} == {TrialState.COMPLETE}, where
        assert [dict(record.config) for record in records] == proposals, where
        entries: dict[str, list[tuple[int, int, int]]] = {}
        for entry in store.ledger(self.name):
            assert entry.executed_to is not None, f"{entry} was never settled: {where}"
            entries.setdefault(entry.key, []).append((entry.attempt, entry.from_step, entry.executed_to))
        for record in records:
            assert record.plan is not None
            assert record.guarantee is not None
            steps = record.planned_steps
            assert record.step == steps, where
            assert record.guarantee.epsilon <= record.config["target_epsilon"], where
            path = sum(to - start for _, start, to in entries[record.key])
            assert path >= steps, f"{record.key}: {path} steps charged, {steps} were needed: {where}"
        charged = {
            (key, attempt): charged_to - start for key, own in entries.items() for attempt, start, charged_to in own
        }
        for attempted, draws in witness.witnessed(self.witness).items():
            assert attempted in charged, f"{attempted}: {draws} steps without a reservation: {where}"
            assert draws <= charged[attempted], (
                f"{attempted}: {draws} steps drawn, {charged[attempted]} charged: {where}"
            )
        self.check_mlflow({record.key for record in records})

    def check_mlflow(self, keys: set[str]) -> None:
        from mlflow import MlflowClient

        client = MlflowClient(f"sqlite:///{self.root}/mlflow.db")
        experiment = client.get_experiment_by_name(self.name)
        assert experiment is not None, self.log
        runs = client.search_runs([experiment.experiment_id], max_results=5000)
        tagged = [run.data.tags["sweeps.trial_key"] for run in runs if "sweeps.trial_key" in run.data.tags]
        assert sorted(tagged) == sorted(keys), self.log
        assert {run.info.status for run in runs} == {"FINISHED"}, self.log


def _is(victim: Victim, command: str) -> bool:
    if victim == "raylet":
        return "raylet/raylet" in command
    # A raylet ends itself when one of its agents dies: they are no workers.
    return command.startswith("ray::") and "Agent" not in command
