"""`release: all`: all trials together, by composition or by the budget that a filter kept; or one trial's own claim."""

from __future__ import annotations

from dpcore.events import Composed
from dpcore.guarantee import Guarantee
from sweeps.certificate.built import Built, ledger_rows, planned, whole_row
from sweeps.certificate.built_filter import of_filter
from sweeps.certificate.gathering import KnownSweep
from sweeps.certificate.judging import check_total, check_trial
from sweeps.certificate.modes import ComposedTrials, OneTrial, StatedTrial
from sweeps.certificate.modes.composition import released_parts
from sweeps.certificate.modes.one_trial import headline_of
from sweeps.certificate.modes.profile import Profile
from sweeps.certificate.modes.statement import STATED
from sweeps.heldout import charged
from sweeps.privacy.release import Published
from sweeps.privacy.totals import charged_as, choices_of, cut_short, summary, sweep_total, total_of
from trainables.system import PrivacyPlan


def of_all(known: KnownSweep) -> Built:
    """All trials of a sweep together. Raises CannotCertify."""
    store, record, trials, entries = known.store, known.record, known.trials, known.entries
    tests = charged(store, record)
    choices, rests_on = choices_of(record, trials), cut_short(record, trials)
    budget = sweep_total(record.spec)
    counted = summary(trials, entries, choices, rests_on, tests, budget)
    check_total(record, total_of(record.name, counted))
    assert counted.procedure is not None
    claim = counted.procedure.guarantee
    plans = {one.key: one.plan for one in trials if one.plan is not None}
    if counted.procedure.filtered:
        return of_filter(known, plans, claim)
    rows = ledger_rows(plans, charged_as(trials, entries, choices))
    listed = tuple(planned(key, plan) for key, plan in plans.items())
    tested, apart = Composed(events=tuple(one.event for one in tests)), all(one.apart for one in tests)
    scope = known.spec.privacy.scope
    parts = released_parts(listed, rows, tested, apart).together(claim.adjacency)
    mode = ComposedTrials(
        mode="composition",
        scope=scope,
        release="all",
        budget=None if budget is None else budget.epsilon,
        delta=min(plan.guarantee.delta for plan in plans.values()),
        trials=listed,
        tests=tested,
        tests_apart=apart,
        profile=Profile.of(parts, claim.adjacency, claim.epsilon, claim.delta),
    )
    artefact = f"every published metric of {len(plans)} trials at every report, and their models where systems have any"
    return Built(mode=mode, claim=claim, rows=rows, artefact=artefact)


def of_trial(known: KnownSweep, trial: Published) -> Built:
    """One trial's own claim, or the statement of a weaker one. Raises CannotCertify."""
    check_trial(trial)
    assert trial.plan is not None
    assert trial.guarantee is not None
    rows = ledger_rows({trial.key: trial.plan}, known.entries)
    artefact = f"the metrics of {trial.key} at every report, and its model where its system has one"
    mode = one_trial(trial.key, trial.plan, trial.guarantee)
    return Built(mode=mode, claim=trial.guarantee, rows=rows, artefact=artefact)


def one_trial(key: str, plan: PrivacyPlan, claim: Guarantee) -> OneTrial | StatedTrial:
    """How the claim of one trial with this plan is counted."""
    own = planned(key, plan, claim)
    if claim.status in STATED:
        return StatedTrial(mode="statement", trial=own)
    parts = released_parts([own], [whole_row(key, plan)], Composed(), False).together(claim.adjacency)
    found = headline_of(parts, claim.delta, claim.adjacency, claim.unit)
    profile = Profile.of(parts, claim.adjacency, claim.epsilon, claim.delta)
    return OneTrial(mode="trial", trial=own, headline=found.accountant == claim.accountant, profile=profile)
