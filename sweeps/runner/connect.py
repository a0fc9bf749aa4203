"""Why a cluster that answers cannot be used, found in a second: Ray's own connection retries for twenty."""

from __future__ import annotations

from collections.abc import Mapping

from ray.exceptions import AuthenticationError, RaySystemError, RpcError

from sweeps.runner.ray_private.cluster_metadata import cluster_metadata, own_versions
from sweeps.runner.ray_private.token import send_token

TOKEN = (
    "Give this process the cluster's token: in RAY_AUTH_TOKEN, or in a file that only its owner reads: "
    "RAY_AUTH_TOKEN_PATH, or ~/.ray/auth_token, where `ray start` keeps it on the head's machine."
)


def refusal(host: str, port: int) -> str | None:
    """What keeps this process from using the cluster whose head is at host:port; None when nothing does.

    A cluster that is still starting counts as usable: Ray waits for it. One that wants a token is asked again with the
    one that this machine has.
    """
    try:
        try:
            metadata = cluster_metadata(host, port)
        except AuthenticationError:
            if not send_token():
                raise
            metadata = cluster_metadata(host, port)
    except AuthenticationError:
        return f"the cluster refuses this process: its token is missing or another one. {TOKEN}"
    except (RpcError, RaySystemError, ConnectionError):
        return None
    return None if metadata is None else other_versions(metadata)


def other_versions(metadata: Mapping[str, str]) -> str | None:
    """What differs between the cluster, by its metadata, and this process; None when both are the same."""
    own_ray, own_python = own_versions()
    differing = [
        f"{name} {metadata[key]} there, {own} here"
        for name, key, own in (("Ray", "ray_version", own_ray), ("Python", "python_version", own_python))
        if metadata[key] != own
    ]
    if not differing:
        return None
    return f"versions differ: {'; '.join(differing)}. Install the same on every node and here."
