"""A cluster of this machine alone listens on the loopback address: nobody else has business with it.

Ray's processes listen on all interfaces as soon as a node's own address is any other, and its metrics answer whoever
asks. `ray.init(_node_ip_address="127.0.0.1")` puts the machine's outer address in place of the loopback one
(`services.resolve_ip_for_localhost`), but for the rule by which Ray keeps to loopback on desktop systems. That rule is
switched on while the block here runs. Seen on Ray 2.60; a test that lists all listening sockets fails when it changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ray._private import ray_constants


@contextmanager
def on_loopback() -> Iterator[None]:
    """Clusters that are started while the block runs listen on 127.0.0.1 and nowhere else."""
    plain = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = plain
