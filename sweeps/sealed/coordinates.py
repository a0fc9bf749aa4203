"""Where a configuration of a sealed search lies, as numbers: so that its workers, which follow results, need no space.

A system's own coordinates are those of `sweeps.search.coordinates`. With several systems each has its own columns,
which are 0, the middle, for the others, and one that says which system it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sweeps.search.coordinates import Config, Coordinates
from sweeps.search.space import Space
from sweeps.store.records import SYSTEM
from trainables.natural import natural_of


@dataclass(frozen=True, slots=True)
class SpaceCoordinates:
    """The columns of every system of a space, by name."""

    parts: Mapping[str, Coordinates]

    @classmethod
    def of(cls, space: Space) -> SpaceCoordinates:
        """Those of a space of installed systems, or of the user's own."""
        from trainables.registry import SYSTEMS

        naturals = {one.system: natural_of(SYSTEMS.known(one.system)) for one in space.branches}
        return cls({one.system: Coordinates(one, space.epsilons, naturals[one.system]) for one in space.branches})

    def place(self, config: Config) -> tuple[float, ...]:
        """One configuration; as long for all of the space."""
        found: list[float] = []
        for system, part in self.parts.items():
            own = system == config[SYSTEM]
            found += map(float, part.of([config])[0]) if own else [0.0] * len(part)
            found += [float(own)] if len(self.parts) > 1 else []
        return tuple(found)
