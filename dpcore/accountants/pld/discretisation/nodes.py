"""Where a grid of losses lies in y, and the exact integrals of the pair there.

In the coordinate y of `pairs` the likelihood ratio is affine: the losses `origin + i * spacing` have their nodes in y,
and the integrals of dQ and y dQ over every cell and half-cell have closed forms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcore.accountants.pld.pairs import Array, DominatingPair, SampledRandomisedResponse, Tails

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
