"""Each trick with Ray's private parts against the installed Ray: what is entered is there, what is patched is asked.

No test here starts a cluster; what needs a running one is in `tests/sweeps/test_cluster_ray.py`.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import logging
import platform
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import ray
from ray import tune
from ray._private import parameter, services, utils, worker
from ray._private.authentication import authentication_token_setup
from ray._private.node import Node
from ray.air._internal import usage
from ray.air.execution._internal.actor_manager import RayActorManager
from ray.exceptions import ActorDiedError, NodeDiedError, OutOfMemoryError, RayTaskError
from ray.job_submission import JobSubmissionClient
from ray.runtime_env import RuntimeEnv
from ray.tune import registry
from ray.tune import tune as tune_module
from ray.tune.execution import class_cache
from ray.tune.experiment import Trial

from sweeps.ray import patches
from sweeps.ray.messages import _sentence
from sweeps.ray.patches import (
    SEEN_ON,
    WorkerEnded,
    actor_of,
    environment_of_the_cluster,
    head_processes,
    idle_services_left_out,
    lines_handed_to,
    losses_of_workers,
    machine_resources,
    on_loopback,
    one_lookup,
    own_versions,
    send_token,
    server_version,
)
from trainables.worker.ray_shared import NAMES

ROOT = Path(__file__).parents[2]
ROOMS = ("sweeps/ray/patches.py", "trainables/worker/ray.py")


def test_the_installed_ray_is_the_one_that_was_read():
    assert ray.__version__.startswith(f"{SEEN_ON}."), (
        "read sweeps/ray/ray_private and trainables/worker/ray.py against this Ray, then raise SEEN_ON"
    )


def private_parts(path: Path) -> list[str]:
    """Lines at which a file enters Ray where an underscore stands, or assigns to an attribute of a module of Ray's."""
    text = path.read_text(encoding="utf-8")
    if "import ray" not in text and "from ray" not in text:
        return []
    tree = ast.parse(text)
    found, rays = [], {"ray"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "ray":
            names = [*str(node.module).split("."), *(alias.name for alias in node.names)]
            rays |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            names = [part for one in node.names if one.name.split(".")[0] == "ray" for part in one.name.split(".")]
        else:
            continue
        if any(name.startswith("_") for name in names):
            found.append(f"{path}:{node.lineno}")
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute):
            continue
        base: ast.AST = node
        private = False
        while isinstance(base, ast.Attribute):
            private |= base.attr.startswith("_") and not base.attr.startswith("__")
            base = base.value
        of_ray = isinstance(base, ast.Name) and base.id in rays
        if of_ray and (private or isinstance(node.ctx, ast.Store)):
            found.append(f"{path}:{node.lineno}")
    return found


def test_no_other_file_enters_or_patches_a_private_part():
    outside, inside = [], []
    for package in ("sweeps", "trainables", "dpcore"):
        for path in sorted((ROOT / package).rglob("*.py")):
            name = str(path.relative_to(ROOT))
            (inside if name.startswith(ROOMS) else outside).extend(private_parts(path))
    assert not outside
    assert len(inside) > 10, "the search itself finds what is there"


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


def test_what_a_cluster_tells_its_driver_is_told_to_us(monkeypatch, capsys):
    """Ray's own listener, with one message in place of a cluster's."""

    class Once:
        def __init__(self, stopped):
            self.stopped = stopped

        def subscribe(self):
            return None

        def poll(self):
            self.stopped.set()
            return b"", {"job_id": None, "error_message": "A worker died or was killed"}

        def close(self):
            return None

    class Driver:
        worker_id = b""
        current_job_id = ray.JobID.nil()

    def listen() -> None:
        stopped = threading.Event()
        driver = Driver()
        driver.gcs_error_subscriber = Once(stopped)  # type: ignore[attr-defined]
        worker.listen_error_messages(driver, stopped)

    told: list[list[str]] = []
    with lines_handed_to(lambda data, ignore_prefix=False: told.append(data["lines"])):
        listen()
    assert told == [["A worker died or was killed"]]
    assert capsys.readouterr() == ("", "")
    listen()
    assert "A worker died" in capsys.readouterr().out, "Ray prints elsewhere now"


@pytest.mark.parametrize(
    "name", [patches.TUNE_LOGGER, patches.TOKEN_LOGGER, patches.ANALYSIS_LOGGER, *patches.UPLOAD_LOGGERS]
)
def test_a_logger_of_that_name_speaks(name):
    module = importlib.import_module(name)
    loggers = [value for value in vars(module).values() if isinstance(value, logging.Logger)]
    assert name in [logger.name for logger in loggers]


def test_the_words_that_are_shortened_are_still_rays_words():
    from ray.tune.execution import tune_controller

    assert patches.TRIAL_FAILED in inspect.getsource(tune_controller)
    assert patches.TOKEN_ENABLED in inspect.getsource(authentication_token_setup)


def test_a_machine_is_counted_as_a_cluster_would_count_it():
    found = machine_resources(3)
    assert found["CPU"] == 3
    assert found["memory"] > 1e8
    assert found.get("GPU", 0) >= 0


def test_versions_are_written_as_a_cluster_writes_them():
    assert own_versions() == (ray.__version__, platform.python_version())


def test_without_a_cluster_of_our_own_there_is_nothing_to_watch():
    assert worker._global_node is None
    assert head_processes() == []


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


def test_tune_counts_no_callbacks_and_imports_no_mlflow_for_that():
    assert tune_module.air_usage is usage
    code = (
        "import sys; from ray.air._internal import usage; from ray.tune import Callback;"
        "from sweeps.ray.patches import nothing_counted\n"
        "{block}usage.tag_callbacks([Callback()])\n"
        "print('mlflow' in sys.modules)"
    )
    said = [
        subprocess.run([sys.executable, "-c", code.format(block=block)], capture_output=True, text=True, check=True)
        for block in ("with nothing_counted(): ", "")
    ]
    assert [one.stdout.split()[-1] for one in said] == ["False", "True"]


def test_a_job_servers_version_is_the_one_that_it_says(monkeypatch):
    class Answer:
        status_code = 200

        def raise_for_status(self):
            return None

        def json(self):
            return {"ray_version": "2.99.9"}

    monkeypatch.setattr(JobSubmissionClient, "_do_request", lambda self, method, url, **options: Answer())
    assert server_version(JobSubmissionClient("http://127.0.0.1:8265")) == "2.99.9"


def test_the_actor_of_a_trial_is_where_tune_puts_it():
    ray.tune.register_trainable("with-an-actor", lambda config: None)
    trial = Trial("with-an-actor", stub=True)
    assert actor_of(trial) is None

    class Actor:
        class get_auto_filled_metrics:
            @staticmethod
            def remote(**options):
                return None

    actor = Actor()
    trial.set_ray_actor(actor)
    assert actor_of(trial) is actor


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
