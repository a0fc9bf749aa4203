"""Claims in words, and what a sweep has spent, as values: charged steps, the largest claims, the total of all."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from dpcore.guarantee import STANDING, Guarantee, Status, delta_text, epsilon_text, resting_on, rounded, weakest
from sweeps.spec.sections import Chosen, SweepSpec
from sweeps.spec.sweep_budget import SweepBudget
from sweeps.store.records import EPSILON, LedgerEntry, SweepRecord, SweepState, TrialRecord

ONE_TRIAL = (
    "The trial and its hyperparameters were not chosen by results on these records: a search costs more than one "
    "trial's claim."
)
"""What the claim of one trial of a sweep rests on, whatever its system; a total of all trials does not."""

PRIVATE_SELECTION = "private-selection"
"""The accountant of a claim on everything that a sealed search releases: few of a secret number of trials."""


HOLDOUT = "holdout"
"""The accountant of a claim on a sweep that tuned on one part of the records, and a final run on the other."""


def covers_search(claim: Guarantee) -> bool:
    """Whether a trial's claim covers how it was found, too."""
    return claim.accountant == PRIVATE_SELECTION


def claim_of_search(claims: Sequence[Guarantee]) -> Guarantee | None:
    """What all that left one sealed search claims, by the claims of its winners; None where they are not of one search.

    Each covers the whole search. Winners of several systems rest on the assumptions of all of them.
    """
    sentences = tuple(dict.fromkeys(sentence for one in claims for sentence in one.assumptions))
    status = weakest(*(one.status for one in claims))
    joint = [replace(one, assumptions=sentences, status=status) for one in claims]
    return joint[0] if all(map(covers_search, claims)) and all(one == joint[0] for one in joint) else None


HEADING = "What the statuses rest on"
_BARE = (Status.NOT_COVERED, Status.REFUTED, Status.NO_CLAIM)


@dataclass(frozen=True, slots=True)
class Assumptions:
    """sentences  each once; the first has number 1"""

    sentences: tuple[str, ...] = ()

    @classmethod
    def of(cls, claims: Iterable[Guarantee]) -> Assumptions:
        """Those of several claims, in order of first appearance."""
        return cls(tuple(dict.fromkeys(sentence for claim in claims for sentence in claim.assumptions)))

    def numbers(self, claim: Guarantee) -> tuple[int, ...]:
        """The numbers of the claim's own sentences, in order. Raises ValueError for one that is not listed."""
        return tuple(sorted({self.sentences.index(sentence) + 1 for sentence in claim.assumptions}))

    def status(self, claim: Guarantee) -> str:
        """`proved (5 assumptions)`; where others in this view rest on other ones, `proved (4 assumptions: 1-3, 6)`.

        What is refuted or claims nothing rests on nothing: its sentences are remarks.
        """
        numbers = self.numbers(claim)
        if not numbers:
            return claim.standing
        word = "remark" if claim.status in _BARE else "assumption"
        which = "" if len(numbers) == len(self.sentences) else f": {spans(numbers)}"
        return f"{claim.standing} ({len(numbers)} {word}{'' if len(numbers) == 1 else 's'}{which})"

    def cite(self, claim: Guarantee) -> str:
        """`proved [1-3, 6]`: the same in short, for a column right above the list."""
        numbers = self.numbers(claim)
        return f"{claim.standing} [{spans(numbers)}]" if numbers else claim.standing

    def lines(self) -> Iterator[str]:
        """The numbered list."""
        for number, sentence in enumerate(self.sentences, start=1):
            yield f"{number}. {sentence}"

    def lines_of(self, claim: Guarantee) -> Iterator[str]:
        """Those lines of it that one claim rests on."""
        for number in self.numbers(claim):
            yield f"{number}. {self.sentences[number - 1]}"


def spans(numbers: Iterable[int]) -> str:
    """Increasing numbers, runs of three or more as a span: `1-3, 6`."""
    runs = [[n for _, n in run] for _, run in groupby(enumerate(numbers), key=lambda one: one[1] - one[0])]
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)


def sentences_of(lines: str) -> list[str]:
    """The sentences of a numbered list as `Assumptions.lines` gives it, one a line."""
    return [line.partition(". ")[2] for line in lines.splitlines() if line]


# Claims and counts in words, and the public grid on which epsilons are compared.

