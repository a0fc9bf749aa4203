"""Ray's private parts that this project enters or patches: no other file does.

| here | what Ray does by itself |
|---|---|
| `cluster_metadata` | a cluster of other versions or with a token is told apart after twenty seconds, with a warning |
| `head_processes` | a cluster of this machine may die without this process being told |
| `idle_services_left_out` | a cluster of this machine alone starts services that nobody asks |
| `server_version` | the version of a job server is checked for being too old alone |
| `*_LOGGER` | twenty lines about one lost worker, and words about each upload |
| `on_loopback` | a cluster of this machine alone listens on all interfaces |
| `machine_resources` | what a machine has is known after a cluster was started on it |
| `driver_lines_to` | what a cluster tells its driver is printed to stdout |
| `send_token` | a cluster's token is sent only where the environment says so, or by Ray's own command line |
| `actor_of` | Tune alone knows which process has a trial |
| `tune_patches` | Tune looks a trainable up five times a trial, imports MLflow to count callbacks, and asks for a new \
process for each trial, with AWS keys, which Ray logs |
| `worker_losses_fail_one_trial` | Tune ends the sweep when the memory monitor ends one worker |

Each lasts as long as its block. A worker's own, the notice of a node that is to go, is
`trainables/worker/ray.py`. A test fails where another Ray is installed than the one that was read.
"""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import ray
import ray._private.state
from ray._common.usage.usage_constants import CLUSTER_METADATA_KEY
from ray._private import parameter, ray_constants, services, utils, worker
from ray._private.authentication.authentication_token_setup import maybe_enable_token_auth_if_token_available
from ray._private.ray_constants import KV_NAMESPACE_CLUSTER
from ray._private.resource_and_label_spec import ResourceAndLabelSpec
from ray._private.utils import check_version_info
from ray._raylet import GcsClient  # type: ignore[attr-defined]
from ray.actor import ActorHandle
from ray.exceptions import RayActorError, RayError, RayTaskError

SEEN_ON = "2.60"
"""Version of Ray on which everything here was read against Ray's own source."""


@contextmanager
def replaced(owner: Any, **values: object) -> Iterator[None]:
    """While the block runs, these attributes of `owner` are others."""
    plain = {name: getattr(owner, name) for name in values}
    for name, value in values.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for name, value in plain.items():
            setattr(owner, name, value)


def cluster_metadata(host: str, port: int) -> Mapping[str, str] | None:
    """What the head at host:port says of its cluster, "ray_version" and "python_version" included; None: nothing yet.

    Raises AuthenticationError when its token is another one, RpcError, RaySystemError or ConnectionError when it does
    not answer.
    """
    metadata = GcsClient(address=f"{host}:{port}").internal_kv_get(CLUSTER_METADATA_KEY, KV_NAMESPACE_CLUSTER)
    return None if metadata is None else json.loads(metadata)


def other_versions(metadata: Mapping[str, str]) -> str | None:
    """What differs between the cluster, by its metadata, and this process; None when both have one Ray and Python."""
    try:
        check_version_info(metadata, "this machine")
    except RuntimeError as differing:
        return f"{' '.join(str(differing).split())} Install the same on every node and here."
    return None


# What of each node of the joined cluster nobody holds now (Ray 2.60): its public calls tell the sum of all nodes.


def free_resources() -> list[Mapping[str, float]]:
    """By Ray's names, such as {"CPU": 8.0}, one for each node; a name that is all taken is left out."""
    return list(ray._private.state.available_resources_per_node().values())


# Processes of a cluster that this process has started itself.
#
# When they die, Ray's calls wait for ever, or its core ends this process without a word (watched for 45 s on Ray
# 2.60).


def head_processes() -> list[int]:
    """Process ids of the connected cluster's head; none when somebody else has started it."""
    node = ray._private.worker._global_node
    if node is None or not node.is_head():
        return []
    return [info.process.pid for infos in node.all_processes.values() for info in infos]


