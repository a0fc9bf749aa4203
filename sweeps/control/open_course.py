"""What a session runs: trials each of which is released as it ends. (`control.sealed_session` is the other course.)"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from dpcore.randomness import fresh_secret
from sweeps.control.controller import Controller
from sweeps.control.interruption import Interruption
from sweeps.control.lost_attempts import HOURS_OVER, INTERRUPTED
from sweeps.control.time_limits import Deadline, seconds_run
from sweeps.control.unmeasured import unmeasured_lines
from sweeps.ledger.text import stopped_lines
from sweeps.process.workspace import Workspace
from sweeps.records import SweepState, TrialState
from trainables.publishing import declared
from trainables.registry import SYSTEMS
from trainables.system import Dataset

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
            from sweeps.runner.cluster import check_reachable

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
    from sweeps.runner.cluster import cluster, data_path_seen_by_all
    from sweeps.runner.imports import imported_by_all
    from sweeps.runner.launches import execute
    from sweeps.runner.messages import short_messages
    from sweeps.runner.ray_private.trainable_lookups import one_lookup
    from sweeps.runner.ray_private.trial_environment import environment_of_the_cluster
    from sweeps.runner.ray_private.usage_tags import nothing_counted
    from sweeps.runner.ray_private.worker_losses import losses_of_workers

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
