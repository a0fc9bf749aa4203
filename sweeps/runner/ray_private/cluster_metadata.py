"""Versions of a cluster, read from its head in a second: Ray's own connection retries for twenty (Ray 2.60)."""

from __future__ import annotations

import json
from collections.abc import Mapping

from ray._common.usage.usage_constants import CLUSTER_METADATA_KEY
from ray._private.ray_constants import KV_NAMESPACE_CLUSTER
from ray._private.utils import compute_version_info
from ray._raylet import GcsClient  # type: ignore[attr-defined]


def cluster_metadata(host: str, port: int) -> Mapping[str, str] | None:
    """What the head at host:port says of its cluster, "ray_version" and "python_version" included; None: nothing yet.

    Raises AuthenticationError when its token is another one, RpcError, RaySystemError or ConnectionError when it does
    not answer.
    """
    metadata = GcsClient(address=f"{host}:{port}").internal_kv_get(CLUSTER_METADATA_KEY, KV_NAMESPACE_CLUSTER)
    return None if metadata is None else json.loads(metadata)


def own_versions() -> tuple[str, str]:
    """Of Ray and of Python, here, as a cluster writes them."""
    ray_version, python_version = compute_version_info()[:2]
    return ray_version, python_version