# A cluster of this machine alone starts services that nobody asks: a fifth of its start.
#
# `ray.init(include_dashboard=False)` starts a server for usage statistics and waits for it, the autoscaler's monitor,
# a process that reads workers' logs for a driver that asked for none (`log_to_driver=False`), and the whole of each
# node's agent, for a dashboard that is not there. Without them Ray works as it is installed by `ray[tune]` alone.
# There is no public way to leave them out (Ray 2.60): while the block here runs they are not started.


@contextmanager
def idle_services_left_out() -> Iterator[None]:
    """Clusters that are started while the block runs have no API server, monitors, or dashboard's part of an agent."""
    without_monitors = functools.partial(parameter.RayParams, no_monitor=True, include_log_monitor=False)
    with (
        # Its own answer where the server does not start: no address, no process.
        replaced(services, start_api_server=lambda *arguments, **options: (None, None)),
        replaced(parameter, RayParams=without_monitors),
        replaced(utils, get_dashboard_dependency_error=lambda: ImportError("not asked for")),
    ):
        yield


# Ray's job server, beside what its client promises: the exact version (Ray 2.60).


def server_version(client: Any) -> str:
    """The version of Ray that runs there; the client itself compares it with the oldest one that it knows."""
    return str(client._server_ray_version)


# Names of Ray's own loggers, and the first words of what they say (Ray 2.60).

TUNE_LOGGER = "ray.tune.execution.tune_controller"
TOKEN_LOGGER = "ray._private.authentication.authentication_token_setup"
ANALYSIS_LOGGER = "ray.tune.analysis.experiment_analysis"
UPLOAD_LOGGERS = (
    "ray.client_builder",
    "ray.dashboard.modules.dashboard_sdk",
    "ray.dashboard.modules.job.sdk",
    "ray._private.runtime_env.packaging",
)
"""Who speaks of each package that is sent to a job server, and of each connection that closes."""

TRIAL_FAILED = "Trial task failed for trial "
"""Of `TUNE`, before the trial's name."""
TOKEN_ENABLED = "Token authentication is enabled"
"""Of `TOKEN`, whenever a local cluster starts."""
WORKER_LOST = ("A worker died or was killed", "Raylet is terminated")
"""Lines of a cluster about a lost worker; the sentence about its trial says it already."""


# A cluster of this machine alone listens on the loopback address: nobody else has business with it.
#
# Ray's processes listen on all interfaces as soon as a node's own address is any other, and its metrics answer
# whoever asks. `ray.init(_node_ip_address="127.0.0.1")` puts the machine's outer address in place of the loopback one
# (`services.resolve_ip_for_localhost`), but for the rule by which Ray keeps to loopback on desktop systems. That rule
# is switched on while the block here runs. Seen on Ray 2.60; a test that lists all listening sockets fails when it
# changes.


def on_loopback() -> AbstractContextManager[None]:
    """Clusters that are started while the block runs listen on 127.0.0.1 and nowhere else."""
    return replaced(ray_constants, ENABLE_RAY_CLUSTER=False)


# Resources of this machine as Ray would count them, without a cluster: 9 ms instead of seconds (Ray 2.60).


def machine_resources(cpus: int | None) -> Mapping[str, float]:
    """Resources by Ray's names, such as {"CPU": 8.0, "GPU": 1.0}, of a cluster of this machine alone.

    cpus  how many it is to have
    """
    found: Mapping[str, float] = ResourceAndLabelSpec(num_cpus=cpus).resolve(is_head=True).to_resource_dict()
    return found


# Ray prints what its cluster tells a driver to stdout, which belongs to the answer of a command.
#
# There is no public way to redirect it (Ray 2.60): the function that prints is replaced while the block here runs.
# The thread that listens for errors looks it up for each message, handlers of workers' output once, when a driver
# connects.


def driver_lines_to(taker: Callable[..., None]) -> AbstractContextManager[None]:
    """For as long as the block runs, a cluster's lines go to `taker`.

    taker  called with {"lines": [text], "pid": number or name, ...} and `ignore_prefix`
    """
    return replaced(worker, print_to_stdstream=taker)


