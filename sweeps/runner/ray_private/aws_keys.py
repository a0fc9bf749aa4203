"""Ray Tune writes the driver's AWS keys into the environment that it asks for each trial, and Ray logs that.

Seen on Ray 2.60: `tune.execution.class_cache` names the variables, and the runtime-environment agent of each node
writes their values in clear into `runtime_env_setup-*.log`. While the block here runs they are left out;
`trainables.worker.credentials` carries them instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ray.tune.execution import class_cache

from trainables.worker.credentials import NAMES


@contextmanager
def credentials_left_out() -> Iterator[None]:
    """For as long as the block runs, no credential stands in a runtime environment of Tune's."""
    plain = class_cache.ENV_VARS_TO_PROPAGATE
    class_cache.ENV_VARS_TO_PROPAGATE = plain - NAMES
    try:
        yield
    finally:
        class_cache.ENV_VARS_TO_PROPAGATE = plain
