"""A cluster that other people run, joined by its address, falls silent: its processes live and answer nothing."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sweeps.store.errors import StoreError
from sweeps.store.store import open_store
from tests.chaos.harness import CLUSTER_LOST, HANG_SECONDS, ROOT

SPEC = """
name: silent
data: {source: uniform, n: 500}
systems: {noisy-mean: {clip: {uniform: [0.2, 1.0]}, steps: 40, step_seconds: 0.1}}
privacy: {epsilon: 1.0, delta: 1.0e-5}
objectives: [{metric: expected_error, goal: minimize}]
search: {sampler: random, trials: 50, seed: 7}
execution: {checkpoint_seconds: 0.5}
"""
SERVERS = ("gcs/gcs_server", "raylet/raylet")


@contextlib.contextmanager
def foreign_cluster(environment: dict[str, str]) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """(address, its first process): a head node that lives as long as the block."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = [f"--port={port}", "--num-cpus=2", "--include-dashboard=false", "--block"]
    head = subprocess.Popen(
        [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", *options],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        limit = time.monotonic() + 3 * HANG_SECONDS
        while not all(any(name in command for _, command in below(head.pid)) for name in SERVERS):
            assert head.poll() is None, "the cluster did not start"
            assert time.monotonic() < limit, "the cluster did not start in time"
            time.sleep(0.2)
        yield f"127.0.0.1:{port}", head
    finally:
        for pid in [pid for pid, _ in below(head.pid)] + [head.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        head.wait()


def below(top: int) -> list[tuple[int, str]]:
    """(pid, command line) of every process below `top`."""
    children: dict[int, list[int]] = {}
    commands: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                commands[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                children.setdefault(parent, []).append(int(entry.name))
    found, queue = [], [top]
    while queue:
        for pid in children.get(queue.pop(), []):
            found.append((pid, commands[pid]))
            queue.append(pid)
    return found


def launches(root: Path) -> int:
    try:
        store = open_store(f"sqlite:///{root}/sweeps.db", create=False)
    except StoreError:
        return 0
    try:
        return len(store.ledger("silent")) if store.sweeps() else 0
    finally:
        store.close()


@pytest.mark.chaos
@pytest.mark.outage
@pytest.mark.timeout(600)
@pytest.mark.parametrize("silenced", [SERVERS, SERVERS[:1]])
def test_a_cluster_that_falls_silent_ends_the_controller_with_the_way_to_go_on(tmp_path, silenced):
    (tmp_path / "spec.yaml").write_text(SPEC)
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    own = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "RAY_USAGE_STATS_ENABLED": "0", "SWEEPS_PATIENCE": "30"}
    environment = {**os.environ, **own, **token}
    root, output = tmp_path / "state", tmp_path / "output.txt"
    with foreign_cluster(environment) as (address, head), output.open("wb") as stream:
        command = ["run", str(tmp_path / "spec.yaml"), "--root", str(root), "--address", address]
        controller = subprocess.Popen(
            [sys.executable, "-m", "sweeps.cli", *command], stdout=stream, stderr=subprocess.STDOUT, env=environment
        )
        try:
            limit = time.monotonic() + 3 * HANG_SECONDS
            while launches(root) < 3:
                assert controller.poll() is None, output.read_text()
                assert time.monotonic() < limit, f"no third launch: {output.read_text()}"
                time.sleep(0.2)
            for pid, line in below(head.pid):
                if any(name in line for name in silenced):
                    os.kill(pid, signal.SIGSTOP)
            began = time.monotonic()
            code = controller.wait(HANG_SECONDS)
            print(f"\nsilent for {time.monotonic() - began:.1f} s until the controller ended")
        finally:
            controller.kill()
            controller.wait()
    said = output.read_text()
    assert code == CLUSTER_LOST, said
    assert "does not answer any more. Nothing is lost" in said
    assert "Waiting for the Ray cluster to answer," in said
    assert f"sweeps resume silent --root {root} --address {address}" in said
    store = open_store(f"sqlite:///{root}/sweeps.db", create=False)
    # What was running is reserved, and so charged, until a controller comes back and looks.
    assert store.counts("silent")["running"] >= 1
    assert all(entry.executed_to is not None or entry.steps_spent == 40 for entry in store.ledger("silent"))
    store.close()
