"""Notice that a node is to go: drained by an operator or an autoscaler, or taken back by a cloud."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util import get_current_placement_group, placement_group_table

from trainables.worker.ray_private import draining_nodes

ASKED_EVERY_SECONDS = 1.0

_asked, _leaving = -ASKED_EVERY_SECONDS, frozenset[str]()


def notice(with_workers: bool) -> Callable[[], bool]:
    """Asks whether this process's node, or one of its trial's workers' nodes, is to go.

    The cluster is asked once a second at most (0.6 ms each time); one that does not answer gives no notice.
    """
    nodes = {str(ray.get_runtime_context().get_node_id())}
    if with_workers:
        group: Any = get_current_placement_group()
        nodes |= set(placement_group_table(group)["bundles_to_node_id"].values())
    return lambda: not nodes.isdisjoint(_nodes_to_go())


def _nodes_to_go() -> frozenset[str]:
    global _asked, _leaving
    now = time.monotonic()
    if now - _asked >= ASKED_EVERY_SECONDS:
        try:
            _leaving = draining_nodes()
        except (RayError, RuntimeError, OSError):
            _leaving = frozenset()
        _asked = time.monotonic()
    return _leaving
