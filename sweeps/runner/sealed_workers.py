"""A sealed search on a Ray cluster: a fixed number of workers, one call each, from the start to the announced end."""

from __future__ import annotations

import time
from collections.abc import Callable

import ray

from sweeps.process.words import Event, say
from sweeps.runner.cluster import alive_nodes, check_resources
from sweeps.sealed.workers import waiting_text
from sweeps.spec import Resources
from trainables.sealed.worker import RemoteWork, SealedWork, serve_remotely
from trainables.system import Dataset
from trainables.worker.credentials import Credentials
from trainables.worker.ray_shared import SharedData

SAID_SECONDS = 60.0
"""Between two words about the time that is left."""
_NAP = 0.25


def run(work: SealedWork, data: Dataset, resources: Resources, check: Callable[[], None]) -> None:
    """Let the workers run until the deadline, not sooner and not later. Needs a connected cluster.

    check  raises KeyboardInterrupt once the sweep is to stop (`Interruption.check`)

    A worker that is lost is started again by Ray, and goes on at its slot. Nothing that a worker does is looked at.
    """
    nodes = alive_nodes()
    check_resources(resources, nodes, "the cluster has")
    if text := waiting_text(resources, work.workers, nodes):
        # Its price is paid, so that it goes on: nodes that left may come back.
        say(text, Event.WARNING)
    shared = RemoteWork(work=work, data=SharedData.put(data), credentials=Credentials.of_this_process())
    cpus, gpus = resources.per_worker()
    remote = ray.put(shared)
    task = ray.remote(num_cpus=cpus, num_gpus=gpus, max_retries=-1)(serve_remotely)
    running = [task.remote(remote, worker) for worker in range(work.workers)]
    try:
        _until(work.schedule.deadline, check)
    finally:
        for one in running:
            ray.cancel(one, force=True)


def _until(deadline: float, check: Callable[[], None]) -> None:
    said = 0.0
    while (left := deadline - time.time()) > 0:
        if time.monotonic() - said > SAID_SECONDS:
            said = time.monotonic()
            say(f"Sealed: {_span(left)} until what won leaves.", Event.PROGRESS)
        check()
        time.sleep(min(left, _NAP))


def _span(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes" if seconds >= 90 else f"{seconds:.0f} seconds"