# The token of a Ray cluster: found where Ray itself looks, and sent from then on (Ray 2.60).


def send_token() -> bool:
    """Send the cluster's token from now on, if there is one; whether this process sends one.

    It is that of RAY_AUTH_TOKEN, of the file RAY_AUTH_TOKEN_PATH, or of `~/.ray/auth_token`, where `ray start` left it
    on the head's machine. Ray's own command line does the same. The variable RAY_AUTH_MODE alone would leave what this
    process has read before as it was; where it is set, it decides.
    """
    logger = logging.getLogger(TOKEN_LOGGER)
    level = logger.level
    # It would warn of a token that it found, and that is right.
    logger.setLevel(logging.ERROR)
    try:
        return bool(maybe_enable_token_auth_if_token_available(warn_if_disabled=False))
    finally:
        logger.setLevel(level)


# The process that Tune gave a trial: none of its callbacks says it (Ray 2.60).


def actor_of(trial: Any) -> ActorHandle | None:
    """The actor that runs `trial`, a `ray.tune.experiment.Trial`, now; None between two."""
    return trial.temporary_state.ray_actor


# Losses of workers that Ray Tune does not know how to lose.
#
# A worker that the node's memory monitor ended, or whose node died, is told to Tune as an OutOfMemoryError,
# NodeDiedError or another error of Ray's system. Tune 2.60 handles errors of actors and of tasks, and ends the whole
# sweep with a RuntimeError over any other (`RayActorManager._actor_task_failed`). While the block here runs, it meets
# them as what they are: the end of that one actor.


class WorkerEnded(RayActorError):
    """A worker was ended by Ray's system; `__cause__` says why."""


def worker_losses_fail_one_trial() -> AbstractContextManager[None]:
    """For as long as the block runs, an error of Ray's system fails the trial that it struck and no other."""
    from ray.air.execution._internal.actor_manager import RayActorManager

    plain = RayActorManager._actor_task_failed

    def failed(self: RayActorManager, tracked_actor_task: Any, exception: Exception) -> None:
        if isinstance(exception, RayError) and not isinstance(exception, RayActorError | RayTaskError):
            ended = WorkerEnded(error_msg=str(exception))
            ended.__cause__ = exception
            exception = ended
        plain(self, tracked_actor_task, exception)

    return replaced(RayActorManager, _actor_task_failed=failed)


# Three more things that Tune does for each trial (Ray 2.60).
#
# It looks the trainable up in the cluster's key-value store: five requests, two of them unpickled, 6 ms of the main
# thread on two cores. A sweep has one trainable, registered before its first trial and never changed.
#
# It counts its callbacks for Ray's usage statistics, and imports MLflow for that: a second and more. What it would
# count is sent to nobody here (`RAY_USAGE_STATS_ENABLED=0`).
#
# It asks for an environment of its own, and writes the driver's AWS keys into it. `tune.execution.class_cache` names
# its variables: one for PyTorch Lightning, Ray Train's settings and the keys. The runtime-environment agent of each
# node writes their values in clear into `runtime_env_setup-*.log`, and no process that the cluster holds ready fits
# such a trial: a new one is started for it, once the agent answers. Nothing here needs any of them, and
# `trainables.worker.ray` carries the keys.


@contextmanager
def tune_patches() -> Iterator[None]:
    """For as long as the block runs, a lost worker is one trial's loss, Tune looks each trainable up once, counts no
    callbacks, and its trials run in whatever environment their cluster gives a process."""
    from ray.air._internal import usage
    from ray.tune.execution import class_cache
    from ray.tune.experiment import trial as tune_trial

    with (
        worker_losses_fail_one_trial(),
        replaced(tune_trial, get_trainable_cls=functools.cache(tune_trial.get_trainable_cls)),
        replaced(usage, _count_callbacks=lambda callbacks: {}),
        replaced(class_cache, DEFAULT_ENV_VARS={}, ENV_VARS_TO_PROPAGATE=set()),
    ):
        yield
