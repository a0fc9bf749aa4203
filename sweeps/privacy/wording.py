"""What the ledger says about privacy, in lines for people: every number with all that it needs to stand alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from dpcore.checks import InvalidValue
from dpcore.events import Adjacency
from dpcore.guarantee import STANDING, Status
from dpcore.rounding import delta_text, epsilon_text
from sweeps.privacy.claims import Assumptions, claim_text, count_text, covers_search
from sweeps.privacy.ledger import SPENT_UNSEEN, LargestClaim, Procedure, Summary
from sweeps.privacy.quoting import quote_of_claim, quote_of_total
from sweeps.privacy.release import is_demonstration
from sweeps.spec.sections import SweepSpec
from sweeps.store.records import TrialRecord, TrialState
from trainables.system import DatasetSpec

TAKEN = "steps_taken"
"""Metric of systems that stop themselves."""

PROMISES_NOTHING = "epsilon inf, since some promise nothing"
"""Of a total with unprotected trials among them."""

COVERS = "It covers all results of this sweep and the choice of the best, but no running times and memory."
COVERS_ONE = "It covers what left this search and the choice of it, but no running times and memory."
COVERS_BOTH = (
    "It is the larger of what each part was charged, and covers what had left the sweep that tuned when its best was "
    "chosen, that choice and the final run, but no running times and memory."
)
COUNTS = "It counts the mechanisms alone, and not what else leaves of these public records."
"""What a total is a claim about, and what it is where the records are declared public."""

ONE_BUDGET = "; or give all that leaves one budget (`privacy.scope: sweep`), whatever chooses"
"""What else makes a total quotable where results chose what is spent."""

UNSEEN = " of what left; what else ran is told nowhere, and the price of the whole covers it"
"""Of a sealed search, whose ledger has no other rows."""

TOTAL_SHOWN_UP_TO = 3000
"""Attempts whose total `show` and `pareto` count by the way (half a second); the report counts any number."""


def claim_lines(claims: Sequence[LargestClaim], assumptions: Assumptions) -> Iterator[str]:
    """One line for each kind of claim."""
    for one in claims:
        whose = f"the largest of {one.trials} trials, {one.trial}" if one.trials > 1 else one.trial
        claim, quote = claim_text(one.guarantee, assumptions.status(one.guarantee)), quote_of_claim(one.guarantee)
        whole = "the whole search" if covers_search(one.guarantee) else "one trial by itself"
        yield f"{whole}: {claim} ({whose}); {quote.said}"
    if not claims:
        yield "none yet: no trial has reported"


def total_text(total: Procedure, assumptions: Assumptions) -> str:
    """What all trials promise together, and which number may be quoted for what."""
    who, claim = "all trials together" if total.trials > 1 else "the one trial", total.guarantee
    if covers_search(claim):
        leave = "one trial alone leaves" if total.trials == 1 else f"{total.trials} trials alone leave"
        who = f"the whole search, of which {leave}"
    if total.tuned is not None:
        who = "tuning on one part of the records and the final run on the other"
    if total.sweeps:
        who = f"all trials of {', '.join(total.sweeps[:-1])} and {total.sweeps[-1]} together"
    if math.isinf(claim.epsilon):
        return f"{who}: {PROMISES_NOTHING}"
    if total.is_claim:
        covers = COUNTS if is_demonstration(claim) else COVERS_ONE if covers_search(claim) else COVERS
        covers = COVERS_BOTH if total.tuned is not None and covers is COVERS else covers
        covers = covers.replace("this sweep", "these sweeps") if total.sweeps else covers
        said = quote_of_total(total).said.capitalize()
        stated = f"{who}: {claim_text(claim, assumptions.status(claim))}. {said}. {covers}"
        return f"{stated}{_budget_text(total)}{_afterwards_text(total, assumptions)}{_cut_text(total)}"
    return f"{who}: no guarantee, because {_no_total_text(total)} (Added up as it ran: {claim_text(claim, None)}.)"


def _budget_text(total: Procedure) -> str:
    """That of the whole sweep, if it has one."""
    if total.budget is None:
        return ""
    if total.filtered:
        return f" It is the sweep's budget: its {total.budget.filter} filter launched nothing beyond it."
    said = f"epsilon {epsilon_text(total.budget.epsilon)} at delta {delta_text(total.budget.delta)}"
    return f" The sweep's budget is {said}; what ran was fixed beforehand, and is counted as it ran."


def _afterwards_text(total: Procedure, assumptions: Assumptions) -> str:
    """What a search over several budgets came to, which nobody could promise before it."""
    if (claim := total.afterwards) is None:
        return ""
    return (
        f" That was promised beforehand. Where it ended is known now, and cost "
        f"{claim_text(claim, assumptions.status(claim))}: {quote_of_claim(claim).said}."
    )


def _cut_text(total: Procedure) -> str:
    """What of it did not run."""
    cut = ((total.whole, "failed", "results"), (total.unfinished, "did not end", "results or records"))
    return "".join(_counted_whole(number, what, by) for number, what, by in cut if number)


def _counted_whole(number: int, what: str, by: str) -> str:
    whose = f"1 trial that {what} counts" if number == 1 else f"{number} trials that {what} count"
    return f" {whose} with all planned steps: {by} may have decided where that ended."


def _no_total_text(total: Procedure) -> str:
    """Why the total may not be quoted, what may be, and what makes it quotable."""
    if total.refuted:
        # Where only the tuning fell, the final run's own claim still stands.
        none = "number of these trials" if total.standing is Status.REFUTED else "total that counts it"
        return f"the claim of {' and of '.join(total.refuted)} is refuted. Quote no {none}."
    if not total.choices:
        return f"the weakest claim among them is {total.guarantee.standing}."
    if total.standing not in STANDING:
        what = " and ".join(choice.what for choice in total.choices)
        return f"{what}. Nor is one trial's epsilon: the weakest claim among them is {total.standing}."
    return (
        f"{' and '.join(choice.what for choice in total.choices)}. Quote one trial's epsilon, and say that it leaves "
        "out the search for its hyperparameters. For a total that can be quoted, "
        f"{' and '.join(dict.fromkeys(choice.instead for choice in total.choices))}{ONE_BUDGET}."
    )


def total_lines(procedure: Procedure | None, uncounted: str, assumptions: Assumptions) -> Iterator[str]:
    """The procedure's total, or why it is not counted; nothing where nothing was launched."""
    if procedure is not None:
        yield total_text(procedure, assumptions)
    elif uncounted:
        yield f"all trials together: not counted ({uncounted})"


