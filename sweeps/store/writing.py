"""The writes of one sweep, each inside a transaction that has checked the lease first.

The order of statements within a transaction is free; the order of transactions is the guarantee: the
reservation is durable before a launch exists, and the settlement carries the result, the state and the
outbox row together.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, insert, select, update

from dpcore.checks import InvalidValue
from sweeps.records import Outcome, Proposal, Settlement, TrialState
from sweeps.store.errors import Conflict, UnknownTrial
from sweeps.store.schema import attempts, ledger, outbox, trials
from sweeps.store.text import NULL, canonical, dumps
from trainables.system import PrivacyPlan, Refusal


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes to sweep number `sweep_id` (called `sweep`) at time `at` on an open transaction, under lease `token`."""

    connection: Connection
    sweep: str
    sweep_id: int
    token: int
    at: float

    def infeasible(self, refused: Iterable[tuple[Proposal, Refusal]]) -> None:
        """Record proposals that are never launched; the same ones again change nothing."""
        given = {proposal.number: (proposal, refusal) for proposal, refusal in refused}
        recorded = {
            row.number: row
            for row in self.connection.execute(
                select(trials.c.number, trials.c.state, trials.c.config, trials.c.violations).where(
                    trials.c.sweep_id == self.sweep_id, trials.c.number.in_(list(given))
                )
            )
        }
        fresh = []
        for number, (proposal, refusal) in given.items():
            row = self._trial_row(proposal, TrialState.INFEASIBLE, NULL, refusal)
            if number not in recorded:
                fresh.append(row)
                continue
            before = recorded[number]
            stated = (before.state, json.loads(before.config), json.loads(before.violations))
            if stated != (row["state"], json.loads(str(row["config"])), json.loads(str(row["violations"]))):
                raise Conflict(f"trial {self.sweep}-{number}: already recorded as {before.state} with other content")
        if fresh:
            self.connection.execute(insert(trials), fresh)
            self._announce("infeasible", *(int(str(row["number"])) for row in fresh))

    def launch(self, proposal: Proposal, plan: PrivacyPlan, to_step: int, launch: str) -> int:
        """The trial, its first attempt and its reservation [0, to_step)."""
        if not 0 < to_step <= plan.steps:
            raise InvalidValue("to_step", to_step, f"an integer in [1, {plan.steps}], the steps of the plan")
        key = (trials.c.sweep_id == self.sweep_id, trials.c.number == proposal.number)
        before = self.connection.execute(select(trials.c.state).where(*key)).one_or_none()
        if before is not None:
            if self._is_repetition(proposal.number, launch):
                return 1
            raise Conflict(
                f"trial {self.sweep}-{proposal.number}: already recorded as {before.state}; expected a new one"
            )
        row = self._trial_row(proposal, TrialState.RUNNING, dumps(plan.to_dict()), None)
        self.connection.execute(insert(trials).values({**row, "attempts": 1}))
        self._reserve(proposal.number, 1, 0, to_step, launch)
        return 1

    def relaunch(self, number: int, from_step: int, to_step: int, launch: str) -> int:
        """The next attempt and its own reservation [from_step, to_step)."""
        if not 0 <= from_step < to_step:
            raise InvalidValue("from_step", from_step, f"an integer in [0, to_step={to_step})")
        trial = self._trial(number)
        if trial.state == TrialState.RUNNING and self._is_repetition(number, launch):
            return int(trial.attempts)
        if trial.state not in (TrialState.PLANNED, TrialState.COMPLETE):
            raise Conflict(
                f"trial {self.sweep}-{number}: {trial.state}; expected planned (or complete, for its next rung). "
                "Settle, lose or fail its running attempt first."
            )
        reached = self.connection.execute(
            select(func.max(ledger.c.executed_to)).where(ledger.c.sweep_id == self.sweep_id, ledger.c.number == number)
        ).scalar_one()
        if from_step > reached:
            # Starting beyond every executed step would leave a gap in what the ledger charges.
            raise InvalidValue("from_step", from_step, f"at most {reached}, the last step that any attempt executed")
        attempt = int(trial.attempts) + 1
        self._update_trial(number, state=str(TrialState.RUNNING), attempts=attempt, finished_at=None)
        self._reserve(number, attempt, from_step, to_step, launch)
        return attempt

    def settle(self, number: int, attempt: int, came: Settlement) -> None:
        """Result, settlement, state and outbox row; the same content again changes nothing."""
        metrics, claim = dumps(came.metrics), dumps(came.guarantee.to_dict())
        sorted_claim = canonical(came.guarantee.to_dict())
        content = _digest("settled", came.executed_to, came.step, canonical(came.metrics), sorted_claim, came.finished)
        closed = self._close(
            number, attempt, Outcome.SETTLED, content, came.executed_to, "", came.step, metrics, came.seconds
        )
        if not closed:
            return
        self._update_trial(
            number,
            state=str(TrialState.COMPLETE if came.finished else TrialState.PLANNED),
            metrics=metrics,
            guarantee=claim,
            step=came.step,
            reason="",
            finished_at=self.at if came.finished else None,
        )
        if came.announced:
            self._announce("settled", number)

    def lose(self, number: int, attempt: int, executed_to: int | None, reason: str) -> None:
        """The attempt is gone; charged to its horizon (None: the whole reservation), the trial may go on."""
        content = _digest("lost", executed_to, reason)
        if self._close(number, attempt, Outcome.LOST, content, executed_to, reason):
            self._update_trial(number, state=str(TrialState.PLANNED), reason=reason)
            self._announce("lost", number)

    def fail(self, number: int, attempt: int, executed_to: int | None, reason: str) -> None:
        """The trial is over without a result; charged to its horizon (None: the whole reservation)."""
        content = _digest("failed", executed_to, reason)
        if self._close(number, attempt, Outcome.FAILED, content, executed_to, reason):
            self._update_trial(number, state=str(TrialState.FAILED), reason=reason, finished_at=self.at)
            self._announce("failed", number)

    def charge_whole(self, number: int, attempt: int) -> None:
        """Raise what a closed attempt is charged to its whole reservation; never lowers anything."""
        here = (ledger.c.sweep_id == self.sweep_id, ledger.c.number == number, ledger.c.attempt == attempt)
        self.connection.execute(
            update(ledger).where(*here, ledger.c.executed_to.is_not(None)).values(executed_to=ledger.c.to_step)
        )

    def abandon(self, number: int, reason: str) -> None:
        """The trial cannot go on, and no attempt of it runs; the same again changes nothing."""
        state = self._trial(number).state
        if state == TrialState.FAILED:
            return
        if state not in (TrialState.PLANNED, TrialState.COMPLETE):
            raise Conflict(f"trial {self.sweep}-{number}: {state}; expected planned or complete")
        self._update_trial(number, state=str(TrialState.FAILED), reason=reason, finished_at=self.at)
        self._announce("failed", number)

    def announce_state(self) -> None:
        """Tell the views that the sweep itself changed."""
        values = {"sweep_id": self.sweep_id, "number": None, "kind": "state", "at": self.at}
        self.connection.execute(insert(outbox).values(values))

    def _trial_row(
        self, proposal: Proposal, state: TrialState, plan: str, refusal: Refusal | None
    ) -> dict[str, object]:
        return {
            "sweep_id": self.sweep_id,
            "number": proposal.number,
            "state": str(state),
            "config": dumps(proposal.config),
            "seed": str(proposal.seed),
            "violations": dumps({} if refusal is None else refusal.violations),
            "reason": "" if refusal is None else refusal.reason,
            "metrics": "{}",
            "guarantee": NULL,
            "step": 0,
            "attempts": 0,
            "proposed_at": self.at,
            "finished_at": None if refusal is None else self.at,
            "plan": plan,
        }

    def _reserve(self, number: int, attempt: int, from_step: int, to_step: int, launch: str) -> None:
        where = {"sweep_id": self.sweep_id, "number": number, "attempt": attempt}
        self.connection.execute(
            insert(attempts).values(
                **where,
                outcome=str(Outcome.RUNNING),
                launch=launch,
                token=self.token,
                content="",
                reason="",
                step=0,
                metrics="{}",
                seconds=0.0,
                started_at=self.at,
            )
        )
        self.connection.execute(insert(ledger).values(**where, from_step=from_step, to_step=to_step))

    def _close(
        self,
        number: int,
        attempt: int,
        outcome: Outcome,
        content: str,
        executed_to: int | None,
        reason: str,
        step: int = 0,
        metrics: str = "{}",
        seconds: float = 0.0,
    ) -> bool:
        """End a running attempt and settle its ledger entry; False when it had ended with the same content."""
        here = (attempts.c.sweep_id == self.sweep_id, attempts.c.number == number, attempts.c.attempt == attempt)
        row = self.connection.execute(
            select(attempts.c.outcome, attempts.c.content, ledger.c.from_step, ledger.c.to_step)
            .join(ledger)
            .where(*here)
        ).one_or_none()
        if row is None:
            raise UnknownTrial(f"trial {self.sweep}-{number}, attempt {attempt}: not in this store")
        if row.outcome != Outcome.RUNNING:
            if row.content == content:
                return False
            raise Conflict(
                f"trial {self.sweep}-{number}, attempt {attempt}: already {row.outcome} with other content; "
                "what is recorded stays"
            )
        charged = row.to_step if executed_to is None else executed_to
        if not row.from_step <= charged <= row.to_step:
            raise InvalidValue("executed_to", executed_to, f"within the reservation [{row.from_step}, {row.to_step}]")
        self.connection.execute(
            update(attempts)
            .where(*here)
            .values(
                outcome=str(outcome),
                content=content,
                reason=reason,
                step=step,
                metrics=metrics,
                seconds=seconds,
                ended_at=self.at,
            )
        )
        self.connection.execute(
            update(ledger)
            .where(ledger.c.sweep_id == self.sweep_id, ledger.c.number == number, ledger.c.attempt == attempt)
            .values(executed_to=charged)
        )
        return True

    def _trial(self, number: int) -> Any:
        row = self.connection.execute(
            select(trials.c.state, trials.c.attempts).where(
                trials.c.sweep_id == self.sweep_id, trials.c.number == number
            )
        ).one_or_none()
        if row is None:
            raise UnknownTrial(f"trial {self.sweep}-{number}: not in this store")
        return row

    def _update_trial(self, number: int, **values: object) -> None:
        self.connection.execute(
            update(trials).where(trials.c.sweep_id == self.sweep_id, trials.c.number == number).values(**values)
        )

    def _is_repetition(self, number: int, launch: str) -> bool:
        """Whether this very call has been committed already (the connection broke before its answer came)."""
        found = self.connection.execute(
            select(attempts.c.attempt).where(
                attempts.c.sweep_id == self.sweep_id, attempts.c.number == number, attempts.c.launch == launch
            )
        ).one_or_none()
        return found is not None

    def _announce(self, kind: str, *numbers: int) -> None:
        rows = [{"sweep_id": self.sweep_id, "number": number, "kind": kind, "at": self.at} for number in numbers]
        self.connection.execute(insert(outbox), rows)


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()
