"""How the owner of a trial and its workers exchange tensors: parameters out, sums in.

The owner is member 0 of a Gloo group on the CPU. On CPUs the workers are members 1..N of the same group. On GPUs
they have a group of their own (NCCL) and its first member stands in the owner's group: sums are reduced between the
GPUs and one of them crosses over.

No member of a reduction is left out: one that never calls it would hold up all others.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, Protocol

import torch
import torch.distributed as dist
from torch import Tensor

Backend = Literal["gloo", "nccl"]
OWNER = 0
MEETING = timedelta(minutes=2)
PATIENCE = timedelta(hours=12)
"""How long an exchange may last: as long as the slowest step. Lost members are found by `Alive`, long before."""
ASK_SECONDS = 0.5
SHORTEST_NAP_SECONDS, LONGEST_NAP_SECONDS = 5e-5, 5e-3

Alive = Callable[[], None]
"""Raises when a member is lost, so that a wait for it ends."""


class Link(Protocol):
    """One side of the exchange. Tensors are flat, the same number and sizes on all sides.

    on_cpu  whether they have to lie on the CPU; on the worker's own device otherwise
    """

    @property
    def on_cpu(self) -> bool: ...

    def spread(self, tensors: Sequence[Tensor]) -> None:
        """The owner's tensors to everybody, in place."""
        ...

    def add_up(self, tensors: Sequence[Tensor]) -> None:
        """The sum over all members arrives in the owner's tensors; what the others' hold afterwards is undefined."""
        ...


def owner_store(host: str) -> dist.TCPStore:
    """Where the members find each other, served by the owner at `host`, a free port, and no other address.

    Left to itself, torch (2.13) listens on all interfaces and asks nobody who they are.
    """
    listening = socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    port = listening.getsockname()[1]
    return dist.TCPStore(host, port, None, True, wait_for_workers=False, master_listen_fd=listening.detach())


def joined_store(host: str, port: int) -> dist.TCPStore:
    """The owner's store, as a worker sees it."""
    return dist.TCPStore(host, port, None, False)


def owner_link(store: dist.Store, host: str, workers: int, backend: Backend, alive: Alive) -> Link:
    """The owner's side. `host` is the address that the others reach this process by.

    `alive` is asked twice a second while an exchange lasts.
    """
    size = 1 + (workers if backend == "gloo" else 1)
    return _Gloo(_gloo(dist.PrefixStore("owner", store), OWNER, size, host), alive)


def worker_link(
    store: dist.Store, host: str, rank: int, workers: int, backend: Backend, inner: Backend = "nccl"
) -> Link:
    """The side of worker `rank`, 0..workers-1.

    backend  "gloo": one group on the CPU; "nccl": the workers' own group between GPUs
    inner    what the workers' own group is made of, when there is one
    """
    if backend == "gloo":
        return _Gloo(_gloo(dist.PrefixStore("owner", store), 1 + rank, 1 + workers, host), _certainly)
    among = dist.PrefixStore("workers", store)
    own = _gloo(among, rank, workers, host) if inner == "gloo" else _nccl(among, rank, workers)
    if rank > 0:
        return _Bridged(own, None)
    return _Bridged(own, _Gloo(_gloo(dist.PrefixStore("owner", store), 1, 2, host), _certainly))


def _certainly() -> None:
    """A worker does not ask: it ends with its owner."""


def _gloo(store: dist.Store, rank: int, size: int, host: str) -> Any:
    options = dist.ProcessGroupGloo._Options()  # type: ignore[attr-defined]
    options._timeout = MEETING
    # By address: Gloo's own choice, the host name's address, is the loopback on many machines.
    options._devices = [dist.ProcessGroupGloo.create_device(hostname=host)]  # type: ignore[attr-defined]
    return dist.ProcessGroupGloo(store, rank, size, options)


def _nccl(store: dist.Store, rank: int, size: int) -> Any:
    options = dist.ProcessGroupNCCL.Options()  # type: ignore[attr-defined]
    options._timeout = PATIENCE
    return dist.ProcessGroupNCCL(store, rank, size, options)


def _broadcast(group: Any, tensor: Tensor, root: int) -> Any:
    options = dist.BroadcastOptions()  # type: ignore[attr-defined]
    options.rootRank, options.rootTensor, options.timeout = root, 0, PATIENCE
    return group.broadcast([tensor], options)


def _reduce(group: Any, tensor: Tensor, root: int) -> Any:
    options = dist.ReduceOptions()  # type: ignore[attr-defined]
    options.rootRank, options.rootTensor, options.timeout = root, 0, PATIENCE
    options.reduceOp = dist.ReduceOp(dist.ReduceOp.SUM)
    return group.reduce([tensor], options)


class LinkEnded(RuntimeError):
    """Another member's end of the connection is gone: why, only that member or its node could tell."""


@dataclass(frozen=True, slots=True)
class _Gloo:
    group: Any
    alive: Alive
    on_cpu = True

    def spread(self, tensors: Sequence[Tensor]) -> None:
        for one in tensors:
            self._finish(_broadcast, one)

    def add_up(self, tensors: Sequence[Tensor]) -> None:
        for one in tensors:
            self._finish(_reduce, one)

    def _finish(self, exchange: Callable[[Any, Tensor, int], Any], tensor: Tensor) -> None:
        """Wait in naps, a hundredth of what has been waited already: Gloo itself cannot be woken from outside."""
        with _ended_by_others():
            work = exchange(self.group, tensor, OWNER)
        if self.alive is not _certainly:
            began = asked = time.monotonic()
            while not work.is_completed():
                now = time.monotonic()
                if now - asked > ASK_SECONDS:
                    self.alive()
                    asked = now
                time.sleep(min(max((now - began) / 100, SHORTEST_NAP_SECONDS), LONGEST_NAP_SECONDS))
        with _ended_by_others():
            work.wait()


@contextlib.contextmanager
def _ended_by_others() -> Iterator[None]:
    """Gloo says all that goes wrong with a connection by a plain RuntimeError."""
    try:
        yield
    except RuntimeError as error:
        raise LinkEnded(str(error)) from error


@dataclass(frozen=True, slots=True)
class _Bridged:
    own: Any
    outer: _Gloo | None
    on_cpu = False

    def spread(self, tensors: Sequence[Tensor]) -> None:
        if self.outer is not None:
            on_cpu = [torch.empty_like(one, device="cpu") for one in tensors]
            self.outer.spread(on_cpu)
            for one, received in zip(tensors, on_cpu, strict=True):
                one.copy_(received)
        for one in tensors:
            _broadcast(self.own, one, 0).wait()

    def add_up(self, tensors: Sequence[Tensor]) -> None:
        for one in tensors:
            _reduce(self.own, one, 0).wait()
        if self.outer is not None:
            self.outer.add_up([one.cpu() for one in tensors])
