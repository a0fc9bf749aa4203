"""Ray's one door: executes the controller's decisions as Ray Tune trials, and stops cleanly whatever happens.

Each start drives a fresh Tuner; the store, not Tune, remembers. Tune's own retries stay off, because they
bypass the searcher and would run steps that nobody reserved.
"""

from __future__ import annotations

import _thread
import contextlib
import logging
import os
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

# Engines report to their makers by default; a platform for private data switches that off before they load.
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
os.environ.setdefault("TUNE_DISABLE_SIGINT_HANDLER", "1")
os.environ.setdefault("TUNE_GLOBAL_CHECKPOINT_S", "3600")
os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
# Tune retries what a drained node took with it whatever `max_failures` says, and never asks the searcher.
os.environ["RAY_TRAIN_COUNT_PREEMPTION_AS_FAILURE"] = "1"
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")

import ray
from ray import tune
from ray._private.resource_and_label_spec import ResourceAndLabelSpec
from ray.tune.search import Searcher

from sweeps.controller import Controller, Done, Wait
from sweeps.runner_connect import refusal
from sweeps.runner_resources import Node, lacking, request
from sweeps.runner_watchdog import START_SECONDS, STOP_SECONDS, Watchdog
from sweeps.spec import Resources
from sweeps.store import LeaseLost, StoreError
from trainables.files import Folder
from trainables.ray_shared import Shared, SharedData, TeamLayout
from trainables.ray_trial import group_from_json, group_to_json, ray_trial
from trainables.system import Dataset, TrialGroup

# Tune looks for its own result files when it ends and complains about each; ours are in the store.
logging.getLogger("ray.tune.analysis.experiment_analysis").setLevel(logging.CRITICAL)

HEARTBEAT_SECONDS = 5.0
ANSWER_SECONDS = 5.0
SHRUNK_SECONDS = 40.0


class Ended(StrEnum):
    """How a run ended."""

    FINISHED = "finished"
    EXHAUSTED = "exhausted"
    STOPPED = "stopped"


class ClusterUnreachable(RuntimeError):
    """The cluster cannot run this sweep; the message says what it has and what was asked for."""


@dataclass(slots=True)
class _Live:
    controller: Controller
    reason: Callable[[str], str]
    ended: Ended | None = None
    failure: BaseException | None = None


# The Tuner pickles its searcher: live handles stay here, and the searcher carries their name.
_LIVE: dict[str, _Live] = {}


class LaunchSearcher(Searcher):
    """Asks the controller what to launch, and tells it what came back. Holds no state of its own."""

    def __init__(self, handle: str) -> None:
        super().__init__()
        self._handle = handle
        self._groups: dict[str, str] = {}

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """The next launch as a configuration; None to be asked again; FINISHED at the end."""
        live = _LIVE[self._handle]
        if live.failure is not None:
            return str(Searcher.FINISHED)
        try:
            decision = live.controller.decide()
        except Exception as failure:
            live.failure = failure
            return str(Searcher.FINISHED)
        if isinstance(decision, Wait):
            return None
        if isinstance(decision, Done):
            live.ended = Ended.EXHAUSTED if decision.exhausted else Ended.FINISHED
            return str(Searcher.FINISHED)
        self._groups[trial_id] = group_to_json(decision)
        return {"launch": _launch_name(decision), "group": self._groups[trial_id]}

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Settle the launch. Tune swallows exceptions of searchers, so a failure is kept for `execute` to raise."""
        live = _LIVE[self._handle]
        group = group_from_json(self._groups.pop(trial_id))
        try:
            if error or not result or "results" not in result:
                live.controller.lost(group, live.reason(_launch_name(group)))
            else:
                live.controller.finished(group, result["results"])
        except Exception as failure:
            live.failure = failure

    def save(self, checkpoint_path: str) -> None:
        """Nothing to save: the store remembers."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing to restore."""


def _launch_name(group: TrialGroup) -> str:
    first = group.members[0]
    others = f"+{len(group.members) - 1}" if len(group.members) > 1 else ""
    return f"{first.key}.{first.attempt}{others}"


def _tune_name(trial: Any) -> str:
    return str(trial.config["launch"])


