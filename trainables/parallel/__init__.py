"""One model trained by several processes: data-parallel sums, and one process that adds the noise.

team       what a worker is told and what it gives, and what a process may use of its machine
sums       which records each worker looks after, and who draws the noise, and why
link       how tensors travel: Gloo between CPUs, NCCL between GPUs
ray_team   workers as Ray actors in the trial's placement group (imported by those who have Ray)
"""

from __future__ import annotations

from trainables.team import BatchSums, GradientTask, Team, device_named, limited_threads

__all__ = ["BatchSums", "GradientTask", "Team", "device_named", "limited_threads"]
