"""Discrete pairs on a grid of losses: one that dominates the exact pair, one that it dominates.

A pair is as informative as its call function C(y) = E_Q max(0, Y - y) is large (Blackwell 1951; the hockey-stick
divergences are C at rescaled arguments).

Certificate, which `laws.guard` does not trust:
- Upper: each cell's mass goes to its two ends so that the mass under both hypotheses is kept: the chords of C
  ("connecting the dots").
- Lower: each vertex of the chord polygon is lowered until every segment lies below C. How far is known
  without any assumption on densities: C lies above its own tangents at the nodes and at the mid-points
  of the cells, so a segment lowered by the largest distance between chord and tangents is below C.
  What convexity forbids is repaired by dropping vertices (the greatest convex minorant stays below C).

Source  Doroshenko, Ghazi, Kamath, Kumar & Manurangsi (2022) for the upper pair; this module for the lower one.
"""

from __future__ import annotations

import numpy as np

from dpcore.accountants.pld.discretisation.minorant import convex_minorant
from dpcore.accountants.pld.discretisation.nodes import Grid, centroid
from dpcore.accountants.pld.pairs import Array, DominatingPair


def upper_masses(pair: DominatingPair, grid: Grid) -> tuple[Array, float, float]:
    """Q-masses on the nodes of a dominating pair, then its Q-mass at ratio 0 and its P-mass at ratio infinity."""
    y = grid.y[::2]
    mass, mean = grid.q_half[::2] + grid.q_half[1::2], grid.y_half[::2] + grid.y_half[1::2]
    right = np.clip((mean - y[:-1] * mass) / np.diff(y), 0.0, mass)
    q = np.zeros(len(y))
    q[:-1] += mass - right
    q[1:] += right
    q_below, y_below = grid.tails.q_below[0], grid.tails.y_below[0]
    q_above, y_above = grid.tails.q_above[-1], grid.tails.y_above[-1]
    at_zero = max(0.0, pair.slope * (y[0] * q_below - y_below) / grid.ratio[0])
    q[0] += q_below - at_zero
    q[-1] += q_above
    return q, float(at_zero), float(max(0.0, pair.slope * (y_above - y[-1] * q_above)))


def lower_masses(grid: Grid) -> tuple[Array, bool, bool]:
    """Q-masses on the nodes of a dominated pair (its first and last node belong to one direction each).

    The flags tell whether the first node's mass belongs to Q alone, the last node's to P alone: the put function
    starts, the call function ends above zero there. All masses are zero, which bounds nothing but is
    true, on a grid too coarse to tell the pair from equality.
    """
    y, tails = grid.y[::2], grid.tails
    put = np.maximum(y * tails.q_below[::2] - tails.y_below[::2], 0.0)
    call = np.maximum(tails.y_above[::2] - y * tails.q_above[::2], 0.0)
    excess = _cell_excess(grid, y)
    if put[0] <= 1e-13 * abs(y[0]) * tails.q_below[0]:
        put[0] = 0.0  # an atom on the first node, but for rounding
    # Where the curve leaves an axis, the slope of the line that it leaves on protects that cell instead.
    if excess[0] >= 0.3 * put[0]:
        first, excess[0] = 0, 0.0
    else:
        first = -1
    drop = _vertex_drop(excess)
    first = int(np.append(first, np.flatnonzero(put <= drop))[-1])
    last = int(np.append(np.flatnonzero(call <= drop), len(y))[0])
    if last <= first:
        return np.zeros(len(y)), False, False
    if first >= 0:
        excess[min(first, len(excess) - 1)] = 0.0
    if last < len(y):
        excess[max(last - 1, 0)] = 0.0
    drop = _vertex_drop(excess)
    put_low, call_low = put - drop, call - drop
    put_low[: first + 1], call_low[: first + 1] = 0.0, (call - put)[: first + 1]
    call_low[last:], put_low[last:] = 0.0, (put - call)[last:]
    after, before = first + 1, last - 1
    if 0 < after < len(y):
        reach = _steepest(grid, first, forward=True) * (y[after] - y[first])
        if after == last and put_low[after] > reach * (1 + 1e-12):
            return np.zeros(len(y)), False, False
        if after < last:
            put_low[after] = min(put_low[after], reach)
            call_low[after] = put_low[after] + (call - put)[after]
    if len(y) - 1 > before > first:
        reach = _steepest(grid, last, forward=False) * (y[last] - y[before])
        call_low[before] = min(call_low[before], reach)
        put_low[before] = call_low[before] - (call - put)[before]
    if min(put_low.min(), call_low.min()) < 0:
        return np.zeros(len(y)), False, False
    left = tails.q_below[::2] < tails.q_above[::2]
    return convex_minorant(y, put_low, call_low, left), first < 0, last == len(y)


def _vertex_drop(excess: Array) -> Array:
    """Each node serves both of its cells."""
    return np.maximum(np.append(excess, 0.0), np.append(0.0, excess))


def _cell_excess(grid: Grid, y: Array) -> Array:
    """Largest distance in each cell between the chord of the exact curve and the tangents below that curve."""
    q1, q2, y1, y2 = grid.q_half[::2], grid.q_half[1::2], grid.y_half[::2], grid.y_half[1::2]
    width, middle = np.diff(y), grid.y[1::2]
    c1, c2 = centroid(q1, y1, y[:-1], middle), centroid(q2, y2, middle, y[1:])
    right = (q1 * (c1 - y[:-1]) + q2 * (c2 - y[:-1])) / width
    left = (q1 * (y[1:] - c1) + q2 * (y[1:] - c2)) / width
    excess = np.maximum(right * (y[1:] - c1) - q2 * (c2 - c1), left * (c2 - y[:-1]) - q1 * (c2 - c1))
    return np.maximum(excess, 0.0) * (1 + 1e-6)


def _steepest(grid: Grid, node: int, *, forward: bool) -> float:
    """Steepest line from the axis at a node that stays below the tangents of the neighbouring cell.

    forward  put function, line rising to the right; else call function, line rising to the left
    """
    t, base = grid.tails, grid.y[2 * node]
    slopes = []
    for half in (2 * node, 2 * node + 1) if forward else (2 * node - 1, 2 * node - 2):
        mass, mean = grid.q_half[half], grid.y_half[half]
        if mass <= 0:
            continue
        c = min(max(mean / mass, grid.y[half]), grid.y[half + 1])
        if c == base:
            continue
        value = c * t.q_below[half] - t.y_below[half] if forward else t.y_above[half + 1] - c * t.q_above[half + 1]
        slopes.append(max(value, 0.0) / abs(c - base))
    far = 2 * node + 2 if forward else 2 * node - 2
    y = grid.y[far]
    value = y * t.q_below[far] - t.y_below[far] if forward else t.y_above[far] - y * t.q_above[far]
    return min([*slopes, max(value, 0.0) / abs(y - base)])
