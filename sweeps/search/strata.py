"""Systems and budgets in turn: every system gets as many trials as the others, at each budget, whoever is ahead."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sweeps.search.seeds import ORDER, sequence
from sweeps.search.space import Space
from sweeps.spec.model import SweepSpec


@dataclass(frozen=True, slots=True)
class Strata:
    """Pairs of a system and a target budget, and the order in which proposals go through them."""

    pairs: tuple[tuple[str, float], ...]
    seed: int

    @classmethod
    def of(cls, spec: SweepSpec) -> Strata:
        """Every pair of the spec."""
        space = Space.of(spec)
        pairs = tuple((branch.system, epsilon) for branch in space.branches for epsilon in space.epsilons)
        return cls(pairs=pairs, seed=spec.search.seed)

    def at(self, number: int) -> tuple[str, float]:
        """The pair of proposal `number`: one round after the other, each in an order of its own."""
        round_, place = divmod(number, len(self.pairs))
        # A grid takes this stream at number 0; no sweep has both.
        order = np.random.Generator(np.random.PCG64(sequence(self.seed, round_, ORDER))).permutation(len(self.pairs))
        return self.pairs[int(order[place])]
