"""What workers enter of Ray's private parts: the nodes that are to go. Seen on Ray 2.60.

Ray Train reads them in the same way for its own warning of a preemption. `sweeps/ray/patches.py` has the driver's.
"""

from __future__ import annotations

from ray._private import state


def draining_nodes() -> frozenset[str]:
    """Hexadecimal ids of the connected cluster's nodes that are drained. Raises RayError, RuntimeError or OSError."""
    return frozenset(state.state.get_draining_nodes())
