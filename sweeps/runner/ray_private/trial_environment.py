"""Ray Tune asks for an environment of its own for each trial, and writes the driver's AWS keys into it (Ray 2.60).

`tune.execution.class_cache` names its variables: one for PyTorch Lightning, Ray Train's settings and the keys. The
runtime-environment agent of each node writes their values in clear into `runtime_env_setup-*.log`, and no process that
the cluster holds ready fits such a trial: a new one is started for it, once the agent answers. Nothing here needs any
of them, and `trainables.worker.credentials` carries the keys. While the block here runs a trial asks for nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ray.tune.execution import class_cache


@contextmanager
def environment_of_the_cluster() -> Iterator[None]:
    """For as long as the block runs, trials of Tune run in whatever environment their cluster gives a process."""
    given, propagated = class_cache.DEFAULT_ENV_VARS, class_cache.ENV_VARS_TO_PROPAGATE
    class_cache.DEFAULT_ENV_VARS, class_cache.ENV_VARS_TO_PROPAGATE = {}, set()
    try:
        yield
    finally:
        class_cache.DEFAULT_ENV_VARS, class_cache.ENV_VARS_TO_PROPAGATE = given, propagated
