"""The law of one step's loss on a grid, from above and from below, guarded against the exact privacy curve.

Certificate: the constructions of `masses` are not trusted. `guard` compares the masses, as floating point left them,
with the exact hockey-stick curve at every place where the two could cross; what rounding moved is charged as slack, and
more is refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpcore.accountants.pld.pairs import Array, DiscretisationInvalid, DominatingPair, SampledRandomisedResponse, Tails

# Where a grid of losses lies in y, and the exact integrals of the pair there.
#
# In the coordinate y of `pairs` the likelihood ratio is affine: the losses `origin + i * spacing` have their nodes in
# y, and the integrals of dQ and y dQ over every cell and half-cell have closed forms.

_UNIT: Array = np.linspace(0.0, 1.0, 24)


@dataclass(frozen=True)
class Grid:
    """Nodes and half-nodes in y, and the exact integrals there. n cells, n + 1 nodes, 2n half-cells."""

    origin: float
    spacing: float
    y: Array
    ratio: Array
    tails: Tails
    q_half: Array
    y_half: Array


def upper_grid(pair: DominatingPair, spacing: float, tail: float) -> Grid:
    """Nodes that cover all losses of `pair` but `tail` on either side (dimensionless probability).

    Where little lies between, the infimum of the losses becomes a node: nothing is below it, so that the
    add direction has no infinite loss.
    """
    low, high = pair.loss_range(tail)
    if isinstance(pair, SampledRandomisedResponse):
        low = pair.atom_losses()[0]
    elif pair.base == 1.0:
        low = -spacing * math.ceil(-low / spacing)
    elif pair.base > 0.0 and low - math.log(pair.base) < 256 * spacing:
        low = math.log1p(-pair.slope)
    return _grid(pair, low, pair.lowest_y(low), high, spacing)


def lower_grid(pair: DominatingPair, spacing: float, tail: float) -> Grid:
    """As `upper_grid`, but the first node is where the losses up to half a cell above it have their mean.

    Merging them there loses nothing by rounding; a node at the infimum could hold no mass, since merged mass
    lies above it.
    """
    low, high = pair.loss_range(tail)
    if isinstance(pair, SampledRandomisedResponse) or not 0.0 < pair.base < 1.0:
        return upper_grid(pair, spacing, tail)
    floor = math.log1p(-pair.slope)
    widths = 0.5 * spacing * (max(high - floor, spacing) / (0.5 * spacing)) ** _UNIT
    for _ in range(2):
        y = math.exp(floor) / pair.slope * np.expm1(widths)
        tails = pair.tails(y)
        means = centroid(tails.q_below, tails.y_below, np.zeros(len(y)), y)
        gap = floor + widths - np.log1p(pair.slope * (means - 1))
        wide = np.flatnonzero(gap >= 0.5 * spacing)
        if not len(wide):
            chosen = len(y) - 1
            break
        chosen = int(wide[0])
        if chosen == 0:
            break
        widths = widths[chosen - 1] * (widths[chosen] / widths[chosen - 1]) ** _UNIT
    start = float(means[chosen])
    origin = math.log1p(pair.slope * (start - 1))
    if origin < low:
        origin, start = low, pair.lowest_y(low)
    return _grid(pair, origin, start, high, spacing)


def _grid(pair: DominatingPair, low: float, first_y: float, high: float, spacing: float) -> Grid:
    cells = max(2, math.ceil((high - low) / spacing * (1 - 1e-12)) + (0 if pair.smooth else 1))
    steps = 0.5 * spacing * np.arange(2 * cells + 1)
    y = first_y + math.exp(low) / pair.slope * np.expm1(steps)
    tails = pair.tails(y)
    right = tails.q_above[:-1] < tails.q_below[1:]
    q_half = _cells(tails.q_below, tails.q_above, right)
    y_half = _cells(tails.y_below, tails.y_above, right)
    return Grid(low, spacing, y, np.exp(low + steps[::2]), tails, q_half, y_half)


def _cells(below: Array, above: Array, right: NDArray[np.bool_]) -> Array:
    # The smaller of the two tails carries the digits of the difference.
    return np.where(right, above[:-1] - above[1:], below[1:] - below[:-1])


def centroid(mass: Array, mean: Array, low: Array, high: Array) -> Array:
    """mean / mass, the place where each cell's mass has its mean, inside the cell whatever rounding says; `low` where
    there is no mass. Shapes (cells,)."""
    safe = np.where(mass > 0, mass, 1.0)
    return np.clip(np.where(mass > 0, mean / safe, low), low, high)


# The greatest convex function below a polygon that is known by its put and its call function

_PASSES = 64
"""In which the vertices above the convex minorant go; a polygon that takes more has no minorant here."""


def convex_minorant(y: Array, put: Array, call: Array, left: NDArray[np.bool_]) -> Array:
    """Second differences of the largest convex function below the vertices; zero at the vertices it skips.

    left  which vertices carry their digits in the put function, and which (False) in the call function; they differ by
          a line of slope 1. True up to some vertex, False from there on
    """
    keep, out = np.arange(len(y)), np.zeros(len(y))
    for _ in range(_PASSES):
        mass = second_differences(y, put, call, left, keep)
        # A vertex above the chord of its neighbours is above the minorant. An end cannot be skipped: where its mass
        # has the wrong sign, the curve is flat to rounding.
        above = mass < 0
        above[0] = above[-1] = False
        if not above.any():
            out[keep] = np.maximum(mass, 0.0)
            break
        keep = keep[~above]
    return out


def second_differences(y: Array, put: Array, call: Array, left: NDArray[np.bool_], keep: NDArray[np.intp]) -> Array:
    """Of the polygon through the vertices `keep`, flat outside; each slope from the side that carries its digits."""
    width, at_left = np.diff(y[keep]), left[keep][1:]
    slope = np.where(at_left, np.diff(put[keep]), np.diff(call[keep])) / width
    difference = np.append(slope, 0.0) - np.append(0.0, slope)
    turned = np.append(True, at_left) & ~np.append(at_left, False)
    return np.asarray(difference + np.where(turned, 1.0, 0.0))


# Discrete pairs on a grid of losses: one that dominates the exact pair, one that it dominates.
#
# A pair is as informative as its call function C(y) = E_Q max(0, Y - y) is large (Blackwell 1951; the hockey-stick
# divergences are C at rescaled arguments).
#
# Certificate, which `laws.guard` does not trust: - Upper: each cell's mass goes to its two ends so that the mass
# under both hypotheses is kept: the chords of C ("connecting the dots"). - Lower: each vertex of the chord polygon is
# lowered until every segment lies below C. How far is known without any assumption on densities: C lies above its own
# tangents at the nodes and at the mid-points of the cells, so a segment lowered by the largest distance between chord
# and tangents is below C. What convexity forbids is repaired by dropping vertices (the greatest convex minorant stays
# below C).
#
# Source Doroshenko, Ghazi, Kamath, Kumar & Manurangsi (2022) for the upper pair; this module for the lower one.


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


GUARD_TOLERANCE = 1e-11
"""Largest relative violation that rounding may explain; beyond it the discretisation is refused."""

_SUBNORMAL = 1e-270
"""Masses near the end of float64's range have lost their digits, and far below any delta that is their right."""


