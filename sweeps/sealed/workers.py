"""How many workers a sealed search has: as its spec says, or as many as this machine has CPUs for."""

from __future__ import annotations

import os

from dpcore.checks import InvalidValue
from sweeps.spec.model import SweepSpec
from sweeps.spec.sections import Resources


def workers_of(resources: Resources, cpus: int | None = None) -> int:
    """Trials at once on a machine of so many CPUs, this one by default; what the spec says goes before."""
    fitting = max(1, int((cpus or os.cpu_count() or 1) // resources.per_worker()[0]))
    return resources.concurrency or fitting


def workers_at(spec: SweepSpec, address: str | None) -> int:
    """How many workers there are, none without a trial. Raises InvalidValue where nobody can say it from here."""
    if spec.resources.concurrency is None and (address is not None or spec.resources.per_worker()[1] > 0):
        expected = "a number on a cluster or with GPUs: how many run at once is announced before the search"
        raise InvalidValue("resources.concurrency", None, expected, "Set it.")
    return min(workers_of(spec.resources), spec.search.trials)
