"""A team whose workers are threads of this process, over the real links: as many runs a second as statistics need."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import nn

from trainables.parallel.sums import Link, LinkedSums, owner_link, owner_store, serve, worker_link
from trainables.system import Dataset
from trainables.team import BatchSums, GradientTask

HOST = "127.0.0.1"
Serve = Callable[[GradientTask, Dataset, int, int, Link, torch.device], None]


@dataclass
class ThreadTeam:
    """The `Team` protocol. `bridged`: workers have a group of their own, as on GPUs."""

    data: Dataset
    workers: int
    bridged: bool = False
    serve: Serve = serve
    tasks: list[GradientTask] = field(default_factory=list)

    @contextmanager
    def sums(self, task: GradientTask, model: nn.Module) -> Iterator[BatchSums]:
        self.tasks.append(task)
        store = owner_store(HOST)
        backend = "nccl" if self.bridged else "gloo"
        failures: list[BaseException] = []

        def work(rank: int) -> None:
            try:
                link = worker_link((HOST, store.port), HOST, rank, self.workers, backend, inner="gloo")
                self.serve(task, self.data, rank, self.workers, link, torch.device("cpu"))
            except BaseException as failure:
                failures.append(failure)
                raise

        def alive() -> None:
            if failures:
                raise failures[0]

        threads = [threading.Thread(target=work, args=(rank,), daemon=True) for rank in range(self.workers)]
        for thread in threads:
            thread.start()
        link = owner_link(store, HOST, self.workers, backend, alive)
        yield LinkedSums(task, model, link)
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()
        alive()

    def peak_memory_mb(self) -> float:
        return 0.0
