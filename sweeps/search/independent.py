"""Samplers that look at no result: a point is a function of the spec and its number, exact at any concurrency."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from sweeps.records import Extension
from sweeps.search.grid import SearchGrid
from sweeps.search.seeds import ORDER, POINT, sequence
from sweeps.search.space import Space
from sweeps.search.strata import Stages, Strata
from sweeps.spec.model import SweepSpec
from trainables.system import Scalar


class RandomPoints:
    """Independent draws from the prior of the space; systems and budgets in turn where the spec says so."""

    def __init__(self, spec: SweepSpec, extensions: Iterable[Extension] = ()) -> None:
        extensions = tuple(extensions)
        self._space, self._seed = Space.of(spec), spec.search.seed
        self._stages = Stages.of(spec, extensions)
        self._strata = Strata.of(spec, extensions) if spec.search.stratified else None

    def point(self, number: int) -> dict[str, Scalar] | None:
        """Draw `number`."""
        stratum = None if self._strata is None else self._strata.at(number)
        space = replace(self._space, epsilons=self._stages.at(number)[1])
        return space.draw(np.random.Generator(np.random.PCG64(sequence(self._seed, number, POINT))), stratum)


class GridPoints:
    """Every grid point `repeats` times, in an order shuffled by the seed, so that a sweep cut short has seen all
    corners: one round after the other. The points of budgets that were added later come next, and then the rest."""

    def __init__(self, spec: SweepSpec, extensions: Iterable[Extension] = ()) -> None:
        space, repeats = Space.of(spec), spec.search.repeats
        self._parts = [_Part(0, _Shuffled(space, repeats, spec.search.seed))]
        for one in extensions:
            if one.epsilon:
                added = replace(space, epsilons=tuple(sorted(one.epsilon)))
                self._parts.append(_Part(one.proposed, _Shuffled(added, repeats, spec.search.seed)))

    def point(self, number: int) -> dict[str, Scalar] | None:
        """Point `number`; None when all were given."""
        for part in reversed(self._parts[1:]):
            if number >= part.first:
                if number < part.first + len(part.points):
                    return part.points.point(number - part.first)
                number -= len(part.points)
        return self._parts[0].points.point(number)


@dataclass(frozen=True, slots=True)
class _Part:
    """The points of some budgets, from proposal `first` on."""

    first: int
    points: _Shuffled


class _Shuffled:
    """The points of one grid, each `repeats` times."""

    def __init__(self, space: Space, repeats: int, seed: int) -> None:
        self._grid, self._repeats = SearchGrid.of(space), repeats
        generator = np.random.Generator(np.random.PCG64(sequence(seed, 0, ORDER)))
        self._order = generator.permutation(len(self._grid))

    def __len__(self) -> int:
        return self._repeats * len(self._order)

    def point(self, number: int) -> dict[str, Scalar] | None:
        """Point `number` of the shuffled grid, round after round; None when all were given."""
        return self._grid.point(int(self._order[number % len(self._order)])) if number < len(self) else None
