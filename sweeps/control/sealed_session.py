"""A session of a private selection: begin or go on, wait for the announced end, release."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sweeps.control.open_course import Surroundings
from sweeps.population.blocks import reserve_block
from sweeps.population.joining import ledger_of, whole_of
from sweeps.process.workspace import Workspace
from sweeps.records import SweepRecord, SweepState
from sweeps.sealed.opening import SealedPlaces, has_begun, opened
from sweeps.sealed.releasing import GONE, NOTHING, release
from sweeps.sealed.workers import check_at_once, check_workers, workers_at
from sweeps.spec.sections import SweepSpec
from sweeps.store import Lease, Store
from trainables.sealed.worker import SealedWork
from trainables.system import PublicFacts


def _nothing() -> None:
    """Nobody is told."""


@dataclass(frozen=True, slots=True)
class Joining:
    """How a session joins its cluster.

    address    None: one of this machine alone
    log        of what Ray says
    connected  told when Ray is up; it installs signal handlers of its own
    on_lost    told that the cluster is lost; the process ends next
    """

    address: str | None
    log: Path
    connected: Callable[[], None] = _nothing
    on_lost: Callable[[], None] = _nothing

    @contextmanager
    def joined(self) -> Iterator[None]:
        """While the block runs. Raises ClusterUnreachable."""
        from sweeps.runner.cluster import cluster
        from sweeps.runner.messages import short_messages
        from sweeps.runner.ray_private.usage_tags import nothing_counted

        with (
            short_messages(self.log),
            nothing_counted(),
            cluster(self.address, on_lost=self.on_lost, connected=self.connected),
        ):
            yield


@dataclass(slots=True)
class SealedCourse:
    """A `Course` (`sweeps.control.open_course`) of which the winners alone leave, at the announced end.

    over  whether it had ended before
    work  of the workers; None where the search is over, or had begun and is gone
    """

    store: Store
    lease: Lease
    spec: SweepSpec
    over: bool
    work: SealedWork | None
    joining: Joining

    @classmethod
    def prepared(
        cls,
        store: Store,
        lease: Lease,
        recorded: SweepRecord,
        spec: SweepSpec,
        facts: PublicFacts,
        workspace: Workspace,
        joining: Joining,
    ) -> SealedCourse:
        """Draw, plan and announce, once; or find what was. Raises InvalidValue, ClusterUnreachable, PopulationSpent."""
        if recorded.state is SweepState.FINISHED:
            return cls(store, lease, spec, True, None, joining)
        from sweeps.runner.cluster import check_reachable

        check_reachable(joining.address, spec.resources)
        if not has_begun(recorded, workspace):
            _check_where(spec, SealedPlaces.of(workspace, recorded.name), joining)
        # One row for the whole search, before its first trial: a row for each would tell how many there are.
        ledger_of(store, spec)
        reserve_block(store, lease, spec.data.population or "", *whole_of(spec))
        work = opened(recorded, spec, facts, workspace, store.calibrations(), joining.address)
        return cls(store, lease, spec, False, work, joining)

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
        from sweeps.runner.cluster import data_path_seen_by_all
        from sweeps.runner.imports import imported_by_all
        from sweeps.runner.sealed_workers import run

        with self.joining.joined():
            data_path_seen_by_all(work.folder)
            if self.joining.address is not None:
                imported_by_all(self.spec.user_functions())
            run(work, around.loaded[0], self.spec.resources, around.interruption.check)


def _check_where(spec: SweepSpec, places: SealedPlaces, joining: Joining) -> None:
    """All workers can run where they are meant to, see the records' folder and import what trials are made of.

    Before the price is paid: afterwards a search that cannot run releases nothing. Raises InvalidValue,
    ClusterUnreachable.
    """
    from sweeps.runner.cluster import alive_nodes, check_resources, data_path_seen_by_all, is_joined
    from sweeps.runner.free_room import await_room
    from sweeps.runner.imports import imported_by_all

    check_workers(spec, joining.address)
    if joining.address is None and not is_joined():
        return
    with joining.joined():
        nodes = alive_nodes()
        check_resources(spec.resources, nodes, "the cluster has")
        workers = workers_at(spec, joining.address)
        check_at_once(spec, workers, nodes, "the cluster")
        await_room(spec.resources, workers)
        data_path_seen_by_all(places.records)
        imported_by_all(spec.user_functions())
