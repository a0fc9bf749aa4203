"""One worker of `tests.gpu.teams`: python -m tests.gpu.team_worker PORT RANK BACKEND DEVICE STEPS."""

from __future__ import annotations

import sys
from typing import cast

import torch

from tests.gpu.teams import HOST, WORKERS, records, task
from trainables.parallel.sums import Backend, serve, worker_link


def main(port: str, rank: str, backend: str, device: str, steps: str) -> None:
    link = worker_link((HOST, int(port)), HOST, int(rank), WORKERS, cast(Backend, backend))
    serve(task(device, int(steps)), records(), int(rank), WORKERS, link, torch.device(device))


if __name__ == "__main__":
    main(*sys.argv[1:])
