"""How fast the spectrum of one step's tilted loss must decay: an upper bound on it beyond a frequency.

Whatever part of a law is a mixture of uniform laws, of masses c and widths D, leaves at most
1 - sum c (1 - sup |sin y / y|) of the spectrum at every frequency above w, the supremum being over y >= w D / 2.
Level sets cut such a mixture out of any density (Khinchine 1938 for those with one mode): each layer
between two levels is uniform on the intervals where the density exceeds the upper one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dpcore.accountants.pld.pairs import Array

_LEVELS = 48
_BUMP = 2.5
"""Below it sin y / y exceeds 0.2394, more than |sin y / y| ever reaches again (0.2173 at 4.4934)."""


class Layers(NamedTuple):
    """Uniform laws that lie below a density: their masses and widths. Shapes (layers,)."""

    masses: Array
    widths: Array

    def missing(self, frequency: float) -> float:
        """1 less a bound on |E exp(i w L)| for all w >= `frequency` >= 0, if the masses belong to a law of L."""
        y = np.maximum(0.5 * frequency * self.widths, 1e-9)
        rest = np.where(y < _BUMP, np.sin(y) / y, np.minimum(0.2394, 1 / y))
        return float(self.masses @ (1 - rest))


def layers(places: Array, least: Array) -> Layers:
    """Cut into layers: a density that is at least least[i] >= 0 between places[i] and places[i + 1] (increasing)."""
    order = np.sort(least)
    count = min(_LEVELS, len(order))
    levels = order[np.arange(count) * (len(order) - 1) // max(count - 1, 1)]
    thickness = levels - np.append(0.0, levels[:-1])
    levels, thickness = levels[thickness > 0], thickness[thickness > 0]
    top = int(np.argmax(least))
    rising, falling = least[: top + 1], least[top:]
    if (rising[1:] >= rising[:-1]).all() and (falling[1:] <= falling[:-1]).all():
        # One mode, so each level has one interval.
        end = len(least) - np.searchsorted(falling[::-1], levels)
        widths = places[end] - places[np.searchsorted(rising, levels)]
        return Layers(thickness * widths, widths)
    inside = np.zeros((len(levels), len(least) + 2), dtype=np.int8)
    inside[:, 1:-1] = least[None, :] >= levels[:, None]
    turns = np.diff(inside, axis=1)
    # Row by row, starts and ends alternate: the i-th of one belongs to the i-th of the other.
    row, start = np.nonzero(turns == 1)
    end = np.nonzero(turns == -1)[1]
    widths = places[end] - places[start]
    return Layers(thickness[row] * widths, widths)
