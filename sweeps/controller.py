"""Decides what is launched next and writes down what came of it. Knows neither Ray nor the clock.

The order of writes is the guarantee (see `sweeps.store`): the reservation is durable before a launch exists,
and a result is told to the proposer only after the store has it. Every method may be the last one that runs:
`recover` at the next start picks up from the store and the workers' own records.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from sweeps.losses import CONTROLLER_ENDED, worker_losses
from sweeps.planning import exhausted, plan_proposal
from sweeps.publishing import Release
from sweeps.records import Proposal, TrialRecord, TrialState, trial_key
from sweeps.search import Proposer
from sweeps.search.rungs import Promote, first_stop, next_rung
from sweeps.spec import SweepSpec
from sweeps.stopped_trials import claim_of
from sweeps.store import Lease, Store
from trainables.attempt import NODE_LEAVES, Attempt, RecordsUnwritable, Recovered, latest_checkpoint
from trainables.files import Folder
from trainables.measures.objectives import MEASURES
from trainables.publishing import Undeclared
from trainables.system import Member, PrivacyPlan, PublicFacts, Refusal, TrialGroup

GROUP_LIMIT = 256
"""Largest number of trials in one launch."""
GROUP_AHEAD = 1024
"""How many upcoming proposals are planned in search of trials that train together."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to launch now; something still runs."""


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing will ever be launched again. `exhausted`: the space ran dry before the trials were all launched."""

    exhausted: bool = False


Decision = TrialGroup | Wait | Done


@dataclass(slots=True)
class Controller:
    """Drives one sweep. Used from one thread.

    on_change  called after each committed change, with the trial's record; for progress display only
    """

    store: Store
    lease: Lease
    sweep: str
    spec: SweepSpec
    facts: PublicFacts
    proposer: Proposer
    trials: Folder
    calibrations: MutableMapping[str, float]
    on_change: Callable[[TrialRecord], None] = lambda record: None
    records: dict[str, TrialRecord] = field(default_factory=dict)
    running: set[str] = field(default_factory=set)
    _relaunch: list[str] = field(default_factory=list)
    _losses: Counter[str] | None = None
    """Losses of each trial's worker, earlier controllers' included; None until the first one of this controller."""
    launched: int = 0
    """Trials that were ever launched: what `search.trials` counts."""
    _planned: dict[int, PrivacyPlan | Refusal] = field(default_factory=dict)
    """Proposals that were planned before their turn, in search of companions."""
    _release: Release = field(init=False)
    """What may leave the trials: asked before anything of a result is written or told."""
    _infeasible_in_a_row: int = 0
    _exhausted: bool = False

    def __post_init__(self) -> None:
        self._release = Release.of(self.spec)

    # -- at start ---------------------------------------------------------------------------------------

    def recover(self) -> None:
        """Settle every attempt that an earlier controller left running, and queue what has to go on."""
        self.records = {record.key: record for record in self.store.trials(self.sweep)}
        for record in list(self.records.values()):
            if record.state is TrialState.RUNNING:
                self._conclude(record, reason=CONTROLLER_ENDED)
            elif record.state is TrialState.PLANNED:
                self._relaunch.append(record.key)
        self.launched = sum(record.state is not TrialState.INFEASIBLE for record in self.records.values())
        for record in reversed(self.records.values()):
            if record.state is not TrialState.INFEASIBLE:
                break
            self._infeasible_in_a_row += 1
        self.proposer.rebuild(self.records.values())

    # -- what next --------------------------------------------------------------------------------------

    def has_work(self) -> bool:
        """Whether anything may still be launched (False spares a finished sweep the start of a cluster)."""
        promotion = next_rung(self.spec, self.records.values(), self.running)
        if self._relaunch or isinstance(promotion, Promote):
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

    def decide(self) -> Decision:
        """The next launch, its reservation already durable; or Wait; or Done."""
        if self._relaunch:
            return self._again()
        promotion = next_rung(self.spec, self.records.values(), self.running)
        if isinstance(promotion, Promote):
            return self._launch([self._relaunched(promotion.key, promotion.to_step)])
        if self.launched < self.spec.search.trials and not self._exhausted:
            launch = self._propose()
            if launch is not None:
                return launch
        return Wait() if self.running else Done(exhausted=self._exhausted)

    def _propose(self) -> TrialGroup | None:
        while not self._is_exhausted():
            proposal = self.proposer.propose()
            if proposal is None:
                return None
            plan = self._planned.pop(proposal.number, None) or self._plan(proposal)
            if isinstance(plan, Refusal):
                self.store.record_infeasible(self.lease, [(proposal, plan)])
                violations = dict(plan.violations)
                refused = _record(
                    self.sweep, proposal, TrialState.INFEASIBLE, violations=violations, reason=plan.reason
                )
                self._changed(refused)
                self._infeasible_in_a_row += 1
                continue
            self._infeasible_in_a_row = 0
            companions = list(islice(self._companions(plan), self.spec.search.trials - self.launched - 1))
            for companion, _ in companions:
                self.proposer.take(companion)
            return self._launch([self._launched(*one) for one in ((proposal, plan), *companions)])
        self._exhausted = True
        return None

    def _plan(self, proposal: Proposal) -> PrivacyPlan | Refusal:
        return plan_proposal(self.spec, proposal.config, self.facts, self.calibrations)

    def _companions(self, plan: PrivacyPlan) -> Iterator[tuple[Proposal, PrivacyPlan]]:
        """Upcoming proposals that train together with `plan`: one training serves them all."""
        if not plan.group:
            return
        found = 1
        wanted = min(GROUP_AHEAD, self.spec.search.trials - self.launched)
        for proposal in list(self.proposer.upcoming(wanted)):
            other = self._planned.get(proposal.number) or self._plan(proposal)
            self._planned[proposal.number] = other
            if found < GROUP_LIMIT and isinstance(other, PrivacyPlan) and _together(plan, other):
                found += 1
                yield proposal, other

    def _is_exhausted(self) -> bool:
        return exhausted(self.spec, len(self.records), self._infeasible_in_a_row)

    def _again(self) -> TrialGroup:
        """The first trial that has to go on, and those that wait with it and train together with it."""
        first = self._plan_of(self._relaunch[0])
        keys = [
            key for position, key in enumerate(self._relaunch) if position == 0 or _together(first, self._plan_of(key))
        ][:GROUP_LIMIT]
        members = []
        for key in keys:
            self._relaunch.remove(key)
            members.append(self._relaunched(key, self.store.last_entry(key).to_step))
        return self._launch(members)

    def _plan_of(self, key: str) -> PrivacyPlan:
        plan = self.records[key].plan
        assert plan is not None
        return PrivacyPlan.from_dict(plan)

    def _relaunched(self, key: str, to_step: int) -> Member:
        record = self.records[key]
        resume_attempt, from_step = latest_checkpoint(self.trials, key, record.attempts, below=to_step)
        attempt = self.store.relaunch(self.lease, key, from_step, to_step)
        record = replace(record, state=TrialState.RUNNING, attempts=attempt)
        self._changed(record)
        Attempt.of(self.trials, key, attempt).reserve()
        self.running.add(key)
        return Member(
            key=key,
            attempt=attempt,
            seed=record.seed,
            plan=self._plan_of(key),
            from_step=from_step,
            to_step=to_step,
            resume_attempt=resume_attempt,
        )

    def _launched(self, proposal: Proposal, plan: PrivacyPlan) -> Member:
        to_step = first_stop(self.spec, plan.steps)
        attempt = self.store.launch(self.lease, proposal, plan, to_step)
        self.launched += 1
        record = _record(self.sweep, proposal, TrialState.RUNNING, plan=plan.to_dict(), attempts=attempt)
        self._changed(record)
        Attempt.of(self.trials, record.key, attempt).reserve()
        self.running.add(record.key)
        return Member(key=record.key, attempt=attempt, seed=record.seed, plan=plan, from_step=0, to_step=to_step)

    def _launch(self, members: Sequence[Member]) -> TrialGroup:
        measures = tuple(one.metric for one in self.spec.objectives if one.metric in MEASURES)
        return TrialGroup(
            members=tuple(members),
            execution=self.spec.settings(),
            measures=measures,
            withheld=self._release.withheld,
        )

    # -- what came of it --------------------------------------------------------------------------------

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
            else:
                self._commit(record, result)
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
        if self._losses is None:
            self._losses = worker_losses(self.store.attempts(self.sweep))
        for member in group.members:
            self.running.discard(member.key)
            losses = self._losses[member.key] + 1
            if self._conclude(self.records[member.key], reason, losses):
                self._losses[member.key] = losses

    def _conclude(self, record: TrialRecord, reason: str, losses: int = 0) -> bool:
        """Fence the attempt; commit its result if it got that far, else charge it to its horizon and queue it.

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
            self._fail(record, f"its worker was lost {losses} times ({reason}); more than execution.retries allow")
            return True
        self._relaunch_lost(record, left, reason)
        return True

    def _relaunch_lost(self, record: TrialRecord, left: Recovered, reason: str) -> None:
        self.store.lose(self.lease, record.key, record.attempts, left.executed_to, reason)
        self._relaunch.append(record.key)
        self._changed(replace(record, state=TrialState.PLANNED))

    def _commit(self, record: TrialRecord, result: Mapping[str, Any]) -> None:
        assert record.plan is not None
        plan = PrivacyPlan.from_dict(record.plan)
        try:
            metrics = self._release.metrics(result["metrics"], plan.system, plan.config)
        except Undeclared as undeclared:
            self._fail(record, str(undeclared))
            return
        broken = [name for name, value in metrics.items() if not math.isfinite(value)]
        if broken:
            values = ", ".join(f"{name}={metrics[name]}" for name in broken)
            self._fail(record, f"{values}: expected finite metrics. Lower the learning rate or narrow the space.")
            return
        step = int(result["step"])
        guarantee = claim_of(plan)
        metrics |= {"epsilon": guarantee.epsilon, "seconds": float(result["seconds"])}
        metrics["peak_memory_mb"] = float(result["peak_memory_mb"])
        attempt = int(result["attempt"])
        self.store.settle(
            self.lease,
            record.key,
            attempt,
            executed_to=step,
            step=step,
            metrics=metrics,
            guarantee=guarantee,
            seconds=float(result["seconds"]),
            finished=True,
        )
        done = replace(record, state=TrialState.COMPLETE, metrics=metrics, guarantee=guarantee.to_dict(), step=step)
        self._changed(replace(done, reports={**record.reports, step: metrics}))
        for earlier in range(1, attempt):
            # What cannot be deleted only takes space; the next write says why.
            with suppress(OSError):
                Attempt.of(self.trials, record.key, earlier).discard_checkpoint()

    def _fail(self, record: TrialRecord, reason: str) -> None:
        left = self._recovered(record)
        self.store.fail(self.lease, record.key, record.attempts, left.executed_to, reason)
        self._changed(replace(record, state=TrialState.FAILED, reason=reason))

    def _recovered(self, record: TrialRecord) -> Recovered:
        try:
            left = Attempt.of(self.trials, record.key, record.attempts).recover()
        except OSError as error:
            # Without the fence nothing may be settled: the attempt stays open until a later start.
            raise self._unwritable(f"{record.key}: its records cannot be settled: {error}") from error
        if left.untouched:
            return replace(left, executed_to=self.store.last_entry(record.key).from_step)
        return left

    def _changed(self, record: TrialRecord) -> None:
        # Last of all, in memory: the store has it by now.
        self.records[record.key] = record
        self.proposer.tell(record)
        self.on_change(record)


def _together(one: PrivacyPlan, other: PrivacyPlan) -> bool:
    return bool(one.group) and (one.system, one.group) == (other.system, other.group)


def _record(sweep: str, proposal: Proposal, state: TrialState, **fields: Any) -> TrialRecord:
    return TrialRecord(
        key=trial_key(sweep, proposal.number),
        number=proposal.number,
        state=state,
        config=proposal.config,
        seed=proposal.seed,
        plan=fields.pop("plan", None),
        violations=fields.pop("violations", {}),
        **fields,
    )
