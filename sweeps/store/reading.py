"""Reads for views and recovery: whole sweeps at once, on one snapshot."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Select, func, select

from dpcore.guarantee import Guarantee
from sweeps.process.collector import collector_paused
from sweeps.provenance.recorded_spec import RecordedSpec
from sweeps.records import (
    EPSILON,
    AttemptRecord,
    CurveReport,
    Extension,
    LedgerEntry,
    OutboxRow,
    Outcome,
    SweepRecord,
    SweepState,
    TrialRecord,
    TrialState,
)
from sweeps.release.policy import Release
from sweeps.requests import Request, wanted_from
from sweeps.store.errors import UnknownSweep, UnknownTrial
from sweeps.store.schema import attempts, curves, extensions, ledger, names, outbox, requests, sweeps, trials
from sweeps.store.text import NULL, loads_column
from trainables.system import PrivacyPlan

_PARSED_AT_ONCE = ("config", "violations", "guarantee")
"""Columns of texts that are parsed in one pass, several times faster than text by text, and when first looked into."""
_TRIAL_COLUMNS = (
    trials.c.number,
    trials.c.state,
    trials.c.metrics,
    trials.c.seed,
    trials.c.reason,
    trials.c.step,
    trials.c.attempts,
    trials.c.proposed_at,
    trials.c.finished_at,
    trials.c.config,
    trials.c.violations,
    trials.c.guarantee,
    trials.c.plan,
    trials.c.request,
)
_STATES = {str(state): state for state in TrialState}


def sweep_id(connection: Connection, name: str) -> int:
    """Row number of a sweep. Raises UnknownSweep."""
    found = connection.execute(select(sweeps.c.id).where(sweeps.c.name == name)).scalar_one_or_none()
    if found is None:
        raise UnknownSweep(name, connection.execute(select(sweeps.c.name)).scalars())
    return int(found)


def trial_number(sweep: str, key: str) -> int:
    """Number of a trial of `sweep` by its key. Raises UnknownTrial for the key of no trial, or of another sweep's."""
    name, _, number = key.rpartition("-")
    if name != sweep or not number.isdecimal():
        raise UnknownTrial(f"trial {key!r}: expected {sweep}-NUMBER")
    return int(number)


def sweep_and_number(key: str) -> tuple[str, int]:
    """What a trial's key is made of. Raises UnknownTrial."""
    sweep = key.rpartition("-")[0]
    return sweep, trial_number(sweep, key)


def read_sweeps(connection: Connection, name: str | None = None) -> list[SweepRecord]:
    """All sweeps in order of creation, or the one that has or had the name `name`."""
    statement = select(sweeps).order_by(sweeps.c.id)
    if name is not None:
        statement = statement.join(names).where(names.c.name == name)
    rows = connection.execute(statement).all()
    extended = _extensions(connection)
    return [
        SweepRecord(
            name=row.name,
            spec=RecordedSpec(json.loads(row.spec)),
            digest=row.digest,
            fingerprints=json.loads(row.fingerprints),
            root=row.root,
            created_at=row.created_at,
            state=SweepState(row.state),
            records=row.records,
            extensions=tuple(extended.get(row.id, ())),
            label=row.label,
        )
        for row in rows
    ]


def _extensions(connection: Connection) -> dict[int, list[Extension]]:
    """Of every sweep by its row number: mostly there are none."""
    found: dict[int, list[Extension]] = {}
    for row in connection.execute(select(extensions).order_by(extensions.c.sweep_id, extensions.c.number)):
        one = Extension(
            trials=row.trials,
            hours=row.hours,
            epsilon=tuple(json.loads(row.epsilon)),
            proposed=row.proposed,
            launched=row.launched,
            at=row.at,
        )
        found.setdefault(row.sweep_id, []).append(one)
    return found


