"""Two hosts on this machine: network namespaces joined by a cable that can be pulled and put back."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass

from tests.chaos.nodes import Nodes

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
    """Nodes on two hosts: `head` and the driver on the first, every other node on the second."""

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
