"""Claims in words: what a status rests on, a claim in one line, and the number by which epsilons are compared."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from dpcore.guarantee import Guarantee, Status, weakest
from dpcore.rounding import delta_text, epsilon_text, rounded
from sweeps.store.records import EPSILON, TrialRecord

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

    status  as `sweeps.privacy.claims` words it; None for a number that is no claim
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
