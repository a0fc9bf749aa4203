"""An order of points by several costs: non-dominated sorting, ties by what each adds to the hypervolume.

Fronts are those of Deb, Pratap, Agarwal & Meyarivan (2002), "A fast and elitist multiobjective genetic algorithm:
NSGA-II": the non-dominated points, then those that are non-dominated once these are gone, and so on. Within a front the
larger hypervolume contribution comes first, the criterion of Emmerich, Beume & Naujoks (2005), "An EMO algorithm using
the hypervolume measure as selection criterion" (SMS-EMOA). Costs are scaled to the range of all the points, so that no
unit weighs more than another; the volume ends a tenth of the range beyond the worst. Of equal points the first counts,
and later ones add nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

BEYOND = 1.1
"""Where volumes end, in ranges above the least cost: points at the worst end of one cost still add something."""


def best_first(costs: Sequence[Sequence[float]]) -> list[int]:
    """Indices of the rows of `costs` (n, d), finite and to be minimised, best first.

    By front, then by contribution, then by index. With one cost that is: by cost, then by index.
    """
    if not costs:
        return []
    # Order alone decides fronts, and ranks are small numbers, alike for costs of any size.
    values = np.asarray(costs, dtype=float)
    ranks = np.stack([np.unique(column, return_inverse=True)[1] for column in values.T], axis=1)
    if ranks.shape[1] == 1:
        return [int(place) for place in np.argsort(ranks[:, 0], kind="stable")]
    from moocore import hv_contributions, pareto_rank

    points, first, whose = np.unique(ranks, axis=0, return_index=True, return_inverse=True)
    scaled = _scaled(values[first])
    fronts = np.asarray(pareto_rank(points.astype(float)))
    added: NDArray[np.float64] = np.zeros(len(points))
    for front in np.unique(fronts):
        members = fronts == front
        added[members] = hv_contributions(scaled[members], ref=[BEYOND] * scaled.shape[1])
    whose = whose.reshape(-1)
    own = np.where(first[whose] == np.arange(len(values)), added[whose], 0.0)
    return [int(place) for place in np.lexsort((np.arange(len(values)), -own, fronts[whose]))]


def _scaled(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each column to [0, 1]; a column of one value to 0."""
    least, most = values.min(axis=0), values.max(axis=0)
    # Halves first: the range of the largest numbers is no number.
    half = most / 2 - least / 2
    return np.asarray((values / 2 - least / 2) / np.where(half > 0, half, 1.0))
