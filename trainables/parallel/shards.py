"""Which records each worker looks after."""

from __future__ import annotations

from dpcore import checks


def shards(n: int, workers: int) -> tuple[range, ...]:
    """n records cut into `workers` consecutive parts whose sizes differ by one at most; perhaps empty ones.

    Raises InvalidValue.
    """
    checks.count(n=n)
    checks.count(minimum=1, workers=workers)
    return tuple(range(n * rank // workers, n * (rank + 1) // workers) for rank in range(workers))
