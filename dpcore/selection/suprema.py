"""Suprema over an interval, certified from above: split where the bound is largest until a point nearly reaches it."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from itertools import pairwise

_MOST_SPLITS = 1500


def supremum(
    bound: Callable[[float, float], float], points: Sequence[float], gap: float, middle: Callable[[float, float], float]
) -> float:
    """An upper bound on the supremum of a function over [points[0], points[-1]].

    bound   at least the function's values on [left, right]; at least its value at x where left = right = x, closely
    points  increasing: where the interval is split to begin with
    gap     how far above the largest value at a point the answer may be, where enough splits get there
    middle  where an interval is split
    """
    known = max(bound(point, point) for point in points)
    heap = [(-bound(left, right), left, right) for left, right in pairwise(points)]
    heapq.heapify(heap)
    for _ in range(_MOST_SPLITS):
        most, left, right = heap[0]
        at = middle(left, right)
        if -most <= known + gap or not left < at < right:
            break
        known = max(known, bound(at, at))
        heapq.heapreplace(heap, (-bound(left, at), left, at))
        heapq.heappush(heap, (-bound(at, right), at, right))
    return -heap[0][0]
