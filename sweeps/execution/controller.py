"""Decides what is launched next, and writes down what came of it. Knows neither Ray nor the clock.

The order of writes is the guarantee (see `sweeps.store`): the reservation is durable before a launch exists, and a
result is told to the proposer only after the store has it. Whatever ends an attempt, it is fenced first, and charged by
what its own records prove. Every method may be the last one that runs: `recover` at the next start picks up from the
store and the workers' own records.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from sweeps.execution.limits import CONTROLLER_ENDED, NO_RETRY, OVERRAN, SharedBudget, seconds_left, worker_losses
from sweeps.execution.requests import next_point
from sweeps.planning.plan import exhausted, infeasible_in_a_row, plan_proposal
from sweeps.privacy.release import Published, Release
from sweeps.search.asha import Promote, between, next_rung, report_steps, stops
from sweeps.search.proposer import Proposer
from sweeps.search.space import Space
from sweeps.spec.sections import SweepSpec
from sweeps.store.lease import Lease
from sweeps.store.records import (
    AttemptRecord,
    Proposal,
    Request,
    Reservation,
    Settlement,
    SweepState,
    TrialRecord,
    TrialState,
)
from sweeps.store.store import Store
from sweeps.store.workspace import check_store_not_stale
from trainables.publishing import Undeclared, measured
from trainables.registry import SYSTEMS
from trainables.system import DatasetSpec, Launch, PrivacyPlan, Refusal, Scalar, TrialRun
from trainables.worker.attempt import (
    NODE_LEAVES,
    Attempt,
    Curve,
    Progress,
    RecordsUnwritable,
    Recovered,
    TrialResult,
    latest_checkpoint,
)
from trainables.worker.files import Damaged, Folder

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


def doubted(reason: str, left: Recovered) -> str:
    """Why an attempt ended and, where its records did not agree, why all of it is charged."""
    if not left.doubt or left.doubt in reason:
        return reason
    return f"{reason}. Its whole reservation is charged: {left.doubt}"


class Start(NamedTuple):
    """Where an attempt begins.

    attempt  whose checkpoint it goes on from; 0: from scratch
    step     of that checkpoint
    curve    what that attempt had told by then
    """

    attempt: int
    step: int
    curve: Curve


@dataclass(slots=True)
class Controller:
    """Drives one sweep. Used from one thread.

    trials    folder of the workers' own records
    budget    that each attempt reserves from, where the sweep shares one with others over its population
    launched  trials that were ever launched, enqueued ones aside: what `search.trials` counts
    points    requests for points, as they are heard
    enqueued  trials that were ever launched for a point that somebody enqueued
    on_change  called after each committed change, with the trial's record; for progress display only
    release   what may leave the trials: asked before anything of a result is written or told
    records   the trials as they stand, by key: what the store holds by now, and what was told of it
    running   keys of trials whose launch is in flight
    waiting   keys of trials that are to be launched again, the first one first
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
    points: deque[Request] = field(default_factory=deque)
    enqueued: int = 0
    on_change: Callable[[Published], None] = lambda record: None
    release: Release = field(init=False)
    records: dict[str, TrialRecord] = field(default_factory=dict)
    running: set[str] = field(default_factory=set)
    waiting: list[str] = field(default_factory=list)
    _planned: dict[tuple[object, ...], PrivacyPlan | Refusal] = field(default_factory=dict)
    """Of proposals whose turn has not come."""
    _space: Space = field(init=False)
    _infeasible_in_a_row: int = 0
    _losses: Counter[str] | None = None
    """Losses of each trial's worker, earlier controllers' included; None until the first one of this controller."""

    def __post_init__(self) -> None:
        self._space, self.release = Space.of(self.spec), Release.of(self.spec)

    def plan_of(self, key: str) -> PrivacyPlan:
        """Of a trial that was launched."""
        plan = self.records[key].plan
        assert plan is not None
        return plan

    def changed(self, record: TrialRecord) -> None:
        """Know a trial's latest state, and tell it. Last of all: the store has it by now."""
        self.records[record.key] = record
        seen = self.release.policy.published_alone(record)
        self.proposer.tell(seen)
        self.on_change(seen)

    def published(self) -> list[Published]:
        """The trials as the world may see them while the sweep runs: all that steers it."""
        return self.release.policy.published(self.records.values())

    # -- at start ---------------------------------------------------------------------------------------

    def recover(self) -> None:
        """Settle every attempt that an earlier controller left running, and queue what has to go on.

        Raises StoreOlder, before anything is settled, where workers left records of attempts that the store does not
        know.
        """
        self.records = {one.key: one for one in self.store.trials(self.sweep)}
        check_store_not_stale(self.sweep, self.spec, self.trials, lambda: self.store.trials(self.sweep))
        self.budget.open_filter(self.spec, self.records, self.store.ledger(self.sweep), self.calibrations)
        for record in list(self.records.values()):
            if record.state is TrialState.RUNNING:
                self.conclude(record, reason=CONTROLLER_ENDED)
            elif record.state is TrialState.PLANNED:
                self.waiting.append(record.key)
        launched = [one for one in self.records.values() if one.state is not TrialState.INFEASIBLE]
        own = Counter(one.request is None for one in launched)
        self.launched, self.enqueued = own[True], own[False]
        self._infeasible_in_a_row = infeasible_in_a_row(self.records.values())
        self.proposer.rebuild(self.published())

    # -- what next --------------------------------------------------------------------------------------

    def has_work(self) -> bool:
        """Whether anything may still be launched (False spares a finished sweep the start of a cluster)."""
        if self.budget.is_final:
            return bool(self.waiting)
        promotion = next_rung(self.spec, self.published(), self.running)
        if self.waiting or isinstance(promotion, Promote) or self._point() is not None:
            return True
        return self.launched < self.spec.search.trials and not self._is_exhausted()

    def is_exhausted(self) -> bool:
        """Whether the space ran dry before all the trials were launched."""
        return self.launched < self.spec.search.trials and self._is_exhausted()

    def decide(self) -> Launch | SweepState | None:
        """The next launch, its reservation already durable; None to wait for what runs; or how the sweep ended."""
        if (launch := self._next()) is not None or self.running:
            return launch
        if self.budget.over:
            return SweepState.OUT_OF_BUDGET
        return SweepState.EXHAUSTED if self.is_exhausted() else SweepState.FINISHED

    def _next(self) -> Launch | None:
        """The next launch; None where there is none, or where the budget does not hold it."""
        while self.waiting and self.budget.lets_go_on:
            if (again := self._again()) is not None:
                return again
        while not self.budget.over and isinstance(
            promotion := next_rung(self.spec, self.published(), self.running), Promote
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
        served = {one.request for one in self.records.values()} if self.points else ()
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
        self.store.record_infeasible(self.lease, proposal, plan)
        why: dict[str, Any] = {"violations": dict(plan.violations), "reason": plan.reason}
        self.changed(TrialRecord.of(self.sweep, proposal, TrialState.INFEASIBLE, **why))

    def _is_exhausted(self) -> bool:
        return exhausted(self.spec, len(self.records), self._infeasible_in_a_row)

    def _again(self) -> Launch | None:
        """The first trial that has to go on, and those that wait with it and train together with it.

        None when none of them can.
        """
        head, *others = self.waiting
        plan = self.plan_of(head)
        keys = [head, *(key for key in others if can_batch(plan, self.plan_of(key)))][:GROUP_LIMIT]
        members = []
        for key in keys:
            if not self.budget.lets_go_on:
                break
            self.waiting.remove(key)
            member = self._relaunched(key, self.store.ledger(self.sweep, key)[-1].to_step)
            if member is not None:
                members.append(member)
        return self._launch(members) if members else None

    def _relaunched(self, key: str, to_step: int) -> TrialRun | None:
        """The trial's next attempt, its reservation durable; None, and the trial has failed, where it cannot go on.

        None too where the population's budget does not hold it: then the trial waits for another session.
        """
        record, attempts = self.records[key], self.store.attempts(self.sweep, key)
        if seconds_left(self.spec.limits.trial_minutes, [attempts]) == 0:
            self.store.charge_whole(self.lease, key, record.attempts)
            self._abandoned(record, OVERRAN)
            return None
        start = self._start(record, attempts, to_step)
        if isinstance(start, str):
            self._abandoned(record, start)
            return None
        record = self.add_to_curve(record, start.attempt, start.curve)
        reserved = self.budget.reserve(
            self.plan_of(key),
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

    def _start(self, record: TrialRecord, attempts: Sequence[AttemptRecord], to_step: int) -> Start | str:
        """What the next attempt goes on from; why nothing may go on, where metrics of a state that is gone are known.

        Published metrics belong to the path of the attempt that reported them: no state before them, and none of an
        earlier attempt, leads on from there.
        """
        published = self.store.curves(self.sweep, [record.key])
        # The last one: whoever told of later steps went on from a state after all the others.
        attempt, step = (published[-1].attempt, published[-1].step) if published else (0, 0)
        later = [one.attempt for one in attempts if one.attempt >= attempt]
        found = latest_checkpoint(self.trials, record.key, later, at_least=step, below=to_step)
        if found is None and published:
            return (
                f"its state after step {step} is missing or damaged in {self.trials.child(record.key).url}, and "
                "metrics that came of it have been published: another run of those steps would be a second release"
            )
        if found is None:
            return Start(0, 0, {})
        number, checkpoint = found
        executed = attempts[number - 1].executed_to
        if executed is not None and executed < checkpoint.step:
            # It came to light after its attempt was settled: a worker that nobody saw went on.
            self.store.charge_whole(self.lease, record.key, number)
        return Start(number, checkpoint.step, checkpoint.curve)

    def _abandoned(self, record: TrialRecord, reason: str) -> None:
        """The trial cannot go on."""
        self.store.abandon(self.lease, record.key, reason)
        self.changed(replace(record, state=TrialState.FAILED, reason=reason))

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
        self.changed(record)
        Attempt.of(self.trials, record.key, reserved.attempt).reserve()
        self.running.add(record.key)
        plan = self.plan_of(record.key)
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
            withheld=self.release.withheld,
            seconds=seconds_left(self.spec.limits.trial_minutes, earlier),
        )

    # -- what came of it --------------------------------------------------------------------------------

    def told(self, group: Launch, content: Mapping[str, Any]) -> None:
        """A member of a launch that goes on told of new points of its curve."""
        member = next(one for one in group.members if one.key == content["key"])
        # Whatever is wrong with it, the end of the launch says.
        with suppress(Damaged, Undeclared):
            told = Progress.from_dict(content, from_step=member.from_step, to_step=member.to_step)
            self.records[member.key] = self.add_to_curve(self.records[member.key], member.attempt, told.curve)

    def add_to_curve(self, record: TrialRecord, attempt: int, curve: Curve) -> TrialRecord:
        """The trial, with a claim once anything is told of it. Neither sampler nor rungs hear of a curve."""
        plan = self.plan_of(record.key)
        leaving = self._leaving(curve, plan)
        if not leaving:
            return record
        self.store.add_to_curve(self.lease, record.key, attempt, leaving, self.release.policy.at_once)
        return replace(record, guarantee=plan.guarantee)

    def finished(self, group: Launch, results: list[Mapping[str, Any]]) -> None:
        """The launch came back with one result (or error) per member.

        Raises RecordsUnwritable, after settling, when a worker could not write its records: every other launch would
        meet the same, so the sweep stops.
        """
        unwritable: list[str] = []
        for member, result in zip(group.members, results, strict=True):
            self.running.discard(member.key)
            record = self.records[member.key]
            if "unwritable" in result:
                self.conclude(record, str(result["unwritable"]))
                unwritable.append(f"{member.key}: {result['unwritable']}")
            elif "error" in result:
                self._fail(record, str(result["error"]))
            elif "overran" in result:
                left, last = self._recovered(record), self.store.ledger(self.sweep, record.key)[-1]
                # Whenever the clock stops it, it is charged for all that it might have run (`sweeps.execution.limits`).
                self._settle_failed(record, replace(left, executed_to=last.to_step), OVERRAN)
            elif "damaged" in result:
                self._lost(record, str(result["damaged"]))
            else:
                try:
                    reported = TrialResult.of(result, key=member.key, attempt=member.attempt, step=member.to_step)
                except Damaged as damaged:
                    self._fail(record, str(damaged))
                else:
                    self._commit(record, reported)
        if unwritable:
            more = f" (and {len(unwritable) - 1} more)" if len(unwritable) > 1 else ""
            raise self._unwritable(f"{unwritable[0]}{more}")

    def _unwritable(self, what: str) -> RecordsUnwritable:
        return RecordsUnwritable(
            f"{what}. Nothing is lost: free space or make {self.trials.url} writable for every worker, then go on with "
            f"`sweeps resume {self.sweep}`."
        )

    def lost(self, group: Launch, reason: str) -> None:
        """The launch's worker is gone: settle each member by its own records, and try again within limits.

        A member that had its result is done: nothing of it was lost.
        """
        for member in group.members:
            self.running.discard(member.key)
            self._lost(self.records[member.key], reason)

    def _lost(self, record: TrialRecord, reason: str) -> None:
        if self._losses is None:
            self._losses = worker_losses(self.store.attempts(self.sweep))
        losses = self._losses[record.key] + 1
        if self.conclude(record, reason, losses):
            self._losses[record.key] = losses

    def conclude(self, record: TrialRecord, reason: str, losses: int = 0) -> bool:
        """Fence the attempt; commit its result if it got that far, else charge what it left proves, and queue it.

        losses  of its worker, with this one: too many, and the trial fails. Returns whether its worker was lost.
        """
        left = self._recovered(record)
        if left.result is not None:
            self._commit(record, left.result)
            return False
        if left.moved:
            self._relaunch_lost(record, left, NODE_LEAVES)
            return False
        if losses > self.spec.execution.retries:
            why = f"its worker was lost {losses} times ({reason}); more than execution.retries allow"
            self._settle_failed(record, left, why)
            return True
        self._relaunch_lost(record, left, reason)
        return True

    def _relaunch_lost(self, record: TrialRecord, left: Recovered, reason: str) -> None:
        self.store.lose(self.lease, record.key, record.attempts, left.executed_to, doubted(reason, left))
        self.waiting.append(record.key)
        self.changed(replace(record, state=TrialState.PLANNED))

    def _leaving(self, curve: Curve, plan: PrivacyPlan) -> Curve:
        """What the store keeps of a curve: what may leave, and of that what is finite. Raises Undeclared."""
        found = {}
        for step, metrics in curve.items():
            leaving = self.release.metrics(metrics, plan.system, plan.config)
            found[step] = {name: value for name, value in leaving.items() if math.isfinite(value)}
        return {step: metrics for step, metrics in found.items() if metrics}

    def _settlement(self, result: TrialResult, plan: PrivacyPlan) -> Settlement | str:
        """What the store keeps of a trial's result; why it is none, with undeclared metrics and any not finite."""
        try:
            metrics = self.release.metrics(result.metrics, plan.system, plan.config)
            curve = self._leaving(result.curve, plan)
        except Undeclared as undeclared:
            return str(undeclared)
        if broken := [f"{name}={value}" for name, value in metrics.items() if not math.isfinite(value)]:
            return f"{', '.join(broken)}: expected finite metrics. Lower the learning rate or narrow the space."
        # Wherever it was stopped, it claims its whole plan (`sweeps.privacy.charge`).
        claim = plan.guarantee
        own = {"epsilon": claim.epsilon, "seconds": result.seconds, "peak_memory_mb": result.peak_memory_mb}
        return Settlement(
            executed_to=result.step,
            step=result.step,
            metrics=metrics | own,
            guarantee=claim,
            seconds=result.seconds,
            announced=self.release.policy.at_once,
            curve=curve,
        )

    def _commit(self, record: TrialRecord, result: TrialResult) -> None:
        came = self._settlement(result, self.plan_of(record.key))
        if isinstance(came, str):
            with suppress(Undeclared):
                # How it came to that may be seen.
                record = self.add_to_curve(record, result.attempt, result.curve)
            self._fail(record, came)
            return
        self.store.settle(self.lease, record.key, result.attempt, came)
        done = replace(
            record, state=TrialState.COMPLETE, metrics=came.metrics, guarantee=came.guarantee, step=came.step
        )
        self.changed(replace(done, reports={**record.reports, came.step: came.metrics}))
        # What cannot be deleted only takes space; the next write says why.
        with suppress(OSError):
            Attempt.of(self.trials, record.key, result.attempt).discard(but=came.step)
            for earlier in range(1, result.attempt):
                Attempt.of(self.trials, record.key, earlier).discard()

    def _fail(self, record: TrialRecord, reason: str) -> None:
        self._settle_failed(record, self._recovered(record), reason)

    def _settle_failed(self, record: TrialRecord, left: Recovered, reason: str) -> None:
        reason = doubted(reason, left)
        self.store.fail(self.lease, record.key, record.attempts, left.executed_to, reason)
        self.changed(replace(record, state=TrialState.FAILED, reason=reason))

    def _recovered(self, record: TrialRecord) -> Recovered:
        entry = self.store.ledger(self.sweep, record.key)[-1]
        try:
            return Attempt.of(self.trials, record.key, record.attempts).recover(entry.from_step, entry.to_step)
        except OSError as error:
            # Without the fence nothing may be settled: the attempt stays open until a later start.
            raise self._unwritable(f"{record.key}: its records cannot be settled: {error}") from error

    def settle_running(self, reason: str) -> None:
        """Settle every launch in flight by its own records; its workers are gone. It goes on at the next start."""
        # The store is asked, not this object's memory: an interruption may have come between the two.
        for record in self.store.trials(self.sweep, states=[TrialState.RUNNING]):
            self.conclude(record, reason)
        self.running.clear()

    def fence_running(self) -> None:
        """Stop every worker at the end of its interval without a word to the store, which is gone."""
        for key in self.running:
            with suppress(OSError):
                Attempt.of(self.trials, key, self.records[key].attempts).fence()
