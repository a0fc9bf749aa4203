"""Two processes that form the sums of one model, over the links that a sweep's workers use."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack

import torch

from tests.gpu.results import Figure, Lacking, Setting
from trainables.data import SOURCES
from trainables.parallel.sums import Backend, LinkedSums, owner_link, owner_store
from trainables.system import Dataset
from trainables.team import GradientTask
from trainables.training.private_sgd import LocalSums
from trainables.training.released import build_model

HOST = "127.0.0.1"
WORKERS = 2
PATIENCE = 180.0
SAME = 1e-4
"""Relative distance of two sums of the same records: float32 in another order, on another device."""


def records() -> Dataset:
    """The same in every process."""
    return SOURCES["digits"].load({})


def task(device: str, steps: int) -> GradientTask:
    """The same in every process."""
    return GradientTask(
        config={"model": "mlp", "hidden": 64},
        model_seed=3,
        rate=0.1,
        clip_norm=0.7,
        steps=steps,
        sampling_seed=b"\x05" * 32,
        device=device,
    )


def team(backend: Backend, setting: Setting) -> Iterator[Figure]:
    """Two workers' sums are those of one process, step by step; milliseconds of a step."""
    if backend == "nccl":
        setting.needs_gpus(2, "NCCL takes one process per GPU")
        if not torch.distributed.is_nccl_available():
            raise Lacking(f"NCCL in this torch ({torch.__version__})")
    steps = 3 if setting.small else 50
    data, given = records(), task(setting.device, steps)
    cpu = torch.device("cpu")
    model, same = (build_model(given.config, given.model_seed, data.facts, cpu) for _ in range(2))
    alone = LocalSums(given, same, data, cpu)
    store = owner_store(HOST)
    with ExitStack() as children:
        workers = [
            children.enter_context(_ended(_worker(backend, setting, store.port, rank, steps)))
            for rank in range(WORKERS)
        ]
        until = time.monotonic() + PATIENCE

        def alive() -> None:
            for rank, one in enumerate(workers):
                if one.poll():
                    _raise_ended(rank, one)
            if time.monotonic() > until:
                raise TimeoutError(f"no answer of the two workers within {PATIENCE:.0f} s")

        try:
            link = owner_link(store, HOST, WORKERS, backend, alive)
        except RuntimeError:
            # Who ended before the meeting says why; else it is the meeting's own failure.
            alive()
            raise
        sums = LinkedSums(given, model, link)
        far, seconds = 0.0, []
        for _ in range(steps):
            began = time.perf_counter()
            found = sums.next().tensors
            seconds.append(time.perf_counter() - began)
            expected = alone.next().tensors
            apart = sum(float((found[name] - one).square().sum()) for name, one in expected.items())
            whole = sum(float(one.square().sum()) for one in expected.values())
            far = max(far, (apart / whole) ** 0.5)
        for rank, one in enumerate(workers):
            if one.wait(PATIENCE):
                _raise_ended(rank, one)
    assert far <= SAME, f"{far:.1e} from the sum of one process"
    yield Figure("from the sum of one process", far)
    yield Figure("a step", 1e3 * sorted(seconds)[len(seconds) // 2], "ms")


def _worker(backend: Backend, setting: Setting, port: int, rank: int, steps: int) -> subprocess.Popen[str]:
    shown = {"CUDA_VISIBLE_DEVICES": str(rank if backend == "nccl" else 0)} if setting.device == "cuda" else {}
    command = [sys.executable, "-m", "tests.gpu.team_worker", str(port), str(rank), backend, setting.device, str(steps)]
    return subprocess.Popen(command, env={**os.environ, **shown}, stderr=subprocess.PIPE, text=True)


class _ended:
    """A process that does not outlive the block."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def __enter__(self) -> subprocess.Popen[str]:
        return self._process

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()


def _raise_ended(rank: int, worker: subprocess.Popen[str]) -> None:
    """Raises RuntimeError with the worker's last words."""
    assert worker.stderr is not None
    said = worker.stderr.read().strip().splitlines()
    raise RuntimeError(f"worker {rank} ended with code {worker.returncode}: {said[-1] if said else 'without a word'}")