@dataclass(frozen=True)
class Law:
    """Losses of one direction: mass `masses[i]` at loss `origin + i * spacing`, `infinite` at infinity.

    slack  relative rounding by which the masses may be on the wrong side of the exact curve
    """

    origin: float
    spacing: float
    masses: Array
    infinite: float
    slack: float

    @cached_property
    def losses(self) -> Array:
        """In nats, one for each mass."""
        return self.origin + self.spacing * np.arange(len(self.masses), dtype=np.float64)

    @cached_property
    def support(self) -> tuple[int, int]:
        """Indices of the first and last loss with any mass."""
        filled = np.flatnonzero(self.masses)
        return int(filled[0]), int(filled[-1])


def _half_vertices(grid: Grid) -> Array:
    """Where the tangents at neighbouring half-nodes cross: the centroid of the half-cell."""
    return centroid(grid.q_half, grid.y_half, grid.y[:-1], grid.y[1:])


def _tail_vertex(mass: float, mean: float, node: float) -> float:
    return mean / mass if mass > 0 else node


def guard(pair: DominatingPair, grid: Grid, masses: Array, infinite: float, *, upper: bool, forward: bool) -> float:
    """How far rounding left the discrete privacy curve on the wrong side of the exact one, relatively.

    forward  curve of (P, Q), else of (Q, P). Upper curves are piecewise linear between the nodes, so the
    nodes decide; lower ones are compared with the tangents of the exact curve, at all their vertices.
    Raises DiscretisationInvalid beyond GUARD_TOLERANCE.
    """
    y, t, odds = grid.y[::2], grid.tails, pair.base / pair.slope
    n = len(y)
    if forward:
        # Entry i sums the nodes from i on; of a node's or cell's index i, the nodes above are those from i + 1.
        count = np.append(np.cumsum(masses[::-1])[::-1], 0.0)
        mean = np.append(np.cumsum((masses * y)[::-1])[::-1], 0.0)
    else:
        count = np.append(0.0, np.cumsum(masses))
        mean = np.append(0.0, np.cumsum(masses * y))
    if upper:
        at, beyond = y, np.arange(1, n + 1) if forward else np.arange(n)
        exact = t.y_above[::2] - y * t.q_above[::2] if forward else y * t.q_below[::2] - t.y_below[::2]
    elif forward:
        at = np.append(_tail_vertex(t.q_below[0], t.y_below[0], y[0]), _half_vertices(grid))
        beyond = np.append(0, 1 + np.repeat(np.arange(n - 1), 2))
        exact = t.y_above - at * t.q_above
    else:
        at = np.append(_half_vertices(grid), _tail_vertex(t.q_above[-1], t.y_above[-1], y[-1]))
        beyond = np.append(1 + np.repeat(np.arange(n - 1), 2), n)
        exact = at * t.q_below - t.y_below
    if forward:
        value = mean[beyond] - at * count[beyond] + infinite / pair.slope
        weight = mean[beyond] + odds * count[beyond] + infinite / pair.slope
    else:
        value = at * count[beyond] - mean[beyond] + (at + odds) * infinite
        weight = (at + odds) * (count[beyond] + infinite)
    wrong = exact - value if upper else value - exact
    if not upper:
        # A lower curve that has no mass beyond the vertex is zero there: never wrong.
        wrong = np.where(weight > 0, wrong, 0.0)
    # Not a number compares as neither above nor below: it must refuse, never pass.
    if not (np.isfinite(masses).all() and np.isfinite(wrong).all() and math.isfinite(infinite)):
        raise DiscretisationInvalid(f"spacing={grid.spacing!r} for {pair}: expected finite masses; float64 overflowed.")
    relative = np.max(np.where(wrong > 0, wrong / np.maximum(weight, _SUBNORMAL), 0.0))
    if not relative <= GUARD_TOLERANCE:
        side = "an upper" if upper else "a lower"
        raise DiscretisationInvalid(
            f"spacing={grid.spacing!r} for {pair}: expected {side} bound of the exact privacy curve, "
            f"but it is crossed by a relative {relative:.3g}."
        )
    return float(relative)


