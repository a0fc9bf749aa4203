"""The writes of one sweep, each inside a transaction that has checked the lease first.

The order of statements within a transaction is free; the order of transactions is the guarantee: the
reservation is durable before a launch exists, and the settlement carries the result, the state and the
outbox row together.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, delete, func, insert, select, update

from dpcore.checks import InvalidValue
from sweeps.population.arithmetic import Charge
from sweeps.records import Extension, Outcome, Proposal, Reservation, Settlement, SweepState, TrialState, trial_key
from sweeps.store.charging import charge_attempt
from sweeps.store.errors import Conflict, UnknownTrial
from sweeps.store.reading import trial_number
from sweeps.store.schema import attempts, curves, extensions, ledger, outbox, sweeps, trials
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

    def update_sweep(self, **values: object) -> None:
        """What the sweep's own row says."""
        self.connection.execute(update(sweeps).where(sweeps.c.id == self.sweep_id).values(**values))

    def set_state(self, wanted: SweepState) -> None:
        """Where the sweep stands; the views are told of a change."""
        here = sweeps.c.id == self.sweep_id
        if self.connection.execute(select(sweeps.c.state).where(here)).scalar_one() != wanted:
            self.update_sweep(state=str(wanted))
            self._announce("state", None)

    def extend(self, extension: Extension) -> None:
        """One more extension, where it is not the last one."""
        latest = select(extensions).where(extensions.c.sweep_id == self.sweep_id).order_by(extensions.c.number.desc())
        last = self.connection.execute(latest.limit(1)).one_or_none()
        values = asdict(extension) | {"epsilon": dumps(list(extension.epsilon))}
        if last is not None and all(getattr(last, name) == value for name, value in values.items()):
            return
        number = 1 if last is None else last.number + 1
        self.connection.execute(insert(extensions).values(sweep_id=self.sweep_id, number=number, **values))

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
            if stated != (row["state"], json.loads(row["config"]), json.loads(row["violations"])):
                raise Conflict(f"trial {self.sweep}-{number}: already recorded as {before.state} with other content")
        if fresh:
            self.connection.execute(insert(trials), fresh)
            self._announce("infeasible", *(row["number"] for row in fresh))

    def launch(
        self, proposal: Proposal, plan: PrivacyPlan, to_step: int, launch: str, charge: Charge | None
    ) -> Reservation:
        """The trial, its first attempt, its reservation [0, to_step) and what these cost its population."""
        if not 0 < to_step <= plan.steps:
            raise InvalidValue("to_step", to_step, f"an integer in [1, {plan.steps}], the steps of the plan")
        reserved = Reservation(key=trial_key(self.sweep, proposal.number), attempt=1, from_step=0, to_step=to_step)
        here = self._here(trials, proposal.number)
        before = self.connection.execute(select(trials.c.state).where(*here)).scalar_one_or_none()
        if before is None:
            row = self._trial_row(proposal, TrialState.RUNNING, plan.to_json(), None)
            self.connection.execute(insert(trials).values({**row, "attempts": 1}))
            self._reserve(proposal.number, reserved, launch, charge)
        elif not self._is_repetition(proposal.number, launch):
            raise Conflict(f"trial {reserved.key}: already recorded as {before}; expected a new one")
        return reserved

    def relaunch(self, key: str, from_step: int, to_step: int, launch: str, charge: Charge | None) -> Reservation:
        """The next attempt, its own reservation [from_step, to_step) and what these cost the population."""
        number = trial_number(self.sweep, key)
        trial = self._trial(number)
        reserved = Reservation(key=key, attempt=trial.attempts + 1, from_step=from_step, to_step=to_step)
        if trial.state == TrialState.RUNNING and self._is_repetition(number, launch):
            return replace(reserved, attempt=trial.attempts)
        if trial.state not in (TrialState.PLANNED, TrialState.COMPLETE):
            raise Conflict(
                f"trial {key}: {trial.state}; expected planned (or complete, for its next rung). "
                "Settle, lose or fail its running attempt first."
            )
        executed = select(func.max(ledger.c.executed_to)).where(*self._here(ledger, number))
        reached = self.connection.execute(executed).scalar_one()
        if from_step > reached:
            # Starting beyond every executed step would leave a gap in what the ledger charges.
            raise InvalidValue("from_step", from_step, f"at most {reached}, the last step that any attempt executed")
        self._update_trial(number, state=str(TrialState.RUNNING), attempts=reserved.attempt, finished_at=None)
        self._reserve(number, reserved, launch, charge)
        return reserved

    def settle(self, key: str, attempt: int, came: Settlement) -> None:
        """Result, settlement, state and outbox row; the same content again changes nothing."""
        number, metrics, claim = trial_number(self.sweep, key), dumps(came.metrics), came.guarantee.to_dict()
        content = _digest(
            "settled", came.executed_to, came.step, canonical(came.metrics), canonical(claim), came.finished
        )
        reported = {"step": came.step, "metrics": metrics, "seconds": came.seconds}
        if not self._close(number, attempt, came.executed_to, content, outcome=str(Outcome.SETTLED), **reported):
            return
        self._told(number, attempt, came.curve)
        self._update_trial(
            number,
            state=str(TrialState.COMPLETE if came.finished else TrialState.PLANNED),
            metrics=metrics,
            guarantee=dumps(claim),
            step=came.step,
            reason="",
            finished_at=self.at if came.finished else None,
        )
        if came.announced:
            self._announce("settled", number)

    def add_to_curve(self, key: str, attempt: int, curve: Mapping[int, Mapping[str, float]], announced: bool) -> None:
        """Points that are not there yet, and the trial's claim."""
        number = trial_number(self.sweep, key)
        if self._told(number, attempt, curve):
            plan = self.connection.execute(select(trials.c.plan).where(*self._here(trials, number))).scalar_one()
            claim = PrivacyPlan.from_dict(json.loads(plan)).guarantee
            self._update_trial(number, guarantee=dumps(claim.to_dict()))
            if announced:
                self._announce("told", number)

    def _told(self, number: int, attempt: int, curve: Mapping[int, Mapping[str, float]]) -> bool:
        """Whether any of these points was new; they are there now."""
        if not curve:
            return False
        entry = self.connection.execute(
            select(ledger.c.from_step, ledger.c.to_step).where(*self._here(ledger, number, attempt))
        ).one_or_none()
        if entry is None:
            raise UnknownTrial(f"trial {self.sweep}-{number}, attempt {attempt}: not in this store")
        outside = [step for step in curve if not entry.from_step < step < entry.to_step]
        if outside:
            inside = f"steps inside of the reservation [{entry.from_step}, {entry.to_step}]"
            raise InvalidValue("curve", outside, inside)
        known: dict[int, dict[str, float]] = {}
        for row in self.connection.execute(select(curves).where(*self._here(curves, number))):
            known.setdefault(row.step, {})[row.metric] = row.value
        contradicted = [step for step in curve if step in known and known[step] != dict(curve[step])]
        if contradicted:
            raise Conflict(
                f"trial {self.sweep}-{number}: told something else before after {contradicted[0]} steps; "
                "what is recorded stays"
            )
        where = {"sweep_id": self.sweep_id, "number": number, "attempt": attempt, "at": self.at}
        rows = [
            {**where, "step": step, "metric": name, "value": float(value)}
            for step, metrics in curve.items()
            if step not in known
            for name, value in metrics.items()
        ]
        if rows:
            self.connection.execute(insert(curves), rows)
        return bool(rows)

    def lose(self, key: str, attempt: int, executed_to: int | None, reason: str) -> None:
        """The attempt is gone; charged to its horizon (None: the whole reservation), the trial may go on."""
        number, content = trial_number(self.sweep, key), _digest("lost", executed_to, reason)
        if self._close(number, attempt, executed_to, content, outcome=str(Outcome.LOST), reason=reason):
            self._update_trial(number, state=str(TrialState.PLANNED), reason=reason)
            self._announce("lost", number)

    def fail(self, key: str, attempt: int, executed_to: int | None, reason: str) -> None:
        """The trial is over without a result; charged to its horizon (None: the whole reservation)."""
        number, content = trial_number(self.sweep, key), _digest("failed", executed_to, reason)
        if self._close(number, attempt, executed_to, content, outcome=str(Outcome.FAILED), reason=reason):
            self._failed(number, reason)

    def charge_whole(self, key: str, attempt: int) -> None:
        """Raise what a closed attempt is charged to its whole reservation; never lowers anything."""
        here = self._here(ledger, trial_number(self.sweep, key), attempt)
        self.connection.execute(
            update(ledger).where(*here, ledger.c.executed_to.is_not(None)).values(executed_to=ledger.c.to_step)
        )

    def abandon(self, key: str, reason: str) -> None:
        """The trial cannot go on, and no attempt of it runs; the same again changes nothing."""
        number = trial_number(self.sweep, key)
        state = self._trial(number).state
        if state in (TrialState.PLANNED, TrialState.COMPLETE):
            self._failed(number, reason)
        elif state != TrialState.FAILED:
            raise Conflict(f"trial {key}: {state}; expected planned or complete")

    def erase(self) -> None:
        """Results go, and the charge stays."""
        running = select(attempts.c.number).where(
            attempts.c.sweep_id == self.sweep_id, attempts.c.outcome == str(Outcome.RUNNING)
        )
        if self.connection.execute(running.limit(1)).one_or_none() is not None:
            raise Conflict(f"sweep {self.sweep!r}: an attempt of it runs; settle, lose or fail it first")
        for table in (trials, attempts):
            self.connection.execute(update(table).where(table.c.sweep_id == self.sweep_id).values(metrics="{}"))
        for table in (curves, outbox):
            self.connection.execute(delete(table).where(table.c.sweep_id == self.sweep_id))
        self.update_sweep(state=str(SweepState.DELETED))

    def _trial_row(self, proposal: Proposal, state: TrialState, plan: str, refusal: Refusal | None) -> dict[str, Any]:
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
            "request": proposal.request,
        }

    def _reserve(self, number: int, reserved: Reservation, launch: str, charge: Charge | None) -> None:
        population = self.connection.execute(select(sweeps.c.population).where(sweeps.c.id == self.sweep_id))
        charge_attempt(self.connection, population.scalar_one(), self.sweep, reserved.key, reserved.attempt, charge)
        where = {"sweep_id": self.sweep_id, "number": number, "attempt": reserved.attempt}
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
        steps = {"from_step": reserved.from_step, "to_step": reserved.to_step}
        self.connection.execute(insert(ledger).values(**where, **steps))

    def _close(self, number: int, attempt: int, executed_to: int | None, content: str, **values: object) -> bool:
        """End a running attempt and settle its ledger entry; False when it had ended with the same content."""
        here = self._here(attempts, number, attempt)
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
        self.connection.execute(update(attempts).where(*here).values(content=content, ended_at=self.at, **values))
        entry = self._here(ledger, number, attempt)
        self.connection.execute(update(ledger).where(*entry).values(executed_to=charged))
        return True

    def _failed(self, number: int, reason: str) -> None:
        self._update_trial(number, state=str(TrialState.FAILED), reason=reason, finished_at=self.at)
        self._announce("failed", number)

    def _trial(self, number: int) -> Any:
        row = self.connection.execute(
            select(trials.c.state, trials.c.attempts).where(*self._here(trials, number))
        ).one_or_none()
        if row is None:
            raise UnknownTrial(f"trial {self.sweep}-{number}: not in this store")
        return row

    def _update_trial(self, number: int, **values: object) -> None:
        self.connection.execute(update(trials).where(*self._here(trials, number)).values(**values))

    def _is_repetition(self, number: int, launch: str) -> bool:
        """Whether this very call has been committed already (the connection broke before its answer came)."""
        here = (*self._here(attempts, number), attempts.c.launch == launch)
        return self.connection.execute(select(attempts.c.attempt).where(*here)).one_or_none() is not None

    def _here(self, table: Table, number: int, attempt: int | None = None) -> tuple[ColumnElement[bool], ...]:
        """The rows of one trial, or of one attempt."""
        trial = (table.c.sweep_id == self.sweep_id, table.c.number == number)
        return trial if attempt is None else (*trial, table.c.attempt == attempt)

    def _announce(self, kind: str, *numbers: int | None) -> None:
        rows = [{"sweep_id": self.sweep_id, "number": number, "kind": kind, "at": self.at} for number in numbers]
        self.connection.execute(insert(outbox), rows)


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()
