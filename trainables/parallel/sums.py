"""The clipped sum of each step, formed by several processes.

What is split, and why the release does not change. Records (whole units, where the data name some) are cut into
consecutive shards (`shards`). Every worker draws the step's Poisson batch from the same stream and keeps what falls
into its shard: a Poisson batch of the shard at the global rate, independent of the others' (`PoissonSampling.indices`),
the very records that one worker would have drawn. Each worker clips and adds up its own, an empty batch to zeros; the
sums are added up at the owner. So the event is the same one subsampled Gaussian, and the model the one worker's up to
the order of float32 sums, whatever the number of workers; a checkpoint can go on with another number.

Who draws the noise. The owner, once, after the reduction: the process that holds the trial's secret, keeps its records
and releases the model, which every claim trusts already. It looks after no record. The workers hold the seed of the
batches (they have to draw them), never the secret or the noise's stream, and see parameters whose noise is in.

Noise in shares would be worse, however correlated. Let workers hold z_1..z_N with sum S of variance s^2: since the sum
over r of Cov(z_r, S) is Var(S) = s^2, some worker's share is correlated with S, and S given z_r has a variance below
s^2. With independent shares of s^2/N each worker faces s^2 (N-1)/N, with N = 2 half the variance. Raising the shares
until s^2 is left to everybody would put more than the planned variance into the model. So: no shares.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import reduce
from typing import Any, Literal, Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn

from dpcore.gradients import ClippedSum
from trainables.system import Dataset
from trainables.team import GradientTask, limited_threads
from trainables.training.private_sgd import LocalSums
from trainables.training.released import build_model

# How the owner of a trial and its workers exchange tensors: parameters out, sums in.
#
# The owner is member 0 of a Gloo group on the CPU. On CPUs the workers are members 1..N of the same group. On GPUs
# they have a group of their own (NCCL) and its first member stands in the owner's group: sums are reduced between the
# GPUs and one of them crosses over.
#
# No member of a reduction is left out: one that never calls it would hold up all others.


Backend = Literal["gloo", "nccl"]
OWNER = 0
_SHORTEST = torch.float32
MEETING = timedelta(minutes=2)
PATIENCE = timedelta(hours=12)
"""How long an exchange may last: as long as the slowest step. Lost members are found by `Alive`, long before."""
ASK_SECONDS = 0.5
SHORTEST_NAP_SECONDS, LONGEST_NAP_SECONDS = 5e-5, 5e-3

Alive = Callable[[], None]
"""Raises when a member is lost, so that a wait for it ends."""


class Link(Protocol):
    """One side of the exchange. Tensors are flat, of one size and type on all sides.

    on_cpu  whether they have to lie on the CPU; on the worker's own device otherwise
    """

    @property
    def on_cpu(self) -> bool: ...

    def spread(self, tensor: Tensor) -> None:
        """The owner's tensor to everybody, in place."""

    def add_up(self, tensor: Tensor) -> None:
        """The sum over all members arrives in the owner's tensor; what the others' hold afterwards is undefined."""


def owner_store(host: str) -> dist.TCPStore:
    """Where the members find each other, served by the owner at `host`, a free port, and no other address.

    Left to itself, torch (2.13) listens on all interfaces and asks nobody who they are.
    """
    listening = socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    port = listening.getsockname()[1]
    return dist.TCPStore(host, port, None, True, wait_for_workers=False, master_listen_fd=listening.detach())


def owner_link(store: dist.Store, host: str, workers: int, backend: Backend, alive: Alive) -> Link:
    """The owner's side. `host` is the address that the others reach this process by.

    `alive` is asked twice a second while an exchange lasts.
    """
    size = 1 + (workers if backend == "gloo" else 1)
    return _Gloo(_gloo(dist.PrefixStore("owner", store), OWNER, size, host), alive)


def worker_link(
    owner: tuple[str, int], host: str, rank: int, workers: int, backend: Backend, inner: Backend = "nccl"
) -> Link:
    """The side of worker `rank`, 0..workers-1.

    owner    host and port of its store
    backend  "gloo": one group on the CPU; "nccl": the workers' own group between GPUs
    inner    what the workers' own group is made of, when there is one
    """
    store = dist.TCPStore(*owner, None, False)
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


