"""Ray's job server, beside what its client promises: the exact version (Ray 2.60)."""

from __future__ import annotations

from ray.job_submission import JobSubmissionClient


def server_version(client: JobSubmissionClient) -> str:
    """The version of Ray that runs there; the client itself compares it with the oldest one that it knows."""
    return str(client._server_ray_version)