def read_trials(
    connection: Connection,
    name: str,
    states: Collection[TrialState] | None = None,
    numbers: Collection[int] | None = None,
) -> list[TrialRecord]:
    """Trials in order of number, with what may be seen of them."""
    sweep = sweep_id(connection, name)
    statement = select(*_TRIAL_COLUMNS).where(trials.c.sweep_id == sweep).order_by(trials.c.number)
    if states is not None:
        statement = statement.where(trials.c.state.in_([str(state) for state in states]))
    if numbers is not None:
        statement = statement.where(trials.c.number.in_(list(numbers)))
    with collector_paused():
        rows = _tuples(connection, statement)
        if not rows:
            return []
        columns = dict(zip((column.name for column in _TRIAL_COLUMNS), zip(*rows, strict=True), strict=True))
        records = _Rows(columns, _reports(connection, sweep)).records(name)
        text = connection.execute(select(sweeps.c.spec).where(sweeps.c.id == sweep)).scalar_one()
        spec = RecordedSpec(json.loads(text))
        if spec.early_stopping is not None:
            records = [_claiming_the_plan(record) for record in records]
        release = Release.recorded(spec)
        return records if release.stated else [release.read(record) for record in records]


def _claiming_the_plan(record: TrialRecord) -> TrialRecord:
    """With what a stopped trial claims (`sweeps.control.stopped_trials`): earlier releases kept its prefix's number."""
    if record.plan is None or record.guarantee is None:
        return record
    claim = record.plan.guarantee
    whole = {EPSILON: claim.epsilon}
    return replace(
        record,
        guarantee=claim,
        metrics={**record.metrics, **whole},
        reports={step: {**metrics, **whole} for step, metrics in record.reports.items()},
    )


class _Rows:
    """One reading, column by column."""

    def __init__(self, columns: Mapping[str, Sequence[Any]], reports: Mapping[int, Mapping[int, Any]]) -> None:
        self._columns, self._reports = dict(columns), reports
        self._parsed: dict[str, list[Any]] = {}

    def decoded(self, name: str, row: int) -> Any:
        if name in _PARSED_AT_ONCE:
            if name not in self._parsed:
                with collector_paused():
                    parsed = loads_column(self._columns.pop(name))
                    self._parsed[name] = list(map(_claim, parsed)) if name == "guarantee" else parsed
            return self._parsed[name][row]
        if name == "reports":
            return self._reports_of(row)
        value = self._columns[name][row]
        if name == "plan":
            # Plans are large and rarely all read.
            return None if value == NULL else PrivacyPlan.from_dict(json.loads(value))
        return int(value) if name == "seed" else value

    def _reports_of(self, row: int) -> Mapping[int, Any]:
        if several := self._reports.get(self._columns["number"][row]):
            return several
        step = self._columns["step"][row]
        return {step: self._parsed["metrics"][row]} if step else {}

    def records(self, sweep: str) -> list[TrialRecord]:
        """All of them."""
        self._parsed["metrics"] = loads_column(self._columns.pop("metrics"))
        columns = (self._columns["number"], self._columns["state"], self._parsed["metrics"])
        return [
            TrialRecord.stored(self, row, key=f"{sweep}-{number}", number=number, state=_STATES[state], metrics=metrics)
            for row, (number, state, metrics) in enumerate(zip(*columns, strict=True))
        ]


def _claim(content: dict[str, Any] | None) -> Guarantee | None:
    return None if content is None else Guarantee.from_dict(content)


def _reports(connection: Connection, sweep: int) -> dict[int, dict[int, Any]]:
    """{number: {step: metrics}} of the trials that have reported more than once."""
    several = (
        select(attempts.c.number)
        .where(attempts.c.sweep_id == sweep, attempts.c.outcome == str(Outcome.SETTLED), attempts.c.attempt > 1)
        .distinct()
    )
    statement = (
        select(attempts.c.number, attempts.c.step, attempts.c.metrics)
        .where(attempts.c.sweep_id == sweep, attempts.c.outcome == str(Outcome.SETTLED))
        .where(attempts.c.number.in_(several))
        .order_by(attempts.c.number, attempts.c.attempt)
    )
    reports: dict[int, dict[int, Any]] = {}
    for number, step, metrics in _tuples(connection, statement):
        reports.setdefault(number, {})[step] = json.loads(metrics)
    return reports


def read_counts(connection: Connection, name: str) -> dict[str, int]:
    """Number of trials in each state, zeros included."""
    rows = connection.execute(
        select(trials.c.state, func.count()).where(trials.c.sweep_id == sweep_id(connection, name)).group_by("state")
    )
    return {str(state): 0 for state in TrialState} | {state: count for state, count in rows}