def _from_first(options: Any) -> Any:
    options.rootRank, options.rootTensor, options.timeout = OWNER, 0, PATIENCE
    return options


def _broadcast(group: Any, tensor: Tensor) -> Any:
    return group.broadcast([tensor], _from_first(dist.BroadcastOptions()))  # type: ignore[attr-defined]


def _reduce(group: Any, tensor: Tensor) -> Any:
    return group.reduce([tensor], _from_first(dist.ReduceOptions()))  # type: ignore[attr-defined]


class LinkEnded(RuntimeError):
    """Another member's end of the connection is gone: why, only that member or its node could tell."""


@dataclass(frozen=True, slots=True)
class _Gloo:
    group: Any
    alive: Alive
    on_cpu = True

    def spread(self, tensor: Tensor) -> None:
        self._finish(_broadcast, tensor)

    def add_up(self, tensor: Tensor) -> None:
        self._finish(_reduce, tensor)

    def _finish(self, exchange: Callable[[Any, Tensor], Any], tensor: Tensor) -> None:
        """Wait in naps, a hundredth of what has been waited already: Gloo itself cannot be woken from outside."""
        with _ended_by_others():
            work = exchange(self.group, tensor)
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

    def spread(self, tensor: Tensor) -> None:
        if self.outer is not None:
            received = torch.empty_like(tensor, device="cpu")
            self.outer.spread(received)
            tensor.copy_(received)
        _broadcast(self.own, tensor).wait()

    def add_up(self, tensor: Tensor) -> None:
        _reduce(self.own, tensor).wait()
        if self.outer is not None:
            self.outer.add_up(tensor.cpu())


def shards(n: int, workers: int) -> tuple[range, ...]:
    """n records cut into `workers` consecutive parts whose sizes differ by one at most; perhaps empty ones."""
    return tuple(range(n * rank // workers, n * (rank + 1) // workers) for rank in range(workers))


def packed(tensors: Mapping[str, Tensor], like: Mapping[str, Tensor]) -> Tensor:
    """One flat tensor of `tensors` in the order of `like`; equal for both sides of a link.

    Its type is the smallest, float32 at least, that holds each of `like` exactly.
    """
    kind = reduce(torch.promote_types, (one.dtype for one in like.values()), _SHORTEST)
    return torch.cat([tensors[name].detach().flatten().to(kind) for name in like])


def unpacked(flat: Tensor, like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Views into a flat tensor, by the names and in the shapes of `like`."""
    parts = flat.split([one.numel() for one in like.values()])
    return {name: part.view(one.shape) for (name, one), part in zip(like.items(), parts, strict=True)}


def _trained(model: nn.Module) -> dict[str, nn.Parameter]:
    return {name: one for name, one in model.named_parameters() if one.requires_grad}


class LinkedSums:
    """Sums over all records, formed by the workers at the other end of `link`; the owner's side, on the CPU."""

    def __init__(self, task: GradientTask, model: nn.Module, link: Link) -> None:
        self._task, self._link, self._parameters = task, link, _trained(model)

    def next(self) -> ClippedSum:
        """See `BatchSums`."""
        sent = packed(self._parameters, self._parameters)
        total = torch.zeros_like(sent)
        self._link.spread(sent)
        self._link.add_up(total)
        return ClippedSum(tensors=unpacked(total, self._parameters), clip_norm=self._task.clip_norm)


def serve(task: GradientTask, data: Dataset, rank: int, workers: int, link: Link, device: torch.device) -> None:
    """Form this worker's part of each of `task.steps` sums. The worker's side: it keeps nothing between steps."""
    with limited_threads(task.threads):
        model = build_model(task.config, task.model_seed, data.facts, device)
        sums = LocalSums(task, model, data, device, shards(data.present, workers)[rank])
        parameters = _trained(model)
        exchanged = torch.device("cpu") if link.on_cpu else device
        received = packed(parameters, parameters).to(exchanged)
        for _ in range(task.steps):
            link.spread(received)
            with torch.no_grad():
                for name, one in unpacked(received, parameters).items():
                    parameters[name].copy_(one)
            link.add_up(packed(sums.next().tensors, parameters).to(exchanged))
