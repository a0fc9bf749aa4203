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
import random
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from dpcore.guarantee import Guarantee, Status
from sweeps.privacy.release import OPEN, Published
from sweeps.search.samplers import Independent, sampler, seed_of_trial
from sweeps.search.space import Space
from sweeps.spec.sections import SweepSpec
from sweeps.store.records import Extension, Proposal, TrialRecord, TrialState
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
        config: Mapping[str, Scalar] | None
        index = number - len(self._first) - bisect_left(self._enqueued, number)
        if number < len(self._first):
            config = self._first[number]
        elif self._learner is not None:
            config = self._learner.point(number, index)
        else:
            assert self._points is not None
            config = self._points.point(index)
        seed = seed_of_trial(self._spec.search.seed, number)
        return None if config is None else Proposal(number=number, config=config, seed=seed)

    def _skip_known(self) -> None:
        while self._next in self._known:
            self._next += 1


# The exam of a sampler: its duties, tried on results that are made up, and what it gets wrong, in words.
#
# The tests sit every sampler of the registry to it, and `sweeps check` one that is not this project's own:
#
#     assert not faults(load_spec({..., "search": {"sampler": "mylab.samplers:build", ...}}))

PROPOSALS = 12
"""More than most samplers draw at random before they learn (ten)."""
REFUSED = 5
"""Every so many of them is infeasible."""


def faults(spec: SweepSpec) -> list[str]:
    """What the sampler of `spec` gets wrong, one sentence each; nothing where it passes.

    - A proposal is a function of spec, number and results: a second run, and one that starts over from the records
      half-way, as after a crash, give the same.
    - It is a point of the space: of one system, with the knobs of that system and no others, each in its domain.
    - One that is independent gives the same points whatever the results are.

    Raises what the sampler raises.
    """
    space, first = Space.of(spec), []
    for number, config in enumerate(_run(spec)):
        if why := space.misfit(config):
            return [f"proposal {number} is no point of the space: {why}"]
        first.append(config)
    found = []
    if list(_run(spec)) != first:
        found.append(
            "it proposes something else when it is run again: it depends on more than seed, number and results"
        )
    if list(_run(spec, restart_at=PROPOSALS // 2)) != first:
        found.append("it proposes something else after a restart: it remembers what the records do not say")
    return found


def _run(spec: SweepSpec, restart_at: int = -1) -> Iterator[dict[str, Scalar]]:
    """The configurations of one trial after the other."""
    proposer = Proposer(spec)
    records: list[Published] = []
    for number in range(PROPOSALS):
        if number == restart_at:
            proposer = Proposer(spec)
            proposer.rebuild(records)
        proposal = proposer.propose()
        if proposal is None:
            return
        records.append(OPEN.published_alone(_made_up(spec, proposal)))
        proposer.tell(records[-1])
        yield dict(proposal.config)


def _made_up(spec: SweepSpec, proposal: Proposal) -> TrialRecord:
    refused = proposal.number % REFUSED == REFUSED - 1
    claim = Guarantee(
        epsilon=proposal.target_epsilon or 0.0,
        delta=spec.privacy.delta,
        adjacency=spec.privacy.adjacency,
        accountant="none",
        status=Status.NO_CLAIM,
        theorem="made up",
    )
    return TrialRecord.of(
        spec.name,
        proposal,
        TrialState.INFEASIBLE if refused else TrialState.COMPLETE,
        violations={"made_up": 0.5} if refused else {},
        metrics={} if refused else {one.metric: _unit(one.metric, proposal) for one in spec.objectives},
        guarantee=None if refused else claim,
        step=0 if refused else 1,
    )


def _unit(metric: str, proposal: Proposal) -> float:
    """A number in [0, 1) that every run makes up alike."""
    return random.Random(f"{metric} {sorted(proposal.config.items())}").random()
