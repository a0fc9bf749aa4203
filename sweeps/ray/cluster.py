"""Joining a Ray cluster, and what can be known of it before a trial starts: does it answer, what has it and see."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import AuthenticationError, NodeDiedError, OutOfMemoryError, RayActorError, RaySystemError, RpcError

from dpcore.checks import InvalidValue
from sweeps.ray import patches
from sweeps.ray.patches import (
    cluster_metadata,
    driver_lines_to,
    free_resources,
    idle_services_left_out,
    machine_resources,
    on_loopback,
    other_versions,
    send_token,
)
from sweeps.ray.resources import Node, check_sockets_fit, lacking, listed, room_for
from sweeps.ray.watchdog import Watchdog
from sweeps.spec.sections import Resources
from sweeps.util.exits import hangups_held
from sweeps.util.log import Event, say
from sweeps.util.waiting import patience, wait_for
from trainables import plugins
from trainables.worker.files import Folder
from trainables.worker.ray import Credentials
from trainables.worker.redaction import redacted, shown_url

# Why a cluster that answers cannot be used, found in a second: Ray's own connection retries for twenty.

TOKEN = (
    "Give this process the cluster's token: in RAY_AUTH_TOKEN, or in a file that only its owner reads: "
    "RAY_AUTH_TOKEN_PATH, or ~/.ray/auth_token, where `ray start` keeps it on the head's machine."
)


def refusal(host: str, port: int) -> str | None:
    """What keeps this process from using the cluster whose head is at host:port; None when nothing does.

    A cluster that is still starting counts as usable: Ray waits for it. One that wants a token is asked again with the
    one that this machine has.
    """
    try:
        try:
            metadata = cluster_metadata(host, port)
        except AuthenticationError:
            if not send_token():
                raise
            metadata = cluster_metadata(host, port)
    except AuthenticationError:
        return f"the cluster refuses this process: its token is missing or another one. {TOKEN}"
    except (RpcError, RaySystemError, ConnectionError):
        return None
    return None if metadata is None else other_versions(metadata)


# Asking every node of the cluster one question, in a worker of its own: before a trial starts.


def ask_every_node(
    function: Callable[..., Any], *arguments: Any, purpose: str, retries: int = 3
) -> list[tuple[Mapping[str, Any], Any]]:
    """Call `function` in a worker of each node that takes work; (node as Ray lists it, its answer) of each.

    purpose  what they are waited for, after "3 nodes": "to read s3://bucket/sweeps"
    retries  where the worker ends before it answers

    Raises ClusterUnreachable with the first node that does not answer within the patience, or whose worker fails.
    """
    strategy = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
    remote = ray.remote(num_cpus=0, max_retries=retries)(function)
    nodes = [node for node in ray.nodes() if node["Alive"]]
    asked = [
        remote.options(scheduling_strategy=strategy(node["NodeID"], soft=False)).remote(*arguments) for node in nodes
    ]
    with wait_for(f"{len(nodes)} node{'s' * (len(nodes) > 1)} {purpose}"):
        ray.wait(asked, num_returns=len(asked), timeout=patience())
    return [(node, _answer(node, one, purpose)) for node, one in zip(nodes, asked, strict=True)]


def _answer(node: Mapping[str, Any], asked: Any, purpose: str) -> Any:
    try:
        return ray.get(asked, timeout=0)
    except ray.exceptions.RayError as error:
        why = redacted((str(error).strip() or type(error).__name__).splitlines()[-1])
        if isinstance(error, ray.exceptions.GetTimeoutError):
            why = f"no answer within {patience():.0f} s. Take the node out, or give it longer with SWEEPS_PATIENCE"
        raise ClusterUnreachable(
            f"the worker on {node['NodeManagerAddress']} ({node['NodeID']}) was asked {purpose}: {why}."
        ) from error


ANSWER_SECONDS = 5.0


class ClusterUnreachable(RuntimeError):
    """The cluster cannot run this sweep; the message says what it has and what was asked for."""


@contextlib.contextmanager
def cluster(
    address: str | None = None,
    cpus: int | None = None,
    *,
    on_lost: Callable[[], None] = lambda: None,
    connected: Callable[[], None] = lambda: None,
) -> Iterator[None]:
    """A Ray connection: a private local cluster, on the loopback address alone, or an existing one by address.

    on_lost    called when the cluster died or fell silent, just before this process ends with CLUSTER_LOST
    connected  called when Ray is up; it installs signal handlers of its own

    Raises ClusterUnreachable.
    """
    if ray.is_initialized():
        yield
        return
    if address is None:
        check_sockets_fit()
    with Watchdog(on_lost) as watchdog:
        try:
            with watchdog.within("the Ray cluster to start"), on_loopback(), idle_services_left_out(), hangups_held():
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
            said = (
                f"no Ray cluster answered ({error}). {_ADDRESSES}" if address else f"Ray does not start here: {error}"
            )
            raise unreachable(address, said) from error
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
            with watchdog.within("the Ray cluster to end"):
                ray.shutdown()


def is_joined() -> bool:
    """Whether this process is in a cluster already, which `cluster` then leaves as it is."""
    return bool(ray.is_initialized())


def unreachable(address: str | None, why: str) -> ClusterUnreachable:
    """The error that says it of the cluster at `address`, without a secret."""
    named = f"--address={shown_url(address)!r}: " if address else ""
    return ClusterUnreachable(f"{named}{redacted(why, address)}")


def _refused(address: str | None) -> None:
    """Raises ClusterUnreachable when a cluster's head will not have this process, before Ray tries for 20 s."""
    host, _, port = (address or "").rpartition(":")
    if host and "//" not in host and port.isdecimal() and (reason := refusal(host.strip("[]"), int(port))):
        raise unreachable(address, reason)


