"""The arithmetic of a total: what was released of the parts of the records, as one claim. Numbers alone, no records.

Whoever has the events counts the same: the ledger of a sweep (`sweeps.privacy.totals`), and whoever verifies a
certificate, from the document alone (`sweeps.certificate`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dpcore.accountants.pld import DiscretisationInvalid, ToleranceNotReached
from dpcore.accounting import headline_of_many, headline_of_parts, larger_of_parts
from dpcore.checks import InvalidValue
from dpcore.events import Adjacency, Composed, Event, Gaussian, PoissonSampled, Repeated, UnsupportedEvent, phases
from dpcore.guarantee import FLOATING_POINT, Guarantee, Status, resting_on, weakest
from dpcore.rounding import budget_text
from sweeps.heldout import Charged
from sweeps.privacy.claims import OF_ONE_TRIAL, claim_of_search, covers_search
from sweeps.privacy.holdout_guarantee import Tuned, tuned_of, with_tuning
from sweeps.privacy.ledger import (
    BY_SUMS,
    SPENT_UNSEEN,
    Choice,
    Procedure,
    Summary,
    SweepTotal,
    largest_claims,
    sealed_and_begun,
    total,
)
from sweeps.privacy.wording import TOTAL_SHOWN_UP_TO, too_many
from sweeps.provenance.recorded_spec import RecordedSpec
from sweeps.search import samplers
from sweeps.store.records import LedgerEntry, SweepRecord, SweepState, TrialRecord, TrialState, sweep_of
from trainables.system import PrivacyPlan
from trainables.training.noise import named_generators

MAX_PHASES = 128
"""More distinct (rate, noise multiplier) than this are rounded to the safe side onto a coarser grid before counting."""

FINEST_ROUNDING, COARSEST_ROUNDING = 0.001, 0.512
"""Relative grid steps that are tried, doubling, until the phases are few enough."""

_NOTHING = Composed()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedParts:
    """What was released of training, validation and test records.

    training, reports, tests  of each part, all together
    parallel  whether training and reports compose in parallel, where the adjacency lets them
    apart     whether the test records do so with both
    """

    training: Event
    reports: Event = _NOTHING
    tests: Event = _NOTHING
    parallel: bool = False
    apart: bool = False

    def together(self, adjacency: Adjacency) -> tuple[Event, ...]:
        """Releases that compose in parallel, each rounded to the safe side: the largest of their claims is all's."""
        in_turn, added = adjacency is Adjacency.ADD_REMOVE, (self.training, self.reports)
        parts = added if self.parallel and in_turn else (Composed(events=added),)
        if phases(self.tests):
            parts = (*parts, self.tests) if self.apart and in_turn else (Composed(events=(*added, self.tests)),)
        return tuple(coarsened(collapsed(one, adjacency), MAX_PHASES)[0] for one in parts if phases(one))

    def claim(self, delta: float, adjacency: Adjacency, unit: str) -> tuple[Guarantee, float]:
        """The headline of all, and the largest ratio by which `coarsened` moved a number to its safe side.

        delta  on top of what approximate releases have fixed as their own deltas: the guarantee carries the sum
        Raises as `dpcore.accounting.headline_of_many` does.
        """
        training, reports, parallel = self.training, self.reports, self.parallel
        if not parallel:
            training, reports = Composed(events=(training, reports)), Composed()
        tested = bool(phases(self.tests))
        apart = self.apart and adjacency is Adjacency.ADD_REMOVE
        if tested and not apart:
            training, reports, parallel = Composed(events=(training, reports, self.tests)), Composed(), False
        event, ratio = coarsened(collapsed(training, adjacency), MAX_PHASES)
        counted = headline_of_parts(
            event, collapsed(reports, adjacency), parallel=parallel, delta=delta, adjacency=adjacency, unit=unit
        )
        if tested and apart:
            of_tests = headline_of_many(collapsed(self.tests, adjacency), delta, adjacency, unit)
            counted = larger_of_parts(counted, of_tests)
        # The lower bound belongs to the rounded event, which spends more than the true one.
        return (replace(counted, epsilon_lower=None) if ratio > 1 else counted), ratio


def rounding_line(ratio: float) -> tuple[str, ...]:
    """What a claim rests on whose event was rounded by `ratio`; nothing for one that was not."""
    if ratio <= 1:
        return ()
    return (
        f"Counted with noise multipliers rounded down and sampling rates up by at most {(ratio - 1):.2%}, which "
        "only raises epsilon.",
    )


