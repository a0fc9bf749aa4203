"""A Ray cluster of real node processes on this machine, and a sweep on it: nodes join, die and drain as machines do."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Self

from tests.chaos import witness
from tests.chaos.harness import Attacked
from tests.sweeps import specs
from tests.sweeps.clusters import Nodes


class QuickNodes(Nodes):
    """A node whose processes are gone counts as dead after 6 s instead of 30, one that is silent after 10 instead of
    65."""

    def environment(self, name: str = "driver", **changes: str | None) -> dict[str, str]:
        quick = {
            "RAY_health_check_timeout_ms": "1000",
            "RAY_health_check_initial_delay_ms": "1000",
            "RAY_health_check_period_ms": "1000",
            "RAY_health_check_failure_threshold": "5",
        }
        return super().environment(name, **{**quick, **changes})

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


FIRST, SECOND = "10.213.77.1", "10.213.77.2"


def allowed() -> bool:
    """Whether this machine lets us make network namespaces."""
    name = "sweeps-try"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode == 0
    if made:
        subprocess.run(["ip", "netns", "delete", name], check=True)
    return made


class Hosts(QuickNodes):
    """Nodes on two hosts, which are network namespaces joined by a cable that can be pulled and put back.

    `head` and the driver are on the first host, every other node is on the second.
    """

    def __enter__(self) -> Self:
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


class Sweep(Attacked):
    """On several nodes: noisy-sgd, two workers a trial."""

    def __init__(self, folder: Path, nodes: Nodes, *, trials: int, epochs: float) -> None:
        own = witness.watched(folder)
        self.extra = {name: own[name] for name in ("PYTHONPATH", witness.FOLDER)}
        knobs = {"learning_rate": {"log_uniform": [0.1, 1]}, "hidden": 1, "batch_size": 144, "epochs": epochs}
        spec = specs.digits(
            "clustered",
            trials,
            systems={"witnessed-sgd": specs.LINEAR | knobs},
            resources={"workers": 2, "cpus_per_worker": 1},
            execution={"checkpoint_seconds": 0.3, "retries": 20},
        )
        super().__init__(folder, spec, "--address", nodes.address, **nodes.environment() | self.extra)
        self.before = nodes.enter("driver")

    def in_vain(self) -> None:
        assert self.process.poll() in (None, 0), f"exit code {self.process.returncode}: {self.words()}"


def ranks(nodes: Nodes, name: str) -> list[int]:
    """Process ids of the workers on a node."""
    return [pid for pid, command in nodes.processes(name).items() if command.startswith("ray::_Worker")]