@dataclass(frozen=True)
class Discretised:
    """The four laws of one release on grids of one spacing, each built, and guarded, when first asked for.

    The add direction is the remove direction's masses times exp(-loss), reversed. Reversing per step
    keeps it pessimistic, because both hypotheses' cell masses were kept; reversing after composition
    would multiply round-off by exp(-loss). Laws raise DiscretisationInvalid if the guard refuses them.
    """

    pair: DominatingPair
    spacing: float
    tail: float

    def law(self, *, upper: bool, forward: bool) -> Law:
        """Losses of (P, Q) under P, or with forward=False of (Q, P) under Q."""
        grid, by_direction = self._upper if upper else self._lower
        q, infinite = by_direction[forward]
        slack = guard(self.pair, grid, q, infinite, upper=upper, forward=forward)
        if forward:
            return Law(grid.origin, grid.spacing, q * grid.ratio, infinite, slack)
        return Law(-(grid.origin + grid.spacing * (len(q) - 1)), grid.spacing, q[::-1].copy(), infinite, slack)

    @cached_property
    def _upper(self) -> tuple[Grid, dict[bool, tuple[Array, float]]]:
        grid = upper_grid(self.pair, self.spacing, self.tail)
        q, at_zero, at_infinity = upper_masses(self.pair, grid)
        return grid, {True: (q, at_infinity), False: (q, at_zero)}

    @cached_property
    def _lower(self) -> tuple[Grid, dict[bool, tuple[Array, float]]]:
        grid = lower_grid(self.pair, self.spacing, self.tail)
        q, q_only, p_only = lower_masses(grid)
        forward, backward = q.copy(), q.copy()
        # A lower bound may forget mass.
        if q_only:
            forward[0] = 0.0
        if p_only:
            backward[-1] = 0.0
        return grid, {True: (forward, 0.0), False: (backward, 0.0)}
