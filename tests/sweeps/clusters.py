"""Real Ray clusters for tests: each node a real `ray start` on this machine, known by a mark, on free ports."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import psutil

ROOT = Path(__file__).parents[2]
HOST = "127.0.0.1"
MARK = "SWEEPS_TEST_NODE"
START_SECONDS = 120.0
ATTEMPTS = 3


def free_ports(count: int) -> list[int]:
    """Ports that are free now, below the ranges that Ray hands to its workers.

    Test processes that ask in the same moment are told different ones: each has a share of its own.
    """
    held: list[socket.socket] = []
    share = 10_000 // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    first = 30_000 + share * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    for port in range(first + os.getpid() % (share // 2), first + share):
        if len(held) == count:
            break
        one = socket.socket()
        try:
            one.bind(("0.0.0.0", port))
        except OSError:
            one.close()
            continue
        held.append(one)
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


@dataclass
class Nodes:
    """Use as a context manager; every process of every node is gone afterwards.

    A node is known by the mark in the environment of all its processes, whatever their parents.
    """

    mark: str = field(default_factory=lambda: secrets.token_hex(8))
    token: str = field(default_factory=lambda: secrets.token_hex(32))
    names: list[str] = field(default_factory=list)

    def __enter__(self) -> Self:
        # Short: sockets lie below it, and their paths may have 107 characters.
        self.folder = Path(tempfile.mkdtemp(prefix="rn", dir="/tmp"))
        self.port, self.dashboard_port, self.client_port = free_ports(3)
        return self

    def __exit__(self, *exception: object) -> None:
        for name in list(self.names):
            self.kill(name)
        shutil.rmtree(self.folder, ignore_errors=True)

    def ip(self, name: str) -> str:
        """Where a node, or the `driver`, is reached."""
        return HOST

    def enter(self, name: str) -> list[str]:
        """Words before a command of this node, or of the `driver`."""
        return []

    @property
    def address(self) -> str:
        return f"{self.ip('driver')}:{self.port}"

    def environment(self, name: str = "driver", /, **changes: str | None) -> dict[str, str]:
        """What a process of this cluster runs under, the driver with this code on its path; None takes a variable out.

        Ray gives its workers niceness 15: beside other work they would hardly be heard.
        """
        own = {MARK: f"{self.mark}.{name}", "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": self.token}
        code = {"PYTHONPATH": str(ROOT)} if name == "driver" else {}
        made = {**base_environment(), "RAY_worker_niceness": "0", **own, **code, **changes}
        return {name: text for name, text in made.items() if text is not None}

    def at_head(self) -> list[str]:
        """What the head is started with besides."""
        return ["--include-dashboard=false"]

    def start(self, name: str, cpus: float, prefix: Sequence[str] = (), **extra: str) -> None:
        """Add a node; the first one is the head.

        prefix  words before its command, such as those of `unshare`
        extra   its environment
        """
        # A folder of its own, as on a machine of its own: in the head's, Ray unpacks a job's code a second time, over
        # that from which the head's workers are just starting.
        head = ["--head", f"--port={self.port}", *self.at_head()]
        words = [
            *(*self.enter(name), *prefix, str(Path(sys.executable).with_name("ray")), "start"),
            *(head if not self.names else [f"--address={self.address}"]),
            *(f"--temp-dir={self.folder}/{name}", f"--node-ip-address={self.ip(name)}", "--disable-usage-stats"),
            *(f"--num-cpus={cpus:g}", "--num-gpus=0", "--object-store-memory=200000000"),
            # Two nodes share this machine's ports.
            *("--min-worker-port=0", "--max-worker-port=0"),
        ]
        self.names.append(name)
        for _ in range(ATTEMPTS):
            # The first three may be those that the head is about to take.
            ports = _ports(*free_ports(7)[3:])
            done = self._run([*words, *ports], {**self.environment(name), **extra})
            if done.returncode == 0:
                return
            # Ray gives its processes 30 s, which a machine with other work may exceed.
            self.kill(name)
            self.names.append(name)
        raise AssertionError(done.stdout)

    def _run(self, words: Sequence[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=START_SECONDS,
            check=False,
        )

    def processes(self, name: str) -> dict[int, str]:
        """{pid: command line} of a node's processes."""
        found = {}
        for one in psutil.process_iter():
            with suppress(psutil.Error):
                if one.environ().get(MARK) == f"{self.mark}.{name}":
                    found[one.pid] = " ".join(one.cmdline())
        return found

    def kill(self, name: str) -> None:
        """The node loses its power: every process of it at once."""
        for _ in range(50):
            pids = self.processes(name)
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if not pids:
                break
            time.sleep(0.05)
        self.names.remove(name)

    def ray(self, *arguments: str) -> str:
        """The output of a `ray` command against this cluster."""
        ray = str(Path(sys.executable).with_name("ray"))
        done = self._run([*self.enter("driver"), ray, *arguments], self.environment())
        assert done.returncode == 0, done.stdout
        return done.stdout


class Cluster(Nodes):
    """One with a dashboard and a server for Ray's client, and the commands of who uses it."""

    @property
    def dashboard(self) -> str:
        return f"http://{HOST}:{self.dashboard_port}"

    @property
    def client(self) -> str:
        return f"ray://{HOST}:{self.client_port}"

    def at_head(self) -> list[str]:
        dashboard = [f"--dashboard-host={HOST}", f"--dashboard-port={self.dashboard_port}"]
        return [*dashboard, f"--ray-client-server-port={self.client_port}"]

    def command(self, *arguments: str, **changes: str | None) -> subprocess.Popen[str]:
        """A `sweeps` command of a client."""
        return subprocess.Popen(
            [sys.executable, "-m", "sweeps.cli", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            cwd=self.folder,
            env=self.environment(**changes),
        )

    def run(self, *arguments: str, code: int = 0, seconds: float = 240, **changes: str | None) -> str:
        """What the command printed, after it ended with this code."""
        process = self.command(*arguments, **changes)
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise AssertionError(process.communicate()[0]) from None
        assert process.returncode == code, output
        return output

    def answers(self) -> bool:
        """Whether the dashboard does."""
        headers = {"Authorization": f"Bearer {self.token}"}
        request = urllib.request.Request(f"{self.dashboard}/api/version", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False


def base_environment() -> dict[str, str]:
    """Without the parts of this process's environment that would reach a cluster by accident."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "AWS_", "SWEEPS_", "PG"))}
    kept.pop("PYTHONPATH", None)
    return {
        **kept,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "OMP_NUM_THREADS": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
    }


def _ports(agent: int, agent_grpc: int, metrics: int, runtime: int) -> list[str]:
    return [
        *("--dashboard-agent-listen-port", str(agent)),
        *("--dashboard-agent-grpc-port", str(agent_grpc)),
        *("--metrics-export-port", str(metrics)),
        *("--runtime-env-agent-port", str(runtime)),
    ]


@contextmanager
def ray_cluster(cpus: int = 1) -> Iterator[Cluster]:
    """A head with its dashboard and a token, and whatever nodes are added; all of it gone afterwards."""
    with Cluster() as cluster:
        cluster.start("head", cpus)
        limit = time.monotonic() + START_SECONDS
        while not cluster.answers():
            assert time.monotonic() < limit, "its dashboard does not answer"
            time.sleep(0.3)
        yield cluster
