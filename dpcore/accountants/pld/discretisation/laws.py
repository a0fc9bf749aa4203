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

from dpcore.accountants.pld.bounds import DiscretisationInvalid
from dpcore.accountants.pld.discretisation import masses as discrete
from dpcore.accountants.pld.discretisation.nodes import Grid, centroid, lower_grid, upper_grid
from dpcore.accountants.pld.pairs import Array, DominatingPair

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
        q, at_zero, at_infinity = discrete.upper_masses(self.pair, grid)
        return grid, {True: (q, at_infinity), False: (q, at_zero)}

    @cached_property
    def _lower(self) -> tuple[Grid, dict[bool, tuple[Array, float]]]:
        grid = lower_grid(self.pair, self.spacing, self.tail)
        q, q_only, p_only = discrete.lower_masses(grid)
        forward, backward = q.copy(), q.copy()
        # A lower bound may forget mass.
        if q_only:
            forward[0] = 0.0
        if p_only:
            backward[-1] = 0.0
        return grid, {True: (forward, 0.0), False: (backward, 0.0)}