def executed_text(ledger: Summary) -> str:
    """The steps of the ledger, and reports on private validation records, in one line."""
    spent, reports = ledger.spent, ledger.reports_charged
    more = f", {spent.excess} of them run again after a lost launch" if spent.excess else ""
    more += f", {spent.open} of them reserved and not yet reported, counted as run" if spent.open else ""
    more += f", with {count_text(reports, 'report')} on private validation records" if reports else ""
    searched = ledger.procedure is not None and covers_search(ledger.procedure.guarantee)
    # How much ran is a secret of the search.
    more += UNSEEN if searched or ledger.uncounted == SPENT_UNSEEN else ""
    return f"{count_text(spent.executed, 'step')} charged in {count_text(spent.attempts, 'launch')}{more}"


def was_stopped(trial: TrialRecord) -> bool:
    """Whether early stopping ended it, as far as is known: at rest at the end of a rung that is not its last."""
    return trial.state is TrialState.COMPLETE and 0 < trial.step < trial.planned_steps


def stopped_lines(trials: Iterable[TrialRecord], early_stopping: bool = False) -> Iterator[str]:
    """How many trials ended before their last planned step, by which rule, and what that means for their claims.

    early_stopping  whether the sweep stops trials by their results (every plan is looked into)
    """
    listed = [one for one in trials if one.plan is not None]
    complete = [one for one in listed if TAKEN in one.metrics]
    short = [one for one in complete if one.metrics[TAKEN] < one.planned_steps]
    if short:
        least = min(short, key=lambda one: one.metrics[TAKEN])
        yield (
            f"{len(short)} of {len(complete)} trials were stopped by their Bayesian budget before their last step: "
            f"{least.key} after {least.metrics[TAKEN]:.0f} of {least.planned_steps} steps"
        )
    reported = [one for one in listed if one.step] if early_stopping else []
    early = [one for one in reported if was_stopped(one)]
    if early:
        least = min(early, key=lambda one: one.step / one.planned_steps)
        yield (
            f"{len(early)} of {len(reported)} trials were stopped early, {least.key} after {least.step} of "
            f"{least.planned_steps} steps: each claims all of its planned steps, since results chose where it stopped"
        )


