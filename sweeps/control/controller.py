"""Decides what is launched next and writes down what came of it. Knows neither Ray nor the clock.

The order of writes is the guarantee (see `sweeps.store`): the reservation is durable before a launch exists,
and a result is told to the proposer only after the store has it. Every method may be the last one that runs:
`recover` at the next start picks up from the store and the workers' own records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from sweeps.control.decisions import Decision, Done, Wait
from sweeps.control.going_on import Lost, start_of_attempt
from sweeps.control.known_points import PointQueue
from sweeps.control.lost_attempts import CONTROLLER_ENDED, worker_losses
from sweeps.control.newest_store import check_newest
from sweeps.control.planning import exhausted, infeasible_in_a_row, plan_proposal
from sweeps.control.plans_ahead import GROUP_AHEAD, GROUP_LIMIT, PlansAhead, together
from sweeps.control.settlements import NoResult, curve_of, doubted, settlement_of
from sweeps.control.shared_budget import NO_RETRY, SharedBudget
from sweeps.control.stopped_trials import claim_of
from sweeps.control.time_limits import OVERRAN, seconds_left
from sweeps.records import AttemptRecord, Proposal, Reservation, TrialRecord, TrialState
from sweeps.release.policy import Release
from sweeps.release.published import Published
from sweeps.search import Proposer
from sweeps.search.curve_steps import between, report_steps
from sweeps.search.rungs import Promote, first_stop, next_rung
from sweeps.search.space import Space
from sweeps.spec import SweepSpec
from sweeps.store import Lease, Store
from trainables.measures.objectives import measured
from trainables.publishing import Undeclared
from trainables.registry import SYSTEMS
from trainables.system import Member, PrivacyPlan, PublicFacts, Refusal, Scalar, TrialGroup
from trainables.worker.attempt import NODE_LEAVES, Attempt, RecordsUnwritable, Recovered
from trainables.worker.files import Folder, NotAFolder
from trainables.worker.results import Curve, Told, TrialResult
from trainables.worker.sealed import Damaged


@dataclass(slots=True)
class Controller:
    """Drives one sweep. Used from one thread.

    on_change  called after each committed change, with the trial's record; for progress display only
    budget     that each attempt reserves from, where the sweep shares one with others over its population
    """

    store: Store
    lease: Lease
    sweep: str
    spec: SweepSpec
    facts: PublicFacts
    proposer: Proposer
    trials: Folder
    calibrations: MutableMapping[str, float]
    on_change: Callable[[Published], None] = lambda record: None
    budget: SharedBudget = field(default_factory=SharedBudget)
    records: dict[str, TrialRecord] = field(default_factory=dict)
    running: set[str] = field(default_factory=set)
    _relaunch: list[str] = field(default_factory=list)
    _losses: Counter[str] | None = None
    """Losses of each trial's worker, earlier controllers' included; None until the first one of this controller."""
    launched: int = 0
    """Trials that were ever launched, enqueued ones aside: what `search.trials` counts."""
    points: PointQueue = field(default_factory=PointQueue)
    enqueued: int = 0
    """Trials that were ever launched for a point that somebody enqueued."""
    _plans: PlansAhead = field(init=False)
    _space: Space = field(init=False)
    _release: Release = field(init=False)
    """What may leave the trials: asked before anything of a result is written or told."""
    _infeasible_in_a_row: int = 0
    _exhausted: bool = False

    def __post_init__(self) -> None:
        self._release, self._space = Release.of(self.spec), Space.of(self.spec)
        self._plans = PlansAhead(
            lambda one: plan_proposal(self.spec, one.config, self.facts, self.calibrations, number=one.number)
        )

    # -- at start ---------------------------------------------------------------------------------------

    def recover(self) -> None:
        """Settle every attempt that an earlier controller left running, and queue what has to go on.

        Raises StoreOlder, before anything is settled, where workers left records of attempts that the store does not
        know.
        """
        self.records = {record.key: record for record in self.store.trials(self.sweep)}
        check_newest(self.sweep, self.records, self.trials)
        self.budget.open_filter(self.spec, self.records, self.store.ledger(self.sweep), self.calibrations)
        for record in list(self.records.values()):
            if record.state is TrialState.RUNNING:
                self._conclude(record, reason=CONTROLLER_ENDED)
            elif record.state is TrialState.PLANNED:
                self._relaunch.append(record.key)
        own = Counter(one.request is None for one in self.records.values() if one.state is not TrialState.INFEASIBLE)
        self.launched, self.enqueued = own[True], own[False]
        self.points.rebuild(self.records.values())
        self._infeasible_in_a_row = infeasible_in_a_row(self.records.values())
        self.proposer.rebuild(self.published())

    # -- what next --------------------------------------------------------------------------------------

    def has_work(self) -> bool:
        """Whether anything may still be launched (False spares a finished sweep the start of a cluster)."""
        if self.budget.is_final:
            return bool(self._relaunch)
        promotion = next_rung(self.spec, self.published(), self.running)
        if self._relaunch or isinstance(promotion, Promote) or self.points.next(self._space) is not None:
            return True
        return self.launched < self.spec.search.trials and not self._is_exhausted()

    def is_exhausted(self) -> bool:
        """Whether the space ran dry before all the trials were launched."""
        return self.launched < self.spec.search.trials and self._is_exhausted()

    def settle_running(self, reason: str) -> None:
        """Settle every launch in flight by its own records; its workers are gone. It goes on at the next start."""
        # The store is asked, not this object's memory: an interruption may have come between the two.
        for record in self.store.trials(self.sweep, states=[TrialState.RUNNING]):
            self._conclude(record, reason)
        self.running.clear()

    def fence_running(self) -> None:
        """Stop every worker at the end of its interval without a word to the store, which is gone."""
        for key in self.running:
            with suppress(OSError, NotAFolder):
                Attempt.of(self.trials, key, self.records[key].attempts).fence()

    def decide(self) -> Decision:
        """The next launch, its reservation already durable; or Wait; or Done."""
        if (launch := self._next()) is not None:
            return launch
        return Wait() if self.running else Done(exhausted=self._exhausted, over_budget=bool(self.budget.over))

    def _next(self) -> TrialGroup | None:
        """The next launch; None where there is none, or where the budget does not hold it."""
        while self._relaunch and self.budget.lets_go_on:
            if (again := self._again()) is not None:
                return again
        while not self.budget.over and isinstance(
            promotion := next_rung(self.spec, self.published(), self.running), Promote
        ):
            member = self._relaunched(promotion.key, promotion.to_step)
            if member is not None:
                return self._launch([member])
        while not self.budget.over and (point := self.points.next(self._space)) is not None:
            if (launch := self._enqueued(*point)) is not None:
                return launch
        if self.budget.over or self.launched >= self.spec.search.trials or self._exhausted:
            return None
        return self._propose()

    def look_ahead(self) -> None:
        """Before anything is started: whether the budget holds the next launch, where that is a known new trial."""
        if not self._relaunch and self.spec.early_stopping is None and self.points.next(self._space) is None:
            for proposal in self.proposer.upcoming(1):
                if isinstance(plan := self._plans.of(proposal), PrivacyPlan):
                    self.budget.look_ahead(self.store, plan, first_stop(self.spec, plan.steps))

    def _enqueued(self, request: int, config: Mapping[str, Scalar]) -> TrialGroup | None:
        """The launch of a point that somebody enqueued; None where it is infeasible."""
        self.points.serve(request)
        proposal = self.proposer.enqueue(request, config)
        if isinstance(plan := self._plans.of(proposal), Refusal):
            self._refused(proposal, plan)
            return None
        return self._launch_all([(proposal, plan)])

    def _propose(self) -> TrialGroup | None:
        while not self._is_exhausted():
            proposal = self.proposer.propose()
            if proposal is None:
                return None
            plan = self._plans.of(proposal)
            if isinstance(plan, Refusal):
                self._refused(proposal, plan)
                self._infeasible_in_a_row += 1
                continue
            self._infeasible_in_a_row = 0
            left = self.spec.search.trials - self.launched
            ahead = self.proposer.upcoming(min(GROUP_AHEAD, left))
            companions = list(islice(self._plans.companions(plan, ahead), left - 1))
            for companion, _ in companions:
                self.proposer.take(companion)
            return self._launch_all([(proposal, plan), *companions])
        self._exhausted = True
        return None

    def _refused(self, proposal: Proposal, plan: Refusal) -> None:
        self.store.record_infeasible(self.lease, [(proposal, plan)])
        why: dict[str, Any] = {"violations": dict(plan.violations), "reason": plan.reason}
        self._changed(TrialRecord.of(self.sweep, proposal, TrialState.INFEASIBLE, **why))

    def _is_exhausted(self) -> bool:
        return exhausted(self.spec, len(self.records), self._infeasible_in_a_row)

    def _again(self) -> TrialGroup | None:
        """The first trial that has to go on, and those that wait with it and train together with it.

        None when none of them can.
        """
        first = self._plan_of(self._relaunch[0])
        keys = [
            key for position, key in enumerate(self._relaunch) if position == 0 or together(first, self._plan_of(key))
        ][:GROUP_LIMIT]
        members = []
        for key in keys:
            if not self.budget.lets_go_on:
                break
            self._relaunch.remove(key)
            member = self._relaunched(key, self.store.ledger_of(key)[-1].to_step)
            if member is not None:
                members.append(member)
        return self._launch(members) if members else None

    def _plan_of(self, key: str) -> PrivacyPlan:
        plan = self.records[key].plan
        assert plan is not None
        return plan

    def _relaunched(self, key: str, to_step: int) -> Member | None:
        """The trial's next attempt, its reservation durable; None, and the trial has failed, where it cannot go on.

        None too where the population's budget does not hold it: then the trial waits for another session.
        """
        record = self.records[key]
        if seconds_left(self.spec.limits.trial_minutes, [self.store.attempts_of(key)]) == 0:
            self.store.charge_whole(self.lease, key, record.attempts)
            self.store.abandon(self.lease, key, OVERRAN)
            self._changed(replace(record, state=TrialState.FAILED, reason=OVERRAN))
            return None
        start = start_of_attempt(self.store, self.lease, self.trials, record, to_step)
        if isinstance(start, Lost):
            reason = (
                f"its state after step {start.step} is missing or damaged in {self.trials.child(key).url}, and "
                "metrics that came of it have been published: another run of those steps would be a second release"
            )
            self.store.abandon(self.lease, key, reason)
            self._changed(replace(record, state=TrialState.FAILED, reason=reason))
            return None
        record = self._add_to_curve(record, start.attempt, start.curve)
        reserved = self.budget.reserve(
            self._plan_of(key),
            start.step,
            to_step,
            lambda charge: self.store.relaunch(self.lease, key, start.step, to_step, charge),
        )
        if reserved is None:
            if self.budget.is_final and record.state is TrialState.PLANNED:
                self.store.abandon(self.lease, key, NO_RETRY)
                self._changed(replace(record, state=TrialState.FAILED, reason=NO_RETRY))
            return None
        again = replace(record, state=TrialState.RUNNING, attempts=reserved.attempt)
        return self._reserved(again, reserved, start.attempt)

    def _launch_all(self, planned: Sequence[tuple[Proposal, PrivacyPlan]]) -> TrialGroup | None:
        """Those that the population's budget holds, in their order; None where that is none of them."""
        members: list[Member] = []
        for proposal, plan in planned:
            if (member := self._launched(proposal, plan)) is None:
                break
            members.append(member)
        return self._launch(members) if members else None

    def _launched(self, proposal: Proposal, plan: PrivacyPlan) -> Member | None:
        to_step = first_stop(self.spec, plan.steps)
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

    def _reserved(self, record: TrialRecord, reserved: Reservation, resume_attempt: int = 0) -> Member:
        """What a worker is given: its reservation is durable by now."""
        self._changed(record)
        Attempt.of(self.trials, record.key, reserved.attempt).reserve()
        self.running.add(record.key)
        plan = self._plan_of(record.key)
        return Member(
            key=record.key,
            attempt=reserved.attempt,
            seed=record.seed,
            plan=plan,
            from_step=reserved.from_step,
            to_step=reserved.to_step,
            resume_attempt=resume_attempt,
            curve=between(report_steps(self.spec, SYSTEMS[plan.system], plan.steps), reserved),
        )

    def _launch(self, members: Sequence[Member]) -> TrialGroup:
        known = measured(self.spec.asked)
        measures = tuple(metric for metric in self.spec.asked if metric in known)
        return TrialGroup(
            members=tuple(members),
            execution=self.spec.settings(),
            measures=measures,
            withheld=self._release.withheld,
            seconds=seconds_left(self.spec.limits.trial_minutes, (self._attempts(one) for one in members)),
        )

    def _attempts(self, member: Member) -> list[AttemptRecord]:
        """The earlier ones of its trial."""
        return self.store.attempts_of(member.key)[:-1] if member.attempt > 1 else []

    # -- what came of it --------------------------------------------------------------------------------

    def told(self, group: TrialGroup, content: Mapping[str, Any]) -> None:
        """A member of a launch that goes on told of new points of its curve."""
        member = next(one for one in group.members if one.key == content["key"])
        # Whatever is wrong with it, the end of the launch says.
        with suppress(Damaged, Undeclared):
            told = Told.from_dict(content, from_step=member.from_step, to_step=member.to_step)
            self.records[member.key] = self._add_to_curve(self.records[member.key], member.attempt, told.curve)

    def _add_to_curve(self, record: TrialRecord, attempt: int, curve: Curve) -> TrialRecord:
        """The trial, with a claim once anything is told of it. Neither sampler nor rungs hear of a curve."""
        plan = self._plan_of(record.key)
        leaving = curve_of(curve, plan, self._release)
        if not leaving:
            return record
        self.store.add_to_curve(self.lease, record.key, attempt, leaving, self._release.policy.at_once)
        return replace(record, guarantee=claim_of(plan))

    def finished(self, group: TrialGroup, results: list[Mapping[str, Any]]) -> None:
        """The launch came back with one result (or error) per member.

        Raises RecordsUnwritable, after settling, when a worker could not write its records: every other launch would
        meet the same, so the sweep stops.
        """
        unwritable: list[str] = []
        for member, result in zip(group.members, results, strict=True):
            self.running.discard(member.key)
            record = self.records[member.key]
            if "unwritable" in result:
                self._conclude(record, str(result["unwritable"]))
                unwritable.append(f"{member.key}: {result['unwritable']}")
            elif "error" in result:
                self._fail(record, str(result["error"]))
            elif "overran" in result:
                self._overran(record)
            elif "damaged" in result:
                self._lost(record, str(result["damaged"]))
            else:
                try:
                    reported = TrialResult.from_dict(
                        result, key=member.key, attempt=member.attempt, step=member.to_step
                    )
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

    def lost(self, group: TrialGroup, reason: str) -> None:
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
        if self._conclude(record, reason, losses):
            self._losses[record.key] = losses

    def _conclude(self, record: TrialRecord, reason: str, losses: int = 0) -> bool:
        """Fence the attempt; commit its result if it got that far, else charge what it left proves, and queue it.

        losses  of its worker, with this one: too many, and the trial fails. Returns whether its worker was lost.
        """
        left = self._recovered(record)
        if left.result is not None:
            self._commit(record, left.result)
            return False
        if left.refused:
            self._settle_failed(record, left, left.refused)
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
        self._relaunch.append(record.key)
        self._changed(replace(record, state=TrialState.PLANNED))

    def _commit(self, record: TrialRecord, result: TrialResult) -> None:
        try:
            came = settlement_of(result, self._plan_of(record.key), self._release)
        except NoResult as failed:
            with suppress(Undeclared):
                # How it came to that may be seen.
                record = self._add_to_curve(record, result.attempt, result.curve)
            self._fail(record, str(failed))
            return
        self.store.settle(self.lease, record.key, result.attempt, came)
        done = replace(
            record, state=TrialState.COMPLETE, metrics=came.metrics, guarantee=came.guarantee, step=came.step
        )
        self._changed(replace(done, reports={**record.reports, came.step: came.metrics}))
        # What cannot be deleted only takes space; the next write says why.
        with suppress(OSError, NotAFolder):
            Attempt.of(self.trials, record.key, result.attempt).checkpoints.discard(but=came.step)
            for earlier in range(1, result.attempt):
                Attempt.of(self.trials, record.key, earlier).checkpoints.discard()

    def _overran(self, record: TrialRecord) -> None:
        left = self._recovered(record)
        # Whenever the clock stops it, it is charged for all that it might have run (`control.time_limits`).
        self._settle_failed(record, replace(left, executed_to=self.store.ledger_of(record.key)[-1].to_step), OVERRAN)

    def _fail(self, record: TrialRecord, reason: str) -> None:
        self._settle_failed(record, self._recovered(record), reason)

    def _settle_failed(self, record: TrialRecord, left: Recovered, reason: str) -> None:
        reason = doubted(reason, left)
        self.store.fail(self.lease, record.key, record.attempts, left.executed_to, reason)
        self._changed(replace(record, state=TrialState.FAILED, reason=reason))

    def _recovered(self, record: TrialRecord) -> Recovered:
        entry = self.store.ledger_of(record.key)[-1]
        try:
            return Attempt.of(self.trials, record.key, record.attempts).recover(entry.from_step, entry.to_step)
        except OSError as error:
            # Without the fence nothing may be settled: the attempt stays open until a later start.
            raise self._unwritable(f"{record.key}: its records cannot be settled: {error}") from error

    def _changed(self, record: TrialRecord) -> None:
        # Last of all, in memory: the store has it by now.
        self.records[record.key] = record
        seen = self._release.policy.published_alone(record)
        self.proposer.tell(seen)
        self.on_change(seen)

    def published(self) -> list[Published]:
        """The trials as the world may see them while the sweep runs: all that steers it."""
        return self._release.policy.published(self.records.values())
