"""A real Ray cluster for tests: `ray start --head` and a second node, each a process of its own, on free ports."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOKEN = "a-token-of-the-tests-" + "0123456789abcdef"
HOST = "127.0.0.1"
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
class Cluster:
    """The addresses of a running head, and what a client's environment needs."""

    host: str
    port: int
    dashboard: str
    client: str
    folder: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def environment(self, **changes: str | None) -> dict[str, str]:
        """Of a client: the token, this Python first, and this code on the path; None takes a variable out."""
        made = {
            **base_environment(),
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": TOKEN,
            "PYTHONPATH": str(ROOT),
            **changes,
        }
        return {name: text for name, text in made.items() if text is not None}

    def add_node(self, cpus: int = 1, prefix: tuple[str, ...] = ()) -> subprocess.Popen[bytes]:
        """Start another node; `prefix` are words before its command, such as those of `unshare`."""
        # A folder of its own, as on a machine of its own: in the head's, Ray unpacks a job's code a second time, over
        # that from which the head's workers are just starting.
        own = ["--temp-dir", str(self.folder / f"n{len(self.processes)}")]
        words = [*prefix, *_ray(), "--address", self.address, "--num-cpus", str(cpus), *own]
        for attempt in range(ATTEMPTS):
            log = self.folder / f"node-{len(self.processes)}-{attempt}.log"
            process = _start([*words, *_ports(*free_ports(4))], log)
            if _started(process, log):
                self.processes.append(process)
                return process
        raise AssertionError(log.read_text()[-3000:])

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


def _ray() -> list[str]:
    ray = str(Path(sys.executable).parent / "ray")
    return [ray, "start", "--block", "--disable-usage-stats", "--node-ip-address", HOST]


def _ports(agent: int, agent_grpc: int, metrics: int, runtime: int) -> list[str]:
    return [
        *("--dashboard-agent-listen-port", str(agent)),
        *("--dashboard-agent-grpc-port", str(agent_grpc)),
        *("--metrics-export-port", str(metrics)),
        *("--runtime-env-agent-port", str(runtime)),
    ]


def _start(words: list[str], log: Path) -> subprocess.Popen[bytes]:
    # Ray gives its workers niceness 15: beside other work they would hardly be heard.
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN}
    environment = {**base_environment(), **token, "RAY_worker_niceness": "0"}
    with log.open("ab") as stream:
        return subprocess.Popen(words, stdout=stream, stderr=stream, start_new_session=True, env=environment)


def _started(process: subprocess.Popen[bytes], log: Path) -> bool:
    """Whether the node came up: Ray gives its processes 30 s, which a machine with other work may exceed."""
    limit = time.monotonic() + START_SECONDS
    while "Ray runtime started" not in log.read_text():
        if process.poll() is not None or time.monotonic() > limit:
            return False
        time.sleep(0.2)
    return True


def _answers(url: str) -> bool:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {TOKEN}"})
    try:
        with urllib.request.urlopen(request, timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


@contextmanager
def ray_cluster(cpus: int = 1) -> Iterator[Cluster]:
    """A head with its dashboard and a token, and whatever nodes are added; all of it gone afterwards."""
    folders: list[Path] = []
    cluster = None
    try:
        for _ in range(ATTEMPTS):
            # Paths of sockets are short.
            folders.append(Path(tempfile.mkdtemp(prefix="rc", dir="/tmp")))
            cluster = _head(folders[-1], cpus)
            if cluster is not None:
                yield cluster
                return
        raise AssertionError((folders[-1] / "head.log").read_text()[-3000:])
    finally:
        # Of a node that joined, `ray start` itself names no folder.
        for process in cluster.processes if cluster is not None else ():
            process.terminate()
        for folder in folders:
            _end_all(folder)
            shutil.rmtree(folder, ignore_errors=True)


def _head(folder: Path, cpus: int) -> Cluster | None:
    port, dashboard, client, *ports = free_ports(7)
    words = [
        *_ray(),
        "--head",
        *("--port", str(port), "--num-cpus", str(cpus), "--temp-dir", str(folder / "ray")),
        *("--dashboard-host", HOST, "--dashboard-port", str(dashboard)),
        *("--ray-client-server-port", str(client)),
        *_ports(*ports),
    ]
    head = _start(words, folder / "head.log")
    if not _started(head, folder / "head.log"):
        return None
    cluster = Cluster(HOST, port, f"http://{HOST}:{dashboard}", f"ray://{HOST}:{client}", folder, processes=[head])
    limit = time.monotonic() + START_SECONDS
    while not _answers(f"{cluster.dashboard}/api/version"):
        if time.monotonic() > limit:
            return None
        time.sleep(0.3)
    return cluster


def _end_all(folder: Path) -> None:
    """End every process of the session in this folder: its name is in the arguments of each of Ray's own."""
    import psutil

    def ours() -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter(["cmdline"]):
            if process.pid != os.getpid() and any(str(folder) in word for word in process.info["cmdline"] or []):
                found.append(process)
        return found

    for process in ours():
        process.terminate()
    _, alive = psutil.wait_procs(ours(), timeout=8)
    for process in alive:
        process.kill()
