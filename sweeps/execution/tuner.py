"""Executes the controller's decisions as Ray Tune trials, and stops cleanly whatever happens.

Each start drives a fresh Tuner; the store, not Tune, remembers. Tune's own retries stay off, because they
bypass the searcher and would run steps that nobody reserved.
"""

from __future__ import annotations

import _thread
import logging
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import ray
from ray import tune
from ray.tune.search import Searcher

from sweeps.execution.controller import Controller
from sweeps.ray import patches
from sweeps.ray.cluster import ClusterUnreachable, alive_nodes, check_resources
from sweeps.ray.patches import actor_of
from sweeps.ray.resources import lacking, request, waiting_text
from sweeps.ray.watchdog import Sign, Stalls, ended_for
from sweeps.spec.sections import Resources
from sweeps.store.errors import LeaseLost, StoreError, StoreVanished
from sweeps.store.records import SweepState
from sweeps.util.log import Event, say
from sweeps.util.waiting import patience
from trainables.parallel.ray_shared import SharedData, TeamLayout
from trainables.sealed import RemoteWork, SealedWork, serve_remotely
from trainables.system import Dataset, Launch
from trainables.worker.attempt import Attempt
from trainables.worker.files import Folder
from trainables.worker.ray import TOLD, Credentials, Shared, launch_to_json, ray_trial

# Tune looks for its own result files when it ends and complains about each; ours are in the store.
logging.getLogger(patches.ANALYSIS_LOGGER).setLevel(logging.CRITICAL)

HEARTBEAT_SECONDS = 5.0
FIRST_SIGN_SECONDS = 0.5
"""Between two looks for it."""


@dataclass(slots=True)
class _Live:
    controller: Controller
    reason: Callable[[str], str]
    on_first_sign: Callable[[], None]
    check: Callable[[], None]
    ended: SweepState | None = None
    failure: BaseException | None = None
    cut: bool = False
    """Whether nothing that runs is waited for any more."""
    groups: dict[str, Launch] = field(default_factory=dict)
    """What was launched and has not come back, by Tune's id."""
    trials: Sequence[Any] = ()
    """Tune's own list of all its trials."""
    stalled: dict[str, str] = field(default_factory=dict)
    """Why launches were ended, by name."""
    began: bool = False
    """Whether a worker was seen to have begun, or to have come back."""

    @contextmanager
    def failing(self) -> Iterator[None]:
        """Tune swallows exceptions of searchers: a failure is kept for `execute` to raise."""
        try:
            yield
        except Exception as failure:
            self.failure = failure


# The Tuner pickles its searcher: live handles stay here, and the searcher carries their name.
_LIVE: dict[str, _Live] = {}


class LaunchSearcher(Searcher):
    """Asks the controller what to launch, and tells it what came back. Holds no state of its own."""

    def __init__(self, handle: str) -> None:
        super().__init__()
        self._handle = handle

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """The next launch as a configuration; None to be asked again; FINISHED at the end."""
        live = _LIVE[self._handle]
        decision: Launch | SweepState | None = SweepState.STOPPED
        if live.failure is None:
            with live.failing():
                decision = live.controller.decide()
        if isinstance(decision, Launch):
            live.groups[trial_id] = decision
            return {"launch": _launch_name(decision), "group": launch_to_json(decision)}
        live.ended = decision
        return None if decision is None else str(Searcher.FINISHED)

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Hear what a launch tells on its way."""
        live = _LIVE[self._handle]
        with live.failing():
            for told in result.get(TOLD, ()) if live.failure is None else ():
                live.controller.told(live.groups[trial_id], told)

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Settle the launch."""
        live = _LIVE[self._handle]
        group = live.groups.pop(trial_id)
        name = _launch_name(group)
        with live.failing():
            if error or not result or "results" not in result:
                live.controller.lost(group, live.stalled.pop(name, "") or live.reason(name))
            else:
                live.controller.finished(group, result["results"])

    def save(self, checkpoint_path: str) -> None:
        """Nothing to save: the store remembers."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing to restore."""


class _Trials(tune.Callback):
    """Shows Tune's trials: Tune alone knows which of them a process was given. Looks for the first sign of a worker,
    and for an interruption that Ray has swallowed."""

    def __init__(self, handle: str) -> None:
        self._handle, self._looked = handle, float("-inf")

    def on_step_begin(self, iteration: int, trials: list[Any], **info: Any) -> None:
        """Once for each turn of Tune's loop."""
        if (live := _LIVE.get(self._handle)) is not None:
            live.check()
            if live.cut:
                raise KeyboardInterrupt
            live.trials = trials
            if not live.began and time.monotonic() - self._looked > FIRST_SIGN_SECONDS:
                self._looked = time.monotonic()
                live.began = _any_began(live)
                if live.began:
                    live.on_first_sign()


def _any_began(live: _Live) -> bool:
    trials = live.controller.trials
    try:
        return any(_sign(trials, actor, group).began for actor, group in _given(live).values())
    except OSError:
        # Records that cannot be looked at now.
        return False


def _launch_name(group: Launch) -> str:
    first = group.members[0]
    others = f"+{len(group.members) - 1}" if len(group.members) > 1 else ""
    return f"{first.key}.{first.attempt}{others}"


