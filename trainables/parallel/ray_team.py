"""Workers as Ray actors in the trial's own placement group: inside what Tune asked for, gone with the trial.

Tune holds a placement group with one bundle for each worker; the trial's process, the owner, takes no bundle of its
own: it adds noise and keeps records while the workers wait, and waits while they compute. Workers start once for all
the trials that a process runs one after the other (Tune reuses it, and its placement group with it), since nearly all
of a start is the import of torch. They keep nothing between trials but the data, mapped from the node's object store.

A worker that dies ends the attempt: the owner raises `WorkerLost`, an OSError, which says nothing about the
configuration, so that the launch counts as lost, is charged to its horizon and goes on from its checkpoint.
"""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayActorError
from ray.util import get_current_placement_group, get_node_ip_address
from ray.util.placement_group import PlacementGroup
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy
from torch import nn
from torch.distributed import DistError

from trainables import memory
from trainables.parallel.ray_shared import SharedData, TeamLayout
from trainables.parallel.sums import Backend, Link, LinkedSums, LinkEnded, owner_link, owner_store, serve, worker_link
from trainables.team import BatchSums, GradientTask, device_named

START_SECONDS = 180.0
"""Longest start of the workers: their bundles are held already, so this is import and rendezvous."""
FAREWELL_SECONDS = 10.0


class WorkerLost(OSError):
    """A worker of the team is gone."""


@dataclass(frozen=True, slots=True)
class _Failed:
    """An exception inside a worker. Its text may quote a record, so it is not raised there: Ray would log it."""

    error: BaseException
    text: str


class _Worker:
    """One rank. Runs in its own process."""

    def __init__(self, data: SharedData) -> None:
        self._data = data.get()
        self._link: Link | None = None
        self._rank = self._workers = 0

    def ready(self) -> None:
        """Answers once this process is up, with the data mapped."""

    def join(self, host: str, port: int, rank: int, workers: int, backend: Backend) -> None:
        """Meet the others at the owner's store."""
        self._rank, self._workers = rank, workers
        self._link = worker_link((host, port), get_node_ip_address(), rank, workers, backend)

    def peak_memory_mb(self) -> float:
        """Of the run that is being served."""
        return memory.peak_mb()

    def serve(self, task: GradientTask) -> _Failed | None:
        """Form this rank's sums of one run."""
        assert self._link is not None
        memory.forget_peak()
        try:
            serve(task, self._data, self._rank, self._workers, self._link, device_named(task.device))
        except Exception as error:
            return _Failed(_plain(error), traceback.format_exc())
        return None


def _plain(error: Exception) -> BaseException:
    """`error` as it can travel."""
    try:
        ray.cloudpickle.loads(ray.cloudpickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__} in a worker")
    return error


