"""Public random bits of the search, and systems and budgets in turn: functions of the spec's seed and a number."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from sweeps.search.space import Space
from sweeps.spec.sections import SweepSpec, with_budgets
from sweeps.store.records import Extension

# Streams of one proposal. The numbers are part of the format: changing one changes every sweep's proposals.
POINT, TRIAL, ORDER = 0, 1, 2


def sequence(seed: int, number: int, stream: int) -> np.random.SeedSequence:
    """The stream of proposal `number`."""
    # spawn_key keeps (seed, number, stream) apart; a flat list of large and small integers would not.
    return np.random.SeedSequence(seed, spawn_key=(number, stream))


def seed_of_point(seed: int, number: int) -> int:
    """32 public bits that seed the sampler for proposal `number`."""
    return int(sequence(seed, number, POINT).generate_state(1)[0])


def seed_of_trial(seed: int, number: int) -> int:
    """31 public bits for the trial's initial weights and the like; never noise, never batches."""
    return int(sequence(seed, number, TRIAL).generate_state(1)[0] >> 1)


def widened(spec: SweepSpec, extensions: Iterable[Extension]) -> SweepSpec:
    """The spec that a sweep began with, over every budget that it was given."""
    for one in extensions:
        if one.epsilon:
            spec = with_budgets(spec, (*spec.privacy.epsilon, *one.epsilon))
    return spec


@dataclass(frozen=True, slots=True)
class Turns:
    """Systems and target budgets in turn: each pair gets as many trials as the others, and no result has a say in it.

    A sweep may be given budgets later. From then on they take turns with the others; what was proposed before stays.

    systems  of the sweep; (None,) where a sampler chooses the system, and budgets alone take turns
    stages   (first proposal, budgets ascending), in order
    """

    systems: tuple[str | None, ...]
    stages: tuple[tuple[int, tuple[float, ...]], ...]
    seed: int

    @classmethod
    def of(cls, spec: SweepSpec, extensions: Iterable[Extension] = ()) -> Turns:
        """Those of the spec that a sweep began with, and of the budgets that it was given later."""
        space = Space.of(spec)
        stages = [(0, space.epsilons)]
        for one in extensions:
            if one.epsilon:
                stages.append((one.proposed, tuple(sorted((*stages[-1][1], *one.epsilon)))))
        systems = tuple(branch.system for branch in space.branches) if spec.search.stratified else (None,)
        return cls(systems, tuple(stages), spec.search.seed)

    def stage(self, number: int) -> tuple[int, tuple[float, ...]]:
        """The stage of proposal `number`; where several begin at one proposal, the last of them."""
        return next(stage for stage in reversed(self.stages) if stage[0] <= number)

    def at(self, number: int) -> tuple[str | None, float]:
        """The system and the budget of proposal `number`: one round after the other, each in an order of its own."""
        first, epsilons = self.stage(number)
        pairs = [(system, epsilon) for system in self.systems for epsilon in epsilons]
        round_, place = divmod(number - first, len(pairs))
        # A grid takes this stream at number 0; no sweep has both.
        order = np.random.Generator(np.random.PCG64(sequence(self.seed, round_, ORDER))).permutation(len(pairs))
        return pairs[int(order[place])]
