"""Public random bits of the search, and systems and budgets in turn: functions of the spec's seed and a number."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import ceil
from typing import Protocol

import numpy as np

from sweeps.privacy.release import Published
from sweeps.search import warm_start
from sweeps.search.space import Space
from sweeps.spec.hyperparameters import alone
from sweeps.spec.sections import SweepSpec, with_budgets
from sweeps.store.records import Extension
from trainables.system import Scalar

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


# Systems and budgets in turn: every system gets as many trials as the others, at each budget, whoever is ahead.
#
# A sweep may be given budgets later (`sweeps.store.records.Extension`). From then on they take turns with the others:
# which proposal that was is recorded: the order stays a function of seed and number, and what was proposed stays.


def widened(spec: SweepSpec, extensions: Iterable[Extension]) -> SweepSpec:
    """The spec that a sweep began with, over every budget that it was given."""
    for one in extensions:
        if one.epsilon:
            spec = with_budgets(spec, (*spec.privacy.epsilon, *one.epsilon))
    return spec


@dataclass(frozen=True, slots=True)
class Stages:
    """The target budgets of a sweep at each of the sampler's own proposals.

    stages  (first proposal, budgets ascending), in order
    """

    stages: tuple[tuple[int, tuple[float, ...]], ...]

    @classmethod
    def of(cls, spec: SweepSpec, extensions: Iterable[Extension] = ()) -> Stages:
        """Those of the spec that a sweep began with, and what it was given later."""
        found = [(0, Space.of(spec).epsilons)]
        for one in extensions:
            if one.epsilon:
                found.append((one.proposed, tuple(sorted((*found[-1][1], *one.epsilon)))))
        return cls(tuple(found))

    def at(self, number: int) -> tuple[int, tuple[float, ...]]:
        """The stage of proposal `number`: the one that it began with, where several begin at one proposal the last."""
        return next(stage for stage in reversed(self.stages) if stage[0] <= number)


@dataclass(frozen=True, slots=True)
class Strata:
    """Pairs of a system and a target budget, and the order in which proposals go through them."""

    systems: tuple[str, ...]
    stages: Stages
    seed: int

    @classmethod
    def of(cls, spec: SweepSpec, extensions: Iterable[Extension] = ()) -> Strata:
        """Every pair of the spec that a sweep began with, and of the budgets that it was given later."""
        systems = tuple(branch.system for branch in Space.of(spec).branches)
        return cls(systems=systems, stages=Stages.of(spec, extensions), seed=spec.search.seed)

    def at(self, number: int) -> tuple[str, float]:
        """The pair of proposal `number`: one round after the other, each in an order of its own."""
        first, epsilons = self.stages.at(number)
        pairs = [(system, epsilon) for system in self.systems for epsilon in epsilons]
        return pairs[_in_turn(self.seed, number - first, len(pairs))]


@dataclass(frozen=True, slots=True)
class BudgetTurns:
    """The target budgets of a sweep, and the order in which proposals go through them: no result has a say in it."""

    stages: Stages
    seed: int

    @classmethod
    def of(cls, spec: SweepSpec, extensions: Iterable[Extension] = ()) -> BudgetTurns:
        """Every budget of the spec that a sweep began with, and those that it was given later."""
        return cls(stages=Stages.of(spec, extensions), seed=spec.search.seed)

    def at(self, number: int) -> float:
        """The budget of proposal `number`, likewise."""
        first, epsilons = self.stages.at(number)
        return epsilons[_in_turn(self.seed, number - first, len(epsilons))]


def _in_turn(seed: int, number: int, count: int) -> int:
    """Which of `count` things has its turn at `number`."""
    round_, place = divmod(number, count)
    # A grid takes this stream at number 0; no sweep has both.
    order = np.random.Generator(np.random.PCG64(sequence(seed, round_, ORDER))).permutation(count)
    return int(order[place])


# Samplers that learn, and are given what has its turn.


class AtBudget(Protocol):
    """A sampler that learns, and proposes at a budget that it is given."""

    warm_start: warm_start.WarmStart

    def rebuild(self, records: Iterable[Published]) -> None: ...
    def tell(self, record: Published) -> None: ...
    def point(self, number: int, index: int, epsilon: float) -> dict[str, Scalar] | None: ...


class BudgetsInTurn:
    """A sampler of all systems of a sweep, which is given its budgets in turn."""

    def __init__(self, inner: AtBudget, turns: BudgetTurns) -> None:
        self._inner, self._turns = inner, turns
        self.warm_start = inner.warm_start

    def rebuild(self, records: Iterable[Published]) -> None:
        """Know these records and no others."""
        self._inner.rebuild(records)

    def tell(self, record: Published) -> None:
        """Know a trial's latest state."""
        self._inner.tell(record)

    def point(self, number: int, index: int) -> dict[str, Scalar] | None:
        """The configuration of trial `number`, at the budget whose turn it is at proposal `index`."""
        return self._inner.point(number, index, self._turns.at(index))


class StratifiedSampler:
    """A sampler that learns for each system by itself, from that system's trials alone: for comparing systems.

    One sampler over all of them gives its trials to the system that leads, and the others' best is then the best of
    one or two draws.

    build   makes it, of the system's own spec and earlier trials
    strata  the order of systems and budgets; that of the spec by default
    """

    def __init__(
        self,
        build: Callable[[SweepSpec, Iterable[Published]], AtBudget],
        spec: SweepSpec,
        warm: Iterable[Published] = (),
        strata: Strata | None = None,
    ) -> None:
        found, self.warm_start = warm_start.fitting(spec, Space.of(spec), warm)
        self._strata = strata or Strata.of(spec)
        share = spec.search.model_copy(update={"trials": ceil(spec.search.trials / len(spec.systems))})
        self._samplers = {
            system: build(
                spec.model_copy(update={"systems": {system: alone(spec.systems, system)}, "search": share}),
                [record for record in found if record.system == system],
            )
            for system in spec.systems
        }

    def rebuild(self, records: Iterable[Published]) -> None:
        """Know these records and no others."""
        known = list(records)
        for system, sampler in self._samplers.items():
            sampler.rebuild([record for record in known if record.system == system])

    def tell(self, record: Published) -> None:
        """Know a trial's latest state."""
        self._samplers[record.system].tell(record)

    def point(self, number: int, index: int) -> dict[str, Scalar] | None:
        """The configuration of trial `number`: of the system and the budget whose turn it is at proposal `index`."""
        system, epsilon = self._strata.at(index)
        return self._samplers[system].point(number, index, epsilon)
