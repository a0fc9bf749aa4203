"""The public orders by which trials of a sealed search are best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trainables.orders import PublicOrder

MOST = 4
"""Orders of one search: each more makes every trial dearer."""


def orders_of(
    objectives: Sequence[tuple[str, str]], release: str, written: Sequence[Mapping[str, Any]]
) -> tuple[PublicOrder, ...]:
    """The first objective or, with `release: front`, those that are `written`; each objective unless any is.

    objectives  (metric, goal) each
    written     {metric: weight} each
    """
    if release != "front":
        return tuple(PublicOrder.by(metric, goal) for metric, goal in objectives[:1])
    if not written:
        return tuple(PublicOrder.by(metric, goal) for metric, goal in objectives)
    signs = {metric: -1.0 if goal == "minimize" else 1.0 for metric, goal in objectives}
    # In the order of the objectives: a mapping has none.
    return tuple(
        PublicOrder(tuple((metric, signs[metric] * float(one[metric])) for metric in signs if metric in one))
        for one in written
    )


def direction(written: Mapping[str, Any]) -> frozenset[tuple[str, float]]:
    """An order whatever its scale: one that is another's multiple ranks all trials alike, and would cost once more.

    written  {metric: weight above 0}, of one metric at least
    """
    most = max(written.values())
    return frozenset((metric, weight / most) for metric, weight in written.items())
