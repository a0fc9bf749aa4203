"""What of each node of the joined cluster nobody holds now (Ray 2.60): its public calls tell the sum of all nodes."""

from __future__ import annotations

from collections.abc import Mapping

import ray._private.state


def free_resources() -> list[Mapping[str, float]]:
    """By Ray's names, such as {"CPU": 8.0}, one for each node; a name that is all taken is left out."""
    return list(ray._private.state.available_resources_per_node().values())