GRID_DIGITS = 3
"""Significant digits of the public grid on which epsilons are compared: its steps are between 0.1% and 1%."""


def on_grid(epsilon: float) -> float:
    """The smallest number of `GRID_DIGITS` significant digits that is at least `epsilon`; 0 and infinity stay."""
    return float(rounded(epsilon, True, GRID_DIGITS)) if epsilon and math.isfinite(epsilon) else epsilon


def claim_text(claim: Guarantee, status: str | None) -> str:
    """A claim in one line, complete enough to stand alone.

    status  as `sweeps.privacy.ledger` words it; None for a number that is no claim
    """
    number = (
        f"epsilon {epsilon_text(claim.epsilon)} at delta {delta_text(claim.delta)}, {claim.notion}, "
        f"{claim.adjacency}, per {claim.unit}, by {claim.accountant}"
    )
    return number if status is None else f"{number}, status: {status}"


def count_text(number: int, what: str) -> str:
    """`1 step`, `2 steps`, `2 launches`."""
    ending = "" if number == 1 else "es" if what.endswith("ch") else "s"
    return f"{number:,} {what}{ending}"


# What a trial's epsilon counts as beside another's.
#
# Calibration leaves a claim a little below its budget, each by another hair: 0.999490 here, 0.999493 there. Compared
# as they are, neither trial would beat the other, however far apart their accuracies. So where noise was solved for a
# budget and the claim uses it up, the trial counts with the budget; any other epsilon is rounded up to a public grid.
# Either is a function of the one claim and never below it, so dominance stays an order (a tolerance between pairs is
# not transitive) and nobody gains by it. What is printed is the claim.

USED_UP = 0.99
"""Share of the budget aimed at from which it counts as used up: calibration leaves at most a few thousandths."""


def compared_epsilon(claim: Guarantee) -> float:
    """What a claim counts as where trials are compared; never below its epsilon."""
    budget = claim.aimed_at
    return budget if budget is not None and USED_UP * budget <= claim.epsilon else on_grid(claim.epsilon)


def compared(record: TrialRecord, metric: str) -> float | None:
    """The number by which a trial is compared with others: `TrialRecord.metric`, but for epsilon."""
    if metric != EPSILON:
        return record.metric(metric)
    return None if record.guarantee is None else compared_epsilon(record.guarantee)


def declared_number(n: int, counted: str) -> str:
    """How many records there are, or units: a public number that was declared, which no file was held to exactly.

    counted  see `DatasetSpec.counted`
    """
    return f"{n:,} as declared" if counted == "records" else f"those of {n:,} {counted} as declared"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """Steps of one trial, or of a whole sweep.

    executed   steps that the ledger counts, open reservations whole
    path       distinct steps among them: each once, however often it was executed
    open       steps of reservations that are not settled yet
    attempts   number of launches
    """

    executed: int = 0
    path: int = 0
    open: int = 0
    attempts: int = 0

    @property
    def excess(self) -> int:
        """Steps executed again after a lost attempt: in the ledger, in no claim."""
        return self.executed - self.path


def spending(entries: Iterable[LedgerEntry]) -> Spending:
    """Steps spent by whatever these entries are of: a whole sweep, or one trial."""
    listed = list(entries)
    ran: dict[str, list[tuple[int, int]]] = {}
    for entry in listed:
        ran.setdefault(entry.key, []).append((entry.from_step, entry.from_step + entry.steps_spent))
    return Spending(
        executed=sum(entry.steps_spent for entry in listed),
        path=sum(map(_distinct, ran.values())),
        open=sum(entry.steps_spent for entry in listed if entry.executed_to is None),
        attempts=len(listed),
    )


def _distinct(intervals: list[tuple[int, int]]) -> int:
    """Length of the union of half-open intervals."""
    covered, reached = 0, 0
    for start, stop in sorted(intervals):
        covered += max(0, stop - max(start, reached))
        reached = max(reached, stop)
    return covered


# What a view says of a sweep's ledger, as values: steps, the largest claims, the total of all trials.

