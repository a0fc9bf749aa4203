"""What a session runs: trials each of which is released as it ends. (`control.sealed_session` is the other course.)"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dpcore.randomness import fresh_secret
from sweeps.execution.controller import Controller
from sweeps.execution.end import unmeasured_lines
from sweeps.execution.limits import HOURS_OVER, INTERRUPTED, Deadline, seconds_run
from sweeps.privacy.population_ledger import ledger_of, reserve_block, whole_of
from sweeps.privacy.wording import stopped_lines
from sweeps.selection.run import GONE, NOTHING_RELEASED, SealedPlaces, has_begun, opened, release
from sweeps.selection.workers import check_at_once, check_workers, workers_at
from sweeps.spec import SweepSpec
from sweeps.store.lease import Lease
from sweeps.store.records import SweepRecord, SweepState, TrialState
from sweeps.store.store import Store
from sweeps.util.exits import Interruption
from sweeps.util.workspace import Workspace
from trainables.publishing import declared
from trainables.registry import SYSTEMS
from trainables.sealed.worker import SealedWork
from trainables.system import Dataset, PublicFacts

RAY_LOG = "ray.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """With what a course runs, and whom it tells.

    loaded           the records, and what is derived of them
    interruption     armed once a cluster is there that has to be left in order
    on_cluster_lost  told the sweep's name; the process ends next
    on_first_sign    told that the course runs
    """

    loaded: list[Dataset]
    workspace: Workspace
    interruption: Interruption
    on_cluster_lost: Callable[[str], None]
    on_first_sign: Callable[[], None]


class Course(Protocol):
    """What a session runs, once everything is open."""

    def run(self, around: Surroundings) -> str:
        """Until it ends; how it ended."""
        ...

    def reasons(self, ended: str) -> tuple[str, ...]:
        """Why that is no full success, one sentence each."""
        ...


@dataclass(slots=True)
class OpenCourse:
    """Every trial is released as it ends."""

    controller: Controller
    working: bool
    address: str | None

    def prepare(self) -> None:
        if self.working:
            self.controller.look_ahead()
        if self.working and self.controller.budget.lets_go_on:
            # Ray takes seconds to import and start: not for a sweep that is already over.
            from sweeps.ray.cluster import check_reachable

            check_reachable(self.address, self.controller.spec.resources)

    def run(self, around: Surroundings) -> str:
        """See `Course.run`."""
        budget = self.controller.budget
        if budget.over and not (self.working and budget.is_final):
            return "out of budget"
        if self.working:
            return launch_all(self.controller, self.address, around)
        return "exhausted" if self.controller.is_exhausted() else "finished"

    def reasons(self, ended: str) -> tuple[str, ...]:
        """See `Course.reasons`."""
        return _reasons(self.controller, ended)


def launch_all(controller: Controller, address: str | None, around: Surroundings) -> str:
    """Run the controller's decisions on Ray until they end; how they ended. Raises as `runner.launches.execute`."""
    from sweeps.ray.cluster import cluster, data_path_seen_by_all, imported_by_all
    from sweeps.ray.messages import short_messages
    from sweeps.ray.patches import environment_of_the_cluster, losses_of_workers, nothing_counted, one_lookup
    from sweeps.ray.tuner import execute

    name, resources = controller.sweep, controller.spec.resources
    deadline = deadline_of(controller)
    try:
        with (
            short_messages(around.workspace.folder(name) / RAY_LOG) as messages,
            losses_of_workers(),
            one_lookup(),
            nothing_counted(),
            environment_of_the_cluster(),
            cluster(
                address,
                on_lost=lambda: around.on_cluster_lost(name),
                connected=around.interruption.arm,
            ),
        ):
            data_path_seen_by_all(controller.trials)
            if address is not None:
                imported_by_all(controller.spec.user_functions())
            with deadline:
                return str(
                    execute(
                        controller,
                        around.loaded,
                        # Of this session alone: a copy of the folder that goes on too draws other noise.
                        fresh_secret(),
                        resources,
                        reason=messages.reason,
                        on_first_sign=around.on_first_sign,
                        check=around.interruption.check,
                    )
                )
    except KeyboardInterrupt:
        controller.outcomes.settle_running(HOURS_OVER if deadline.passed else INTERRUPTED)
        return "out of hours" if deadline.passed else "stopped"


def deadline_of(controller: Controller) -> Deadline:
    """When `limits.hours` are over, counted over all sessions."""
    hours = controller.spec.limits.hours
    if hours is None:
        return Deadline(None, "")
    left = 3600 * hours - seconds_run(controller.store.attempts(controller.sweep))
    ends = "Nothing more is launched, and what runs ends at a checkpoint, charged."
    return Deadline(left, f"\nThe {hours:g} of limits.hours are over. {ends}")


def _reasons(controller: Controller, ended: str) -> tuple[str, ...]:
    records = controller.roster.published()
    refused = [record for record in records if record.state is TrialState.INFEASIBLE]
    reasons = []
    if ended == "out of hours":
        reasons.append(
            f"limits.hours is over: {controller.launched} of {controller.spec.search.trials} trials were launched. "
            f"It goes on with `sweeps resume {controller.sweep} --hours H`, H in all."
        )
    if ended == SweepState.OUT_OF_BUDGET:
        reasons.append(
            f"{controller.launched} of {controller.spec.search.trials} trials were launched. "
            f"{controller.budget.over} "
            + (
                "Nothing gives any of it back: for more trials start a new sweep."
                if controller.budget.is_final
                else f"It goes on with `sweeps resume {controller.sweep}` once the budget holds more."
            )
        )
    if ended == "exhausted":
        reasons.append(
            f"The space ran dry: {controller.launched} of {controller.spec.search.trials} trials could be launched, "
            f"{len(refused)} proposals were infeasible."
        )
        if refused:
            reasons.append(f"The last one, {refused[-1].key}: {refused[-1].reason}")
    reasons += [f"{line}." for line in stopped_lines(records, controller.spec.early_stopping is not None)]
    chosen = [SYSTEMS[system] for system in controller.spec.systems if system in SYSTEMS]
    asked = controller.spec.asked
    known = {name: one for system in chosen for name, one in declared(system, asked).items()}
    reasons += unmeasured_lines(records, asked, known)
    return tuple(reasons)


# A session of a private selection: begin or go on, wait for the announced end, release.


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
        from sweeps.ray.cluster import cluster
        from sweeps.ray.messages import short_messages
        from sweeps.ray.patches import nothing_counted

        with (
            short_messages(self.log),
            nothing_counted(),
            cluster(self.address, on_lost=self.on_lost, connected=self.connected),
        ):
            yield


@dataclass(slots=True)
class SealedCourse:
    """A `Course` (`sweeps.execution.runners`) of which the winners alone leave, at the announced end.

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
        from sweeps.ray.cluster import check_reachable

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
        return (GONE if self.work is None and not self.over else NOTHING_RELEASED,)

    def _on_the_cluster(self, work: SealedWork, around: Surroundings) -> None:
        from sweeps.ray.cluster import data_path_seen_by_all, imported_by_all
        from sweeps.ray.tuner import run

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
    from sweeps.ray.cluster import (
        alive_nodes,
        await_room,
        check_resources,
        data_path_seen_by_all,
        imported_by_all,
        is_joined,
    )

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
