"""Tune ends a sweep over errors that it does not know; with our help it loses one trial."""

from __future__ import annotations

import pytest
from ray.air.execution._internal.actor_manager import RayActorManager
from ray.exceptions import ActorDiedError, NodeDiedError, OutOfMemoryError, RayTaskError

from sweeps.ray.messages import _sentence
from sweeps.ray.patches import WorkerEnded, losses_of_workers


class Recorded:
    """Stands where Tune's own objects would: what was it told?"""

    def __init__(self) -> None:
        self.told: list[Exception] = []
        self._tracked_actor = self
        self.actor_id = 1

    def _on_error(self, actor: object, exception: Exception) -> None:
        self.told.append(exception)


@pytest.fixture
def manager() -> RayActorManager:
    """Tune's own, with nothing to clean up."""

    class Bare(RayActorManager):
        def __init__(self) -> None:
            self._failed_actor_ids: set[int] = set()

        def _cleanup_actor(self, tracked_actor: object) -> None:
            return None

    return Bare()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OutOfMemoryError("1 worker(s) were killed due to the node running low on memory"), "ran out of memory"),
        (NodeDiedError("the node is dead"), "its node died"),
    ],
)
def test_what_rays_system_did_is_the_loss_of_one_worker(manager, error, words):
    task = Recorded()
    with losses_of_workers():
        manager._actor_task_failed(tracked_actor_task=task, exception=error)
    assert [type(one) for one in task.told] == [WorkerEnded, WorkerEnded]
    assert task.told[0].__cause__ is error
    assert words in _sentence(task.told[0])
    assert manager._failed_actor_ids == {1}


def test_tune_by_itself_ends_the_sweep_over_it(manager):
    """The reason for all this: when it no longer fails, the module can go."""
    task = Recorded()
    with pytest.raises(RuntimeError, match="unexpected exception"):
        manager._actor_task_failed(tracked_actor_task=task, exception=OutOfMemoryError("low on memory"))
    assert task.told == []


def test_what_tune_knows_stays_as_it_is(manager):
    died, failed = ActorDiedError(), RayTaskError("f", "traceback", ValueError("x"))
    task = Recorded()
    with losses_of_workers():
        manager._actor_task_failed(tracked_actor_task=task, exception=died)
        manager._actor_task_failed(tracked_actor_task=task, exception=failed)
        with pytest.raises(RuntimeError):
            manager._actor_task_failed(tracked_actor_task=task, exception=KeyError("a mistake in the driver"))
    assert task.told == [died, died, failed]
