"""Seconds from the command to the first step, and from the last step to the prompt, of a sweep of one trial.

    python -m tests.benchmarks.startup [--cluster] [--rounds 5]

Bare   a Python process that imports Ray, starts it, runs one task that imports torch, and ends Ray: to the task's end,
       and from there to the end of the process. One CPU, no dashboard, as a local sweep has it.
Ours   `sweeps run`: to the record that a worker writes before its first step, and from the checkpoint behind its last
       step to the end of the process. What is spent on the drain of MLflow is told apart: until its process is gone.

With --cluster a head with two CPUs, its dashboard and a token runs already, and both sides connect to it.

Both sides take turns; the median of the rounds is printed, and the processor time of each whole command beside it.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path

import typer

from tests.sweeps.clusters import Cluster, ray_cluster

BARE = """
import sys, time
import ray
started = {"address": sys.argv[1]} if sys.argv[1:] else {"address": "local", "num_cpus": 1, "include_dashboard": False}
ray.init(**started, log_to_driver=False, configure_logging=False)
@ray.remote
def step():
    import torch
    return float(torch.ones(3).sum())
assert ray.get(step.remote()) == 3.0
print(time.time(), flush=True)
ray.shutdown()
"""
SPEC = """
name: one
data: {source: uniform, n: 1000}
systems: {noisy-mean: {clip: 0.5, steps: 3}}
privacy: {epsilon: 1.0, delta: 1.0e-5}
objectives: [{metric: expected_error}]
search: {sampler: random, trials: 1, seed: 0}
"""


def _environment(cluster: Cluster | None) -> Mapping[str, str]:
    if cluster:
        return cluster.environment()
    return {**os.environ, "OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0"}


def _processor() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def bare(cluster: Cluster | None) -> dict[str, float]:
    """One round of the bare side."""
    words = [sys.executable, "-c", BARE, *([cluster.address] if cluster else [])]
    before, began = _processor(), time.time()
    out = subprocess.run(words, env=_environment(cluster), capture_output=True, text=True, check=True)
    worked, ended = float(out.stdout.split()[-1]), time.time()
    return {"first": worked - began, "after": ended - worked, "processor": _processor() - before}


def ours(cluster: Cluster | None) -> dict[str, float]:
    """One round of a sweep."""
    with tempfile.TemporaryDirectory() as root:
        spec = Path(root) / "one.yaml"
        spec.write_text(SPEC)
        words = [sys.executable, "-m", "sweeps.cli", "run", str(spec), "--root", f"{root}/state"]
        words += ["--address", cluster.address] if cluster else []
        before, began = _processor(), time.time()
        subprocess.run(words, env=_environment(cluster), capture_output=True, check=True)
        ended = time.time()
        trial = Path(root) / "state" / "one" / "trials" / "one-0" / "1"
        first = (trial / "horizon.copy.json").stat().st_mtime
        last = max(one.stat().st_mtime for one in trial.glob("checkpoint.*.npz"))
        drained = max(one.stat().st_mtime for one in (Path(root) / "state").glob("mlflow.db*"))
        return {
            "first": first - began,
            "after": ended - last,
            "drain": max(0.0, drained - last),
            "processor": _processor() - before,
        }


def main(cluster: bool = False, rounds: int = 5) -> None:
    with ray_cluster(cpus=2) if cluster else nullcontext() as running:
        found = [(bare(running), ours(running)) for _ in range(rounds)]
    for place, side in enumerate(("bare Ray", "sweeps run")):
        medians = {name: statistics.median(one[place][name] for one in found) for name in found[0][place]}
        print(f"{side:12}" + "  ".join(f"{name} {seconds:.2f} s" for name, seconds in medians.items()))


if __name__ == "__main__":
    typer.run(main)
