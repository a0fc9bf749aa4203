"""A Ray cluster of real node processes on this machine: they join, die and drain as machines do."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

RAY = Path(sys.executable).with_name("ray")
MARK = "SWEEPS_TEST_NODE"
START_SECONDS = 90.0


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@dataclass
class Nodes:
    """Use as a context manager; every process of every node is gone afterwards.

    A node is known by the mark in the environment of all its processes, whatever their parents.
    """

    mark: str = field(default_factory=lambda: secrets.token_hex(8))
    token: str = field(default_factory=lambda: secrets.token_hex(32))
    names: list[str] = field(default_factory=list)

    def __enter__(self) -> Nodes:
        # Short: sockets lie below it, and their paths may have 107 characters.
        self.folder = tempfile.mkdtemp(prefix="rn", dir="/tmp")
        self.port = free_port()
        return self

    def __exit__(self, *exception: object) -> None:
        for name in list(self.names):
            self.kill(name)
        shutil.rmtree(self.folder, ignore_errors=True)

    def ip(self, name: str) -> str:
        """Where a node, or the `driver`, is reached."""
        return "127.0.0.1"

    def enter(self, name: str) -> list[str]:
        """Words before a command of this node, or of the `driver`."""
        return []

    @property
    def address(self) -> str:
        return f"{self.ip('driver')}:{self.port}"

    def environment(self, name: str = "driver") -> dict[str, str]:
        """What a process of this cluster runs under."""
        own = {
            MARK: f"{self.mark}.{name}",
            "OMP_NUM_THREADS": "1",
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": self.token,
            "RAY_USAGE_STATS_ENABLED": "0",
            # A node whose processes are gone counts as dead after 6 s instead of 30, one that is silent after 10
            # instead of 65.
            "RAY_health_check_timeout_ms": "1000",
            "RAY_health_check_initial_delay_ms": "1000",
            "RAY_health_check_period_ms": "1000",
            "RAY_health_check_failure_threshold": "5",
        }
        return {**os.environ, **own}

    def start(self, name: str, cpus: float, **extra: str) -> None:
        """Add a node; the first one is the head. `extra` is its environment."""
        where = ["--head", f"--port={self.port}", f"--temp-dir={self.folder}"] if not self.names else [
            f"--address={self.address}"
        ]  # fmt: skip
        arguments = [
            *self.enter(name),
            str(RAY),
            "start",
            *where,
            f"--node-ip-address={self.ip(name)}",
            f"--num-cpus={cpus:g}",
            "--num-gpus=0",
            "--object-store-memory=200000000",
            # Two nodes share this machine's ports.
            "--min-worker-port=0",
            "--max-worker-port=0",
            f"--dashboard-agent-listen-port={free_port()}",
            "--disable-usage-stats",
            *(["--include-dashboard=false"] if not self.names else []),
        ]
        self.names.append(name)
        done = subprocess.run(
            arguments,
            env={**self.environment(name), **extra},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=START_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout

    def processes(self, name: str) -> dict[int, str]:
        """{pid: command line} of a node's processes."""
        mark = f"{MARK}={self.mark}.{name}".encode()
        found = {}
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and mark in (entry / "environ").read_bytes().split(b"\0"):
                    found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
            except OSError:
                continue
        return found

    def kill(self, name: str) -> None:
        """The node loses its power: every process of it at once."""
        for _ in range(50):
            pids = self.processes(name)
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            if not pids:
                break
            time.sleep(0.05)
        self.names.remove(name)

    def drain(self, name: str, seconds: int) -> None:
        """Notice that the node will lose its power in `seconds`; it takes no new work. `kill` it then."""
        commands = " ".join(self.processes(name).values())
        found = re.search(r"--node[-_]id=([0-9a-f]{40,})", commands)
        assert found, commands
        self.ray(
            "drain-node",
            f"--address={self.address}",
            f"--node-id={found[1]}",
            "--reason=DRAIN_NODE_REASON_PREEMPTION",
            "--reason-message=notice",
            f"--deadline-remaining-seconds={seconds}",
        )

    def ray(self, *arguments: str) -> str:
        """The output of a `ray` command against this cluster."""
        done = subprocess.run(
            [*self.enter("driver"), str(RAY), *arguments],
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=START_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout
