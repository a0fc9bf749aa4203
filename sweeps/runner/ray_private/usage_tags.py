"""Tune counts its callbacks for Ray's usage statistics, and imports MLflow for that: a second and more.

What it would count is sent to nobody here (`RAY_USAGE_STATS_ENABLED=0`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ray.air._internal import usage


@contextmanager
def nothing_counted() -> Iterator[None]:
    """For as long as the block runs, Tune counts no callbacks."""
    plain = usage._count_callbacks
    usage._count_callbacks = lambda callbacks: {}
    try:
        yield
    finally:
        usage._count_callbacks = plain
