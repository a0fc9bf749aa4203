"""The sweep that a certificate is to be about, which of its claims one may carry, and how that claim is counted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dpcore.events import Composed
from dpcore.guarantee import STANDING, Guarantee, Status
from dpcore.selection.best import HeterogeneousTrials
from dpcore.selection.counts import Capped
from dpcore.selection.front import FrontPoints
from dpcore.selection.ladder import LadderPoints
from sweeps.audit import AuditRecord, audits_of
from sweeps.certificate.modes import (
    STATED,
    Best,
    ComposedTrials,
    Filtered,
    First,
    Front,
    Mode,
    SealedSearch,
    Statement,
    TrialAlone,
)
from sweeps.certificate.plans import Ledger, LedgerRow, PlannedTrial, Profile, released_by
from sweeps.privacy.charge import charge_of
from sweeps.privacy.claims import claim_of_search
from sweeps.privacy.heldout import charged
from sweeps.privacy.ledger import Procedure, Summary
from sweeps.privacy.published_store import PublishedStore
from sweeps.privacy.quoting import Verdict, quote_of_claim, quote_of_total
from sweeps.privacy.release import Published, Release
from sweeps.privacy.totals import charged_as, choices_of, cut_short, summary, sweep_total
from sweeps.selection.price import SealedPlanner, SealedPrior
from sweeps.spec.parse import load_spec, public_facts
from sweeps.spec.sections import SweepSpec
from sweeps.spec.sweep_budget import budget_of, law_text
from sweeps.store.records import TARGET_EPSILON, LedgerEntry, SweepRecord, SweepState, TrialState
from trainables.scalarisation import Scalarisation
from trainables.system import DatasetSpec, PrivacyPlan, Refusal

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
            trials=store.trials(record.name),
            trial=trial,
            entries=[one for one in entries if trial is None or one.key == trial.key],
            audits=audits_of(Path(record.root) / record.name),
        )

    @property
    def heading(self) -> str:
        """What stands above every claim of the sweep; empty where claims stand for themselves."""
        return Release.of(self.record.spec).heading

    @property
    def about(self) -> Sequence[Published]:
        """Trials that the certificate is about."""
        return self.trials if self.trial is None else [self.trial]

    @property
    def complete(self) -> list[Published]:
        """Trials that are."""
        return [one for one in self.trials if one.state is TrialState.COMPLETE]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """A claim as it was counted.  artefact  what was released, exactly"""

    mode: Mode
    claim: Guarantee
    ledger: Ledger
    artefact: str


def count(subject: Subject) -> Counted:
    """How the sweep, or one of its trials, is counted. Raises CannotCertify, InvalidValue."""
    privacy, alone = subject.spec.privacy, subject.trial is not None
    if privacy.release == "all":
        return _trial(subject) if alone else _all(subject)
    if not alone:
        return _search(subject)
    named = f"privacy.scope: {privacy.scope}, release: {privacy.release} of a single trial"
    raise CannotCertify(f"{subject.record.called}: {named} has no certificate yet.")


# Open modes: one trial, or all of them.


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


def _trial(subject: Subject) -> Counted:
    """One trial's own claim, or the statement of a weaker one."""
    assert subject.trial is not None
    key, (plan, claim) = subject.trial.key, checked_trial(subject.trial)
    planned = PlannedTrial.of(key, plan, claim)
    mode = Statement(trials=(planned,)) if claim.status in STATED else TrialAlone.of(planned, claim)
    artefact = f"the metrics of {key} at every report, and its model where its system has one"
    return Counted(mode=mode, claim=claim, ledger=list(map(LedgerRow.of, subject.entries)), artefact=artefact)


def _checked_total(record: SweepRecord, counted: Summary) -> Procedure:
    """The total of a sweep, where it may be certified."""
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


def _all(subject: Subject) -> Counted:
    """All trials together, by composition or by the budget that a filter kept."""
    record, entries = subject.record, subject.entries
    tests, choices = charged(subject.store, record), choices_of(record, subject.trials)
    cut = cut_short(record, subject.trials)
    total = _checked_total(record, summary(subject.trials, entries, choices, cut, tests, sweep_total(record.spec)))
    plans = {one.key: one.plan for one in subject.trials if one.plan is not None}
    trials, budget = tuple(PlannedTrial.of(key, plan) for key, plan in plans.items()), budget_of(subject.spec)
    claim = total.guarantee
    mode: Mode
    if total.filtered:
        assert budget is not None
        known: dict[str, float] = {}
        # What a launch was allowed to run is charged, however far it came.
        ledger = [LedgerRow.of(replace(entry, executed_to=entry.to_step)) for entry in entries]
        charges = (charge_of(budget, plans[row.trial], row.from_step, row.to_step, known) for row in ledger)
        mode = Filtered(trials=trials, order=budget.order, charges=tuple(charges))
    else:
        ledger = list(map(LedgerRow.of, charged_as(subject.trials, entries, choices)))
        tested, apart = Composed(events=tuple(one.event for one in tests)), all(one.apart for one in tests)
        mode = ComposedTrials(
            scope=subject.spec.privacy.scope,
            budget=None if total.budget is None else total.budget.epsilon,
            delta=min(plan.guarantee.delta for plan in plans.values()),
            trials=trials,
            tests=tested,
            tests_apart=apart,
            profile=Profile.of(released_by(trials, ledger, tested, apart).together(claim.adjacency), claim),
        )
    artefact = (
        f"every published metric of {len(trials)} trials at every report, and their models where systems have any"
    )
    return Counted(mode=mode, claim=claim, ledger=ledger, artefact=artefact)


