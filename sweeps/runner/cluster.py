"""Joining a Ray cluster, and what can be known of it before a trial starts: does it answer, what has it and see."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import ray

from sweeps.control.interruption import hangups_held
from sweeps.process.patience import patience
from sweeps.runner.connect import refusal
from sweeps.runner.every_node import ask_every_node
from sweeps.runner.ray_private.idle_services import idle_services_left_out
from sweeps.runner.ray_private.loopback import on_loopback
from sweeps.runner.ray_private.machine_resources import machine_resources
from sweeps.runner.resources import Node, lacking
from sweeps.runner.watchdog import Watchdog
from sweeps.spec import Resources
from trainables.worker.credentials import Credentials
from trainables.worker.files import Folder
from trainables.worker.redaction import redacted, shown_url

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
            raise _unreachable(address, f"no Ray cluster answered ({error}). {_ADDRESSES}") from error
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


def _unreachable(address: str | None, why: str) -> ClusterUnreachable:
    return ClusterUnreachable(f"--address={shown_url(address or '')!r}: {redacted(why, address)}")


def _refused(address: str | None) -> None:
    """Raises ClusterUnreachable when a cluster's head will not have this process, before Ray tries for 20 s."""
    host, _, port = (address or "").rpartition(":")
    if host and "//" not in host and port.isdecimal() and (reason := refusal(host.strip("[]"), int(port))):
        raise _unreachable(address, reason)


_ADDRESSES = (
    "Expected auto or HOST:PORT of the head, on a machine of the cluster; from elsewhere use `sweeps submit` with the "
    "address of its dashboard, such as http://HOST:8265."
)


def check_reachable(address: str | None, resources: Resources) -> None:
    """What can be known at once, before anything starts (Ray itself tries for minutes). Raises ClusterUnreachable."""
    if address is None:
        if not ray.is_initialized():
            check_resources(resources, [machine_resources(os.cpu_count())], "this machine has")
        return
    if address in ("auto", "local"):
        return
    if address.startswith("ray://"):
        # Tune moves itself to the cluster for a Ray client, away from the controller that has to decide.
        raise _unreachable(address, f"a Ray client cannot drive a sweep. {_ADDRESSES}")
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not host or not port.isdecimal():
        raise _unreachable(address, f"not an address. {_ADDRESSES}")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise _unreachable(address, f"does not answer ({error}). {_ADDRESSES}") from error


def alive_nodes() -> list[Node]:
    """The resources of every node that takes work now."""
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def check_resources(resources: Resources, nodes: Sequence[Node], who: str) -> None:
    if reason := lacking(resources, nodes, who):
        raise ClusterUnreachable(reason)


def data_path_seen_by_all(trials: Folder) -> None:
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
        silent = [answer.node for answer in answers if isinstance(answer.error, ray.exceptions.GetTimeoutError)]
        if silent:
            raise ClusterUnreachable(
                f"{len(silent)} of {len(answers)} nodes did not answer within {patience():.0f} s ({_named(silent)}). "
                "Take them out of the cluster, or give them longer with SWEEPS_PATIENCE."
            )
        for answer in answers:
            if answer.error is not None:
                raise ClusterUnreachable(
                    f"records={trials.url}: the worker on {answer.node['NodeManagerAddress']} failed before it could "
                    f"read there: {redacted(str(answer.error).strip().splitlines()[-1])}"
                ) from answer.error
        blind = [answer.node for answer in answers if not answer.value]
        if blind:
            raise ClusterUnreachable(
                f"records={trials.url}: {len(blind)} of {len(answers)} nodes do not see it ({_named(blind)}). "
                "Use a shared file system for --root, or --records with an object store URL."
            )
    finally:
        trials.delete(probe)


def _reads(credentials: Credentials, folder: Folder, name: str) -> bool:
    credentials.take()
    return folder.read(name) == b"read me"


def _named(nodes: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(node["NodeID"] for node in nodes)
