"""A Ray cluster of real node processes on this machine, and a sweep on it: nodes join, die and drain as machines do."""

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

from sweeps.store.errors import StoreError
from sweeps.store.store import Store, open_store
from tests.chaos import witness
from tests.chaos.harness import Journal

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


FIRST, SECOND = "10.213.77.1", "10.213.77.2"


def allowed() -> bool:
    """Whether this machine lets us make network namespaces."""
    name = "sweeps-try"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode == 0
    if made:
        subprocess.run(["ip", "netns", "delete", name], check=True)
    return made


@dataclass
class Hosts(Nodes):
    """Nodes on two hosts, which are network namespaces joined by a cable that can be pulled and put back.

    `head` and the driver are on the first host, every other node is on the second.
    """

    def __enter__(self) -> Hosts:
        super().__enter__()
        self.namespaces = [f"sw{self.mark[:6]}{end}" for end in "ab"]
        ends = [f"v{namespace}" for namespace in self.namespaces]
        for namespace in self.namespaces:
            _ip("netns", "add", namespace)
        _ip("link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
        for namespace, end, address in zip(self.namespaces, ends, (FIRST, SECOND), strict=True):
            _ip("link", "set", end, "netns", namespace)
            _ip("-n", namespace, "address", "add", f"{address}/24", "dev", end)
            _ip("-n", namespace, "link", "set", "lo", "up")
            _ip("-n", namespace, "link", "set", end, "up")
        return self

    def __exit__(self, *exception: object) -> None:
        super().__exit__(*exception)
        for namespace in self.namespaces:
            _ip("netns", "delete", namespace)

    def ip(self, name: str) -> str:
        return FIRST if name in ("head", "driver") else SECOND

    def enter(self, name: str) -> list[str]:
        return ["ip", "netns", "exec", self.namespaces[name not in ("head", "driver")]]

    def cut(self) -> None:
        """Pull the cable: both hosts live on, and nothing passes."""
        _ip("-n", self.namespaces[1], "link", "set", f"v{self.namespaces[1]}", "down")

    def restore(self) -> None:
        """Put it back."""
        _ip("-n", self.namespaces[1], "link", "set", f"v{self.namespaces[1]}", "up")


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stdout}"


NAME = "clustered"
SPEC = """
name: clustered
data: {source: digits}
systems:
  witnessed-sgd:
    model: linear
    hidden: 1
    learning_rate: {log_uniform: [0.1, 1]}
    clip_norm: 1.0
    batch_size: 144
    epochs: EPOCHS
privacy: {epsilon: 3, delta: 1.0e-5}
objectives: [{metric: accuracy, goal: maximize}]
search: {sampler: random, trials: TRIALS, seed: 5}
resources: {workers: 2, cpus_per_worker: 1}
execution: {checkpoint_seconds: 0.3, retries: 20}
"""


class Sweep(Journal):
    """The controller's process, and what its records say: noisy-sgd, two workers a trial."""

    def __init__(self, folder: Path, nodes: Nodes, *, trials: int, epochs: float) -> None:
        super().__init__()
        self.trials = trials
        self.folder, self.nodes, self.root = folder, nodes, folder / "state"
        (folder / "spec.yaml").write_text(SPEC.replace("TRIALS", str(trials)).replace("EPOCHS", str(epochs)))
        own = witness.watched(folder)
        self.extra = {name: own[name] for name in ("PYTHONPATH", witness.FOLDER)}

    def start(self) -> None:
        self.process = subprocess.Popen(
            [
                *self.nodes.enter("driver"),
                *[sys.executable, "-m", "sweeps.cli", "run", str(self.folder / "spec.yaml"), "--name", NAME],
                *["--root", str(self.root), "--address", self.nodes.address],
            ],
            env={**self.nodes.environment(), **self.extra},
            stdout=(self.folder / "output.txt").open("ab"),
            stderr=subprocess.STDOUT,
        )

    def words(self) -> str:
        return f"{super().words()}\n{(self.folder / 'output.txt').read_text(errors='replace')[-4000:]}"

    def store(self) -> Store:
        return open_store(f"sqlite:///{self.root}/sweeps.db", create=False)

    def drawn(self) -> dict[tuple[str, int], int]:
        return witness.witnessed(self.folder / "witness")

    def finished(self) -> int:
        try:
            return self.store().counts(NAME).get("complete", 0)
        except StoreError:
            return 0

    def in_vain(self) -> None:
        assert self.process.poll() in (None, 0), f"exit code {self.process.returncode}: {self.words()}"

    def check(self, *seen: str) -> None:
        """Nothing lost, doubled or under-charged; prints what happened."""
        figures = witness.check(self.store(), NAME, self.trials, self.drawn(), self.words())
        print("\n" + "\n".join([*self.log, *seen, figures]))


def ranks(nodes: Nodes, name: str) -> list[int]:
    """Process ids of the workers on a node."""
    return [pid for pid, command in nodes.processes(name).items() if command.startswith("ray::_Worker")]
