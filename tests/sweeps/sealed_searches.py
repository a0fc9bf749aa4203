"""One sealed search in a folder, small and real, whose workers run in threads of the test's process."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from sweeps.execution import session
from sweeps.selection.run import SealedPlaces, opened, release
from sweeps.spec.parse import load_spec, public_facts
from sweeps.store.records import SweepState
from sweeps.store.store import Store
from sweeps.store.workspace import Workspace
from trainables.data import SOURCES
from trainables.sealed import SealedWork, run_slot, serve

SECONDS = 1.8
SPEC: dict[str, Any] = {
    "name": "sealed",
    "data": {"source": "uniform", "n": 1000},
    "systems": {"noisy-mean": {"clip": {"uniform": [0.2, 1.0]}, "steps": {"int_log_uniform": [1, 64]}}},
    "privacy": {"epsilon": 3, "delta": 1e-5, "scope": "sweep", "release": "best"},
    "objectives": [{"metric": "estimate", "goal": "maximize"}],
    "search": {"trials": 8},
    "selection": {"deadline_minutes": SECONDS / 60, "mean": 3, "megabytes": 0.01},
    "resources": {"concurrency": 2},
}


class Search:
    """One sealed search in a folder."""

    def __init__(self, root: Path, **changes: Any) -> None:
        self.spec = load_spec({**SPEC, **changes})
        self.workspace = Workspace.at(root)
        self.name = session.create(self.spec, self.workspace)
        self.store: Store = self.workspace.open_store()
        self.facts = public_facts(self.spec)
        self.data = SOURCES[self.spec.data.source].load(self.spec.data.options())
        self.places = SealedPlaces.of(self.workspace, self.name)

    def opened(self) -> SealedWork | None:
        return opened(self.store.sweep(self.name), self.spec, self.facts, self.workspace, {})

    def begin(self) -> SealedWork:
        work = self.opened()
        assert work is not None
        lease = self.store.acquire(self.name)
        self.store.set_state(lease, SweepState.RUNNING)
        lease.release()
        return work

    def serve(self, work: SealedWork) -> None:
        with ThreadPoolExecutor(work.workers) as pool:
            list(pool.map(lambda one: serve(work, one, self.data), range(work.workers)))

    def ran(self) -> SealedWork:
        work = self.begin()
        self.serve(work)
        return work

    def every(self, work: SealedWork) -> list[Any]:
        """What each slot that was drawn comes to."""
        drawn = work.drawn()
        return [run_slot(drawn, n, work.winner, work.group, self.data, work.ranking) for n in range(drawn.count)]

    def release(self, work: SealedWork | None) -> bool:
        lease = self.store.acquire(self.name)
        won = release(self.store, lease, self.spec, work, self.places, self.workspace.trials(self.name))
        self.store.set_state(lease, SweepState.FINISHED)
        lease.release()
        return won


def files(work: SealedWork) -> dict[str, int]:
    return work.folder.sizes()
