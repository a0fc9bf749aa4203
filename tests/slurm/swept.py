"""A sweep that Slurm runs: what its jobs need, which node draws, and what must hold of its records afterwards."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from sweeps.privacy.ledger import total
from sweeps.store.errors import StoreError
from sweeps.store.records import TrialState
from sweeps.store.store import Store, open_store
from tests.chaos import witness
from tests.slurm.machine import NODES, ROOT, Slurm


class Swept:
    """One sweep: its spec in the shared folder, its record in a store, its witness beside."""

    def __init__(
        self, slurm: Slurm, store: str, name: str, *, trials: int, step_seconds: float, at_once: int | None = None
    ) -> None:
        self.slurm, self.url, self.name, self.trials = slurm, store, name, trials
        self.spec = slurm.folder / f"{name}.yaml"
        made = witness.spec(name, trials=trials, steps=(15, 25), step_seconds=step_seconds, fronts=True)
        resources = {} if at_once is None else {"concurrency": at_once}
        self.spec.write_text(f"{made}resources: {json.dumps(resources)}\n")
        self.witness = slurm.folder / "witness"
        self.where: dict[tuple[str, int], str] = {}

    def environment(self) -> dict[str, str]:
        """What a job is submitted with."""
        packages = self.slurm.folder / "packages"
        if not packages.exists():
            witness.install(packages)
            self.witness.mkdir()
        return {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(packages)]),
            witness.FOLDER: str(self.witness),
            "SWEEPS_STORE": self.url,
            "SWEEPS_ROOT": str(self.slurm.folder / "state-of-sweeps"),
            "SWEEP_SPEC": str(self.spec),
            "SWEEP_NAME": self.name,
        }

    def submit(self, *options: str, **changes: str) -> str:
        return self.slurm.submit("--export=ALL", *options, **{**self.environment(), **changes})

    # -- what is seen while it runs -----------------------------------------------------------------------

    def look(self) -> None:
        """Note which node's processes hold which attempt's witness open."""
        for node in NODES:
            if node not in self.slurm.hosts:
                continue
            for pid, command in self.slurm.processes(node).items():
                if not command.startswith("ray::"):
                    continue
                for attempt in _held_open(pid, self.witness):
                    self.where[attempt] = node

    def nodes_that_drew(self) -> set[str]:
        self.look()
        drawn = self.drawn()
        return {node for attempt, node in self.where.items() if drawn.get(attempt)}

    def drawn(self) -> dict[tuple[str, int], int]:
        own = witness.witnessed(self.witness) if self.witness.exists() else {}
        return {(key, attempt): draws for (key, attempt), draws in own.items() if key.rpartition("-")[0] == self.name}

    def finished(self) -> int:
        """Trials that are complete."""
        try:
            return self.store().counts(self.name).get("complete", 0)
        except StoreError:
            return 0

    def store(self) -> Store:
        return open_store(self.url, create=False)

    # -- what must hold -----------------------------------------------------------------------------------

    def check(self) -> str:
        """Nothing lost, doubled or under-charged; the figures in one line."""
        store = self.store()
        records, entries = store.trials(self.name), store.ledger(self.name)
        where = self.slurm.words()
        assert [record.number for record in records] == list(range(self.trials)), where
        assert {record.state for record in records} == {TrialState.COMPLETE}, where
        charged = {}
        for entry in entries:
            assert entry.executed_to is not None, f"{entry} was never settled: {where}"
            charged[entry.key, entry.attempt] = entry.executed_to - entry.from_step
        drawn = self.drawn()
        for attempt, draws in drawn.items():
            assert attempt in charged, f"{attempt}: {draws} steps without a reservation: {where}"
            assert draws <= charged[attempt], f"{attempt}: {draws} drawn, {charged[attempt]} charged: {where}"
        for record in records:
            assert record.plan is not None
            planned = record.planned_steps
            assert record.step == planned, where
            assert sum(draws for (key, _), draws in drawn.items() if key == record.key) >= planned, where
        spent = total(entries)
        return (
            f"{self.name}: {len(records)} trials, each complete once; {spent.attempts} attempts; steps drawn "
            f"{sum(drawn.values())}, charged {spent.executed}, needed {spent.path}"
        )


def _held_open(pid: int, folder: Path) -> list[tuple[str, int]]:
    found = []
    try:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            target = Path(os.readlink(link))
            if target.parent == folder:
                key, _, attempt = target.name.rpartition(".")
                found.append((key, int(attempt)))
    except OSError:
        pass
    return found
