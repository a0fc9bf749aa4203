"""Ray's job server, beside what its client promises: the token, and the exact version (Ray 2.60)."""

from __future__ import annotations

from ray._private.authentication.authentication_token_setup import maybe_enable_token_auth_if_token_available
from ray.job_submission import JobSubmissionClient


def send_token() -> None:
    """Send the token of RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH from now on, if there is one.

    Ray's own command line does the same. The variable RAY_AUTH_MODE alone would leave what this process has read
    before as it was.
    """
    maybe_enable_token_auth_if_token_available(warn_if_disabled=False)


def server_version(client: JobSubmissionClient) -> str:
    """The version of Ray that runs there; the client itself compares it with the oldest one that it knows."""
    return str(client._server_ray_version)
