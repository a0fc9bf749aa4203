"""Writes down what came of each launch: its points, its result, its failure or its loss, and what that is charged.

A result is told only after the store has it. Whatever ends an attempt, it is fenced first, and charged by what its own
records prove. Every method may be the last one that runs: a later controller settles what was left.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from sweeps.execution.limits import OVERRAN, worker_losses
from sweeps.privacy.release import Published, Release
from sweeps.search.proposer import Proposer
from sweeps.store.lease import Lease
from sweeps.store.records import Settlement, TrialRecord, TrialState
from sweeps.store.store import Store
from trainables.publishing import Undeclared
from trainables.system import Launch, PrivacyPlan
from trainables.worker.attempt import NODE_LEAVES, Attempt, Curve, Progress, RecordsUnwritable, Recovered, TrialResult
from trainables.worker.files import Damaged, Folder

# What a result is settled as: what of it may leave, what the trial claims, and why nothing else can be kept of it.


class NoResult(Exception):
    """What was reported is no result; the message is why the trial has failed."""


def settlement_of(result: TrialResult, plan: PrivacyPlan, release: Release) -> Settlement:
    """What the store keeps of a trial's result. Raises NoResult for undeclared metrics, and for any not finite."""
    try:
        metrics = release.metrics(result.metrics, plan.system, plan.config)
        curve = curve_of(result.curve, plan, release)
    except Undeclared as undeclared:
        raise NoResult(str(undeclared)) from undeclared
    if broken := [f"{name}={value}" for name, value in metrics.items() if not math.isfinite(value)]:
        raise NoResult(f"{', '.join(broken)}: expected finite metrics. Lower the learning rate or narrow the space.")
    # Wherever it was stopped, it claims its whole plan (`sweeps.privacy.charge`).
    claim = plan.guarantee
    own = {"epsilon": claim.epsilon, "seconds": result.seconds, "peak_memory_mb": result.peak_memory_mb}
    return Settlement(
        executed_to=result.step,
        step=result.step,
        metrics=metrics | own,
        guarantee=claim,
        seconds=result.seconds,
        announced=release.policy.at_once,
        curve=curve,
    )


def curve_of(curve: Curve, plan: PrivacyPlan, release: Release) -> Curve:
    """What the store keeps of a curve: what may leave, and of that what is finite. Raises Undeclared."""
    leaving = {step: release.metrics(metrics, plan.system, plan.config) for step, metrics in curve.items()}
    finite = {
        step: {name: value for name, value in metrics.items() if math.isfinite(value)}
        for step, metrics in leaving.items()
    }
    return {step: metrics for step, metrics in finite.items() if metrics}


def doubted(reason: str, left: Recovered) -> str:
    """Why an attempt ended and, where its records did not agree, why all of it is charged."""
    if not left.doubt or left.doubt in reason:
        return reason
    return f"{reason}. Its whole reservation is charged: {left.doubt}"


# The trials of a sweep as its controller has them in memory: what the store holds by now, and what was told of it.


@dataclass(slots=True)
class TrialTable:
    """Used from one thread.

    release    what may leave the trials: asked before anything of a result is written or told
    proposer   told of each change that the release lets it see
    on_change  called after each committed change, with the trial's record; for progress display only
    records    by key
    running    keys of trials whose launch is in flight
    waiting    keys of trials that are to be launched again, the first one first
    """

    release: Release
    proposer: Proposer
    on_change: Callable[[Published], None] = lambda record: None
    records: dict[str, TrialRecord] = field(default_factory=dict)
    running: set[str] = field(default_factory=set)
    waiting: list[str] = field(default_factory=list)

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


@dataclass(slots=True)
class Outcomes:
    """What came of the launches of one sweep. Used from one thread.

    trials   folder of the workers' own records
    retries  losses of its worker that a trial survives
    """

    store: Store
    lease: Lease
    sweep: str
    trials: Folder
    retries: int
    table: TrialTable
    _losses: Counter[str] | None = None
    """Losses of each trial's worker, earlier controllers' included; None until the first one of this controller."""

    def told(self, group: Launch, content: Mapping[str, Any]) -> None:
        """A member of a launch that goes on told of new points of its curve."""
        member = next(one for one in group.members if one.key == content["key"])
        # Whatever is wrong with it, the end of the launch says.
        with suppress(Damaged, Undeclared):
            told = Progress.from_dict(content, from_step=member.from_step, to_step=member.to_step)
            self.table.records[member.key] = self.add_to_curve(
                self.table.records[member.key], member.attempt, told.curve
            )

    def add_to_curve(self, record: TrialRecord, attempt: int, curve: Curve) -> TrialRecord:
        """The trial, with a claim once anything is told of it. Neither sampler nor rungs hear of a curve."""
        plan = self.table.plan_of(record.key)
        leaving = curve_of(curve, plan, self.table.release)
        if not leaving:
            return record
        self.store.add_to_curve(self.lease, record.key, attempt, leaving, self.table.release.policy.at_once)
        return replace(record, guarantee=plan.guarantee)

    def finished(self, group: Launch, results: list[Mapping[str, Any]]) -> None:
        """The launch came back with one result (or error) per member.

        Raises RecordsUnwritable, after settling, when a worker could not write its records: every other launch would
        meet the same, so the sweep stops.
        """
        unwritable: list[str] = []
        for member, result in zip(group.members, results, strict=True):
            self.table.running.discard(member.key)
            record = self.table.records[member.key]
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
            self.table.running.discard(member.key)
            self._lost(self.table.records[member.key], reason)

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
        if losses > self.retries:
            why = f"its worker was lost {losses} times ({reason}); more than execution.retries allow"
            self._settle_failed(record, left, why)
            return True
        self._relaunch_lost(record, left, reason)
        return True

    def _relaunch_lost(self, record: TrialRecord, left: Recovered, reason: str) -> None:
        self.store.lose(self.lease, record.key, record.attempts, left.executed_to, doubted(reason, left))
        self.table.waiting.append(record.key)
        self.table.changed(replace(record, state=TrialState.PLANNED))

    def _commit(self, record: TrialRecord, result: TrialResult) -> None:
        try:
            came = settlement_of(result, self.table.plan_of(record.key), self.table.release)
        except NoResult as failed:
            with suppress(Undeclared):
                # How it came to that may be seen.
                record = self.add_to_curve(record, result.attempt, result.curve)
            self._fail(record, str(failed))
            return
        self.store.settle(self.lease, record.key, result.attempt, came)
        done = replace(
            record, state=TrialState.COMPLETE, metrics=came.metrics, guarantee=came.guarantee, step=came.step
        )
        self.table.changed(replace(done, reports={**record.reports, came.step: came.metrics}))
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
        self.table.changed(replace(record, state=TrialState.FAILED, reason=reason))

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
        self.table.running.clear()

    def fence_running(self) -> None:
        """Stop every worker at the end of its interval without a word to the store, which is gone."""
        for key in self.table.running:
            with suppress(OSError):
                Attempt.of(self.trials, key, self.table.records[key].attempts).fence()
