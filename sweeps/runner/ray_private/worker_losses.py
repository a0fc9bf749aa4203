"""Losses of workers that Ray Tune does not know how to lose.

A worker that the node's memory monitor ended, or whose node died, is told to Tune as an OutOfMemoryError, NodeDiedError
or another error of Ray's system. Tune 2.60 handles errors of actors and of tasks, and ends the whole sweep with a
RuntimeError over any other (`RayActorManager._actor_task_failed`). While the block here runs, it meets them as what
they are: the end of that one actor.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ray.air.execution._internal.actor_manager import RayActorManager
from ray.exceptions import RayActorError, RayError, RayTaskError


class WorkerEnded(RayActorError):
    """A worker was ended by Ray's system; `__cause__` says why."""


@contextmanager
def losses_of_workers() -> Iterator[None]:
    """For as long as the block runs, an error of Ray's system fails the trial that it struck and no other."""
    plain = RayActorManager._actor_task_failed

    def failed(self: RayActorManager, tracked_actor_task: Any, exception: Exception) -> None:
        if isinstance(exception, RayError) and not isinstance(exception, RayActorError | RayTaskError):
            ended = WorkerEnded(error_msg=str(exception))
            ended.__cause__ = exception
            exception = ended
        plain(self, tracked_actor_task, exception)

    RayActorManager._actor_task_failed = failed
    try:
        yield
    finally:
        RayActorManager._actor_task_failed = plain
