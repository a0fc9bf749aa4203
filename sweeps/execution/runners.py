"""What a session runs: a search whose trials are each released as they end, or one of which the winners alone leave."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from dpcore.randomness import fresh_secret
from sweeps.execution.controller import Controller
from sweeps.execution.end import missing_metrics
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
from trainables.system import Dataset, DatasetSpec

if TYPE_CHECKING:
    from sweeps.ray.messages import Messages

RAY_LOG = "ray.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """With what a sweep runs, and whom it tells.

    address          of the Ray cluster; None: one of this machine alone
    interruption     armed once a cluster is there that has to be left in order
    on_cluster_lost  told when it is; the process ends next
    """

    sweep: str
    workspace: Workspace
    address: str | None
    interruption: Interruption
    on_cluster_lost: Callable[[], None]

    @property
    def log(self) -> Path:
        """Of all that Ray says."""
        return self.workspace.folder(self.sweep) / RAY_LOG

    @contextmanager
    def joined(self) -> Iterator[Messages]:
        """In the cluster while the block runs. Raises ClusterUnreachable."""
        from sweeps.ray.cluster import cluster
        from sweeps.ray.messages import short_messages

        with (
            short_messages(self.log) as messages,
            cluster(self.address, on_lost=self.on_cluster_lost, connected=self.interruption.arm),
        ):
            yield messages


class Runner(Protocol):
    """What a session runs, once everything is open."""

    def run(self, context: RunContext, data: list[Dataset], on_first_sign: Callable[[], None]) -> SweepState:
        """Until it ends; how it ended.

        data           the records, and what is derived of them, taken out of the list
        on_first_sign  told that it runs: what can wait until then is not in its way
        """
        ...

    def reasons(self, ended: SweepState) -> tuple[str, ...]:
        """Why that is no full success, one sentence each."""
        ...


@dataclass(slots=True)
class TuneRunner:
    """Every trial is released as it ends.

    working  whether anything is left to launch
    """

    controller: Controller
    working: bool

    @classmethod
    def prepared(cls, controller: Controller, context: RunContext) -> TuneRunner:
        """Look whether the budget holds the next launch, and whether the cluster answers. Raises ClusterUnreachable."""
        working = controller.has_work()
        if working:
            controller.look_ahead()
        if working and controller.budget.lets_go_on:
            # Ray takes seconds to import and start: not for a sweep that is already over.
            from sweeps.ray.cluster import check_reachable

            check_reachable(context.address, controller.spec.resources)
        return cls(controller, working)

    def run(self, context: RunContext, data: list[Dataset], on_first_sign: Callable[[], None]) -> SweepState:
        """See `Runner.run`. Raises as `sweeps.ray.tuner.execute`."""
        budget = self.controller.budget
        if budget.over and not (self.working and budget.is_final):
            return SweepState.OUT_OF_BUDGET
        if not self.working:
            return SweepState.EXHAUSTED if self.controller.is_exhausted() else SweepState.FINISHED
        deadline = self._deadline()
        try:
            return self._on_the_cluster(context, data, on_first_sign, deadline)
        except KeyboardInterrupt:
            self.controller.outcomes.settle_running(HOURS_OVER if deadline.passed else INTERRUPTED)
            return SweepState.OUT_OF_HOURS if deadline.passed else SweepState.STOPPED

    def _on_the_cluster(
        self, context: RunContext, data: list[Dataset], on_first_sign: Callable[[], None], deadline: Deadline
    ) -> SweepState:
        from sweeps.ray.cluster import check_importable_everywhere, check_records_visible
        from sweeps.ray.patches import tune_patches
        from sweeps.ray.tuner import execute

        with tune_patches(), context.joined() as messages:
            check_records_visible(self.controller.trials)
            if context.address is not None:
                check_importable_everywhere(self.controller.spec.user_functions())
            with deadline:
                return execute(
                    self.controller,
                    data,
                    # Of this session alone: a copy of the folder that goes on too draws other noise.
                    fresh_secret(),
                    self.controller.spec.resources,
                    reason=messages.reason,
                    on_first_sign=on_first_sign,
                    check=context.interruption.check,
                )

    def _deadline(self) -> Deadline:
        """When `limits.hours` are over, counted over all sessions."""
        hours = self.controller.spec.limits.hours
        if hours is None:
            return Deadline(None, "")
        left = 3600 * hours - seconds_run(self.controller.store.attempts(self.controller.sweep))
        ends = "Nothing more is launched, and what runs ends at a checkpoint, charged."
        return Deadline(left, f"\nThe {hours:g} of limits.hours are over. {ends}")

    def reasons(self, ended: SweepState) -> tuple[str, ...]:
        """See `Runner.reasons`."""
        controller, spec = self.controller, self.controller.spec
        trials = controller.table.published()
        refused = [trial for trial in trials if trial.state is TrialState.INFEASIBLE]
        launched = f"{controller.launched} of {spec.search.trials} trials"
        reasons = []
        if ended is SweepState.OUT_OF_HOURS:
            again = f"It goes on with `sweeps resume {controller.sweep} --hours H`, H in all."
            reasons.append(f"limits.hours is over: {launched} were launched. {again}")
        if ended is SweepState.OUT_OF_BUDGET:
            if controller.budget.is_final:
                again = "Nothing gives any of it back: for more trials start a new sweep."
            else:
                again = f"It goes on with `sweeps resume {controller.sweep}` once the budget holds more."
            reasons.append(f"{launched} were launched. {controller.budget.over} {again}")
        if ended is SweepState.EXHAUSTED:
            reasons.append(
                f"The space ran dry: {launched} could be launched, {len(refused)} proposals were infeasible."
            )
            if refused:
                reasons.append(f"The last one, {refused[-1].key}: {refused[-1].reason}")
        reasons += [f"{line}." for line in stopped_lines(trials, spec.early_stopping is not None)]
        chosen = [SYSTEMS[system] for system in spec.systems if system in SYSTEMS]
        known = {name: metric for system in chosen for name, metric in declared(system, spec.asked).items()}
        return (*reasons, *missing_metrics(trials, spec.asked, known))


@dataclass(slots=True)
class SelectionRunner:
    """A private selection: begin or go on, wait for the announced end, release the winners.

    over  whether it had ended before
    work  of the workers; None where the search is over, or had begun and is gone
    """

    store: Store
    lease: Lease
    spec: SweepSpec
    over: bool
    work: SealedWork | None

    @classmethod
    def prepared(
        cls,
        store: Store,
        lease: Lease,
        recorded: SweepRecord,
        spec: SweepSpec,
        facts: DatasetSpec,
        context: RunContext,
    ) -> SelectionRunner:
        """Draw, plan and announce, once; or find what was. Raises InvalidValue, ClusterUnreachable, PopulationSpent."""
        if recorded.state is SweepState.FINISHED:
            return cls(store, lease, spec, True, None)
        from sweeps.ray.cluster import check_reachable

        check_reachable(context.address, spec.resources)
        if not has_begun(recorded, context.workspace):
            _check_cluster(spec, context)
        # One row for the whole search, before its first trial: a row for each would tell how many there are.
        ledger_of(store, spec)
        reserve_block(store, lease, spec.data.population or "", *whole_of(spec))
        work = opened(recorded, spec, facts, context.workspace, store.calibrations(), context.address)
        return cls(store, lease, spec, False, work)

    def run(self, context: RunContext, data: list[Dataset], on_first_sign: Callable[[], None]) -> SweepState:
        """Until the announced end, then release. The sweep's row says by now that it runs: its price is spent."""
        if self.over:
            return SweepState.FINISHED
        on_first_sign()
        work = self.work
        if work is not None:
            try:
                if time.time() < work.schedule.last:
                    self._on_the_cluster(work, context, data[0])
                # A session that comes too late for the workers waits as any other does.
                time.sleep(max(0.0, work.schedule.deadline - time.time()))
            except KeyboardInterrupt:
                return SweepState.STOPPED
        places, trials = SealedPlaces.of(context.workspace, context.sweep), context.workspace.trials(context.sweep)
        release(self.store, self.lease, self.spec, work, places, trials)
        return SweepState.FINISHED

    def reasons(self, ended: SweepState) -> tuple[str, ...]:
        """Why nothing was released, where that is so."""
        if ended is SweepState.STOPPED or self.store.trials(self.lease.sweep):
            return ()
        return (GONE if self.work is None and not self.over else NOTHING_RELEASED,)

    def _on_the_cluster(self, work: SealedWork, context: RunContext, data: Dataset) -> None:
        from sweeps.ray.cluster import check_importable_everywhere, check_records_visible
        from sweeps.ray.tuner import run_sealed_search

        with context.joined():
            check_records_visible(work.folder)
            if context.address is not None:
                check_importable_everywhere(self.spec.user_functions())
            run_sealed_search(work, data, self.spec.resources, context.interruption.check)


def _check_cluster(spec: SweepSpec, context: RunContext) -> None:
    """All workers can run where they are meant to, see the records' folder and import what trials are made of.

    Before the price is paid: afterwards a search that cannot run releases nothing. Raises InvalidValue,
    ClusterUnreachable.
    """
    from sweeps.ray import cluster

    check_workers(spec, context.address)
    if context.address is None and not cluster.is_joined():
        return
    with context.joined():
        nodes = cluster.alive_nodes()
        cluster.check_resources(spec.resources, nodes, "the cluster has")
        workers = workers_at(spec, context.address)
        check_at_once(spec, workers, nodes, "the cluster")
        cluster.await_room(spec.resources, workers)
        cluster.check_records_visible(SealedPlaces.of(context.workspace, context.sweep).records)
        cluster.check_importable_everywhere(spec.user_functions())
