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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from sweeps.privacy.release import Published
from sweeps.search.samplers import Independent, sampler, seed_of_trial
from sweeps.search.warm_start import WarmStart
from sweeps.spec.sections import SweepSpec
from sweeps.store.records import Extension, Proposal
from trainables.system import Scalar

if TYPE_CHECKING:
    from sweeps.search.optuna_sampler import Learner


class Proposer:
    """Numbers known points and those of a sampler. Used from one thread.

    spec        that the sweep began with
    warm        records of an earlier sweep, to learn from where its configurations fit (`warm_start` says how many)
    extensions  of the sweep: budgets that it was given later
    """

    def __init__(self, spec: SweepSpec, warm: Iterable[Published] = (), extensions: Sequence[Extension] = ()) -> None:
        self._spec = spec
        entry = sampler(spec.search.sampler)
        self._points = entry.points(spec, extensions) if isinstance(entry, Independent) else None
        self._learner: Learner | None = None
        """None: no result reaches the sampler, so none can have chosen what it proposes."""
        if self._points is None:
            # A quarter of a second of imports that independent samplers do without.
            from sweeps.search.optuna_sampler import Learner

            self._learner = Learner(spec, warm, extensions)
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
