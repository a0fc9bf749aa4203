"""Each trick with Ray's private parts against the installed Ray: what is entered is there, what is patched is asked.

No test here starts a cluster; what needs a running one is in `tests/sweeps/test_cluster_ray.py`.
"""

from __future__ import annotations

import inspect

import pytest
import ray
from ray import tune
from ray._private import parameter, services, utils, worker
from ray._private.authentication import authentication_token_setup
from ray._private.node import Node
from ray.air.execution._internal.actor_manager import RayActorManager
from ray.exceptions import NodeDiedError, OutOfMemoryError
from ray.runtime_env import RuntimeEnv
from ray.tune import registry
from ray.tune.execution import class_cache
from ray.tune.experiment import Trial

from sweeps.ray import patches
from sweeps.ray.cluster import _sentence
from sweeps.ray.patches import (
    SEEN_ON,
    WorkerEnded,
    environment_of_the_cluster,
    idle_services_left_out,
    on_loopback,
    one_lookup,
    send_token,
    worker_losses_fail_one_trial,
)
from trainables.worker.ray import NAMES


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
    with environment_of_the_cluster():
        assert not handed_on()
        # What Ray sends then is what it sends where nothing was asked: any process of the cluster will do.
        assert RuntimeEnv(**asked[-1]).serialize() == RuntimeEnv().serialize()
    assert handed_on() > NAMES


def test_services_that_nobody_asks_are_started_by_ray_and_within_the_block_they_are_not():
    node = inspect.getsource(Node)
    assert "ray._private.services.start_api_server(" in node
    assert "no_monitor" in node
    assert "include_log_monitor" in node
    assert "utils.get_dashboard_dependency_error() is not None" in inspect.getsource(services.start_raylet)
    assert "ray._private.parameter.RayParams(" in inspect.getsource(ray.init)
    plain = services.start_api_server, parameter.RayParams, utils.get_dashboard_dependency_error
    with idle_services_left_out():
        assert services.start_api_server(False, False) == (None, None)
        asked = parameter.RayParams(num_cpus=1)
        assert (asked.no_monitor, asked.include_log_monitor) == (True, False)
        assert utils.get_dashboard_dependency_error() is not None
    assert (services.start_api_server, parameter.RayParams, utils.get_dashboard_dependency_error) == plain


def test_a_cluster_that_is_started_in_the_block_takes_the_loopback_address(monkeypatch):
    assert worker._global_node is None
    monkeypatch.setattr(services, "node_ip_address_from_perspective", lambda address=None: "192.0.2.7")
    assert services.get_node_ip_address() == "192.0.2.7", "Ray keeps to loopback by itself: loopback.py can go"
    with on_loopback():
        assert services.get_node_ip_address() in ("127.0.0.1", "::1")
    assert services.get_node_ip_address() == "192.0.2.7"


def test_the_words_that_are_shortened_are_still_rays_words():
    from ray.tune.execution import tune_controller

    assert patches.TRIAL_FAILED in inspect.getsource(tune_controller)
    assert patches.TOKEN_ENABLED in inspect.getsource(authentication_token_setup)


def test_a_token_in_the_environment_is_sent_from_now_on(monkeypatch):
    enabled: list[bool] = []
    monkeypatch.setattr(authentication_token_setup, "_enable_token_auth", lambda: enabled.append(True))
    monkeypatch.setattr(authentication_token_setup, "_warn_token_auth_enabled", lambda: None)
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    for there in (False, True):
        monkeypatch.setattr(
            authentication_token_setup.AuthenticationTokenLoader,
            "has_token",
            lambda self, ignore_auth_mode=False, there=there: there,
        )
        send_token()
    assert enabled == [True]


# Tune looks a trial's trainable up again and again; within a sweep it is looked up once, and never beyond it.


def test_a_sweep_looks_its_trainable_up_once_and_the_next_sweep_again(monkeypatch):
    lookups: list[str] = []
    plain = registry._global_registry.get
    monkeypatch.setattr(registry._global_registry, "get", lambda kind, name: lookups.append(name) or plain(kind, name))

    def names_of_four_trials() -> set[str]:
        return {Trial("looked-up", stub=False).get_trainable_cls().__name__ for _ in range(4)}

    tune.register_trainable("looked-up", lambda config: None)
    lookups.clear()
    without = names_of_four_trials()
    assert len(lookups) == 4, "Tune itself remembers now: sweeps/ray/patches.py can go"
    for _ in range(2):
        lookups.clear()
        with one_lookup():
            assert names_of_four_trials() == without
        assert lookups == ["looked-up"]
    names_of_four_trials()
    assert len(lookups) == 5


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