CLAIM_KIND = ("notion", "delta", "adjacency", "unit", "accountant", "status")
"""What two claims must share, and what they rest on besides, for one of them to be the larger."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Something in a spec that lets results choose what later trials spend.

    what     it did, in words
    will     the same before the sweep runs
    instead  what to do about it in the spec
    """

    what: str
    instead: str
    will: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LargestClaim:
    """Of the claims of one kind the largest: `guarantee`, which `trial` of so many `trials` makes."""

    guarantee: Guarantee
    trial: str
    trials: int

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; the guarantee without its theorem."""
        plain = self.guarantee.to_dict()
        shared = {name: plain[name] for name in ("epsilon", *CLAIM_KIND, "asserted_by", "assumptions") if name in plain}
        return {**shared, "trial": self.trial, "trials": self.trials}


@dataclass(frozen=True, slots=True, kw_only=True)
class Procedure:
    """All that the sweep executed, taken as released.

    guarantee  by `sweeps.privacy.totals.procedure_guarantee`, from the plans' smallest delta
    trials     how many it counts
    choices    what let results choose budgets
    rests_on   what it rests on besides its plans: among its assumptions too
    refuted    systems among them whose claim is refuted
    standing   of the weakest claim that one of its trials makes for itself
    whole      trials that failed, or are on their way, and are counted further than they ran
    sweeps     whose trials they are, where they are of several
    budget     of everything that leaves the sweep, which a filter keeps; None where each trial has its own
    filtered   whether `guarantee` is that budget itself, since results chose what was launched
    afterwards  of a sealed search over several budgets, what the one cost that it ended at: ex post, and no more than
               `guarantee`; None of any other
    tuned      of a final run on one part of the records, what tuning on the other cost: `guarantee` is the larger
    """

    guarantee: Guarantee
    trials: int
    choices: tuple[Choice, ...] = ()
    rests_on: tuple[str, ...] = ()
    refuted: tuple[str, ...] = ()
    standing: Status = Status.PROVED
    whole: int = 0
    sweeps: tuple[str, ...] = ()
    budget: SweepBudget | None = None
    filtered: bool = False
    afterwards: Guarantee | None = None
    tuned: Guarantee | None = None

    @property
    def is_claim(self) -> bool:
        """Whether it may be quoted: finite and standing, and nothing in it is refuted."""
        standing = self.guarantee.status in STANDING and not self.refuted
        return standing and math.isfinite(self.guarantee.epsilon)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            **self.guarantee.to_dict(),
            "trials": self.trials,
            **({} if self.tuned is None else {"tuned": self.tuned.to_dict()}),
            **({"sweeps": list(self.sweeps)} if self.sweeps else {}),
            **({} if self.afterwards is None else {"afterwards": self.afterwards.to_dict()}),
            "is_claim": self.is_claim,
            "chosen_by_results": [choice.what for choice in self.choices],
            "instead": list(dict.fromkeys(choice.instead for choice in self.choices)),
            **({"refuted": list(self.refuted)} if self.refuted else {}),
            **({"counted_whole": self.whole} if self.whole else {}),
            **({} if self.budget is None else {"budget": self.budget.to_dict(), "by_filter": self.filtered}),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A ledger in a few numbers.

    spent            steps
    claims           the largest of the trials' own claims of each kind
    procedure        the total; None where nobody asked for it, nothing was launched, or it is not counted
    reports_charged  how many reports on private validation records the total counts
    uncounted        why the total is not counted, where it was asked for; else empty
    """

    spent: Spending = field(default_factory=Spending)
    claims: tuple[LargestClaim, ...] = ()
    procedure: Procedure | None = None
    reports_charged: int = 0
    uncounted: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values. An infinite epsilon is the text "inf", since JSON has no infinity."""
        claims = [claim.to_dict() for claim in self.claims]
        out: dict[str, Any] = {
            "attempts": self.spent.attempts,
            "steps_executed": self.spent.executed,
            "steps_on_paths": self.spent.path,
            "steps_in_excess": self.spent.excess,
            "steps_reserved_unsettled": self.spent.open,
            "largest_claim": max((claim["epsilon"] for claim in claims), key=float, default=None),
            "claims": claims,
        }
        if self.uncounted:
            out["uncounted"] = self.uncounted
        if self.procedure is not None:
            out |= {"reports_charged": self.reports_charged, "procedure": self.procedure.to_dict()}
        return out


def largest_claims(trials: Iterable[TrialRecord]) -> tuple[LargestClaim, ...]:
    """The largest epsilon that a trial claims for itself, of each kind of claim: kinds never share a number.

    Claims that rest on different assumptions are of different kinds.
    """
    kinds: dict[tuple[Any, ...], list[tuple[Guarantee, str]]] = {}
    for trial in trials:
        if (claim := trial.guarantee) is not None:
            kind = (*(getattr(claim, name) for name in CLAIM_KIND), claim.assumptions)
            kinds.setdefault(kind, []).append((claim, trial.key))
    ordered = (kinds[kind] for kind in sorted(kinds, key=lambda kind: list(map(str, kind))))
    largest = ((max(own, key=lambda one: one[0].epsilon), len(own)) for own in ordered)
    return tuple(LargestClaim(guarantee=claim, trial=key, trials=count) for (claim, key), count in largest)


# Sealed searches in totals: each has one price, spent from its beginning on, whatever of it left.

BY_SUMS = "the price of a sealed search adds to others by sums alone: `sweeps budget`"
"""Why what several sweeps released together is not counted, with one of these among them."""

SPENT_UNSEEN = "a sealed search that has begun: its whole budget is spent"


def sealed_and_begun(sweep: SweepRecord) -> bool:
    """Whether the price of a sealed search is spent: no trial and no entry tells of one that released nothing."""
    return sweep.spec.selection is not None and sweep.state is not SweepState.CREATED


# A final run whose hyperparameters an earlier sweep chose on other records: what it rests on, and what both cost.
#
# public   the other records are nobody's: the final run's claim is that of the whole
# holdout  they are the other part of these. A record is in one part, whoever else is there, so that it changes the
#          tuning or the final run and never both; for everybody the whole costs at most the larger of the two
#          (`dpcore.accounting`, and `dpcore.selection.profiles` for a public split). The share and key of the split are
#          public, so that no coin is secret, and the smaller mixture of both is not claimed


THEOREM = (
    "the larger of tuning and final run, which read parts of the records that a function of each record alone decides "
    "(McSherry 2009, theorem 4; Koskela & Kulkarni 2023 for the procedure)"
)


UNTIL_CHOSEN = (
    "Of the sweep that tuned it covers what had left it when the hyperparameters were chosen; what leaves that sweep "
    "later counts besides."
)


AGAIN = (
    "The final run was launched {} times, and each launch counts as what any point was held to: of another point the "
    "steps that were run again could have cost as much."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """What the sweep that tuned cost the other part, and what the final run was aimed at.

    target, delta  what one launch of no point could have exceeded, whichever had been chosen
    refuted  what of that sweep an audit has refuted since: then nobody knows what it cost
    """

    claim: Guarantee
    target: float
    delta: float
    refuted: tuple[str, ...] = ()


def chosen_line(chosen: Chosen) -> str:
    """Where the hyperparameters are from, and what that means for the claim: one sentence of its assumptions."""
    whose = f"The hyperparameters are those of {chosen.trial}, the best of sweep {chosen.sweep}"
    if chosen.claim is not None:
        return f"{whose}, which read the other part of these records: what it cost them belongs to the whole procedure."
    return (
        f"{whose}, whose records are all declared public ({chosen.public_because}): none of them is one of these, and "
        "nobody looked at these to choose the spaces of both sweeps or the public records."
    )


def tuned_of(spec: SweepSpec) -> Tuned | None:
    """Of the final run of a holdout, as it was recorded; None of any other sweep."""
    chosen = spec.search.chosen
    if chosen is None or chosen.claim is None:
        return None
    claim = Guarantee.from_dict(chosen.claim)
    return Tuned(claim=claim, target=max(spec.privacy.epsilon), delta=spec.privacy.delta)


def both(tuned: Tuned, final: Guarantee, launches: int = 1) -> Guarantee:
    """What tuning and final run cost together.

    launches  of the final run: more than one where some were lost

    Which point the tuning found depends on its records: so the final run counts as what every point was held to, once
    for each launch. A launch runs some steps of a plan that is held to the target as a whole; what an accountant counts
    of the steps that were run twice is of this point alone, and of another it could have been more.
    """
    again = () if launches == 1 else (AGAIN.format(launches),)
    larger = replace(
        final,
        epsilon=max(tuned.claim.epsilon, launches * tuned.target, final.epsilon),
        delta=max(tuned.claim.delta, launches * tuned.delta, final.delta),
        epsilon_lower=None,
        accountant=HOLDOUT,
        theorem=THEOREM,
        assumptions=tuple(dict.fromkeys((*final.assumptions, *tuned.claim.assumptions, UNTIL_CHOSEN, *again))),
    )
    return resting_on(larger, [tuned.claim])
