"""Sealed searches in totals: each has one price, spent from its beginning on, whatever of it left."""

from __future__ import annotations

from sweeps.store.records import SweepRecord, SweepState

BY_SUMS = "the price of a sealed search adds to others by sums alone: `sweeps budget`"
"""Why what several sweeps released together is not counted, with one of these among them."""

SPENT_UNSEEN = "a sealed search that has begun: its whole budget is spent"


def sealed_and_begun(sweep: SweepRecord) -> bool:
    """Whether the price of a sealed search is spent: no trial and no entry tells of one that released nothing."""
    return sweep.spec.selection is not None and sweep.state is not SweepState.CREATED