def too_many(sweep: str, attempts: int) -> str:
    """Why a total is not counted by the way."""
    return f"{attempts} attempts: `sweeps report {sweep}` counts them"


# What no number of a sweep says anything about: sentences that every page about its guarantees has.

FLOATING_POINT = "Floating point: proofs are over the reals; the low bits of floating-point noise are not covered."
SELECTION = (
    "Selection: choosing a trial by its result is part of what was done with the data. The epsilon of the chosen "
    "trial does not include that; the total of the procedure stands beside it."
)
SPACE = "The search space itself, if it was chosen by looking at these data."
MACHINE = "Running time, memory and failures: they depend on the batches that were drawn, and so on records."
BAYESIAN = (
    "Bayesian epsilons: an average over records drawn like the data, never a DP epsilon. They are estimated from a "
    "sample of records, and an outlier rarer than that sample is neither seen by the estimate nor protected: where one "
    "record in a thousand lies twenty times further out, the estimate from 28 of them fell below the truth in 97% of "
    "samples, with a failure probability of 1e-15 stated."
)
ELSEWHERE = "What other sweeps, audits and readings of these records spent: it adds to this epsilon."
FACTS = "Facts that are declared public: how many records there are, bounds, classes, categories."


# What a sweep does with its validation records, in the one line that `check`, `run`, `show` and the report print.

TREATED_AS_PUBLIC = "treated as public: metrics on them leave as they are, and no claim covers these records"
_PRIVATE = "private: each report is one noised histogram, whose cost every claim includes"
_IN_PARALLEL, _ADDED = f"{_PRIVATE} (in parallel with training)", f"{_PRIVATE} (added to training's)"


def validation_text(facts: DatasetSpec, adjacency: Adjacency) -> str | None:
    """The line for data with these facts; None where there are no validation records."""
    if not facts.n_validation:
        return None
    private = facts.private_validation
    if private is None:
        return TREATED_AS_PUBLIC
    parallel = bool(private.parts) and adjacency is Adjacency.ADD_REMOVE
    return _IN_PARALLEL if parallel else _ADDED


def recorded_text(spec: SweepSpec) -> str | None:
    """The line for a recorded spec, whose data may be gone by now."""
    from sweeps.spec.sections import FUNCTION
    from trainables.data import SOURCES

    if FUNCTION.fullmatch(spec.data.source):
        # What it says is in the spec: nobody's code is run to show a sweep.
        declared = spec.data.options().get("validation")
        if not declared:
            return None
        return _ADDED if declared.get("records") == "private" else TREATED_AS_PUBLIC
    try:
        facts = SOURCES[spec.data.source].facts(spec.data.options())
    except (InvalidValue, OSError, KeyError):
        # What is needed to ask is gone; those of published sources are public.
        declared = spec.data.options().get("validation")
        return _PRIVATE if isinstance(declared, Mapping) and declared.get("records") == "private" else TREATED_AS_PUBLIC
    return validation_text(facts, spec.privacy.adjacency)
