"""Proposes points. Nothing here is stored: a proposer is rebuilt from the trial records at every start.

Trials are numbered in one row: first the points of `search.first`, then the sampler's own and those that people
enqueued, as they came. A sampler counts its own alone (`index`): it leaves out no point of a grid, and no turn.
An enqueued point gets a number above every known one, so that what was proposed before keeps its index.

The proposal with number k is a pure function of the spec, the seed, k and the records told so far. Independent
samplers (random, grid) look at no record, so they are exact at any concurrency and after any crash; the others
repeat themselves whenever the same records are known, which at one trial at a time is always.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import ceil
from typing import Protocol

from dpcore.checks import InvalidValue
from sweeps.privacy.release import Published
from sweeps.search.samplers import METHODS, Automatic, Independent, Learning, Points, learning, one_of, sampler
from sweeps.search.space import Space
from sweeps.search.turns import Turns, seed_of_trial, widened
from sweeps.search.warm_start import WarmStart, fitting
from sweeps.spec.hyperparameters import alone
from sweeps.spec.sections import SweepSpec
from sweeps.store.records import Extension, Proposal
from trainables.system import Scalar


class Learner(Protocol):
    """A sampler that is told results."""

    warm_start: WarmStart

    def rebuild(self, records: Iterable[Published]) -> None:
        """Forget everything, then know `records`."""
        ...

    def tell(self, record: Published) -> None:
        """Know the latest state of one trial."""
        ...

    def point(self, number: int, index: int) -> dict[str, Scalar] | None:
        """The configuration of trial `number`, the sampler's own proposal `index`."""
        ...


class AtBudget(Protocol):
    """A sampler that learns, and proposes at a budget that it is given."""

    warm_start: WarmStart

    def rebuild(self, records: Iterable[Published]) -> None: ...
    def tell(self, record: Published) -> None: ...
    def point(self, number: int, index: int, epsilon: float) -> dict[str, Scalar] | None: ...


class BudgetsInTurn:
    """A sampler of all systems of a sweep, which is given its budgets in turn."""

    def __init__(self, inner: AtBudget, turns: Turns) -> None:
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
        return self._inner.point(number, index, self._turns.at(index)[1])


class StratifiedSampler:
    """A sampler that learns for each system by itself, from that system's trials alone: for comparing systems.

    One sampler over all of them gives its trials to the system that leads, and the others' best is then the best of
    one or two draws.

    build  makes it, of the system's own spec and earlier trials
    """

    def __init__(
        self,
        build: Callable[[SweepSpec, Iterable[Published]], AtBudget],
        spec: SweepSpec,
        warm: Iterable[Published],
        turns: Turns,
    ) -> None:
        found, self.warm_start = fitting(spec, Space.of(spec), warm)
        self._turns = turns
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
        for system, own in self._samplers.items():
            own.rebuild([record for record in known if record.system == system])

    def tell(self, record: Published) -> None:
        """Know a trial's latest state."""
        self._samplers[record.system].tell(record)

    def point(self, number: int, index: int) -> dict[str, Scalar] | None:
        """The configuration of trial `number`: of the system and the budget whose turn it is at proposal `index`."""
        system, epsilon = self._turns.at(index)
        assert system is not None
        return self._samplers[system].point(number, index, epsilon)


def _learner(
    entry: Learning | Automatic, began: SweepSpec, warm: Iterable[Published], extensions: Sequence[Extension]
) -> Learner:
    # A quarter of a second of imports that independent samplers do without.
    from sweeps.search.optuna_sampler import OptunaSampler

    spec, turns = widened(began, extensions), Turns.of(began, extensions)
    in_turn = isinstance(entry, Automatic)
    if isinstance(entry, Automatic):
        if spec.search.resolved is None:
            expected = f"a method, one of {one_of(METHODS)}, which is chosen when a sweep begins"
            raise InvalidValue("search.resolved", None, expected)
        entry = learning(spec.search.resolved)
    method = entry

    def build(spec: SweepSpec, warm: Iterable[Published]) -> OptunaSampler:
        return OptunaSampler(method, spec, warm)

    if spec.search.stratified:
        return StratifiedSampler(build, spec, warm, turns)
    return BudgetsInTurn(build(spec, warm), turns) if in_turn else build(spec, warm)


class Proposer:
    """Numbers known points and those of a sampler. Used from one thread.

    spec        that the sweep began with
    warm        records of an earlier sweep, to learn from where its configurations fit (`warm_start` says how many)
    extensions  of the sweep: budgets that it was given later
    """

    def __init__(self, spec: SweepSpec, warm: Iterable[Published] = (), extensions: Sequence[Extension] = ()) -> None:
        self._spec = spec
        entry = sampler(spec.search.sampler)
        self._learner: Learner | None = None
        """None: no result reaches the sampler, so none can have chosen what it proposes."""
        self._points: Points | None = None
        if isinstance(entry, Independent):
            self._points = entry.points(spec, extensions)
        else:
            self._learner = _learner(entry, spec, warm, extensions)
        self._first = spec.search.first
        self._enqueued: list[int] = []
        """Numbers of enqueued points, ascending."""
        self._known: set[int] = set()
        self._next = 0

    @property
    def warm_start(self) -> WarmStart:
        """How much of the earlier sweep could be used."""
        return WarmStart() if self._learner is None else self._learner.warm_start

    def rebuild(self, records: Iterable[Published]) -> None:
        """Start from `records` alone: running, planned, finished, failed and infeasible ones."""
        known = sorted(records, key=lambda record: record.number)
        self._known, self._next = {record.number for record in known}, 0
        self._enqueued = [record.number for record in known if record.request is not None]
        self._skip_known()
        if self._learner is not None:
            self._learner.rebuild(known)

    def propose(self) -> Proposal | None:
        """The next point, to be planned and then told as running or infeasible; None when a grid is used up."""
        proposal = self._proposal(self._next)
        if proposal is not None:
            self.take(proposal)
        return proposal

    def enqueue(self, request: int, config: Mapping[str, Scalar]) -> Proposal:
        """The trial of a point that a request asked for."""
        number = max(max(self._known, default=-1), len(self._first) - 1) + 1
        self._enqueued.append(number)
        seed = seed_of_trial(self._spec.search.seed, number)
        proposal = Proposal(number=number, config=config, seed=seed, request=request)
        self.take(proposal)
        return proposal

    def upcoming(self, count: int) -> Iterator[Proposal]:
        """Up to `count` points after those proposed, none of them taken yet. A sampler that learns has none: its next
        point depends on results."""
        if self._learner is not None:
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

    def tell(self, record: Published) -> None:
        """Know a trial's latest state; a second telling of the same state changes nothing."""
        self._known.add(record.number)
        self._skip_known()
        if self._learner is not None:
            self._learner.tell(record)

    def _proposal(self, number: int) -> Proposal | None:
        config = self._config(number)
        if config is None:
            return None
        return Proposal(number=number, config=config, seed=seed_of_trial(self._spec.search.seed, number))

    def _config(self, number: int) -> Mapping[str, Scalar] | None:
        if number < len(self._first):
            return self._first[number]
        index = number - len(self._first) - bisect_left(self._enqueued, number)
        if self._learner is not None:
            return self._learner.point(number, index)
        assert self._points is not None
        return self._points.point(index)

    def _skip_known(self) -> None:
        while self._next in self._known:
            self._next += 1
