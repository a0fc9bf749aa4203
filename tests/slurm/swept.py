"""A sweep that Slurm runs: what its jobs need, which node draws, and what must hold of its records afterwards."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from sweeps.store.errors import StoreError
from sweeps.store.store import Store, open_store
from tests.chaos import witness
from tests.chaos.harness import held
from tests.slurm.machine import NODES, Slurm


class Swept:
    """One sweep: its spec in the shared folder, its record in a store, its witness beside."""

    def __init__(
        self, slurm: Slurm, store: str, name: str, *, trials: int, step_seconds: float, at_once: int | None = None
    ) -> None:
        self.slurm, self.url, self.name, self.trials = slurm, store, name, trials
        self.spec = slurm.folder / f"{name}.yaml"
        resources = {} if at_once is None else {"concurrency": at_once}
        made = witness.spec(name, trials=trials, steps=(15, 25), step_seconds=step_seconds, resources=resources)
        self.spec.write_text(json.dumps(made))
        self.witness = slurm.folder / "witness"
        self.where: dict[tuple[str, int], str] = {}

    def environment(self) -> dict[str, str]:
        """What a job is submitted with."""
        watched = witness.watched(self.slurm.folder)
        return {
            **{name: watched[name] for name in ("PYTHONPATH", witness.FOLDER)},
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
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
                for name in held(pid, self.witness):
                    key, _, attempt = name.rpartition(".")
                    self.where[key, int(attempt)] = node

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

    def check(self) -> str:
        """Nothing lost, doubled or under-charged; the figures in one line."""
        found = witness.check(self.store(), self.name, self.trials, self.drawn(), self.slurm.words())
        return f"{self.name}: {found}"