def collapsed(event: Event, adjacency: Adjacency) -> Event:
    """The same release with all unsampled Gaussians as one.

    Gaussian noise of multipliers s_i composes to one Gaussian of multiplier 1/sqrt(sum 1/s_i^2) exactly (Dong, Roth
    & Su 2022, corollary 2). Its float is moved down by 1e-12 of itself, which outweighs the rounding of the sum.
    """
    rest: list[Event] = []
    precision: dict[Adjacency, list[float]] = {}
    number = 0
    for part, count in phases(event).items():
        if isinstance(part, Gaussian):
            precision.setdefault(part.adjacency, []).append(count / part.noise_multiplier**2)
            number += 1
        else:
            rest.append(Repeated(event=part, count=count))
    if number <= 1:
        return event
    gaussians = [
        Gaussian(noise_multiplier=(1 - 1e-12) / math.sqrt(math.fsum(parts)), adjacency=stated)
        for stated, parts in precision.items()
    ]
    return Composed(events=(*gaussians, *rest))


def coarsened(event: Event, max_phases: int) -> tuple[Event, float]:
    """An event that spends at least as much, with at most `max_phases` phases where rounding can reach that.

    Returns it with the largest ratio by which a noise multiplier was lowered or a rate raised (1.0: unchanged).
    A smaller noise multiplier is dominated by adding the missing noise; rate q by keeping each draw at a larger
    rate q' with probability q/q'. Values move to powers of the ratio, so the largest noise and rates do too.
    """
    counts = phases(event)
    if len(counts) <= max_phases:
        return event, 1.0
    ratio, excess = 1.0, FINEST_ROUNDING
    rounded = Counter(counts)
    while len(rounded) > max_phases and excess <= COARSEST_ROUNDING:
        ratio, excess = 1 + excess, 2 * excess
        rounded = Counter()
        for part, count in counts.items():
            rounded[_rounded(part, ratio)] += count
    return Composed(events=tuple(Repeated(event=part, count=count) for part, count in rounded.items())), ratio


def _rounded(part: Event, ratio: float) -> Event:
    match part:
        case Gaussian():
            return replace(part, noise_multiplier=_down(part.noise_multiplier, ratio))
        case PoissonSampled(rate=rate, event=Gaussian() as inner):
            return PoissonSampled(rate=min(1.0, 1 / _down(1 / rate, ratio)), event=_rounded(inner, ratio))
        case _:
            return part


def _down(value: float, ratio: float) -> float:
    """The largest power of `ratio` at most `value`."""
    power = ratio ** math.floor(math.log(value) / math.log(ratio))
    return power if power <= value else power / ratio


# The total of a sweep with one budget: what its filter let through, which is never more than that budget.
#
# The controller of such a sweep launches nothing that its filter does not hold (`sweeps.privacy.privacy_filter`). So
# whatever sampler, early stopping, people or lost workers made of it, all of it together is within the budget, and
# that is its total. Where everything was fixed beforehand, the composition of what ran is a smaller number and true
# as well.

IN_TIME = (
    "When results came, and which launches were lost, depended on records through nothing but the results themselves."
)
"""What a total by a filter rests on besides: running times and failures steer a search too."""

_CONCURRENT = "launches in parallel: Haney et al. (2023), concurrent composition of filters"
THEOREMS = {
    "gdp": "Gaussian privacy filter: Smith & Thakurta (2022), fully adaptive composition; Koskela, Tobaben & Honkela "
    f"(2023); each launch covered by a Gaussian up to a chance that delta holds; {_CONCURRENT}",
    "renyi": f"Renyi filter at one order fixed beforehand: Feldman & Zrnic (2021); {_CONCURRENT}",
}


def sweep_total(spec: RecordedSpec) -> SweepTotal | None:
    """The one budget of a sweep; None where each of its trials has its own."""
    if (spec.scope, spec.release) != ("sweep", "all") or spec.delta is None:
        return None
    (epsilon,) = spec.budgets
    return SweepTotal(epsilon=epsilon, delta=spec.delta, filter=spec.filter)


