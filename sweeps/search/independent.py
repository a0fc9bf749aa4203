"""Samplers that look at no result: a point is a function of the spec and its number, exact at any concurrency."""

from __future__ import annotations

import numpy as np

from sweeps.search.grid import SearchGrid
from sweeps.search.seeds import ORDER, POINT, sequence
from sweeps.search.space import Space
from sweeps.search.strata import Strata
from sweeps.spec.model import SweepSpec
from trainables.system import Scalar


class RandomPoints:
    """Independent draws from the prior of the space; systems and budgets in turn where the spec says so."""

    def __init__(self, spec: SweepSpec) -> None:
        self._space, self._seed = Space.of(spec), spec.search.seed
        self._strata = Strata.of(spec) if spec.search.stratified else None

    def point(self, number: int) -> dict[str, Scalar] | None:
        """Draw `number`."""
        stratum = None if self._strata is None else self._strata.at(number)
        return self._space.draw(np.random.Generator(np.random.PCG64(sequence(self._seed, number, POINT))), stratum)


class GridPoints:
    """Every grid point `repeats` times, in an order shuffled by the seed, so that a sweep cut short has seen all
    corners: one round after the other."""

    def __init__(self, spec: SweepSpec) -> None:
        self._grid, self._repeats = SearchGrid.of(Space.of(spec)), spec.search.repeats
        generator = np.random.Generator(np.random.PCG64(sequence(spec.search.seed, 0, ORDER)))
        self._order = generator.permutation(len(self._grid))

    def point(self, number: int) -> dict[str, Scalar] | None:
        """Point `number` of the shuffled grid, round after round; None when all were given."""
        size = len(self._order)
        return self._grid.point(int(self._order[number % size])) if number < self._repeats * size else None