@contextlib.contextmanager
def cluster(
    address: str | None = None,
    cpus: int | None = None,
    *,
    on_lost: Callable[[], None] = lambda: None,
    connected: Callable[[], None] = lambda: None,
) -> Iterator[None]:
    """A Ray connection: a private local cluster, or an existing one by address.

    on_lost    called when the cluster died or fell silent, just before this process ends with EXIT_CLUSTER_LOST
    connected  called when Ray is up; it installs signal handlers of its own

    Raises ClusterUnreachable.
    """
    if ray.is_initialized():
        yield
        return
    with Watchdog(on_lost) as watchdog:
        try:
            with watchdog.within(START_SECONDS):
                _refused(address)
                ray.init(
                    # "local": without an address Ray joins any cluster that runs on this machine.
                    address=address or "local",
                    num_cpus=None if address else (cpus or os.cpu_count()),
                    include_dashboard=False if address is None else None,
                    log_to_driver=False,
                    configure_logging=False,
                )
        except ClusterUnreachable:
            raise
        except Exception as error:
            # Ray has no class of its own for this: even a head that starts too slowly is a plain Exception.
            raise ClusterUnreachable(
                f"--address={address!r}: no Ray cluster answered ({error}). {_ADDRESSES}"
            ) from error
        except SystemExit as error:
            if error.code == signal.SIGTERM:
                # Ray's own handler, while it starts.
                raise KeyboardInterrupt from None
            raise
        try:
            watchdog.watch()
            connected()
            yield
        finally:
            with watchdog.within(STOP_SECONDS):
                ray.shutdown()


def _refused(address: str | None) -> None:
    """Raises ClusterUnreachable when a cluster's head will not have this process, before Ray tries for 20 s."""
    host, _, port = (address or "").rpartition(":")
    if host and "//" not in host and port.isdecimal() and (reason := refusal(host.strip("[]"), int(port))):
        raise ClusterUnreachable(f"--address={address!r}: {reason}")


_ADDRESSES = (
    "Expected auto or HOST:PORT of the head, on a machine of the cluster; from elsewhere use `sweeps submit` with the "
    "address of its dashboard, such as http://HOST:8265."
)


def check_reachable(address: str | None, resources: Resources) -> None:
    """What can be known at once, before anything starts (Ray itself tries for minutes). Raises ClusterUnreachable."""
    if address is None:
        if not ray.is_initialized():
            # What a cluster of this machine alone is going to have, by Ray's own count (9 ms instead of seconds).
            own = ResourceAndLabelSpec(num_cpus=os.cpu_count()).resolve(is_head=True).to_resource_dict()
            _check_resources(resources, [own], "this machine has")
        return
    if address in ("auto", "local"):
        return
    if address.startswith("ray://"):
        # Tune moves itself to the cluster for a Ray client, away from the controller that has to decide.
        raise ClusterUnreachable(f"--address={address!r}: a Ray client cannot drive a sweep. {_ADDRESSES}")
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not host or not port.isdecimal():
        raise ClusterUnreachable(f"--address={address!r}: not an address. {_ADDRESSES}")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise ClusterUnreachable(f"--address={address!r}: does not answer ({error}). {_ADDRESSES}") from error


