"""Which lost attempts count against `execution.retries`: those whose worker was lost while its controller lived.

A worker that dies takes its trial's luck with it: the next one may die of the same trial (memory, a bad node), so such
losses are limited, and the store remembers them across controllers. Nobody's worker is to blame when the attempt ended
because its controller did: stopped by Ctrl-C, SIGTERM or limits.hours, killed, or gone with its cluster. Nor when the
folder of records refused a write, or when it moved away from a node that had notice to go. Those attempts are charged
like any other, are lost in the store's words, and cost no retry.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from sweeps.records import AttemptRecord, Outcome
from trainables.worker.attempt import NODE_LEAVES, UNWRITABLE

CONTROLLER_ENDED = "the controller ended while it ran"
INTERRUPTED = "interrupted by the user"
HOURS_OVER = "the hours of its sweep were over"

NOT_OF_THE_WORKER = (CONTROLLER_ENDED, INTERRUPTED, HOURS_OVER, UNWRITABLE, NODE_LEAVES)
"""Reasons of attempts that begin like this are no loss of the worker; every other reason is."""


def worker_losses(attempts: Iterable[AttemptRecord]) -> Counter[str]:
    """{key: how often the trial's worker was lost}."""
    return Counter(
        attempt.key
        for attempt in attempts
        if attempt.outcome is Outcome.LOST and not attempt.reason.startswith(NOT_OF_THE_WORKER)
    )
