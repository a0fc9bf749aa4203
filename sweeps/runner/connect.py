"""Why a cluster that answers cannot be used, found in a second: Ray's own connection retries for twenty."""

from __future__ import annotations

import json

from ray._private.ray_constants import KV_NAMESPACE_CLUSTER
from ray._private.utils import compute_version_info
from ray._raylet import GcsClient  # type: ignore[attr-defined]
from ray.exceptions import AuthenticationError, RaySystemError, RpcError

METADATA = b"CLUSTER_METADATA"
TOKEN = (
    "Give this process the cluster's token: RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH (a file "
    "that only its owner reads)."
)


def refusal(host: str, port: int) -> str | None:
    """What keeps this process from using the cluster whose head is at host:port; None when nothing does.

    A cluster that is still starting counts as usable: Ray waits for it.
    """
    try:
        client = GcsClient(address=f"{host}:{port}")
        metadata = client.internal_kv_get(METADATA, KV_NAMESPACE_CLUSTER)
    except AuthenticationError:
        return f"the cluster refuses this process: its token is missing or another one. {TOKEN}"
    except (RpcError, RaySystemError, ConnectionError):
        return None
    return None if metadata is None else other_versions(metadata)


def other_versions(metadata: bytes) -> str | None:
    """What differs between the cluster, by its metadata, and this process; None when both are the same."""
    theirs = json.loads(metadata)
    own_ray, own_python = compute_version_info()[:2]
    differing = [
        f"{name} {theirs[key]} there, {own} here"
        for name, key, own in (("Ray", "ray_version", own_ray), ("Python", "python_version", own_python))
        if theirs[key] != own
    ]
    if not differing:
        return None
    return f"versions differ: {'; '.join(differing)}. Install the same on every node and here."