# Sealed searches: what left, or nothing, at the price of the whole.


def _search(subject: Subject) -> Counted:
    """The winners of a sealed search that is over, or none, and the search."""
    record, spec, winners = subject.record, subject.spec, subject.complete
    if record.state is not SweepState.FINISHED:
        raise CannotCertify(f"{record.called}: {record.state}; expected a sealed search that is over.")
    planner = SealedPlanner.of(SealedPrior(spec, subject.facts))
    if isinstance(planner, Refusal):
        raise CannotCertify(f"{record.called}: its search has no price any more ({planner.reason}).")
    left, rule = [checked_trial(one) for one in winners], planner.pricing.rule
    if not left:
        claim = _of_nothing(subject, planner)
    elif isinstance(rule, LadderPoints) and len(rule.epsilons) > 1:
        # Of one success of several budgets what it cost, an epsilon that is known afterwards.
        claim = left[0][0].beside[0]
    else:
        joint = claim_of_search([own for _, own in left])
        assert joint is not None
        claim = joint
    assert spec.selection is not None
    mode = mode_of(
        rule,
        law_text(spec.selection, spec.search.trials),
        tuple(PlannedTrial.of(one.key, plan, claim) for one, (plan, _) in zip(winners, left, strict=True)),
        spec.orders,
        str(spec.selection.target),
        float(winners[0].config[TARGET_EPSILON]) if winners else None,
    )
    return Counted(mode=mode, claim=claim, ledger=(), artefact=_artefact(subject))


def mode_of(
    rule: HeterogeneousTrials | LadderPoints | FrontPoints,
    named: str,
    trials: tuple[PlannedTrial, ...],
    orders: Sequence[Scalarisation] = (),
    target: str = "",
    budget: float | None = None,
) -> SealedSearch:
    """The mode of a price.

    named   its law in words;  orders  of a front
    target  of the first success, in words;  budget  of what left: where a ladder ended
    """
    cap = rule.law.cap if isinstance(rule.law, Capped) else None
    told: dict[str, Any] = {"law": rule.law.priced, "cap": cap, "named": named, "trials": trials}

    def of_the_rule(*names: str) -> dict[str, Any]:
        return told | {name: getattr(rule, name) for name in names}

    match rule:
        case HeterogeneousTrials():
            return Best(**of_the_rule("e1", "d1", "e_hat", "d_hat"))
        case LadderPoints():
            ended = None if budget is None else 1 + rule.epsilons.index(budget)
            of_rungs = of_the_rule("epsilons", "weights", "shifts", "deltas", "d_hat")
            return First(**of_rungs, target=target, ended=ended)
        case FrontPoints():
            return Front(**of_the_rule("mu", "tau"), orders=tuple(orders))


def _of_nothing(subject: Subject, planner: SealedPlanner) -> Guarantee:
    """The price of the whole, as any winner would have claimed it; of whichever system, so none may claim less."""
    dearest = planner.prior.spec.privacy.epsilon[-1]
    plans = [planner.plan({**one, TARGET_EPSILON: dearest}) for one in planner.prior.space.middles()]
    claims = [planner.claim(planner.pricing.reference)]
    claims += [one.guarantee for one in plans if isinstance(one, PrivacyPlan)]
    for one in claims:
        if one.status is not Status.PROVED_UNDER_ASSUMPTIONS:
            raise CannotCertify(
                f"{subject.record.called}: it released nothing, and trials of its space would have claimed "
                f"{one.standing}; expected {Status.PROVED_UNDER_ASSUMPTIONS} of all of them."
            )
    return claims[0]


def _artefact(subject: Subject) -> str:
    """What left, exactly."""
    listed = ", ".join(one.key for one in subject.complete)
    if not listed:
        return "nothing: whether no trial might leave, or not every one had ended in time, is not told"
    if subject.spec.privacy.release == "front":
        return f"the winners of all orders, with their scores, as {listed}: which of the trials they were is not told"
    what = "the winner" if subject.spec.privacy.release == "best" else "the first success"
    return f"{what} alone, with its score, as {listed}: which of the trials it was is not told"