def filtered_guarantee(total: SweepTotal, plans: Iterable[PrivacyPlan]) -> Guarantee:
    """The budget as a claim on all trials with these plans together, one of which there is at least."""
    claims = [plan.guarantee for plan in plans]
    own = (line for claim in claims for line in claim.assumptions if line not in OF_ONE_TRIAL)
    named = named_generators((FLOATING_POINT,), claims)
    found = Guarantee(
        epsilon=total.epsilon,
        delta=total.delta,
        adjacency=claims[0].adjacency,
        unit=claims[0].unit,
        accountant=f"{total.filter}-filter",
        status=Status.PROVED,
        theorem=THEOREMS[total.filter],
        assumptions=tuple(dict.fromkeys((*named, *own, IN_TIME))),
    )
    return resting_on(found, claims)


# What a sweep has spent: pure functions over ledger entries and plans.
#
# Two numbers, never confused:
#
# claim what one released trial promises: its plan's guarantee, however early it was stopped. Lost attempts are not on
# its path. ledger every step of every trial that was, or may have been, executed: open reservations whole, re-
# executed steps again. If everything that the sweep computed is released, this is what was released.
#
# Reports on private validation records need no entry of their own: an attempt whose horizon reached the step that a
# report follows may have drawn it, and is charged for it, published or not. Another attempt draws it with noise of
# its own, and is charged again. The claim of a trial holds one report for each rung and point of its curve: metrics
# become visible with a durable checkpoint alone, and then every further attempt goes on from a state behind them.

_CUT_SHORT = (
    SweepState.CREATED,
    SweepState.RUNNING,
    SweepState.STOPPED,
    SweepState.OUT_OF_HOURS,
    SweepState.OUT_OF_BUDGET,
    SweepState.DELETED,
)

LISTED = 3
"""Enqueued trials that are named."""

NOT_COVERED = "not covered: metrics that read training records outside of every claim left with it"
"""Why the total of a sweep that releases raw measures is no number."""


def procedure_event(plans: Mapping[str, PrivacyPlan], entries: Iterable[LedgerEntry]) -> Event:
    """All that was, or may have been, released of training records: a slice of a plan per entry, overlaps again.

    Raises InvalidValue for an entry without a plan, or beyond its plan's steps.
    """
    counts: Counter[Event] = Counter()
    for entry in entries:
        if entry.key not in plans:
            raise InvalidValue("plans", entry.key, "a plan for every ledger entry")
        if entry.steps_spent:
            counts.update(phases(plans[entry.key].event(entry.from_step, entry.from_step + entry.steps_spent)))
    return Composed(events=tuple(Repeated(event=event, count=count) for event, count in counts.items()))


