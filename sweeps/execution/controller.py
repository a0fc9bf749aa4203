"""Decides what is launched next. Knows neither Ray nor the clock. What came of it: `sweeps.execution.outcomes`.

The order of writes is the guarantee (see `sweeps.store`): the reservation is durable before a launch exists,
and a result is told to the proposer only after the store has it. Every method may be the last one that runs:
`recover` at the next start picks up from the store and the workers' own records.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sweeps.execution.limits import CONTROLLER_ENDED, NO_RETRY, OVERRAN, SharedBudget, seconds_left
from sweeps.execution.outcomes import Outcomes, TrialTable
from sweeps.execution.requests import next_point
from sweeps.execution.resume import Lost, find_resume_checkpoint
from sweeps.planning.plan import exhausted, infeasible_in_a_row, plan_proposal
from sweeps.privacy.release import Release
from sweeps.search.asha import Promote, between, next_rung, report_steps, stops
from sweeps.search.proposer import Proposer
from sweeps.search.space import Space
from sweeps.spec.sections import SweepSpec
from sweeps.store.lease import Lease
from sweeps.store.records import Proposal, Request, Reservation, SweepState, TrialRecord, TrialState
from sweeps.store.store import Store
from sweeps.store.workspace import check_store_not_stale
from trainables.publishing import measured
from trainables.registry import SYSTEMS
from trainables.system import DatasetSpec, Launch, PrivacyPlan, Refusal, Scalar, TrialRun
from trainables.worker.attempt import Attempt
from trainables.worker.files import Folder

# Proposals that are planned before their turn, in search of those that train together in one launch.

GROUP_LIMIT = 256
"""Largest number of trials in one launch."""
GROUP_AHEAD = 1024
"""How many upcoming proposals are planned in search of trials that train together."""


def can_batch(one: PrivacyPlan, other: PrivacyPlan) -> bool:
    """Whether two plans can train in one launch."""
    return bool(one.group) and (one.system, one.group) == (other.system, other.group)


def _of(proposal: Proposal) -> tuple[object, ...]:
    """A number alone is no proposal: a point that somebody enqueued moves those behind it by one."""
    return (proposal.number, *proposal.config.items())


@dataclass(slots=True)
class Controller:
    """Drives one sweep. Used from one thread.

    points    requests for points, as they are heard
    budget    that each attempt reserves from, where the sweep shares one with others over its population
    table    the trials as they stand
    outcomes  writes down what came of what was launched
    """

    store: Store
    lease: Lease
    sweep: str
    spec: SweepSpec
    facts: DatasetSpec
    proposer: Proposer
    trials: Folder
    calibrations: MutableMapping[str, float]
    budget: SharedBudget = field(default_factory=SharedBudget)
    launched: int = 0
    """Trials that were ever launched, enqueued ones aside: what `search.trials` counts."""
    points: deque[Request] = field(default_factory=deque)
    enqueued: int = 0
    """Trials that were ever launched for a point that somebody enqueued."""
    table: TrialTable = field(init=False)
    outcomes: Outcomes = field(init=False)
    _planned: dict[tuple[object, ...], PrivacyPlan | Refusal] = field(default_factory=dict)
    """Of proposals whose turn has not come."""
    _space: Space = field(init=False)
    _infeasible_in_a_row: int = 0

    def __post_init__(self) -> None:
        self._space, self.table = Space.of(self.spec), TrialTable(Release.of(self.spec), self.proposer)
        retries = self.spec.execution.retries
        self.outcomes = Outcomes(self.store, self.lease, self.sweep, self.trials, retries, self.table)

    # -- at start ---------------------------------------------------------------------------------------

    def recover(self) -> None:
        """Settle every attempt that an earlier controller left running, and queue what has to go on.

        Raises StoreOlder, before anything is settled, where workers left records of attempts that the store does not
        know.
        """
        self.table.records = {one.key: one for one in self.store.trials(self.sweep)}
        check_store_not_stale(self.sweep, self.spec, self.trials, lambda: self.store.trials(self.sweep))
        self.budget.open_filter(self.spec, self.table.records, self.store.ledger(self.sweep), self.calibrations)
        for record in list(self.table.records.values()):
            if record.state is TrialState.RUNNING:
                self.outcomes.conclude(record, reason=CONTROLLER_ENDED)
            elif record.state is TrialState.PLANNED:
                self.table.waiting.append(record.key)
        launched = [one for one in self.table.records.values() if one.state is not TrialState.INFEASIBLE]
        own = Counter(one.request is None for one in launched)
        self.launched, self.enqueued = own[True], own[False]
        self._infeasible_in_a_row = infeasible_in_a_row(self.table.records.values())
        self.proposer.rebuild(self.table.published())

    # -- what next --------------------------------------------------------------------------------------

    def has_work(self) -> bool:
        """Whether anything may still be launched (False spares a finished sweep the start of a cluster)."""
        if self.budget.is_final:
            return bool(self.table.waiting)
        promotion = next_rung(self.spec, self.table.published(), self.table.running)
        if self.table.waiting or isinstance(promotion, Promote) or self._point() is not None:
            return True
        return self.launched < self.spec.search.trials and not self._is_exhausted()

    def is_exhausted(self) -> bool:
        """Whether the space ran dry before all the trials were launched."""
        return self.launched < self.spec.search.trials and self._is_exhausted()

    def decide(self) -> Launch | SweepState | None:
        """The next launch, its reservation already durable; None to wait for what runs; or how the sweep ended."""
        if (launch := self._next()) is not None or self.table.running:
            return launch
        if self.budget.over:
            return SweepState.OUT_OF_BUDGET
        return SweepState.EXHAUSTED if self.is_exhausted() else SweepState.FINISHED

    def _next(self) -> Launch | None:
        """The next launch; None where there is none, or where the budget does not hold it."""
        while self.table.waiting and self.budget.lets_go_on:
            if (again := self._again()) is not None:
                return again
        while not self.budget.over and isinstance(
            promotion := next_rung(self.spec, self.table.published(), self.table.running), Promote
        ):
            member = self._relaunched(promotion.key, promotion.to_step)
            if member is not None:
                return self._launch([member])
        while not self.budget.over and (point := self._point()) is not None:
            if (launch := self._enqueued(*point)) is not None:
                return launch
        if self.budget.over or self.launched >= self.spec.search.trials:
            return None
        return self._propose()

    def _point(self) -> tuple[int, Mapping[str, Scalar]] | None:
        """What somebody enqueued and waits for its trial."""
        served = {one.request for one in self.table.records.values()} if self.points else ()
        return next_point(self.points, served, self._space)

    def _enqueued(self, request: int, config: Mapping[str, Scalar]) -> Launch | None:
        """The launch of a point that somebody enqueued; None where it is infeasible."""
        proposal = self.proposer.enqueue(request, config)
        if isinstance(plan := self._plan_of(proposal), Refusal):
            self._refused(proposal, plan)
            return None
        return self._launch_all([(proposal, plan)])

    def _propose(self) -> Launch | None:
        while not self._is_exhausted():
            proposal = self.proposer.propose()
            if proposal is None:
                return None
            plan = self._plan_of(proposal)
            if isinstance(plan, Refusal):
                self._refused(proposal, plan)
                self._infeasible_in_a_row += 1
                continue
            self._infeasible_in_a_row = 0
            left = self.spec.search.trials - self.launched
            ahead = list(self.proposer.upcoming(min(GROUP_AHEAD, left))) if plan.group else []
            planned = [(one, self._looked_at(one)) for one in ahead]
            alike = [(one, own) for one, own in planned if isinstance(own, PrivacyPlan) and can_batch(plan, own)]
            companions = alike[: min(GROUP_LIMIT, left) - 1]
            for companion, _ in companions:
                self.proposer.take(companion)
            return self._launch_all([(proposal, plan), *companions])
        return None

    def _plan_of(self, proposal: Proposal) -> PrivacyPlan | Refusal:
        """The plan of a proposal whose turn has come."""
        return self._planned.pop(_of(proposal), None) or self._plan(proposal)

    def _plan(self, one: Proposal) -> PrivacyPlan | Refusal:
        return plan_proposal(self.spec, one.config, self.facts, self.calibrations, number=one.number)

    def _looked_at(self, proposal: Proposal) -> PrivacyPlan | Refusal:
        """The plan of a proposal before its turn."""
        if (key := _of(proposal)) not in self._planned:
            self._planned[key] = self._plan(proposal)
        return self._planned[key]

    def _refused(self, proposal: Proposal, plan: Refusal) -> None:
        self.store.record_infeasible(self.lease, [(proposal, plan)])
        why: dict[str, Any] = {"violations": dict(plan.violations), "reason": plan.reason}
        self.table.changed(TrialRecord.of(self.sweep, proposal, TrialState.INFEASIBLE, **why))

    def _is_exhausted(self) -> bool:
        return exhausted(self.spec, len(self.table.records), self._infeasible_in_a_row)

    def _again(self) -> Launch | None:
        """The first trial that has to go on, and those that wait with it and train together with it.

        None when none of them can.
        """
        head, *others = self.table.waiting
        plan = self.table.plan_of(head)
        keys = [head, *(key for key in others if can_batch(plan, self.table.plan_of(key)))][:GROUP_LIMIT]
        members = []
        for key in keys:
            if not self.budget.lets_go_on:
                break
            self.table.waiting.remove(key)
            member = self._relaunched(key, self.store.ledger(self.sweep, key)[-1].to_step)
            if member is not None:
                members.append(member)
        return self._launch(members) if members else None

    def _relaunched(self, key: str, to_step: int) -> TrialRun | None:
        """The trial's next attempt, its reservation durable; None, and the trial has failed, where it cannot go on.

        None too where the population's budget does not hold it: then the trial waits for another session.
        """
        record = self.table.records[key]
        if seconds_left(self.spec.limits.trial_minutes, [self.store.attempts(self.sweep, key)]) == 0:
            self.store.charge_whole(self.lease, key, record.attempts)
            self._abandoned(record, OVERRAN)
            return None
        start = find_resume_checkpoint(self.store, self.lease, self.trials, record, to_step)
        if isinstance(start, Lost):
            reason = (
                f"its state after step {start.step} is missing or damaged in {self.trials.child(key).url}, and "
                "metrics that came of it have been published: another run of those steps would be a second release"
            )
            self._abandoned(record, reason)
            return None
        record = self.outcomes.add_to_curve(record, start.attempt, start.curve)
        reserved = self.budget.reserve(
            self.table.plan_of(key),
            start.step,
            to_step,
            lambda charge: self.store.relaunch(self.lease, key, start.step, to_step, charge),
        )
        if reserved is None:
            if self.budget.is_final and record.state is TrialState.PLANNED:
                self._abandoned(record, NO_RETRY)
            return None
        again = replace(record, state=TrialState.RUNNING, attempts=reserved.attempt)
        return self._reserved(again, reserved, start.attempt)

    def _abandoned(self, record: TrialRecord, reason: str) -> None:
        """The trial cannot go on."""
        self.store.abandon(self.lease, record.key, reason)
        self.table.changed(replace(record, state=TrialState.FAILED, reason=reason))

    def _launch_all(self, planned: Sequence[tuple[Proposal, PrivacyPlan]]) -> Launch | None:
        """Those that the population's budget holds, in their order; None where that is none of them."""
        members: list[TrialRun] = []
        for proposal, plan in planned:
            if (member := self._launched(proposal, plan)) is None:
                break
            members.append(member)
        return self._launch(members) if members else None

    def _launched(self, proposal: Proposal, plan: PrivacyPlan) -> TrialRun | None:
        to_step = stops(self.spec, plan.steps)[0]
        reserved = self.budget.reserve(
            plan, 0, to_step, lambda charge: self.store.launch(self.lease, proposal, plan, to_step, charge)
        )
        if reserved is None:
            return None
        if proposal.request is None:
            self.launched += 1
        else:
            self.enqueued += 1
        record = TrialRecord.of(self.sweep, proposal, TrialState.RUNNING, plan=plan, attempts=reserved.attempt)
        return self._reserved(record, reserved)

    def _reserved(self, record: TrialRecord, reserved: Reservation, resume_attempt: int = 0) -> TrialRun:
        """What a worker is given: its reservation is durable by now."""
        self.table.changed(record)
        Attempt.of(self.trials, record.key, reserved.attempt).reserve()
        self.table.running.add(record.key)
        plan = self.table.plan_of(record.key)
        return TrialRun(
            key=record.key,
            attempt=reserved.attempt,
            seed=record.seed,
            plan=plan,
            from_step=reserved.from_step,
            to_step=reserved.to_step,
            resume_attempt=resume_attempt,
            curve=between(report_steps(self.spec, SYSTEMS[plan.system], plan.steps), reserved),
        )

    def _launch(self, members: Sequence[TrialRun]) -> Launch:
        known = measured(self.spec.asked)
        measures = tuple(metric for metric in self.spec.asked if metric in known)
        earlier = (self.store.attempts(self.sweep, one.key)[:-1] if one.attempt > 1 else [] for one in members)
        return Launch(
            members=tuple(members),
            execution=self.spec.settings(),
            measures=measures,
            withheld=self.table.release.withheld,
            seconds=seconds_left(self.spec.limits.trial_minutes, earlier),
        )