def execute(
    controller: Controller,
    loaded: list[Dataset],
    secret: bytes,
    *,
    reason: Callable[[str], str],
    on_first_sign: Callable[[], None],
    check: Callable[[], None],
) -> SweepState:
    """Run the controller's decisions until it says Done. Needs a connected cluster.

    loaded  the data set, taken out of the list: once the object store has it, this process keeps no copy
    reason  says why the launch of a name was lost
    on_first_sign  called when a worker is first seen to have begun: what can wait until then is not in its way
    check   asked at each turn of Tune's loop, which it ends by raising KeyboardInterrupt (`Interruption.check`)

    Raises KeyboardInterrupt on Ctrl-C, the controller's own failure (LeaseLost, StoreError), and ClusterUnreachable
    when the resources can never be had.
    """
    resources = controller.spec.resources
    check_resources(resources, alive_nodes(), "the cluster has")
    handle = f"{controller.sweep}-{os.getpid()}-{time.monotonic_ns()}"
    live = _LIVE[handle] = _Live(controller, reason, on_first_sign, check)
    scratch = tempfile.mkdtemp(prefix="sweeps-tune-")
    # By reference: the arrays reach a node once, and its processes map them.
    data = SharedData.put(loaded.pop())
    cpus, gpus = resources.per_worker()
    layout = TeamLayout(workers=resources.workers, cpus=cpus, gpus=gpus) if resources.workers > 1 else None
    shared = Shared(
        data=data,
        trials=controller.trials,
        secret=secret,
        credentials=Credentials.of_this_process(),
        layout=layout,
    )
    trainable = tune.with_resources(tune.with_parameters(ray_trial, shared=shared), request(resources))
    tuner = tune.Tuner(
        trainable,
        tune_config=tune.TuneConfig(
            search_alg=LaunchSearcher(handle),
            num_samples=-1,
            max_concurrent_trials=resources.concurrency,
            reuse_actors=True,
            trial_name_creator=lambda trial: trial.config["launch"],
            trial_dirname_creator=lambda trial: trial.config["launch"],
        ),
        run_config=tune.RunConfig(
            name="launches",
            storage_path=scratch,
            verbose=0,
            failure_config=tune.FailureConfig(max_failures=0),
            log_to_file=False,
            callbacks=[_Trials(handle)],
        ),
    )
    try:
        with _Heartbeat(live):
            tuner.fit()
        if live.failure is not None:
            raise live.failure
        return live.ended or SweepState.STOPPED
    except KeyboardInterrupt:
        if live.failure is not None:
            raise live.failure from None
        raise
    finally:
        if isinstance(live.failure, StoreVanished):
            controller.fence_running()
        del _LIVE[handle]
        shutil.rmtree(scratch, ignore_errors=True)


def _given(live: _Live) -> dict[str, tuple[Any, Launch]]:
    """Launches that a process was given, by name, with its actor."""
    given = {}
    for trial in list(live.trials):
        actor, group = actor_of(trial), live.groups.get(trial.trial_id)
        if actor is not None and group is not None:
            given[_launch_name(group)] = actor, group
    return given


def _sign(trials: Folder, actor: Any, group: Launch) -> Sign:
    written = tuple(Attempt.of(trials, member.key, member.attempt).signs() for member in group.members)
    return Sign(process=repr(actor), written=written)


class _Heartbeat:
    """Renews the lease while the block runs, and interrupts it as soon as the controller has failed.

    The same when nodes are gone and no trial fits on what is left: Tune would wait for ever. A node that joins within
    the patience lets it go on.
    """

    def __init__(self, live: _Live) -> None:
        self._live = live
        self._shrunken: float | None = None
        """Since when no trial fits on the nodes that are there."""
        self._stalls = Stalls(live.controller.spec.limits.stall_seconds)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._loop, daemon=True, name="heartbeat")

    def _loop(self) -> None:
        while not self._over.wait(min(HEARTBEAT_SECONDS, self._stalls.every())):
            try:
                self._live.controller.lease.renew()
            except (LeaseLost, StoreVanished) as failure:
                self._live.failure = failure
            except StoreError:
                # A store that is busy or away may come back before the lease expires; the next write decides.
                continue
            if self._live.failure is None:
                self._end_stalled()
                self._live.failure = self._check_nodes()
            if self._live.failure is not None:
                self._live.cut = True
                _thread.interrupt_main()
                return

    def _end_stalled(self) -> None:
        """What is ended here is a lost worker to Tune and to the controller, which charges it and launches it again."""
        given = _given(self._live)
        trials = self._live.controller.trials
        for name, silent in self._stalls.look({name: partial(_sign, trials, *one) for name, one in given.items()}):
            self._live.stalled[name] = ended_for(silent)
            say(f"{name}: {ended_for(silent)}.", Event.WARNING)
            ray.kill(given[name][0])

    def _check_nodes(self) -> ClusterUnreachable | None:
        try:
            reason = lacking(self._live.controller.spec.resources, alive_nodes(), "nodes are gone, and the cluster has")
        except (ray.exceptions.RayError, RuntimeError, OSError):
            # A cluster that does not answer is the watchdog's business.
            return None
        now = time.monotonic()
        if reason is None:
            self._shrunken = None
        elif self._shrunken is None:
            self._shrunken = now
            say(f"{reason} Waiting {patience():.0f} s for a node on which a trial fits.", Event.WAITING)
        elif now - self._shrunken > patience():
            name = self._live.controller.sweep
            return ClusterUnreachable(f"{reason} Nothing is lost: go on with `sweeps resume {name}`.")
        return None

    def __enter__(self) -> _Heartbeat:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._over.set()
        self._thread.join()


# A sealed search on a Ray cluster: a fixed number of workers, one call each, from the start to the announced end.

SAID_SECONDS = 60.0
"""Between two words about the time that is left."""
_NAP = 0.25


def run_sealed_search(work: SealedWork, data: Dataset, resources: Resources, check: Callable[[], None]) -> None:
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
