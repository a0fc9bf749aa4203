"""How many workers a sealed search has, and whether all of them can run at once: as its spec says, or as many as this
machine has CPUs for."""

from __future__ import annotations

import os
from collections.abc import Sequence

from dpcore.checks import InvalidValue
from sweeps.ray.resources import Node, listed, room_for
from sweeps.spec.sections import Resources, SweepSpec


def workers_of(resources: Resources, cpus: int | None = None) -> int:
    """Trials at once on a machine of so many CPUs, this one by default; what the spec says goes before."""
    by_cpus = Resources(cpus=resources.per_worker()[0])
    return resources.concurrency or max(1, room_for(by_cpus, [{"CPU": cpus or os.cpu_count() or 1}]))


def workers_at(spec: SweepSpec, address: str | None) -> int:
    """How many workers there are, none without a trial. Raises InvalidValue where nobody can say it from here."""
    if spec.resources.concurrency is None and (address is not None or spec.resources.per_worker()[1] > 0):
        expected = "a number on a cluster or with GPUs: how many run at once is announced before the search"
        raise InvalidValue("resources.concurrency", None, expected, "Set it.")
    return min(workers_of(spec.resources), spec.search.trials)


def check_workers(spec: SweepSpec, address: str | None = None) -> None:
    """All workers of a sealed search can run at once where they are meant to; of no other sweep anything.

    address  of their cluster, whose nodes are told once it is joined (`check_at_once`); None: this machine

    Raises InvalidValue.
    """
    if spec.selection is None:
        return
    workers = workers_at(spec, address)
    if address is not None:
        return
    if spec.resources.per_worker()[1] == 0:
        # Ray takes a second to import.
        machine: Node = {"CPU": os.cpu_count() or 1}
    else:
        from sweeps.ray.patches import machine_resources

        machine = machine_resources(os.cpu_count())
    check_at_once(spec, workers, [machine], "this machine")


def check_at_once(spec: SweepSpec, workers: int, nodes: Sequence[Node], where: str) -> None:
    """The workers fit beside each other on these nodes: each runs from the beginning to the announced end.

    where  what has those nodes. Where not even one fits, `sweeps.ray.resources.lacking` says it.

    Raises InvalidValue.
    """
    room = room_for(spec.resources, nodes)
    if 0 < room < workers:
        raise InvalidValue(
            "resources.concurrency",
            spec.resources.concurrency,
            f"at most {room} on {where}, by what it has ({listed(nodes)}): a worker of a sealed search holds its own "
            "from the beginning to the end, and the trials of one that waits are never run",
            "Lower it, or leave it out." if where == "this machine" else "Lower it, or use a larger cluster.",
        )


def waiting_text(resources: Resources, workers: int, nodes: Sequence[Node]) -> str | None:
    """What is to be said of a search that has begun, where not all of its workers fit; None where they do."""
    room = room_for(resources, nodes)
    if room >= workers:
        return None
    return (
        f"Sealed: the search has {workers} workers, as was announced, and there is room for {room} of them "
        f"({listed(nodes)}). The others wait for more; if a trial of theirs is not done by the deadline, nothing is "
        "released."
    )
