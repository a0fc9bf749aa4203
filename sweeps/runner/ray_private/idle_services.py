"""A cluster of this machine alone starts services that nobody asks: a fifth of its start.

`ray.init(include_dashboard=False)` starts a server for usage statistics and waits for it, the autoscaler's monitor, a
process that reads workers' logs for a driver that asked for none (`log_to_driver=False`), and the whole of each node's
agent, for a dashboard that is not there. Without them Ray works as it is installed by `ray[tune]` alone. There is no
public way to leave them out (Ray 2.60): while the block here runs they are not started.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager

from ray._private import parameter, services, utils


@contextmanager
def idle_services_left_out() -> Iterator[None]:
    """Clusters that are started while the block runs have no API server, monitors, or dashboard's part of an agent."""
    server, parameters, missing = services.start_api_server, parameter.RayParams, utils.get_dashboard_dependency_error
    # Its own answer where the server does not start: no address, no process.
    services.start_api_server = lambda *arguments, **options: (None, None)
    parameter.RayParams = functools.partial(parameters, no_monitor=True, include_log_monitor=False)  # type: ignore[misc]
    utils.get_dashboard_dependency_error = lambda: ImportError("not asked for")
    try:
        yield
    finally:
        services.start_api_server, parameter.RayParams = server, parameters  # type: ignore[misc]
        utils.get_dashboard_dependency_error = missing
