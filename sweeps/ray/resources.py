"""The resources that one trial, or a sealed search, asks of a cluster, and whether the cluster can ever give them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dpcore.checks import InvalidValue
from sweeps.spec.sections import Resources, SweepSpec

if TYPE_CHECKING:
    from ray.tune import PlacementGroupFactory


Node = Mapping[str, float]
"""Resources of one machine by Ray's names: {"CPU": 8, "GPU": 1}."""


def request(resources: Resources) -> dict[str, float] | PlacementGroupFactory:
    """What Tune is asked for: one process's share, or a placement group with one bundle for each worker.

    The trial's own process takes no bundle of a group: it waits while the workers compute. Workers are packed on as
    few nodes as hold them.
    """
    from ray.tune import PlacementGroupFactory

    cpus, gpus = resources.per_worker()
    if resources.workers == 1:
        return {"cpu": cpus, "gpu": gpus}
    bundles: list[dict[str, int | float]] = [{"CPU": cpus, "GPU": gpus} for _ in range(resources.workers)]
    return PlacementGroupFactory([{}, *bundles], strategy="PACK")


def room_for(resources: Resources, nodes: Sequence[Node]) -> int:
    """How many workers fit on `nodes` when nothing else runs there."""
    return sum(_on_one(resources, node) for node in nodes)


def lacking(resources: Resources, nodes: Sequence[Node], who: str) -> str | None:
    """Why one trial does not fit on `nodes`; None when it does. `who` is what has those nodes."""
    room = room_for(resources, nodes)
    if room >= resources.workers:
        return None
    cpus, gpus = resources.per_worker()
    asked = f"resources: {resources.workers} worker{'s' * (resources.workers > 1)} with {cpus:g} CPUs and {gpus:g} GPUs"
    return (
        f"{asked}: {who} {listed(nodes)}, room for {room} such. Ask for less, or connect to a larger cluster with "
        "--address."
    )


def _on_one(resources: Resources, node: Node) -> int:
    cpus, gpus = resources.per_worker()
    # Ray counts in ten-thousandths; a division of floats would find 0.3 / 0.1 = 2.
    shares = [
        int(round(node.get(name, 0) * 10_000) // round(amount * 10_000))
        for name, amount in (("CPU", cpus), ("GPU", gpus))
        if amount > 0
    ]
    if 0 < gpus < 1:
        # A share of a GPU lies on one of them.
        shares[-1] = int(node.get("GPU", 0)) * int(10_000 // round(gpus * 10_000))
    return min(shares)


def listed(nodes: Sequence[Node]) -> str:
    """What each of them has."""
    return "; ".join(f"{node.get('CPU', 0):g} CPUs, {node.get('GPU', 0):g} GPUs" for node in nodes) or "no nodes"


LONGEST_FOLDER = 38
"""Bytes of the folder in which Ray makes ray/session_DATE_TIME_PROCESS/sockets/plasma_store."""


def check_sockets_fit() -> None:
    """Raises InvalidValue where the folder of Ray's sockets has a longer name than the system takes."""
    folder = os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()
    if len(os.fsencode(folder)) > LONGEST_FOLDER:
        expected = f"a temporary folder of at most {LONGEST_FOLDER} bytes: Ray's sockets lie in it"
        raise InvalidValue("TMPDIR", folder, expected, "Set RAY_TMPDIR to a shorter one, such as /tmp.")


# How many workers a sealed search has, and whether all of them can run at once: as its spec says, or as many as this
# machine has CPUs for.


def workers_of(resources: Resources) -> int:
    """Trials at once on this machine; what the spec says goes before."""
    by_cpus = Resources(cpus=resources.per_worker()[0])
    return resources.concurrency or max(1, room_for(by_cpus, [{"CPU": os.cpu_count() or 1}]))


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
    # Ray takes a second to import.
    from sweeps.ray.patches import machine_resources

    check_at_once(spec, workers, [machine_resources(os.cpu_count())], "this machine")


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