def reported_event(plans: Mapping[str, PrivacyPlan], entries: Iterable[LedgerEntry]) -> Event:
    """All reports on private validation records that were, or may have been, drawn; one drawn again counts again."""
    counts: Counter[Event] = Counter()
    for entry in entries:
        reports = plans[entry.key].validation
        if reports is not None and entry.steps_spent:
            counts.update(phases(reports.event(entry.from_step, entry.from_step + entry.steps_spent)))
    return Composed(events=tuple(Repeated(event=event, count=count) for event, count in counts.items()))


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

    It rests on what its plans rest on, but for `OF_ONE_TRIAL`: choosing among the trials is covered here.

    More than `composing.MAX_PHASES` distinct phases are first rounded to the safe side, and the guarantee says so.
    Seconds of work for many phases: call it for display, not on the way of a launch. Raises InvalidValue when the plans
    differ in adjacency or unit.
    """
    if not plans:
        raise InvalidValue("plans", {}, "at least one plan")
    kinds = {(plan.guarantee.adjacency, plan.guarantee.unit) for plan in plans.values()}
    if len(kinds) != 1:
        raise InvalidValue("plans", sorted(kinds), "plans under one adjacency and one unit", "They never add up.")
    ((adjacency, unit),) = kinds
    together = ReleasedParts(
        training=procedure_event(plans, entries),
        reports=reported_event(plans, entries),
        parallel=in_parallel(plans.values()),
        tests=Composed(events=tuple(one.event for one in tests)),
        apart=all(one.apart for one in tests),
    )
    counted, ratio = together.claim(delta, adjacency, unit)
    named = named_generators(counted.assumptions, (plan.guarantee for plan in plans.values()))
    own = (line for plan in plans.values() for line in plan.guarantee.assumptions if line not in OF_ONE_TRIAL)
    assumptions = tuple(dict.fromkeys((*named, *own, *(one.assumption for one in tests))))
    assumptions += rounding_line(ratio)
    found = replace(resting_on(counted, [plan.guarantee for plan in plans.values()]), assumptions=assumptions)
    return replace(found, status=Status.NO_CLAIM) if adaptive else found


def choices_by_results(spec: RecordedSpec) -> tuple[Choice, ...]:
    """What lets results choose budgets in a sweep of this spec; none: all were fixed beforehand."""
    found = []
    sampler = spec.sampler
    if samplers.learns(sampler):
        found.append(
            Choice(
                what=f"the {sampler} sampler chose trials by the results of earlier ones",
                will=f"the {sampler} sampler chooses trials by the results of earlier ones",
                instead=f"search with `sampler: {'` or `'.join(samplers.fixed())}`",
            )
        )
    if spec.early_stopping is not None:
        found.append(
            Choice(
                what="early stopping chose by results how far trials went",
                will="early stopping chooses by results how far trials go",
                instead="leave `early_stopping` out",
            )
        )
    return tuple(found)


def choices_of(sweep: SweepRecord, trials: Sequence[TrialRecord]) -> tuple[Choice, ...]:
    """What let results choose budgets in a sweep: its spec, and extensions that results may have asked for.

    A total is a guarantee of a number of trials that was fixed before the first of them: a person who looks at results
    and then decides how many more there are is a rule that chooses by results, as any sampler is. Counted for whichever
    number came out, delta would be spent once at every look. What was asked for before the first launch is none.
    """
    own, began = choices_by_results(sweep.spec), sweep.spec.trials
    asked = [one.trials for one in sweep.extensions if one.trials is not None and one.launched]
    mine = [one for one in trials if one.state is not TrialState.INFEASIBLE and one.request is None]
    launched, wanted = len(mine), max([began or 0, *(one.trials or 0 for one in sweep.extensions)])
    own += _enqueued(trials)
    if began is not None and launched > wanted:
        # Of a time when a changed spec could extend a sweep without a word.
        asked.append(launched)
    if asked:
        what = f"it was extended to {' and then '.join(map(str, asked))} trials when results could be seen"
        own += (Choice(what=what, will=what, instead="set `search.trials` to the last number before the first trial"),)
    added = [one.epsilon for one in sweep.extensions if one.epsilon and one.launched]
    if added:
        said = " and then ".join(", ".join(map(budget_text, budgets)) for budgets in added)
        what = f"it was given the budgets epsilon {said} when results could be seen"
        own += (Choice(what=what, will=what, instead="list every budget in `privacy.epsilon` before the first trial"),)
    left = wanted - sum(one.state in (TrialState.COMPLETE, TrialState.FAILED) for one in mine)
    if left > 0 and any(one.hours is not None and one.launched for one in sweep.extensions):
        what = f"it was given more hours when results could be seen, and {left} of its trials have not ended"
        own += (Choice(what=what, will=what, instead="let all of its trials run"),)
    return own


def cut_short(sweep: SweepRecord, trials: Sequence[TrialRecord]) -> tuple[str, ...]:
    """What the total of a sweep rests on besides: why trials, and launches of trials, came to no end."""
    return (*_left(sweep, trials), *_launched_again(sweep, trials))


def _launched_again(sweep: SweepRecord, trials: Sequence[TrialRecord]) -> tuple[str, ...]:
    """While launches were lost: a worker may die of its records (of a large Poisson batch, of memory). Nobody fixed
    beforehand then how often a trial was launched, nor the step up to which a launch is charged."""
    if sweep.spec.early_stopping is not None:
        # There a trial that goes on from a rung is launched again, and results choose anyway.
        return ()
    again = sum(max(0, one.attempts - 1) for one in trials)
    if not again:
        return ()
    what = "1 launch was lost and made" if again == 1 else f"{again} launches were lost and made"
    return (f"That {what} again was not decided by records or results.",)


def _left(sweep: SweepRecord, trials: Sequence[TrialRecord]) -> tuple[str, ...]:
    """While trials that were fixed beforehand have not ended.

    A number of steps that somebody chose by results is no longer one that was fixed beforehand: as for extensions, but
    nobody knows why a sweep was stopped. Nor how far the clock let it come without records: how long a trial takes may
    depend on them (Poisson batches, a solver's steps). What the space ended was ended by public facts.
    """
    if sweep.spec.trials is None or sweep.state not in _CUT_SHORT:
        return ()
    wanted = max([sweep.spec.trials, *(one.trials or 0 for one in sweep.extensions)])
    ended = sum(one.state in (TrialState.COMPLETE, TrialState.FAILED) for one in trials if one.request is None)
    if ended >= wanted:
        return ()
    if sweep.state is SweepState.OUT_OF_HOURS:
        return (f"That only {ended} of its {wanted} trials ended within limits.hours was not decided by records.",)
    return (f"That only {ended} of its {wanted} trials have ended was not decided by results.",)


def _enqueued(trials: Sequence[TrialRecord]) -> tuple[Choice, ...]:
    """Whoever enqueues a point may have seen results: both that there is one more trial, and at which budget."""
    keys = [one.key for one in trials if one.request is not None and one.state is not TrialState.INFEASIBLE]
    if not keys:
        return ()
    listed = ", ".join(keys[:LISTED]) + (f" and {len(keys) - LISTED} more" if len(keys) > LISTED else "")
    what = f"{listed} {'was' if len(keys) == 1 else 'were'} enqueued by somebody who could see results"
    return (Choice(what=what, will=what, instead="put known points into `search.first` before the first trial"),)


def summary(
    trials: Sequence[TrialRecord],
    entries: Sequence[LedgerEntry],
    choices: Sequence[Choice] | None = None,
    rests_on: Sequence[str] = (),
    tests: Sequence[Charged] = (),
    budget: SweepTotal | None = None,
) -> Summary:
    """What `show` prints about the ledger: steps and claims always; with `choices` given, the procedure's total at
    the plans' smallest delta, or why no accountant can count the whole, or that more left than is counted.

    rests_on  assumptions of the total besides those of its plans
    tests     see `procedure_guarantee`
    budget    of the whole sweep, which its filter kept: then that is the total where results chose budgets, and stands
              beside it where they did not
    """
    found = Summary(spent=total(entries), claims=largest_claims(trials))
    if choices is None or not entries:
        return found
    plans = {trial.key: trial.plan for trial in trials if trial.plan is not None}
    if any(plan.guarantee.status is Status.NOT_COVERED for plan in plans.values()):
        return replace(found, uncounted=NOT_COVERED)
    if any(covers_search(plan.guarantee) for plan in plans.values()):
        return _of_searches(found, trials, list(plans.values()), tests)
    delta = min(plan.guarantee.delta for plan in plans.values())
    choices = (*choices, *(choice for one in tests for choice in one.choices))
    if budget is not None and choices:
        return replace(found, **_filtered(budget, plans, entries))
    charged = charged_as(trials, entries, choices)
    keys = {one.key for one, asked in zip(entries, charged, strict=True) if one != asked}
    cut = [one.state for one in trials if one.key in keys]
    try:
        counted = procedure_guarantee(plans, charged, delta, adaptive=bool(choices), tests=tests)
    except (InvalidValue, UnsupportedEvent, ToleranceNotReached, DiscretisationInvalid) as error:
        if budget is not None:
            return replace(found, **_filtered(budget, plans, entries))
        return replace(found, uncounted=str(error))
    if budget is not None and counted.epsilon > budget.epsilon:
        # Of two bounds that hold the smaller.
        return replace(found, **_filtered(budget, plans, entries))
    counted = replace(counted, assumptions=(*counted.assumptions, *rests_on))
    return replace(
        found,
        procedure=Procedure(
            guarantee=counted,
            trials=len(plans),
            choices=tuple(choices),
            rests_on=tuple(rests_on),
            refuted=tuple(sorted({plan.system for plan in plans.values() if plan.guarantee.status is Status.REFUTED})),
            standing=weakest(*(plan.guarantee.status for plan in plans.values())),
            whole=sum(state is TrialState.FAILED for state in cut),
            unfinished=sum(state is not TrialState.FAILED for state in cut),
            budget=budget,
        ),
        reports_charged=sum(phases(reported_event(plans, charged)).values()),
    )


def charged_as(
    trials: Sequence[TrialRecord], entries: Sequence[LedgerEntry], choices: Sequence[Choice]
) -> list[LedgerEntry]:
    """The entries as a total counts them. Where results chose budgets the sum promises nothing, and says what ran."""
    whole = {} if choices else _cut_on_the_way(trials, entries)
    return [whole.get((one.key, one.attempt), one) for one in entries]


def _filtered(budget: SweepTotal, plans: Mapping[str, PrivacyPlan], entries: Sequence[LedgerEntry]) -> dict[str, Any]:
    """What a summary says of trials that a filter let through."""
    guarantee = filtered_guarantee(budget, plans.values())
    return {
        "procedure": Procedure(
            guarantee=guarantee,
            trials=len(plans),
            rests_on=(IN_TIME,),
            refuted=tuple(sorted({one.system for one in plans.values() if one.guarantee.status is Status.REFUTED})),
            standing=weakest(*(one.guarantee.status for one in plans.values())),
            budget=budget,
            filtered=True,
        ),
        "reports_charged": sum(phases(reported_event(plans, entries)).values()),
    }


def _of_searches(
    found: Summary, trials: Sequence[TrialRecord], plans: Sequence[PrivacyPlan], tests: Sequence[Charged]
) -> Summary:
    """With the price of a sealed search for its total: what its winners' own steps cost says nothing of it.

    Winners of several orders of one search claim one price together.
    """
    claim = claim_of_search([one.guarantee for one in plans])
    if len({sweep_of(one.key) for one in trials}) > 1 or claim is None or tests:
        return replace(found, uncounted=BY_SUMS)
    afterwards = plans[0].beside[0] if plans[0].beside else None
    refuted = tuple(sorted({one.system for one in plans if one.guarantee.status is Status.REFUTED}))
    one = Procedure(guarantee=claim, trials=len(plans), standing=claim.status, refuted=refuted, afterwards=afterwards)
    return replace(found, procedure=one)


def _cut_on_the_way(
    trials: Sequence[TrialRecord], entries: Sequence[LedgerEntry]
) -> dict[tuple[str, int], LedgerEntry]:
    """{(key, attempt): the last launch of a trial that is not complete, as if it had run to the end of its plan}, where
    it did not.

    A total adds up budgets that were fixed beforehand. A trial that fails by a loss of nan, by an error or for want of
    memory stops where its results or its records made it stop: the steps up to there are no budget that anybody fixed.
    They are post-processing of the whole plan, which was; so that is counted. (`control.stopped_trials` has the same
    argument for the trial's own claim.) Why a worker died nobody can tell: every failure counts alike. So does a trial
    that a stop or `limits.hours` left on its way: how far it had come by then is a matter of time, which may depend on
    records, or of somebody who saw its results.
    """
    planned = {
        one.key: one.planned_steps for one in trials if one.state is not TrialState.COMPLETE and one.plan is not None
    }
    last = {one.key: one for one in entries if one.key in planned}
    return {
        (key, one.attempt): replace(one, to_step=planned[key], executed_to=planned[key])
        for key, one in last.items()
        if one.from_step + one.steps_spent < planned[key]
    }


def summary_in_passing(
    sweep: SweepRecord,
    trials: Sequence[TrialRecord],
    entries: Sequence[LedgerEntry],
    tests: Sequence[Charged] = (),
    tuned: Tuned | None = None,
) -> Summary:
    """`summary_of` a sweep where its total takes well under a second, and else why that is left out."""
    if len(entries) > TOTAL_SHOWN_UP_TO and (sweep_total(sweep.spec) is None or not choices_of(sweep, trials)):
        return replace(summary(trials, entries), uncounted=too_many(sweep.name, len(entries)))
    return summary_of(sweep, trials, entries, tests, tuned)


def summary_of(
    sweep: SweepRecord,
    trials: Sequence[TrialRecord],
    entries: Sequence[LedgerEntry],
    tests: Sequence[Charged] = (),
    tuned: Tuned | None = None,
) -> Summary:
    """`summary` of one sweep, with the total of all that it released, and of the tuning that it followed.

    tuned  `sweeps.privacy.joint_totals.tuned_by_now`: of the final run of a holdout there is no total without it
    """
    assert tuned is not None or tuned_of(sweep.spec) is None
    if not entries and sealed_and_begun(sweep):
        return replace(summary(trials, entries), uncounted=SPENT_UNSEEN)
    rests_on, budget = cut_short(sweep, trials), sweep_total(sweep.spec)
    found = summary(trials, entries, choices_of(sweep, trials), rests_on, tests, budget)
    return with_tuning(found, tuned)
