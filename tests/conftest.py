"""Property tests repeat themselves and never fail for their pace: what passed once passes on a slower machine.

`pytest --hypothesis-profile explore` draws new examples.

Files that take longest come first, each followed by some of the short ones: a worker that is left alone with a long
file at the end idles the others, and files that wait for processes run beside files that compute.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("repeatable")

# Ray gives its workers niceness 15: beside three test processes on two cores they would hardly be heard.
os.environ.setdefault("RAY_worker_niceness", "0")

LONGEST = (
    "tests/sweeps/test_cli_processes.py",
    "tests/sweeps/test_submit_cluster.py",
    "tests/chaos/test_kills.py",
    "tests/sweeps/test_cluster.py",
    "tests/sweeps/test_vandermaaten2020.py",
    "tests/sweeps/test_rehearsal.py",
    "tests/sweeps/test_drain.py",
    "tests/sweeps/test_planted_secrets.py",
    "tests/sweeps/test_cluster_ray.py",
    "tests/sweeps/test_publishing.py",
    "tests/sweeps/test_store_crashes.py",
    "tests/sweeps/test_papers.py",
    "tests/sweeps/test_report.py",
    "tests/sweeps/test_wu2020.py",
    "tests/sweeps/test_triastcyn2020.py",
    "tests/sweeps/test_lu2021.py",
    "tests/sweeps/test_store_postgres.py",
)
"""Of 20 seconds and more, mostly of waiting; the longest first. `pytest --durations=0` says where the time goes."""


def in_order(files: list[str]) -> list[str]:
    """The long files that are there, by their list, each followed by an equal share of the others, as they stand."""
    long = [one for one in LONGEST if one in files]
    short = [one for one in files if one not in LONGEST]
    share = -(-len(short) // max(1, len(long)))
    order = []
    for number, one in enumerate(long):
        order += [one, *short[number * share : (number + 1) * share]]
    return order if long else short


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole files in the order of `in_order`; tests of one file as they stand in it."""
    files = [item.nodeid.partition("::")[0] for item in items]
    place = {one: number for number, one in enumerate(in_order(list(dict.fromkeys(files))))}
    items[:] = [item for _, item in sorted(zip(files, items, strict=True), key=lambda pair: place[pair[0]])]
