"""What is asked of a cluster and what it has, in the words that a user reads; packing and versions."""

from __future__ import annotations

import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
import ray
from hypothesis import given
from hypothesis import strategies as st
from ray.air.execution._internal.actor_manager import RayActorManager
from ray.exceptions import NodeDiedError, OutOfMemoryError
from ray.runtime_env import RuntimeEnv
from ray.tune.execution import class_cache

from sweeps.ray import watchdog
from sweeps.ray.cluster import _sentence
from sweeps.ray.patches import SEEN_ON, WorkerEnded, tune_patches, worker_losses_fail_one_trial
from sweeps.ray.resources import lacking, room_for
from sweeps.ray.watchdog import Sign, Stalls
from sweeps.spec.sections import Resources
from sweeps.util.exits import ExitCode
from trainables.worker.ray import NAMES

LAPTOP = {"CPU": 2.0}
HOST = {"CPU": 16.0, "GPU": 1.0}


@pytest.mark.parametrize(
    ("resources", "nodes", "said"),
    [
        (Resources(cpus=3), [LAPTOP, LAPTOP], "1 worker with 3 CPUs and 0 GPUs: the cluster has 2 CPUs, 0 GPUs; 2 CPU"),
        (Resources(cpus=3, gpus=1), [{"CPU": 1.0, "GPU": 1.0}, {"CPU": 8.0}], "has 1 CPUs, 1 GPUs; 8 CPUs, 0 GPUs"),
        (Resources(workers=4, gpus_per_worker=1), [HOST, LAPTOP], "4 workers with 1 CPUs and 1 GPUs: the cluster has"),
        (Resources(), [], "the cluster has no nodes, room for 0"),
    ],
)
def test_what_can_never_be_had_is_said_with_what_there_is(resources, nodes, said):
    found = lacking(resources, nodes, "the cluster has")
    assert found is not None
    assert said in found
    assert "--address" in found


@pytest.mark.parametrize(
    ("resources", "nodes", "room"),
    [
        (Resources(gpus=0.25, cpus=0.1), [HOST], 4),
        (Resources(gpus=0.3), [{"CPU": 99.0, "GPU": 2.0}], 6),
        (Resources(gpus=0.6), [{"CPU": 99.0, "GPU": 2.0}], 2),
        (Resources(cpus=0.1), [{"CPU": 0.3}], 3),
        (Resources(workers=2, cpus_per_worker=1), [LAPTOP, LAPTOP], 4),
    ],
)
def test_fractions_are_packed_as_ray_packs_them(resources, nodes, room):
    assert room_for(resources, nodes) == room
    assert lacking(resources, nodes, "it has") is None


@given(
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 4)), max_size=4),
    st.integers(1, 5),
    st.integers(1, 4),
    st.integers(0, 1),
)
def test_workers_fit_where_they_can_be_dealt_out_one_by_one(nodes, workers, cpus, gpus):
    left, placed = [list(one) for one in nodes], 0
    for node in left:
        while node[0] >= cpus and node[1] >= gpus:
            node[0] -= cpus
            node[1] -= gpus
            placed += 1
    resources = Resources(workers=workers, cpus_per_worker=cpus, gpus_per_worker=gpus)
    have = [{"CPU": float(one), "GPU": float(other)} for one, other in nodes]
    assert room_for(resources, have) == placed
    assert (lacking(resources, have, "it has") is None) == (placed >= workers)


# Versions


# A cluster that shrinks


def test_a_cluster_that_lost_its_nodes_ends_the_wait_and_says_how_to_go_on(monkeypatch):
    from sweeps.execution import tuner
    from sweeps.ray.cluster import ClusterUnreachable

    nodes = [LAPTOP]
    monkeypatch.setattr(tuner, "alive_nodes", lambda: list(nodes))
    monkeypatch.setenv("SWEEPS_PATIENCE", "0.2")
    spec = SimpleNamespace(limits=SimpleNamespace(stall_seconds=None), resources=Resources(workers=2))
    live = SimpleNamespace(controller=SimpleNamespace(sweep="mine", spec=spec), failure=None, stopped=0.0)
    heartbeat = tuner._Heartbeat(live)  # type: ignore[arg-type]
    assert heartbeat._check_nodes() is None
    nodes.clear()
    # A node that joins in time changes nothing.
    assert heartbeat._check_nodes() is None
    nodes.append(LAPTOP)
    time.sleep(0.25)
    assert heartbeat._check_nodes() is None
    nodes.clear()
    assert heartbeat._check_nodes() is None
    time.sleep(0.25)
    ended = heartbeat._check_nodes()
    assert isinstance(ended, ClusterUnreachable)
    assert "room for 0 such" in str(ended)
    assert "sweeps resume mine" in str(ended)


