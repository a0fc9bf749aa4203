"""What the ledger says about privacy, in lines for people: every number with all that it needs to stand alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum

from dpcore.checks import InvalidValue
from dpcore.events import Adjacency
from dpcore.guarantee import STANDING, Guarantee, Notion, Status, delta_text, epsilon_text
from sweeps.privacy.ledger import (
    SPENT_UNSEEN,
    Assumptions,
    LargestClaim,
    Procedure,
    Summary,
    claim_text,
    count_text,
    covers_search,
)
from sweeps.privacy.release import Published, declared_metrics, depends, is_demonstration
from sweeps.spec.sections import SweepSpec
from sweeps.store.records import DECIDED, TrialRecord, TrialState
from trainables.metrics import Dependence, Metric, scores_of
from trainables.system import DatasetSpec


class Verdict(StrEnum):
    """Whether a number may be quoted."""

    YES = "yes"
    WITH = "with its words"
    NO = "no"
    REFUTED = "refuted"


@dataclass(frozen=True, slots=True)
class Quote:
    """The judgement of one number.

    words     as few as a cell of a table holds: "as one trial's", "no guarantee", "refuted"
    sentence  what is to be said with it, or why it may not be quoted; empty where it needs nothing
    """

    verdict: Verdict
    words: str
    sentence: str = ""

    def __str__(self) -> str:
        return f"{self.words}: {self.sentence}" if self.sentence else self.words

    @property
    def said(self) -> str:
        """Behind a number: "may be quoted as one trial's"."""
        match self.verdict:
            case Verdict.YES:
                return "may be quoted"
            case Verdict.WITH:
                return f"may be quoted {self.words}"
            case Verdict.REFUTED:
                return "REFUTED: may not be quoted"
            case _:
                return f"may not be quoted ({self.words})"

    @property
    def line(self) -> str:
        """The same, and why."""
        return f"{self.said}: {self.sentence}" if self.sentence else self.said

    def to_dict(self) -> dict[str, str]:
        """Plain JSON values."""
        return {"verdict": str(self.verdict), "words": self.words, "sentence": self.sentence}


REFUTED = Quote(Verdict.REFUTED, "refuted", "its claim is shown to be false, so that nothing protects who is in it")
_YES = Quote(Verdict.YES, "yes")
_ALONE = "it leaves out the search for its hyperparameters; for that, see the total"
_SEARCHED = "it covers the search: all that left of a secret number of trials"
_NAMED = "name the assumptions beside it"
_DEMONSTRATION = Quote(
    Verdict.WITH, "as a demonstration", "the records are public, and more of them leaves than it counts"
)
_NO_EPSILON = Quote(Verdict.NO, "no guarantee", "an infinite epsilon promises nothing")


def quote_of_claim(claim: Guarantee) -> Quote:
    """Of the epsilon that one trial claims, or plans to."""
    if claim.status is Status.REFUTED:
        return REFUTED
    if not math.isfinite(claim.epsilon):
        return _NO_EPSILON
    if claim.status not in STANDING:
        return Quote(Verdict.NO, f"no guarantee: {claim.standing}", _WHY.get(claim.status, ""))
    if is_demonstration(claim):
        return _DEMONSTRATION
    notion = "" if claim.notion is Notion.DP else f" {claim.notion}"
    if covers_search(claim):
        return Quote(Verdict.WITH, f"as the whole search's{notion}", f"{_SEARCHED}; {_NAMED}")
    named = f"; {_NAMED}" if claim.status is Status.PROVED_UNDER_ASSUMPTIONS else ""
    return Quote(Verdict.WITH, f"as one trial's{notion}", f"{_ALONE}{named}")


_WHY: Mapping[Status, str] = {
    Status.ASYMPTOTIC: "true in the limit of many steps alone",
    Status.AVERAGE_CASE: "an average over people, which bounds nothing of one",
    Status.MEMBERSHIP_ONLY: "it bounds the guess of membership alone",
    Status.ASSERTED: "nobody here counted it",
    Status.NOT_COVERED: "more left than it counts",
    Status.NO_CLAIM: "a count that promises nothing",
}


def is_refuted(trial: Published) -> bool:
    """Whether what this trial claims is shown to be false: then nothing of it is ranked, and none the best."""
    return trial.guarantee is not None and trial.guarantee.status is Status.REFUTED


def quote_of_total(total: Procedure) -> Quote:
    """Of the epsilon of all trials together."""
    claim = total.guarantee
    if total.refuted:
        fallen = f"the claim of {', '.join(total.refuted)} is refuted, and counts in it"
        return Quote(Verdict.REFUTED, "refuted", fallen)
    if not math.isfinite(claim.epsilon):
        return _NO_EPSILON
    if total.choices:
        return Quote(Verdict.NO, "no guarantee", f"{' and '.join(one.what for one in total.choices)}")
    if not total.is_claim:
        return Quote(Verdict.NO, f"no guarantee: {claim.standing}", _WHY.get(claim.status, ""))
    if is_demonstration(claim):
        return _DEMONSTRATION
    if total.rests_on:
        return Quote(Verdict.WITH, "under its assumptions", " ".join(total.rests_on))
    if claim.status is Status.PROVED_UNDER_ASSUMPTIONS:
        return Quote(Verdict.WITH, "under its assumptions", _NAMED)
    return _YES


_TREATED_AS_PUBLIC = Quote(Verdict.WITH, "as a score on public records", "no claim covers the validation records")
_WHATEVER_IS_CLAIMED = {
    Dependence.PUBLIC: Quote(Verdict.YES, "yes", "computed from public facts"),
    None: Quote(Verdict.NO, "undeclared", "nobody says on what it depends"),
    Dependence.SIDE_CHANNEL: Quote(
        Verdict.NO, "of the machine", "no claim covers it: times and memory depend on the batches drawn"
    ),
    Dependence.RAW: Quote(Verdict.NO, "of raw records", "it reads training records outside of every claim"),
}


def quote_of_metric(depends: Dependence | None, trial: Published) -> Quote:
    """Of a reported number.

    depends  on what it does in this trial; None where no system that is installed declares it
    """
    claim = trial.guarantee
    if depends in _WHATEVER_IS_CLAIMED:
        return _WHATEVER_IS_CLAIMED[depends]
    if claim is None or claim.status is Status.REFUTED:
        # The model that was scored is what the claim was to cover.
        return REFUTED if claim is not None else _NO_EPSILON
    covering = quote_of_claim(claim)
    if depends is Dependence.VALIDATION and (trial.plan is None or trial.plan.validation is None):
        if covering.verdict is not Verdict.NO:
            return _TREATED_AS_PUBLIC
        sentence = f"{_TREATED_AS_PUBLIC.sentence}, and its training has {covering.words}"
        return Quote(Verdict.NO, covering.words, sentence)
    if covering.verdict is Verdict.NO:
        return covering
    return Quote(Verdict.WITH, "with its claim", "its release is within the trial's claim, and is worth what that is")


def metric_quotes(trials: Iterable[Published], names: Iterable[str]) -> dict[str, tuple[Quote, ...]]:
    """{metric: how it may be quoted}, of those of `names` that a trial measured: each judgement once."""
    wanted = [name for name in names if name not in DECIDED]
    found: dict[str, dict[Quote, None]] = {}
    # Trials of a system that report the same numbers share what is declared of these: it is looked up once.
    declared: dict[tuple[str, ...], Mapping[str, Metric]] = {}
    for trial in trials:
        if (kind := (trial.system, *trial.metrics)) not in declared:
            declared[kind] = declared_metrics(trial, trial.metrics)
        for name in wanted:
            if name in trial.metrics:
                metric = declared[kind].get(name)
                quote = quote_of_metric(None if metric is None else depends(metric, trial), trial)
                found.setdefault(name, {})[quote] = None
    return {name: tuple(quotes) for name, quotes in found.items()}


def dependence(trial: Published, name: str) -> Dependence | None:
    """On what a metric of this trial depends; None where that is not declared."""
    metric = declared_metrics(trial, trial.metrics).get(name)
    return None if metric is None else depends(metric, trial)


LEGEND = "`sweeps explain quote` says what these words mean."


def judged(quotes: Iterable[Quote], metrics: Mapping[str, Iterable[Quote]] | None = None) -> list[str]:
    """The judgements of a view, each once.

    quotes   of its epsilons
    metrics  {metric: its judgements}
    """
    said = dict.fromkeys(f"epsilon: {one.line}" for one in quotes)
    for name, found in (metrics or {}).items():
        said |= dict.fromkeys(f"{name}: {one.line}" for one in found if one.verdict is not Verdict.YES)
    return list(said)


def legend(quotes: Iterable[Quote], metrics: Mapping[str, Iterable[Quote]] | None = None) -> list[str]:
    """What `judged` says, for below the numbers, and where its words are explained; nothing without numbers."""
    said = judged(quotes, metrics)
    return [*said, LEGEND] if said else []


def legend_of(trials: Sequence[Published]) -> list[str]:
    """The legend of all that these trials claim and measured."""
    names = dict.fromkeys(name for trial in trials for name in scores_of(trial.metrics))
    claims = [trial.guarantee for trial in trials if trial.guarantee is not None]
    return legend(map(quote_of_claim, claims), metric_quotes(trials, names))


PROMISES_NOTHING = "epsilon inf, since some promise nothing"
"""Of a total with unprotected trials among them."""

COVERS = "covers all results and the choice of the best, but no running times and memory"
COUNTS = "counts the mechanisms alone, and not what else leaves of these public records"
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
        said = quote_of_total(total).said.capitalize()
        stated = f"{who}: {claim_text(claim, assumptions.status(claim))}. {said}. It {covers_text(total)}."
        return f"{stated}{_budget_text(total)}{_afterwards_text(total, assumptions)}{_cut_text(total)}"
    return f"{who}: no guarantee, because {why_no_guarantee(total)}. (Added up as it ran: {claim_text(claim, None)}.)"


def covers_text(total: Procedure) -> str:
    """What a total that is a claim covers."""
    if is_demonstration(total.guarantee):
        return COUNTS
    if covers_search(total.guarantee):
        return "covers what left this search and the choice of it, but no running times and memory"
    if total.tuned is None:
        return COVERS
    tuning = "what had left the sweep that tuned when its best was chosen"
    return f"covers {tuning}, that choice and the final run, but no running times and memory"


def _budget_text(total: Procedure) -> str:
    """That of the whole sweep, if it has one."""
    if total.budget is None:
        return ""
    if total.filtered:
        return f" It is the sweep's budget: its {total.budget.kind} filter launched nothing beyond it."
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
    if not total.whole:
        return ""
    return (
        f" {count_text(total.whole, 'trial')} that failed or did not end count{'s' * (total.whole == 1)} with all "
        "planned steps: results or records may have decided where that ended."
    )


def why_no_guarantee(total: Procedure) -> str:
    """Why a finite total may not be quoted, and what makes it quotable."""
    if total.refuted:
        return f"the claim of {' and of '.join(total.refuted)} is refuted"
    if not total.choices:
        return f"the weakest claim among them is {total.guarantee.standing}"
    what = " and ".join(choice.what for choice in total.choices)
    if total.standing not in STANDING:
        return f"{what}, and the weakest claim among them is {total.standing}"
    instead = " and ".join(dict.fromkeys(choice.instead for choice in total.choices))
    return f"{what}. For one that you can quote: {instead}{ONE_BUDGET}"


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
    """How many trials results ended before their last planned step, and what that means for their claims.

    early_stopping  whether the sweep stops trials by their results (every plan is looked into)
    """
    reported = [one for one in trials if one.plan is not None and one.step] if early_stopping else []
    early = [one for one in reported if was_stopped(one)]
    if early:
        least = min(early, key=lambda one: one.step / one.planned_steps)
        yield (
            f"{len(early)} of {len(reported)} trials were stopped early, {least.key} after {least.step} of "
            f"{least.planned_steps} steps: each claims all of its planned steps, since results chose where it stopped"
        )


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

    declared = spec.data.options().get("validation")
    # Of a source of one's own the spec says it: nobody's code is run to show a sweep.
    own = FUNCTION.fullmatch(spec.data.source) is not None
    if own and not declared:
        return None
    if not own:
        # What is needed to ask may be gone; those of published sources are public.
        with suppress(InvalidValue, OSError, KeyError):
            return validation_text(SOURCES[spec.data.source].facts(spec.data.options()), spec.privacy.adjacency)
    private = isinstance(declared, Mapping) and declared.get("records") == "private"
    return TREATED_AS_PUBLIC if not private else _ADDED if own else _PRIVATE
