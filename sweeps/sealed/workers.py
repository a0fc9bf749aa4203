"""How many workers a sealed search has: as its spec says, or as many as this machine has CPUs for."""

from __future__ import annotations

import os

from dpcore.checks import InvalidValue
from sweeps.spec.model import SweepSpec
from sweeps.spec.sections import Resources


def workers_of(resources: Resources, cpus: int | None = None) -> int:
    """Trials at once on a machine of so many CPUs, this one by default; what the spec says goes before."""
    return resources.concurrency or _fitting(resources, cpus)


def _fitting(resources: Resources, cpus: int | None = None) -> int:
    return max(1, int((cpus or os.cpu_count() or 1) // resources.per_worker()[0]))


def check_workers(spec: SweepSpec, address: str | None = None) -> None:
    """All workers of a sealed search can run at once: each runs from the beginning to the announced end.

    address  of the cluster that they are meant for; None: this machine. A cluster's CPUs are not counted here

    Raises InvalidValue; of no other sweep anything.
    """
    if spec.selection is None:
        return
    workers, fitting = workers_at(spec, address), _fitting(spec.resources)
    if address is None and workers > fitting:
        raise InvalidValue(
            "resources.concurrency",
            spec.resources.concurrency,
            f"at most {fitting} on this machine, by its CPUs: a worker of a sealed search holds its own from the "
            "beginning to the end, and the trials of one that waits are never run",
            "Lower it, or leave it out.",
        )


def workers_at(spec: SweepSpec, address: str | None) -> int:
    """How many workers there are, none without a trial. Raises InvalidValue where nobody can say it from here."""
    if spec.resources.concurrency is None and (address is not None or spec.resources.per_worker()[1] > 0):
        expected = "a number on a cluster or with GPUs: how many run at once is announced before the search"
        raise InvalidValue("resources.concurrency", None, expected, "Set it.")
    return min(workers_of(spec.resources), spec.search.trials)
