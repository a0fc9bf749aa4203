"""A session of a private selection: begin or go on, wait for the announced end, release."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from sweeps.control.open_course import Surroundings
from sweeps.population.blocks import reserve_block
from sweeps.population.joining import ledger_of, whole_of
from sweeps.process.workspace import Workspace
from sweeps.records import SweepRecord, SweepState
from sweeps.sealed.opening import SealedPlaces, opened
from sweeps.sealed.releasing import GONE, NOTHING, release
from sweeps.spec.model import SweepSpec
from sweeps.store import Lease, Store
from trainables.sealed.worker import SealedWork
from trainables.system import PublicFacts


@dataclass(slots=True)
class SealedCourse:
    """A `Course` (`sweeps.control.open_course`) of which the winners alone leave, at the announced end.

    over  whether it had ended before
    work  of the workers; None where the search is over, or had begun and is gone
    log   of what Ray says
    """

    store: Store
    lease: Lease
    spec: SweepSpec
    over: bool
    work: SealedWork | None
    address: str | None
    log: Path

    @classmethod
    def prepared(
        cls,
        store: Store,
        lease: Lease,
        recorded: SweepRecord,
        spec: SweepSpec,
        facts: PublicFacts,
        workspace: Workspace,
        address: str | None,
        log: Path,
    ) -> SealedCourse:
        """Draw, plan and announce, once; or find what was. Raises InvalidValue, ClusterUnreachable, PopulationSpent."""
        if recorded.state is SweepState.FINISHED:
            return cls(store, lease, spec, True, None, address, log)
        from sweeps.runner.cluster import check_reachable

        check_reachable(address, spec.resources)
        # One row for the whole search, before its first trial: a row for each would tell how many there are.
        ledger_of(store, spec)
        reserve_block(store, lease, spec.data.population or "", *whole_of(spec))
        work = opened(recorded, spec, facts, workspace, store.calibrations(), address)
        return cls(store, lease, spec, False, work, address, log)

    def run(self, around: Surroundings) -> str:
        """Until the announced end, then release. The sweep's row says by now that it runs: its price is spent."""
        if self.over:
            return "finished"
        around.on_first_sign()
        sweep, work = self.lease.sweep, self.work
        if work is not None:
            try:
                if time.time() < work.schedule.last:
                    self._on_the_cluster(work, around)
                # A session that comes too late for the workers waits as any other does.
                time.sleep(max(0.0, work.schedule.deadline - time.time()))
            except KeyboardInterrupt:
                return "stopped"
        workspace = around.workspace
        release(self.store, self.lease, self.spec, work, SealedPlaces.of(workspace, sweep), workspace.trials(sweep))
        return "finished"

    def reasons(self, ended: str) -> tuple[str, ...]:
        """Why nothing was released, where that is so."""
        if ended == "stopped" or self.store.trials(self.lease.sweep):
            return ()
        return (GONE if self.work is None and not self.over else NOTHING,)

    def _on_the_cluster(self, work: SealedWork, around: Surroundings) -> None:
        from sweeps.runner.cluster import cluster, data_path_seen_by_all
        from sweeps.runner.imports import imported_by_all
        from sweeps.runner.messages import short_messages
        from sweeps.runner.ray_private.usage_tags import nothing_counted
        from sweeps.runner.sealed_workers import run

        sweep = self.lease.sweep
        with (
            short_messages(self.log),
            nothing_counted(),
            cluster(self.address, on_lost=lambda: around.on_cluster_lost(sweep), connected=around.interruption.arm),
        ):
            data_path_seen_by_all(work.folder)
            if self.address is not None:
                imported_by_all(self.spec.user_functions())
            run(work, around.loaded[0], self.spec.resources, around.interruption.check)
