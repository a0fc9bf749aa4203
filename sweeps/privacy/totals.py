"""What all trials of a sweep released together: pure functions over ledger entries and plans, and totals of sweeps.

Two numbers, never confused. A claim is what one released trial promises: its plan's guarantee, however early it was
stopped; lost attempts are not on its path. The ledger is every step of every trial that was, or may have been,
executed: open reservations whole, re-executed steps again. If everything that the sweep computed is released, this is
what was released.

Reports on private validation records need no entry of their own: an attempt whose horizon reached the step that a
report follows may have drawn it, and is charged for it, published or not. Another attempt draws it with noise of its
own, and is charged again. The claim of a trial holds one report for each rung and point of its curve: metrics become
visible with a durable checkpoint alone, and then every further attempt goes on from a state behind them.

A sweep with one budget launches nothing that its filter does not hold (`sweeps.privacy.charge`): whatever
sampler, early stopping, people or lost workers made of it, all of it together is within the budget, and that is its
total. Where everything was fixed beforehand, the composition of what ran is a smaller number and true as well.

A final run has its hyperparameters from an earlier sweep, and a sweep with `search.warm_start` chooses its first trials
by what an earlier one released, on the same records unless the data changed. Their own totals leave that out, so every
view that states the one states the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dpcore.checks import InvalidValue
from dpcore.events import Composed, Event, Repeated, phases
from dpcore.guarantee import FLOATING_POINT, Guarantee, Status, budget_text, resting_on, weakest
from sweeps.privacy.charge import UNCOUNTED, ReleasedParts, rounding_line
from sweeps.privacy.heldout import Charged, charged
from sweeps.privacy.ledger import (
    BY_SUMS,
    HOLDOUT,
    ONE_TRIAL,
    SPENT_UNSEEN,
    Assumptions,
    Choice,
    Procedure,
    Summary,
    Tuned,
    both,
    claim_of_search,
    covers_search,
    largest_claims,
    sealed_and_begun,
    spending,
    tuned_of,
)
from sweeps.privacy.release import Published, PublishedStore
from sweeps.privacy.wording import TOTAL_SHOWN_UP_TO, total_lines
from sweeps.spec.sections import FIXED_SAMPLERS, SweepSpec, learns
from sweeps.spec.sweep_budget import SweepBudget, budget_of
from sweeps.store.errors import UnknownSweep
from sweeps.store.records import OVER, LedgerEntry, SweepRecord, SweepState, TrialRecord, TrialState
from trainables.system import PrivacyPlan
from trainables.training.noise import named_generators

IN_TIME = (
    "When results came, and which launches were lost, depended on records through nothing but the results themselves."
)
"""What a total by a filter rests on besides: running times and failures steer a search too."""
ACROSS = (
    "By the clocks of their machines, each of these sweeps and each of their extensions was recorded before any other "
    "of them launched a trial, so that no result of one chose the budgets of another."
)
"""What a total over several sweeps rests on besides; where the records say otherwise it is no guarantee."""
NOT_COVERED = "not covered: metrics that read training records outside of every claim left with it"
"""Why the total of a sweep that releases raw measures is no number."""
LISTED = 3
"""Enqueued trials that are named."""

_CONCURRENT = "launches in parallel: Haney et al. (2023), concurrent composition of filters"
THEOREMS = {
    "gdp": "Gaussian privacy filter: Smith & Thakurta (2022), fully adaptive composition; Koskela, Tobaben & Honkela "
    f"(2023); each launch covered by a Gaussian up to a chance that delta holds; {_CONCURRENT}",
    "renyi": f"Renyi filter at one order fixed beforehand: Feldman & Zrnic (2021); {_CONCURRENT}",
}
_DONE = (TrialState.COMPLETE, TrialState.FAILED)


def filtered_guarantee(budget: SweepBudget, plans: Iterable[PrivacyPlan]) -> Guarantee:
    """The budget as a claim on all trials with these plans together, one of which there is at least."""
    claims = [plan.guarantee for plan in plans]
    own = (line for claim in claims for line in claim.assumptions if line != ONE_TRIAL)
    named = named_generators((FLOATING_POINT,), claims)
    found = Guarantee(
        epsilon=budget.epsilon,
        delta=budget.delta,
        adjacency=claims[0].adjacency,
        unit=claims[0].unit,
        accountant=f"{budget.kind}-filter",
        status=Status.PROVED,
        theorem=THEOREMS[budget.kind],
        assumptions=tuple(dict.fromkeys((*named, *own, IN_TIME))),
    )
    return resting_on(found, claims)


def released(plans: Mapping[str, PrivacyPlan], entries: Iterable[LedgerEntry]) -> ReleasedParts:
    """All that was, or may have been, released: a slice of a plan per entry, overlaps and reports drawn again too.

    Raises InvalidValue for an entry without a plan, or beyond its plan's steps.
    """
    training, reports = Counter[Event](), Counter[Event]()
    for entry in entries:
        if entry.key not in plans:
            raise InvalidValue("plans", entry.key, "a plan for every ledger entry")
        if entry.steps_spent:
            own = ReleasedParts.of(plans[entry.key], entry.from_step, entry.from_step + entry.steps_spent)
            training.update(phases(own.training))
            reports.update(phases(own.reports))
    of_training, of_reports = (
        Composed(events=tuple(Repeated(event=event, count=count) for event, count in counts.items()))
        for counts in (training, reports)
    )
    return ReleasedParts(training=of_training, reports=of_reports, parallel=in_parallel(plans.values()))


def in_parallel(plans: Iterable[PrivacyPlan]) -> bool:
    """Whether training and reports of all these plans compose in parallel: every one parts the records in one way."""
    reports = [plan.validation for plan in plans]
    return all(one is not None and one.parallel for one in reports) and len({one and one.parts for one in reports}) == 1


def procedure_guarantee(
    plans: Mapping[str, PrivacyPlan],
    entries: Sequence[LedgerEntry],
    delta: float,
    adaptive: bool,
    tests: Sequence[Charged] = (),
) -> Guarantee:
    """The ledger's epsilon at `delta`: all that the sweep executed, taken as released, by the headline accountant.

    delta     on top of what approximate releases have fixed as their own deltas: the guarantee carries the sum
    adaptive  whether configurations were chosen from earlier results (TPE, NSGA-II, GP, early stopping). The
              composition theorem (Zhu, Dong & Wang 2022, theorem 27) lets mechanisms adapt within budgets fixed in
              advance; here the budgets adapt too, so that the number has the status `no-claim`.

    tests     readings of private test records, of each sweep that has any: in parallel with all else where they are
              apart from it, else added

    It rests on what its plans rest on, but for `ONE_TRIAL`: choosing among the trials is covered here.

    More than `charge.MAX_PHASES` distinct phases are first rounded to the safe side, and the guarantee says so.
    Seconds of work for many phases: call it for display, not on the way of a launch. Raises InvalidValue when the plans
    differ in adjacency or unit.
    """
    if not plans:
        raise InvalidValue("plans", {}, "at least one plan")
    kinds = {(plan.guarantee.adjacency, plan.guarantee.unit) for plan in plans.values()}
    if len(kinds) != 1:
        raise InvalidValue("plans", sorted(kinds), "plans under one adjacency and one unit", "They never add up.")
    ((adjacency, unit),) = kinds
    tested, apart = Composed(events=tuple(one.event for one in tests)), all(one.apart for one in tests)
    together = replace(released(plans, entries), tests=tested, apart=apart)
    counted, ratio = together.claim(delta, adjacency, unit)
    named = named_generators(counted.assumptions, (plan.guarantee for plan in plans.values()))
    own = (line for plan in plans.values() for line in plan.guarantee.assumptions if line != ONE_TRIAL)
    assumptions = tuple(dict.fromkeys((*named, *own, *(one.assumption for one in tests))))
    assumptions += rounding_line(ratio)
    found = replace(resting_on(counted, [plan.guarantee for plan in plans.values()]), assumptions=assumptions)
    return replace(found, status=Status.NO_CLAIM) if adaptive else found


def choices_by_results(spec: SweepSpec) -> tuple[Choice, ...]:
    """What lets results choose budgets in a sweep of this spec; none: all were fixed beforehand."""
    found = []
    sampler = spec.search.sampler
    if learns(sampler):
        what = f"the {sampler} sampler {{}} trials by the results of earlier ones"
        instead = f"search with `sampler: {'` or `'.join(FIXED_SAMPLERS)}`"
        found.append(Choice(what.format("chose"), instead, will=what.format("chooses")))
    if spec.early_stopping is not None:
        will = "early stopping chooses by results how far trials go"
        found.append(Choice("early stopping chose by results how far trials went", "leave `early_stopping` out", will))
    return tuple(found)


def choices_of(sweep: SweepRecord, trials: Sequence[TrialRecord]) -> tuple[Choice, ...]:
    """What let results choose budgets in a sweep: its spec, and extensions that results may have asked for.

    A total is a guarantee of a number of trials that was fixed before the first of them: a person who looks at results
    and then decides how many more there are is a rule that chooses by results, as any sampler is. Counted for whichever
    number came out, delta would be spent once at every look. What was asked for before the first launch is none.
    """
    own = choices_by_results(sweep.spec) + _enqueued(trials)
    asked = [one.trials for one in sweep.extensions if one.trials is not None and one.launched]
    if asked:
        what = f"it was extended to {' and then '.join(map(str, asked))} trials when results could be seen"
        own += (Choice(what, "set `search.trials` to the last number before the first trial"),)
    added = [one.epsilon for one in sweep.extensions if one.epsilon and one.launched]
    if added:
        said = " and then ".join(", ".join(map(budget_text, budgets)) for budgets in added)
        what = f"it was given the budgets epsilon {said} when results could be seen"
        own += (Choice(what, "list every budget in `privacy.epsilon` before the first trial"),)
    wanted, ended = _wanted_and_ended(sweep, trials)
    left = wanted - ended
    if left > 0 and any(one.hours is not None and one.launched for one in sweep.extensions):
        what = f"it was given more hours when results could be seen, and {left} of its trials have not ended"
        own += (Choice(what, "let all of its trials run"),)
    return own


def _wanted_and_ended(sweep: SweepRecord, trials: Sequence[TrialRecord]) -> tuple[int, int]:
    """How many trials were asked for in all, and how many of them have ended; enqueued ones are beside them."""
    wanted = max([sweep.spec.search.trials, *(one.trials or 0 for one in sweep.extensions)])
    return wanted, sum(one.state in _DONE for one in trials if one.request is None)


def cut_short(sweep: SweepRecord, trials: Sequence[TrialRecord]) -> tuple[str, ...]:
    """What the total of a sweep rests on besides: why trials, and launches of trials, came to no end.

    While trials that were fixed beforehand have not ended: a number of steps that somebody chose by results is no
    longer one that was fixed beforehand, as for extensions, but nobody knows why a sweep was stopped. Nor how far the
    clock let it come without records: how long a trial takes may depend on them (Poisson batches, a solver's steps).
    What the space ended was ended by public facts.

    While launches were lost: a worker may die of its records (of a large Poisson batch, of memory). Nobody fixed
    beforehand then how often a trial was launched, nor the step up to which a launch is charged.
    """
    found = []
    wanted, ended = _wanted_and_ended(sweep, trials)
    if sweep.state not in OVER and ended < wanted:
        in_time = sweep.state is SweepState.OUT_OF_HOURS
        how = (
            "ended within limits.hours was not decided by records"
            if in_time
            else "have ended was not decided by results"
        )
        found.append(f"That only {ended} of its {wanted} trials {how}.")
    again = sum(max(0, one.attempts - 1) for one in trials)
    # With early stopping a trial that goes on from a rung is launched again, and results choose anyway.
    if again and sweep.spec.early_stopping is None:
        what = "1 launch was lost and made" if again == 1 else f"{again} launches were lost and made"
        found.append(f"That {what} again was not decided by records or results.")
    return tuple(found)


def _enqueued(trials: Sequence[TrialRecord]) -> tuple[Choice, ...]:
    """Whoever enqueues a point may have seen results: both that there is one more trial, and at which budget."""
    keys = [one.key for one in trials if one.request is not None and one.state is not TrialState.INFEASIBLE]
    if not keys:
        return ()
    listed = ", ".join(keys[:LISTED]) + (f" and {len(keys) - LISTED} more" if len(keys) > LISTED else "")
    what = f"{listed} {'was' if len(keys) == 1 else 'were'} enqueued by somebody who could see results"
    return (Choice(what, "put known points into `search.first` before the first trial"),)


def summary(
    trials: Sequence[TrialRecord],
    entries: Sequence[LedgerEntry],
    choices: Sequence[Choice] | None = None,
    rests_on: Sequence[str] = (),
    tests: Sequence[Charged] = (),
    budget: SweepBudget | None = None,
) -> Summary:
    """What `show` prints about the ledger: steps and claims always; with `choices` given, the procedure's total at
    the plans' smallest delta, or why no accountant can count the whole, or that more left than is counted.

    rests_on  assumptions of the total besides those of its plans
    tests     see `procedure_guarantee`
    budget    of the whole sweep, which its filter kept: then that is the total where results chose budgets, and stands
              beside it where they did not
    """
    found = Summary(spent=spending(entries), claims=largest_claims(trials))
    if choices is None or not entries:
        return found
    plans = {trial.key: trial.plan for trial in trials if trial.plan is not None}
    if any(plan.guarantee.status is Status.NOT_COVERED for plan in plans.values()):
        return replace(found, uncounted=NOT_COVERED)
    if any(covers_search(plan.guarantee) for plan in plans.values()):
        return _of_searches(found, list(plans.values()), tests)
    delta = min(plan.guarantee.delta for plan in plans.values())
    choices = (*choices, *(choice for one in tests for choice in one.choices))
    standing = weakest(*(plan.guarantee.status for plan in plans.values()))

    def counted_as(claim: Guarantee, entries: Sequence[LedgerEntry], **more: Any) -> Summary:
        own: dict[str, Any] = {"trials": len(plans), "refuted": _refuted(plans.values()), "standing": standing}
        procedure = Procedure(guarantee=claim, budget=budget, **own, **more)
        reports = sum(phases(released(plans, entries).reports).values())
        return replace(found, procedure=procedure, reports_charged=reports)

    filtered = None
    if budget is not None:
        kept = filtered_guarantee(budget, plans.values())
        filtered = counted_as(kept, entries, rests_on=(IN_TIME,), filtered=True)
        if choices:
            return filtered
    charged = charged_as(trials, entries, choices)
    whole = len({one.key for one, asked in zip(entries, charged, strict=True) if one != asked})
    try:
        counted = procedure_guarantee(plans, charged, delta, adaptive=bool(choices), tests=tests)
    except (InvalidValue, *UNCOUNTED) as error:
        return filtered or replace(found, uncounted=str(error))
    if filtered is not None and budget is not None and counted.epsilon > budget.epsilon:
        # Of two bounds that hold the smaller.
        return filtered
    counted = replace(counted, assumptions=(*counted.assumptions, *rests_on))
    return counted_as(counted, charged, choices=choices, rests_on=tuple(rests_on), whole=whole)


def charged_as(
    trials: Sequence[TrialRecord], entries: Sequence[LedgerEntry], choices: Sequence[Choice]
) -> list[LedgerEntry]:
    """The entries as a total counts them. Where results chose budgets the sum promises nothing, and says what ran.

    Else the last launch of a trial that is not complete counts as if it had run to the end of its plan. A total adds up
    budgets that were fixed beforehand. A trial that fails by a loss of nan, by an error or for want of memory stops
    where its results or its records made it stop: the steps up to there are no budget that anybody fixed. They are
    post-processing of the whole plan, which was; so that is counted. (`sweeps.execution.session` has the same argument
    for the trial's own claim.) Why a worker died nobody can tell: every failure counts alike. So does a trial that a
    stop or `limits.hours` left on its way: how far it had come by then is a matter of time, which may depend on
    records, or of somebody who saw its results.
    """
    if choices:
        return list(entries)
    planned = {
        one.key: one.planned_steps for one in trials if one.state is not TrialState.COMPLETE and one.plan is not None
    }
    last = {one.key: one.attempt for one in entries if one.key in planned}
    return [
        replace(one, to_step=planned[one.key], executed_to=planned[one.key])
        if last.get(one.key) == one.attempt and one.from_step + one.steps_spent < planned[one.key]
        else one
        for one in entries
    ]


def _refuted(plans: Iterable[PrivacyPlan]) -> tuple[str, ...]:
    return tuple(sorted({plan.system for plan in plans if plan.guarantee.status is Status.REFUTED}))


def _of_searches(found: Summary, plans: Sequence[PrivacyPlan], tests: Sequence[Charged]) -> Summary:
    """With the price of a sealed search for its total: what its winners' own steps cost says nothing of it.

    Winners of several orders of one search claim one price together.
    """
    claim = claim_of_search([one.guarantee for one in plans])
    if claim is None or tests:
        return replace(found, uncounted=BY_SUMS)
    procedure = Procedure(
        guarantee=claim,
        trials=len(plans),
        standing=claim.status,
        refuted=_refuted(plans),
        afterwards=plans[0].beside[0] if plans[0].beside else None,
    )
    return replace(found, procedure=procedure)


def summary_of(
    store: PublishedStore, sweep: SweepRecord, trials: Sequence[TrialRecord], in_passing: bool = True
) -> Summary:
    """`summary` of one sweep, with the total of all that it released, and of the tuning that it followed.

    in_passing  leave the total out, and say so, where it takes more than well under a second
    """
    entries, choices = store.ledger(sweep.name), choices_of(sweep, trials)
    if in_passing and len(entries) > TOTAL_SHOWN_UP_TO and (budget_of(sweep.spec) is None or not choices):
        return replace(
            summary(trials, entries), uncounted=f"{len(entries)} attempts: `sweeps report {sweep.name}` counts them"
        )
    if not entries and sealed_and_begun(sweep):
        return replace(summary(trials, entries), uncounted=SPENT_UNSEEN)
    rests_on, budget = cut_short(sweep, trials), budget_of(sweep.spec)
    found = summary(trials, entries, choices, rests_on, charged(store, sweep), budget)
    tuned, final = tuned_by_now(store, sweep.spec), found.procedure
    if tuned is None or final is None:
        return found
    whole, refuted = both(tuned, final.guarantee, found.spent.attempts), (*final.refuted, *tuned.refuted)
    return replace(found, procedure=replace(final, guarantee=whole, tuned=tuned.claim, refuted=refuted))


def tuned_by_now(store: PublishedStore, spec: SweepSpec) -> Tuned | None:
    """`tuned_of`, with what audits have found since: the claim was recorded when the final run began."""
    tuned = tuned_of(spec)
    if tuned is None or spec.search.chosen is None:
        return None
    name = spec.search.chosen.sweep
    return replace(tuned, refuted=tuple(f"{system} in {name}" for system in sorted(store.refuted(name))))


# The totals that belong together: of a sweep, and of every sweep whose results its search started from.


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """What all trials of one sweep released together.

    procedure  None where it is not counted
    uncounted  why not; empty where nothing was launched
    in_this_store  whether this store has the sweep
    tuned  whether a final run has its hyperparameters from it; else a search started from it, or it is the sweep itself
    part   whether it read the other part of the same records, then
    """

    sweep: str
    procedure: Procedure | None = None
    uncounted: str = ""
    in_this_store: bool = True
    tuned: bool = False
    part: bool = False

    def claims(self) -> list[Guarantee]:
        """The total, where it has a status to be shown."""
        return [self.procedure.guarantee] if self.procedure is not None and self.procedure.is_claim else []

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        counted = {} if self.procedure is None else {"procedure": self.procedure.to_dict()}
        reason = {"uncounted": self.uncounted} if self.uncounted else {}
        tuned = {"tuned": True} if self.tuned else {}
        return {"sweep": self.sweep, "in_this_store": self.in_this_store, **tuned, **counted, **reason}


def own_total(store: PublishedStore, sweep: str, trials: Sequence[Published]) -> Total:
    """Of one sweep, all of whose `trials` are given. Raises UnknownSweep."""
    return total_of(sweep, summary_of(store, store.sweep(sweep), trials))


def total_of(sweep: str, ledger: Summary) -> Total:
    """The total among what a view says of a ledger."""
    return Total(sweep=sweep, procedure=ledger.procedure, uncounted=ledger.uncounted)


def totals(store: PublishedStore, sweep: str, trials: Sequence[Published]) -> tuple[Total, ...]:
    """A sweep's own total, then `earlier_totals`. Raises UnknownSweep."""
    return own_total(store, sweep, trials), *earlier_totals(store, store.sweep(sweep).spec)


def earlier_totals(store: PublishedStore, spec: SweepSpec) -> tuple[Total, ...]:
    """Of the sweep that a spec names in `search.warm_start`, of the one that this one started from, ...; or of the one
    in `search.chosen_from`, which started from no other."""
    if spec.search.chosen_from is not None:
        found_by = _earlier(store, spec.search.chosen_from)
        return (replace(found_by, tuned=True, part=spec.privacy.scope == HOLDOUT),)
    found: list[Total] = []
    name = spec.search.warm_start
    while name is not None and name not in [one.sweep for one in found]:
        found.append(_earlier(store, name))
        name = store.sweep(name).spec.search.warm_start if found[-1].in_this_store else None
    return tuple(found)


def _earlier(store: PublishedStore, name: str) -> Total:
    try:
        record = store.sweep(name)
    except UnknownSweep:
        return Total(sweep=name, in_this_store=False)
    return own_total(store, record.name, store.trials(record.name))


def joint_totals(store: PublishedStore, sweeps: Mapping[str, Sequence[Published]]) -> tuple[Total, ...]:
    """What all trials of several sweeps on the same records released together, then the `earlier_totals` of others.

    sweeps  {name: all of its trials}

    Adaptive composition: the epsilons of one ledger that holds the steps of all. No guarantee where results chose
    budgets in any of the sweeps, or could have: where one was asked for when another one had launched trials. (A person
    who sees results and then decides what else runs chooses by results, as for `choices_of`.)
    """
    names = ", ".join(sweeps)
    records = {name: store.sweep(name) for name in sweeps}
    started_from = [one for record in records.values() for one in earlier_totals(store, record.spec)]
    earlier = tuple({one.sweep: one for one in started_from if one.sweep not in sweeps}.values())
    listed = [trial for trials in sweeps.values() for trial in trials]
    parts = [name for name, record in records.items() if tuned_of(record.spec) is not None and len(sweeps) > 1]
    reason, attempts = "", sum(trial.attempts for trial in listed)
    if parts:
        reason = f"{' and '.join(parts)} trained finally on one part of the records, after tuning on the other"
    elif any(map(sealed_and_begun, records.values())):
        # Of one that released nothing there is no trial that would tell of its price.
        reason = BY_SUMS
    elif attempts > TOTAL_SHOWN_UP_TO:
        reason = f"{attempts} attempts: over several sweeps at most {TOTAL_SHOWN_UP_TO} are counted"
    if reason:
        return Total(sweep=names, uncounted=reason), *earlier
    choices = [
        replace(choice, what=f"in {name} {choice.what}")
        for name, record in records.items()
        for choice in (*choices_of(record, sweeps[name]), *_after_others(record, sweeps))
    ]
    rests_on = [f"Of {name}: {line}" for name, one in records.items() for line in cut_short(one, sweeps[name])]
    entries = [entry for name in sweeps for entry in store.ledger(name)]
    tests = [test for one in records.values() for test in charged(store, one)]
    if len(tests) < len(records) or len({one.parts for one in tests}) > 1:
        # What one sweep tests on may be what another one trained on.
        tests = [replace(one, apart=False) for one in tests]
    counted = summary(listed, entries, choices, rests_on, tests)
    if counted.procedure is None:
        return Total(sweep=names, uncounted=counted.uncounted), *earlier
    claim = counted.procedure.guarantee
    claim = replace(
        claim,
        status=weakest(claim.status, Status.PROVED_UNDER_ASSUMPTIONS),
        assumptions=(*claim.assumptions, ACROSS),
    )
    procedure = replace(counted.procedure, guarantee=claim, sweeps=tuple(sweeps))
    return Total(sweep=names, procedure=procedure), *earlier


def _after_others(record: SweepRecord, sweeps: Mapping[str, Sequence[Published]]) -> Iterator[Choice]:
    """What of a sweep was decided when results of the others could be seen, or by them."""
    if (warm := record.spec.search.warm_start) is not None:
        what = f"the search started from the results of {warm}"
        yield Choice(what, "leave `search.warm_start` out")
    decided = max([record.created_at, *(one.at for one in record.extensions if one.trials is not None or one.epsilon)])
    before = [
        name
        for name, trials in sweeps.items()
        if name != record.name and any(trial.attempts and trial.proposed_at <= decided for trial in trials)
    ]
    if before:
        what = f"trials were asked for when results of {' and '.join(before)} could be seen"
        yield Choice(what, "ask for all trials in one sweep, or start all before the first runs")


def lines(found: Sequence[Total], assumptions: Assumptions) -> Iterator[str]:
    """Those of `totals` in words, one line each."""
    if found:
        own, *earlier = found
        yield from total_lines(own.procedure, own.uncounted, assumptions)
        yield from earlier_lines(earlier, assumptions)


def earlier_lines(earlier: Sequence[Total], assumptions: Assumptions) -> Iterator[str]:
    """One line for each of `earlier_totals`; nothing for a sweep that started from no other."""
    for before in earlier:
        counted = "its total is not known here (it is not in this store)"
        if before.in_this_store:
            counted = "; ".join(total_lines(before.procedure, before.uncounted, assumptions)) or "nothing was launched"
        if before.tuned:
            on = "whose records are declared public, so that it adds nothing to the claims on these; its own total"
            if before.part:
                on = "which read the other part of these records; what all of it cost them by now"
            yield f"the hyperparameters are the best of sweep {before.sweep!r}, {on}: {counted}"
            continue
        yield f"the search started from the results of sweep {before.sweep!r}, which adds its own total: {counted}"


def sentences(listed: Iterable[str]) -> str:
    """Lines as running text."""
    return " ".join(f"{line[0].upper()}{line[1:]}{'' if line.endswith(('.', '.)')) else '.'}" for line in listed)
