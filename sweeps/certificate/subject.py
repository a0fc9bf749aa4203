"""The sweep that a certificate is to be about, and which of its claims a certificate may carry."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dpcore.guarantee import STANDING, Guarantee, Status
from sweeps.audit import AuditRecord, audits_of
from sweeps.privacy.ledger import Procedure, Summary
from sweeps.privacy.published_store import PublishedStore
from sweeps.privacy.quoting import Verdict, quote_of_claim, quote_of_total
from sweeps.privacy.release import Published, Release
from sweeps.spec.parse import load_spec, public_facts
from sweeps.spec.sections import SweepSpec
from sweeps.store.records import LedgerEntry, SweepRecord, SweepState, TrialState
from trainables.system import DatasetSpec, PrivacyPlan

STATED = {
    Status.AVERAGE_CASE: "average-case: an average over people, which bounds nothing of one",
    Status.MEMBERSHIP_ONLY: "membership only: the guess who was in the data is bounded, and nothing else",
}
"""Statuses of which there are statements, and no certificates, with what their titles say."""
_ONE = "`sweeps certify {sweep} --trial NUMBER` certifies one trial, and says that its search is not covered."


class CannotCertify(ValueError):
    """A claim that no certificate may carry; the message says why, and what can be certified instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A sweep, read once.

    trial    that the certificate is about; None: all of them together
    entries  of the ledger, of that trial alone where there is one
    """

    store: PublishedStore
    record: SweepRecord
    spec: SweepSpec
    facts: DatasetSpec
    release: Release
    trials: Sequence[Published]
    trial: Published | None
    entries: Sequence[LedgerEntry]
    audits: Sequence[AuditRecord]

    @classmethod
    def of(cls, store: PublishedStore, sweep: str, trial: Published | None = None) -> Subject:
        """Of a sweep that was not deleted. Raises UnknownSweep, InvalidValue, SpecErrors."""
        record = store.sweep(sweep).kept()
        spec, entries = load_spec(record.spec.canonical()), store.ledger(record.name)
        return cls(
            store=store,
            record=record,
            spec=spec,
            facts=public_facts(spec),
            release=Release.of(record.spec),
            trials=store.trials(record.name),
            trial=trial,
            entries=[one for one in entries if trial is None or one.key == trial.key],
            audits=audits_of(Path(record.root) / record.name),
        )

    @property
    def about(self) -> Sequence[Published]:
        """Trials that the certificate is about."""
        return self.trials if self.trial is None else [self.trial]

    @property
    def plans(self) -> dict[str, PrivacyPlan]:
        """Of all trials that have one."""
        return {one.key: one.plan for one in self.trials if one.plan is not None}

    @property
    def complete(self) -> list[Published]:
        """Trials that are."""
        return [one for one in self.trials if one.state is TrialState.COMPLETE]


def checked_total(record: SweepRecord, counted: Summary) -> Procedure:
    """The total of a sweep, where it may be certified. Raises CannotCertify."""
    name = record.called
    if record.state in (SweepState.CREATED, SweepState.RUNNING):
        raise CannotCertify(f"{name}: {record.state}; expected a sweep that ended, since this one goes on spending.")
    if counted.procedure is None:
        reason = counted.uncounted or "nothing was launched"
        raise CannotCertify(f"{name}: its total is not counted ({reason}). {_ONE.format(sweep=name)}")
    quote = quote_of_total(counted.procedure)
    if quote.verdict in (Verdict.NO, Verdict.REFUTED):
        instead = "Nothing of it can be certified." if quote.verdict is Verdict.REFUTED else _ONE.format(sweep=name)
        raise CannotCertify(f"{name}: the total of its trials {quote.said}: {quote.sentence or quote.words}. {instead}")
    return counted.procedure


def checked_trial(trial: Published) -> tuple[PrivacyPlan, Guarantee]:
    """Plan and claim of a trial, where they may be certified, or stated as what they are. Raises CannotCertify."""
    claim, plan = trial.guarantee, trial.plan
    if trial.state is not TrialState.COMPLETE or claim is None or plan is None:
        raise CannotCertify(f"{trial.key}: {trial.state}; expected a trial that is complete, with a claim.")
    quote = quote_of_claim(claim)
    stated = claim.status in STATED and math.isfinite(claim.epsilon)
    if not stated and (quote.verdict in (Verdict.NO, Verdict.REFUTED) or claim.status not in STANDING):
        raise CannotCertify(f"{trial.key}: its epsilon {quote.said}: {quote.sentence or quote.words}.")
    return plan, claim
