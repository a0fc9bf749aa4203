"""Which claims can be certified: the judgement of `sweeps.privacy.quoting`, and an error with its reason for others."""

from __future__ import annotations

import math

from dpcore.guarantee import STANDING
from sweeps.certificate.modes.statement import STATED
from sweeps.privacy.quoting import Verdict, quote_of_claim, quote_of_total
from sweeps.privacy.release import Published
from sweeps.privacy.totals import Total
from sweeps.store.records import SweepRecord, SweepState, TrialState


class CannotCertify(ValueError):
    """A claim that no certificate may carry; the message says why, and what can be certified instead."""


_ONE = "`sweeps certify {sweep} --trial NUMBER` certifies one trial, and says that its search is not covered."


def check_total(record: SweepRecord, total: Total) -> None:
    """Whether the total of a sweep may be certified. Raises CannotCertify."""
    name = record.called
    if record.state in (SweepState.CREATED, SweepState.RUNNING):
        raise CannotCertify(f"{name}: {record.state}; expected a sweep that ended, since this one goes on spending.")
    if total.procedure is None:
        reason = total.uncounted or "nothing was launched"
        raise CannotCertify(f"{name}: its total is not counted ({reason}). {_ONE.format(sweep=name)}")
    quote = quote_of_total(total.procedure)
    if quote.verdict in (Verdict.NO, Verdict.REFUTED):
        instead = "Nothing of it can be certified." if quote.verdict is Verdict.REFUTED else _ONE.format(sweep=name)
        raise CannotCertify(f"{name}: the total of its trials {quote.said}: {quote.sentence or quote.words}. {instead}")


def check_trial(trial: Published) -> None:
    """Whether the claim of a trial may be certified, or stated as what it is. Raises CannotCertify."""
    claim = trial.guarantee
    if trial.state is not TrialState.COMPLETE or claim is None or trial.plan is None:
        raise CannotCertify(f"{trial.key}: {trial.state}; expected a trial that is complete, with a claim.")
    quote = quote_of_claim(claim)
    if claim.status in STATED and math.isfinite(claim.epsilon):
        return
    if quote.verdict in (Verdict.NO, Verdict.REFUTED) or claim.status not in STANDING:
        raise CannotCertify(f"{trial.key}: its epsilon {quote.said}: {quote.sentence or quote.words}.")
