"""Proposes points. Nothing here is stored: a proposer is rebuilt from the trial records at every start.

The proposal with number k is a pure function of the spec, the seed, k and the records told so far. Independent
samplers (random, grid) look at no record, so they are exact at any concurrency and after any crash; the others
repeat themselves whenever the same records are known, which at one trial at a time is always.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Protocol

import numpy as np

from sweeps.records import Proposal, TrialRecord
from sweeps.search.history import WarmStart
from sweeps.search.seeds import ORDER, POINT, seed_of_trial, sequence
from sweeps.search.space import Space
from sweeps.search.strata import Strata
from sweeps.spec.model import SweepSpec
from trainables.system import Scalar


class Sampler(Protocol):
    """Where configurations come from."""

    warm_start: WarmStart

    def rebuild(self, records: Iterable[TrialRecord]) -> None:
        """Forget everything, then know `records`."""
        ...

    def point(self, number: int) -> dict[str, Scalar] | None:
        """The configuration of proposal `number`; None when there are no more."""
        ...

    def tell(self, record: TrialRecord) -> None:
        """Know the latest state of one trial."""
        ...


class _Independent:
    """A sampler that learns nothing."""

    warm_start = WarmStart()

    def rebuild(self, records: Iterable[TrialRecord]) -> None:
        """Nothing to know."""

    def tell(self, record: TrialRecord) -> None:
        """Nothing to learn."""


class RandomSampler(_Independent):
    """Independent draws from the prior of the space."""

    def __init__(self, spec: SweepSpec) -> None:
        self._space, self._seed = Space.of(spec), spec.search.seed
        self._strata = Strata.of(spec) if spec.search.stratified else None

    def point(self, number: int) -> dict[str, Scalar] | None:
        """Draw `number`."""
        stratum = None if self._strata is None else self._strata.at(number)
        return self._space.draw(np.random.Generator(np.random.PCG64(sequence(self._seed, number, POINT))), stratum)


class GridSampler(_Independent):
    """Every grid point `repeats` times, in an order shuffled by the seed, so that a sweep cut short has seen all
    corners: one round after the other."""

    def __init__(self, spec: SweepSpec) -> None:
        self._space, self._repeats = Space.of(spec), spec.search.repeats
        generator = np.random.Generator(np.random.PCG64(sequence(spec.search.seed, 0, ORDER)))
        self._order = generator.permutation(self._space.grid_size())

    def point(self, number: int) -> dict[str, Scalar] | None:
        """Point `number` of the shuffled grid, round after round."""
        size = len(self._order)
        return self._space.grid_point(int(self._order[number % size])) if number < self._repeats * size else None


def _sampler(spec: SweepSpec, warm: Iterable[TrialRecord]) -> Sampler:
    match spec.search.sampler:
        case "random":
            return RandomSampler(spec)
        case "grid":
            return GridSampler(spec)
        case _:
            # A quarter of a second of imports that independent samplers do without.
            from sweeps.search.optuna_sampler import OptunaSampler
            from sweeps.search.stratified import StratifiedSampler

            return StratifiedSampler(spec, warm) if spec.search.stratified else OptunaSampler(spec, warm)


class Proposer:
    """Numbers the points of a sampler. Used from one thread.

    warm  records of an earlier sweep, to learn from where its configurations fit (`warm_start` says how many)
    """

    def __init__(self, spec: SweepSpec, warm: Iterable[TrialRecord] = ()) -> None:
        self._spec = spec
        self._sampler = _sampler(spec, warm)
        self._known: set[int] = set()
        self._next = 0

    @property
    def warm_start(self) -> WarmStart:
        """How much of the earlier sweep could be used."""
        return self._sampler.warm_start

    def rebuild(self, records: Iterable[TrialRecord]) -> None:
        """Start from `records` alone: running, planned, finished, failed and infeasible ones."""
        known = sorted(records, key=lambda record: record.number)
        self._known, self._next = {record.number for record in known}, 0
        self._skip_known()
        self._sampler.rebuild(known)

    def propose(self) -> Proposal | None:
        """The next point, to be planned and then told as running or infeasible; None when a grid is used up."""
        proposal = self._proposal(self._next)
        if proposal is not None:
            self.take(proposal)
        return proposal

    def upcoming(self, count: int) -> Iterator[Proposal]:
        """Up to `count` points after those proposed, none of them taken yet. A sampler that learns has none: its next
        point depends on results."""
        if not isinstance(self._sampler, _Independent):
            return
        numbers = (number for number in itertools.count(self._next) if number not in self._known)
        for number in itertools.islice(numbers, count):
            proposal = self._proposal(number)
            if proposal is None:
                return
            yield proposal

    def take(self, proposal: Proposal) -> None:
        """Count an upcoming point as proposed: it is launched before its turn."""
        self._known.add(proposal.number)
        self._skip_known()

    def tell(self, record: TrialRecord) -> None:
        """Know a trial's latest state; a second telling of the same state changes nothing."""
        self._known.add(record.number)
        self._skip_known()
        self._sampler.tell(record)

    def _proposal(self, number: int) -> Proposal | None:
        config = self._sampler.point(number)
        if config is None:
            return None
        return Proposal(number=number, config=config, seed=seed_of_trial(self._spec.search.seed, number))

    def _skip_known(self) -> None:
        while self._next in self._known:
            self._next += 1