_ADDRESSES = (
    "Expected auto or HOST:PORT of the head, on a machine of the cluster; from elsewhere use `sweeps submit` with the "
    "address of its dashboard, such as http://HOST:8265."
)


def check_reachable(address: str | None, resources: Resources) -> None:
    """What can be known at once, before anything starts (Ray itself tries for minutes). Raises ClusterUnreachable."""
    if address is None:
        if not ray.is_initialized():
            check_sockets_fit()
            check_resources(resources, [machine_resources(os.cpu_count())], "this machine has")
        return
    if address in ("auto", "local"):
        return
    if address.startswith("ray://"):
        # Tune moves itself to the cluster for a Ray client, away from the controller that has to decide.
        raise unreachable(address, f"a Ray client cannot drive a sweep (`sweeps run` submits it). {_ADDRESSES}")
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not host or not port.isdecimal():
        raise unreachable(address, f"not an address. {_ADDRESSES}")
    check_answers(address, host.strip("[]"), int(port), _ADDRESSES)


def check_answers(address: str, host: str, port: int, expected: str) -> None:
    """Somebody listens there. Raises ClusterUnreachable, which says what was `expected` of the address."""
    try:
        socket.create_connection((host, port), timeout=ANSWER_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise unreachable(address, f"does not answer ({error}). {expected}") from error


def alive_nodes() -> list[Node]:
    """The resources of every node that takes work now."""
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def check_resources(resources: Resources, nodes: Sequence[Node], who: str) -> None:
    if reason := lacking(resources, nodes, who):
        raise ClusterUnreachable(reason)


def check_records_visible(trials: Folder) -> None:
    """Write here and read back on a worker of each node, with the credentials of this process.

    Raises ClusterUnreachable naming the nodes that differ.
    """
    probe = f"probe-{os.getpid()}"
    trials.write(probe, b"read me")
    try:
        if len([node for node in ray.nodes() if node["Alive"]]) == 1:
            return
        # A value of the object store: what is given to a task directly stands in what Ray keeps of tasks.
        credentials = ray.put(Credentials.of_this_process())
        answers = ask_every_node(_reads, credentials, trials, probe, purpose=f"to read {trials.url}")
        blind = [node["NodeID"] for node, answer in answers if not answer]
        if blind:
            raise ClusterUnreachable(
                f"records={trials.url}: {len(blind)} of {len(answers)} nodes do not see it ({', '.join(blind)}). "
                "Use a shared file system for --root, or --records with an object store URL."
            )
    finally:
        trials.delete(probe)


def _reads(credentials: Credentials, folder: Folder, name: str) -> bool:
    credentials.take()
    return folder.read(name) == b"read me"


# Whether every node of a cluster can import what trials are made of: the user's own functions.


def check_importable_everywhere(functions: Sequence[str]) -> None:
    """Import `functions`, each module:function, in a worker of each node, where its operator lets them run.

    Raises ClusterUnreachable with the first node that does not have them.
    """
    if not functions:
        return
    named = ", ".join(functions)
    for node, failure in ask_every_node(_import_failure, tuple(functions), purpose=f"to import {named}", retries=0):
        if failure:
            where = node["NodeManagerAddress"]
            raise ClusterUnreachable(
                f"the worker on {where} cannot import {failure}. Install it on every node, or send it along: `sweeps "
                "submit` does."
            )


def _import_failure(functions: Sequence[str]) -> str:
    """Why one of them cannot be imported here; empty where all can."""
    for function in functions:
        try:
            plugins.brought("function", function)
        except InvalidValue as error:
            return f"{function}: expected {error.expected}"
    return ""


# Room in a cluster that others use as well: waited for, and told where it does not come.

LOOK_SECONDS = 0.25


def await_room(resources: Resources, workers: int) -> None:
    """Return when so many workers fit beside what already runs in the joined cluster: at once, or within the patience.

    What ended a moment ago still holds its own for a second or two. Raises ClusterUnreachable.
    """
    with wait_for(f"room for {workers} workers beside what else runs on the cluster") as wait:
        while room_for(resources, free := free_resources()) < workers:
            if not wait.left():
                raise ClusterUnreachable(
                    f"resources.concurrency={workers}: expected room for as many workers at once, but beside what else "
                    f"runs the cluster has room for {room_for(resources, free)} ({listed(free)} are free after "
                    f"{patience():.0f} s). Start again when the others have ended, or lower it: nothing was drawn, and "
                    "nothing is charged."
                )
            time.sleep(LOOK_SECONDS)


# Ray's messages while a sweep runs: one sentence on the screen, every word in `<sweep>/ray.log`.
#
# A lost worker is an ordinary event here (it is charged, and launched again), so twenty lines of traceback about it
# would only hide the messages that need a person.


class Messages(logging.Filter):
    """Shortens Ray's messages about lost workers, and remembers why each launch was lost."""

    def __init__(self, log: Path) -> None:
        super().__init__()
        self._log = log
        self._lock = threading.Lock()
        self._reasons: dict[str, str] = {}

    def reason(self, launch: str) -> str:
        """Why the launch of this name was lost, in one sentence."""
        return self._reasons.get(launch, "its worker process ended")

    def filter(self, record: logging.LogRecord) -> bool:
        """Logging calls this with each record of the two loggers."""
        text = record.getMessage()
        if text.startswith(patches.TOKEN_ENABLED):
            # A local cluster is closed by a token by default, which asks nothing of anybody.
            return False
        if text.startswith(patches.TRIAL_FAILED) and record.exc_info and record.exc_info[1] is not None:
            launch, error = text.removeprefix(patches.TRIAL_FAILED), record.exc_info[1]
            self._reasons[launch] = _sentence(error)
            self._keep(f"{text}\n{error}")
            say(f"{launch}: {self._reasons[launch]}.", Event.WARNING)
            return False
        return True

    def print(self, data: Mapping[str, Any], ignore_prefix: bool = False) -> None:
        """The cluster's own lines, told to this process: never on stdout, which belongs to the answer."""
        for line in data["lines"]:
            known = str(line).startswith(patches.WORKER_LOST)
            if not self._keep(f"({data.get('pid')}) {line}") or not known:
                print(f"({data.get('pid')}) {redacted(line)}", file=sys.stderr)

    def _keep(self, text: str) -> bool:
        """Append to the log; False, and the text goes to the screen, when the disk refuses."""
        try:
            with self._lock, self._log.open("a", encoding="utf-8") as stream:
                stream.write(redacted(re.sub(r"\x1b\[\d*m", "", text)) + "\n")
        except OSError:
            return False
        return True


def _sentence(error: BaseException) -> str:
    """Nothing of an error's own words, which may quote a record."""
    if isinstance(error.__cause__ or error, OutOfMemoryError):
        return "its worker was ended because the node ran out of memory"
    if isinstance(error.__cause__ or error, NodeDiedError):
        return "its node died or became unreachable"
    if isinstance(error, RayActorError):
        return "its worker process ended (killed, crashed, or out of memory)"
    return f"{type(error).__name__}, see the log of Ray in the sweep's folder"


@contextlib.contextmanager
def short_messages(log: Path) -> Iterator[Messages]:
    """For as long as the block runs: one sentence each on the screen, the rest appended to `log`."""
    messages = Messages(log)
    loggers = [logging.getLogger(name) for name in (patches.TUNE_LOGGER, patches.TOKEN_LOGGER)]
    for logger in loggers:
        logger.addFilter(messages)
    try:
        with driver_lines_to(messages.print):
            yield messages
    finally:
        for logger in loggers:
            logger.removeFilter(messages)