@dataclass(slots=True)
class RayTeam:
    """The `Team` of a trial; made by `team_of`."""

    layout: TeamLayout
    data: SharedData
    group: PlacementGroup
    backend: Backend
    _actors: list[Any] = field(default_factory=list)
    _serving: list[Any] = field(default_factory=list)
    _link: Link | None = None

    def start(self) -> None:
        """Start the workers and connect them. Raises WorkerLost."""
        layout, host = self.layout, get_node_ip_address()
        # Two calls at once: what a worker holds is asked while it serves.
        kind = {"num_cpus": layout.cpus, "num_gpus": layout.gpus, "max_restarts": 0, "max_concurrency": 2}
        worker = ray.remote(**kind)(_Worker)
        first = len(self.group.bundle_specs) - layout.workers
        self._actors = [
            worker.options(
                scheduling_strategy=PlacementGroupSchedulingStrategy(
                    placement_group=self.group, placement_group_bundle_index=first + rank
                )
            ).remote(self.data)
            for rank in range(layout.workers)
        ]
        try:
            # First that every process is up: who waits for a member that died before it called has no way out.
            self._await([actor.ready.remote() for actor in self._actors])
            store = owner_store(host)
            joined = [
                actor.join.remote(host, store.port, rank, layout.workers, self.backend)
                for rank, actor in enumerate(self._actors)
            ]
            self._link = owner_link(store, host, layout.workers, self.backend, self._check)
            self._await(joined)
        except BaseException:
            self.close()
            raise

    @contextlib.contextmanager
    def sums(self, task: GradientTask, model: nn.Module) -> Iterator[BatchSums]:
        """See `Team`. Raises WorkerLost, or what was raised inside a worker; the team is then closed."""
        assert self._link is not None
        self._serving = [actor.serve.remote(task) for actor in self._actors]
        try:
            try:
                yield LinkedSums(task, model, self._link)
            except RuntimeError as error:
                # A connection that ended; the worker's own reason is better, and soon there.
                if not isinstance(error, _CUT):
                    raise
                self._check(FAREWELL_SECONDS)
                raise WorkerLost(_ENDED) from error
            self._await(self._serving)
        except BaseException:
            self.close()
            raise
        finally:
            self._serving = []

    def peak_memory_mb(self) -> float:
        """See `Team`. Raises WorkerLost."""
        asked = [actor.peak_memory_mb.remote() for actor in self._actors]
        try:
            return float(sum(ray.get(asked, timeout=START_SECONDS)))
        except (RayActorError, GetTimeoutError) as error:
            raise WorkerLost(_ENDED) from error

    def close(self) -> None:
        """End the workers."""
        for actor in self._actors:
            ray.kill(actor)
        if self._link is not None:
            # Its end waits for exchanges in flight, for ever if the other side fell silent: it ends with the process.
            _ABANDONED.append(self._link)
        self._actors, self._link = [], None

    def usable(self) -> bool:
        """Whether another run may go on with it."""
        return bool(self._actors)

    def _await(self, answers: list[Any]) -> None:
        try:
            cut = _own_error_raised(ray.get(answers, timeout=START_SECONDS))
        except RayActorError as error:
            raise WorkerLost(_ENDED) from error
        except GetTimeoutError as error:
            raise WorkerLost(f"{self.layout.workers} workers did not answer within {START_SECONDS:.0f} s") from error
        if cut:
            raise WorkerLost(_ENDED)

    def _check(self, seconds: float = 0.0) -> None:
        """Raises when a worker that should be serving stops within so many seconds: its own error, if it tells one."""
        serving = self._serving
        ended, going = ray.wait(serving, num_returns=len(serving), timeout=seconds) if serving else ([], [])
        try:
            cut = _own_error_raised(ray.get(ended))
        except RayActorError as error:
            raise WorkerLost(_ENDED) from error
        if cut and going and not seconds:
            # Why, the other one tells soon.
            self._check(FAREWELL_SECONDS)
        if cut:
            raise WorkerLost(_ENDED)


def _own_error_raised(answers: list[Any]) -> bool:
    """Whether a worker lost its connection to another, which says least. Raises the own error of one that has any."""
    failed = [answer for answer in answers if isinstance(answer, _Failed)]
    for one in failed:
        if not isinstance(one.error, _CUT):
            raise one.error from RuntimeError(one.text)
    return bool(failed)


_ABANDONED: list[Link] = []
_ENDED = "a worker of the trial ended (killed, crashed, out of memory, or its node is gone)"
_CUT = (LinkEnded, DistError)
"""What a worker raises when another one's end of the connection is gone."""


_TEAM: RayTeam | None = None
"""The team of this process: one run after the other, as Tune reuses its actor."""


def team_of(layout: TeamLayout, data: SharedData, device: str = "auto") -> RayTeam:
    """The workers of this trial's placement group, started unless they are there from the run before.

    device  where they compute, as in `RunSettings`; workers with a whole GPU each meet over NCCL, which lets no
            two share one, and all others over Gloo

    Raises WorkerLost.
    """
    global _TEAM
    backend: Backend = "nccl" if layout.gpus >= 1 and device != "cpu" else "gloo"
    group = get_current_placement_group()
    if group is None:
        raise RuntimeError("a trial of several workers runs in a placement group")
    if _TEAM is not None:
        same = (_TEAM.layout, _TEAM.data, _TEAM.group.id, _TEAM.backend) == (layout, data, group.id, backend)
        if same and _TEAM.usable():
            return _TEAM
        _TEAM.close()
    _TEAM = RayTeam(layout, data, group, backend)
    _TEAM.start()
    return _TEAM