HEAD = """
import subprocess, time, types
from sweeps.ray import watchdog
head = subprocess.Popen(["sleep", "60"])
watchdog.head_processes = lambda: [head.pid]
watchdog.ray.get_runtime_context = lambda: types.SimpleNamespace(get_node_id=lambda: "mine")
with watchdog.Watchdog(lambda: print("told", flush=True)) as dog:
    dog.watch()
    head.kill()
    time.sleep(50)
"""


def test_a_process_whose_own_cluster_dies_says_so_and_ends_at_once():
    done = subprocess.run([sys.executable, "-c", HEAD], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (ExitCode.CLUSTER_LOST, "told\n"), done.stderr


# Launches without a sign of life: named after the patience, ended after the limit, on the controller's clock.


class Clock:
    """Seconds that the test lets pass."""

    def __init__(self):
        self.time = 1000.0

    def monotonic(self):
        return self.time


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(watchdog, "time", found)
    monkeypatch.setenv("SWEEPS_PATIENCE", "40")
    return found


def sign(at, process="p"):
    """Of a launch whose worker wrote last at this time."""
    return Sign(process, ((("claim", at),),))


def looks(watch, clock, seconds, signs):
    """What is to be ended, over this many seconds of looking every second."""
    ended = []
    for _ in range(seconds):
        clock.time += 1
        ended += watch.look(signs)
    return ended


def test_one_without_a_sign_is_named_and_then_ended_and_others_are_not(clock, capsys):
    watch = Stalls(100.0)
    signs = {"s-0.1": lambda: sign(0), "s-1.1": lambda: sign(int(clock.time) // 30)}
    assert looks(watch, clock, 99, signs) == []
    said = capsys.readouterr().err
    assert said.count("s-0.1 has shown no sign of life for 4") == 1
    assert "It is ended after 100 s: limits.stall_seconds." in said
    assert "s-1.1" not in said
    ended = looks(watch, clock, 15, signs)
    assert [name for name, _ in ended] == ["s-0.1"] * len(ended)
    assert 100 <= ended[0][1] <= 106
    # It is gone; the same name is not looked at again.
    assert looks(watch, clock, 200, {"s-1.1": signs["s-1.1"]}) == []


def test_a_start_has_the_patience_where_that_is_longer(clock):
    watch = Stalls(10.0)
    starting = {"s-0.1": lambda: Sign("p", ((), ()))}
    assert looks(watch, clock, 38, starting) == []
    assert {name for name, _ in looks(watch, clock, 5, starting)} == {"s-0.1"}
    assert {name for name, _ in looks(Stalls(10.0), clock, 12, {"s-0.1": lambda: sign(0)})} == {"s-0.1"}


# Each trick with Ray's private parts against the installed Ray: what is entered is there, what is patched is asked.


def test_the_installed_ray_is_the_one_that_was_read():
    assert ray.__version__.startswith(f"{SEEN_ON}."), (
        "read sweeps/ray/ray_private and trainables/worker/ray.py against this Ray, then raise SEEN_ON"
    )


def test_tune_hands_on_the_keys_of_the_driver_and_within_the_block_it_asks_for_nothing(monkeypatch):
    asked: list[dict] = []
    monkeypatch.setattr(class_cache.ray, "remote", lambda runtime_env: asked.append(runtime_env) or (lambda cls: cls))
    for name in NAMES:
        monkeypatch.setenv(name, "a-secret")

    def handed_on() -> set[str]:
        class_cache._ActorClassCache().get(object())
        return set(asked[-1]["env_vars"])

    assert handed_on() > NAMES, "Tune asks for less now: trial_environment.py may go"
    with tune_patches():
        assert not handed_on()
        # What Ray sends then is what it sends where nothing was asked: any process of the cluster will do.
        assert RuntimeEnv(**asked[-1]).serialize() == RuntimeEnv().serialize()
    assert handed_on() > NAMES


# Tune looks a trial's trainable up again and again; within a sweep it is looked up once, and never beyond it.


# Tune ends a sweep over errors that it does not know; with our help it loses one trial.


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
    with worker_losses_fail_one_trial():
        manager._actor_task_failed(tracked_actor_task=task, exception=error)
    assert [type(one) for one in task.told] == [WorkerEnded, WorkerEnded]
    assert task.told[0].__cause__ is error
    assert words in _sentence(task.told[0])
    assert manager._failed_actor_ids == {1}
