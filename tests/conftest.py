"""The order of the suite, and the pace of property tests.

Property tests repeat themselves and never fail for their pace: what passed once passes on a slower machine.

`pytest --hypothesis-profile explore` draws new examples.
"""

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("repeatable")

# Whole files go to two workers, and what starts clusters has few tests, each of them long: such files come first, for
# at the end they would run alone.
LONG = (
    "test_submit_cluster.py",
    "test_cluster_notice.py",
    "test_kills.py",
    "test_cli_processes.py",
    "test_object_store_sweeps.py",
    "test_tracking_server.py",
    "test_cluster_ray.py",
    "test_store_crashes.py",
    "test_vandermaaten2020.py",
    "test_lu2021.py",
    "test_triastcyn2020.py",
    "test_reproduce_wu2020.py",
    "test_reproduce.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The long files first, in the order of `LONG`; the rest as it was collected."""
    items.sort(key=lambda item: LONG.index(item.path.name) if item.path.name in LONG else len(LONG))