def execute(
    controller: Controller,
    loaded: list[Dataset],
    secret: bytes,
    resources: Resources,
    *,
    reason: Callable[[str], str] = lambda launch: "its worker process ended",
) -> Ended:
    """Run the controller's decisions until it says Done. Needs a connected cluster.

    loaded  the data set, taken out of the list: once the object store has it, this process keeps no copy
    reason  says why the launch of a name was lost

    Raises KeyboardInterrupt on Ctrl-C, the controller's own failure (LeaseLost, StoreError), and ClusterUnreachable
    when the resources can never be had.
    """
    _check_resources(resources, alive_nodes(), "the cluster has")
    handle = f"{controller.sweep}-{os.getpid()}-{time.monotonic_ns()}"
    live = _LIVE[handle] = _Live(controller, reason)
    scratch = tempfile.mkdtemp(prefix="sweeps-tune-")
    # By reference: the arrays reach a node once, and its processes map them.
    data = SharedData.put(loaded.pop())
    cpus, gpus = resources.per_worker()
    layout = TeamLayout(workers=resources.workers, cpus=cpus, gpus=gpus) if resources.workers > 1 else None
    shared = Shared(data=data, trials=controller.trials, secret=secret, layout=layout)
    trainable = tune.with_resources(tune.with_parameters(ray_trial, shared=shared), request(resources))
    tuner = tune.Tuner(
        trainable,
        tune_config=tune.TuneConfig(
            search_alg=LaunchSearcher(handle),
            num_samples=-1,
            max_concurrent_trials=resources.concurrency,
            reuse_actors=True,
            trial_name_creator=_tune_name,
            trial_dirname_creator=_tune_name,
        ),
        run_config=tune.RunConfig(
            name="launches",
            storage_path=scratch,
            verbose=0,
            failure_config=tune.FailureConfig(max_failures=0),
            log_to_file=False,
        ),
    )
    try:
        with _Heartbeat(live, resources):
            tuner.fit()
        if live.failure is not None:
            raise live.failure
        return live.ended or Ended.STOPPED
    except KeyboardInterrupt:
        if live.failure is not None:
            raise live.failure from None
        raise
    finally:
        del _LIVE[handle]
        shutil.rmtree(scratch, ignore_errors=True)


def alive_nodes() -> list[Node]:
    """The resources of every node that takes work now."""
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def _check_resources(resources: Resources, nodes: Sequence[Node], who: str) -> None:
    if reason := lacking(resources, nodes, who):
        raise ClusterUnreachable(reason)


class _Heartbeat:
    """Renews the lease while the block runs, and interrupts it as soon as the controller has failed.

    The same when nodes are gone and no trial fits on what is left: Tune would wait for ever. A node that joins within
    SHRUNK_SECONDS lets it go on.
    """

    def __init__(self, live: _Live, resources: Resources) -> None:
        self._live, self._resources = live, resources
        self._fitted = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._loop, daemon=True, name="heartbeat")

    def _loop(self) -> None:
        while not self._over.wait(HEARTBEAT_SECONDS):
            try:
                self._live.controller.lease.renew()
            except LeaseLost as failure:
                self._live.failure = failure
            except StoreError:
                # A store that is busy or away may come back before the lease expires; the next write decides.
                continue
            if self._live.failure is None:
                self._live.failure = self._shrunk()
            if self._live.failure is not None:
                _thread.interrupt_main()
                return

    def _shrunk(self) -> ClusterUnreachable | None:
        try:
            reason = lacking(self._resources, alive_nodes(), "nodes are gone, and the cluster has")
        except (ray.exceptions.RayError, RuntimeError, OSError):
            # A cluster that does not answer is the watchdog's business.
            return None
        now = time.monotonic()
        if reason is None:
            self._fitted = now
        elif now - self._fitted > SHRUNK_SECONDS:
            name = self._live.controller.sweep
            return ClusterUnreachable(f"{reason} Nothing is lost: go on with `sweeps resume {name}`.")
        return None

    def __enter__(self) -> _Heartbeat:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._over.set()
        self._thread.join()


def data_path_seen_by_all(trials: Folder) -> None:
    """Write here and read back on a worker of each node. Raises ClusterUnreachable naming the nodes that differ."""
    probe = f"probe-{os.getpid()}"
    trials.write(probe, b"seen")
    try:
        nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
        if len(nodes) == 1:
            return
        strategy = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
        remote = ray.remote(num_cpus=0)(_reads)
        pinned = [remote.options(scheduling_strategy=strategy(node, soft=False)) for node in nodes]
        answers = ray.get([function.remote(trials, probe) for function in pinned])
        blind = [node for node, answer in zip(nodes, answers, strict=True) if not answer]
        if blind:
            raise ClusterUnreachable(
                f"records={trials.url}: {len(blind)} of {len(nodes)} nodes do not see it ({', '.join(blind)}). "
                "Use a shared file system for --root, or --records with an object store URL."
            )
    finally:
        trials.delete(probe)


def _reads(folder: Folder, name: str) -> bool:
    return folder.read(name) == b"seen"
