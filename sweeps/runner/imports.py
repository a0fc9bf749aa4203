"""Whether every node of a cluster can import what trials are made of: the user's own modules."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

import ray

from sweeps.runner.cluster import ClusterUnreachable

IMPORT_SECONDS = 60.0


def modules_imported_by_all(modules: Sequence[str]) -> None:
    """Import `modules` in a worker of each node. Raises ClusterUnreachable with the first that cannot."""
    if not modules:
        return
    nodes = {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}
    strategy = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
    remote = ray.remote(num_cpus=0, max_retries=0)(_import_failure)
    asked = {
        where: remote.options(scheduling_strategy=strategy(node, soft=False)).remote(tuple(modules))
        for node, where in nodes.items()
    }
    for where, answer in asked.items():
        try:
            failure = ray.get(answer, timeout=IMPORT_SECONDS)
        except ray.exceptions.GetTimeoutError:
            failure = f"no answer within {IMPORT_SECONDS:g} s"
        except ray.exceptions.RayError as error:
            failure = f"its worker ended ({type(error).__name__})"
        if failure:
            raise ClusterUnreachable(
                f"the worker on {where} cannot import {', '.join(modules)}: {failure}. Install it on every node, or "
                "send it along: `sweeps submit` does."
            )


def _import_failure(modules: Sequence[str]) -> str:
    """Why one of them cannot be imported here; empty where all can."""
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception as error:
            return f"{module}: {type(error).__name__}: {error}"
    return ""
