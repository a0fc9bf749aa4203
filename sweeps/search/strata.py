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
        return self.pairs[_in_turn(self.seed, number, len(self.pairs))]


@dataclass(frozen=True, slots=True)
class BudgetTurns:
    """The target budgets of a sweep, and the order in which proposals go through them: no result has a say in it."""

    epsilons: tuple[float, ...]
    seed: int

    @classmethod
    def of(cls, spec: SweepSpec) -> BudgetTurns:
        """Every budget of the spec."""
        return cls(epsilons=Space.of(spec).epsilons, seed=spec.search.seed)

    def at(self, number: int) -> float:
        """The budget of proposal `number`, likewise."""
        return self.epsilons[_in_turn(self.seed, number, len(self.epsilons))]


def _in_turn(seed: int, number: int, count: int) -> int:
    """Which of `count` things has its turn at `number`."""
    round_, place = divmod(number, count)
    # A grid takes this stream at number 0; no sweep has both.
    order = np.random.Generator(np.random.PCG64(sequence(seed, round_, ORDER))).permutation(count)
    return int(order[place])
