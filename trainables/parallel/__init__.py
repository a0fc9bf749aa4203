"""One model trained by several processes: data-parallel sums, and one process that adds the noise.

shards     which records each worker looks after
team       what a worker is told and what it gives
sums       what a step's clipped sum is made of, here or elsewhere; who draws the noise, and why
link       how tensors travel: Gloo between CPUs, NCCL between GPUs
ray_team   workers as Ray actors in the trial's placement group (imported by those who have Ray)
"""

from __future__ import annotations

from trainables.parallel.process import device_named, limited_threads
from trainables.parallel.shards import shards
from trainables.parallel.sums import (
    LinkedSums,
    LocalSums,
    clipped_sums,
    gradient_task,
    initial_model,
    model_seed,
    serve,
)
from trainables.parallel.team import BatchSums, GradientTask, Team

__all__ = [
    "BatchSums",
    "GradientTask",
    "LinkedSums",
    "LocalSums",
    "Team",
    "clipped_sums",
    "device_named",
    "gradient_task",
    "initial_model",
    "limited_threads",
    "model_seed",
    "serve",
    "shards",
]