def read_ledger(connection: Connection, name: str, number: int | None = None) -> list[LedgerEntry]:
    """Entries in order of trial and attempt."""
    statement = (
        select(ledger.c.number, ledger.c.attempt, ledger.c.from_step, ledger.c.to_step, ledger.c.executed_to)
        .where(ledger.c.sweep_id == sweep_id(connection, name))
        .order_by(ledger.c.number, ledger.c.attempt)
    )
    if number is not None:
        statement = statement.where(ledger.c.number == number)
    with collector_paused():
        return [
            LedgerEntry(key=f"{name}-{row[0]}", attempt=row[1], from_step=row[2], to_step=row[3], executed_to=row[4])
            for row in _tuples(connection, statement)
        ]


def read_attempts(connection: Connection, name: str, number: int | None = None) -> list[AttemptRecord]:
    """Attempts in order of trial and attempt."""
    statement = (
        select(attempts)
        .where(attempts.c.sweep_id == sweep_id(connection, name))
        .order_by(attempts.c.number, attempts.c.attempt)
    )
    if number is not None:
        statement = statement.where(attempts.c.number == number)
    return [
        AttemptRecord(
            key=f"{name}-{row.number}",
            attempt=row.attempt,
            outcome=Outcome(row.outcome),
            reason=row.reason,
            step=row.step,
            seconds=row.seconds,
            started_at=row.started_at,
            ended_at=row.ended_at,
        )
        for row in connection.execute(statement)
    ]


def read_curves(connection: Connection, name: str, numbers: Collection[int] | None = None) -> list[CurveReport]:
    """What trials told at the ends of their launches and between, in order of trial and step."""
    sweep = sweep_id(connection, name)
    ends = select(attempts.c.number, attempts.c.step, attempts.c.attempt, attempts.c.ended_at, attempts.c.metrics)
    ends = ends.where(attempts.c.sweep_id == sweep, attempts.c.outcome == str(Outcome.SETTLED))
    between = select(curves.c.number, curves.c.step, curves.c.attempt, curves.c.at, curves.c.metric, curves.c.value)
    between = between.where(curves.c.sweep_id == sweep).order_by(curves.c.number, curves.c.step, curves.c.metric)
    if numbers is not None:
        ends = ends.where(attempts.c.number.in_(list(numbers)))
        between = between.where(curves.c.number.in_(list(numbers)))
    with collector_paused():
        rows = _tuples(connection, ends)
        told = loads_column([row[4] for row in rows])
        found = {tuple(row[:4]): metrics for row, metrics in zip(rows, told, strict=True)}
        for row in _tuples(connection, between):
            found.setdefault(tuple(row[:4]), {})[row[4]] = row[5]
        return [
            CurveReport(key=f"{name}-{number}", step=step, attempt=attempt, metrics=metrics, at=at)
            for (number, step, attempt, at), metrics in sorted(found.items(), key=lambda one: one[0][:2])
        ]


def read_outbox(connection: Connection, name: str, limit: int) -> list[OutboxRow]:
    """The oldest rows not yet delivered, in order."""
    statement = (
        select(outbox.c.id, outbox.c.number, outbox.c.kind, outbox.c.at)
        .where(outbox.c.sweep_id == sweep_id(connection, name))
        .order_by(outbox.c.id)
        .limit(limit)
    )
    return [
        OutboxRow(
            id=row.id, sweep=name, key=None if row.number is None else f"{name}-{row.number}", kind=row.kind, at=row.at
        )
        for row in connection.execute(statement)
    ]


def read_requests(connection: Connection, name: str) -> list[Request]:
    """What people asked, in order."""
    statement = select(requests).where(requests.c.sweep_id == sweep_id(connection, name)).order_by(requests.c.id)
    return [
        Request(id=row.id, wanted=wanted_from(row.kind, json.loads(row.content)), asker=row.asker, at=row.at)
        for row in connection.execute(statement)
    ]


def read_backlog(connection: Connection, name: str) -> int:
    """How many rows are not yet delivered."""
    sweep = sweep_id(connection, name)
    return int(connection.execute(select(func.count()).where(outbox.c.sweep_id == sweep)).scalar_one())


def _tuples(connection: Connection, statement: Select[Any]) -> Sequence[Any]:
    return connection.execute(statement).all()
