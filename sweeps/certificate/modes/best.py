"""`scope: sweep, release: best`: private selection. One trial of a secret number of them leaves, and nothing else.

The price holds for every configuration that meets two public points (`dpcore.selection.two_point`):

    delta(e1) <= d1      and      delta(e_hat) <= d_hat,

with e_hat = epsilon - penalty(law, e1, d1) and d_hat = delta / mean. So the winner's events, which are published, are
held against them; that every configuration of the prior met them, and that K, the losers and the winner's slot stayed
secret, is attested.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Literal

from dpcore.adjacency import Adjacency
from dpcore.checks import InvalidValue
from dpcore.events import ApproximateDP, Composed, Event
from dpcore.guarantee import FLOATING_POINT, Notion, Status, weakest
from dpcore.selection import EventProfile, TwoPoint, WorstProfile
from sweeps.certificate.chain import LedgerRow
from sweeps.certificate.claimed import Check, Claimed, at_most, number, rests_on, word
from sweeps.certificate.fields import Chance, NotNegative, Sentence
from sweeps.certificate.modes.counted import Counted
from sweeps.certificate.modes.laws import TrialsLaw
from sweeps.certificate.modes.plans import PlannedTrial, composes_in_parallel
from sweeps.ledger.composing import ReleasedParts
from sweeps.sealed.assumptions import OF_EVERY_SEARCH, OF_THE_PRIOR
from sweeps.sealed.theorems import of_best

ACCOUNTANT = "private-selection"
SEARCH = "sealed search"
"""In place of a trial in the one row of the ledger."""
SEALED = (
    "That K was drawn once from this law, and that neither K, the losers nor the winner's slot left the boundary.",
    "That every configuration of the prior met the points that the winner meets.",
)


class OfBest(Counted):
    """The price of the best of K, whether or not results lead what is proposed.

    law      of K; how many trials there were is not known to whoever reads this
    named    the law in words, as the spec has it
    e1, d1   the first point
    penalty  what the number of trials adds
    e_hat, d_hat  the second point
    winner   the plan of the trial that left
    """

    scope: Literal["sweep"]
    release: Literal["best"]
    law: TrialsLaw
    named: Sentence
    e1: NotNegative
    d1: Chance
    penalty: NotNegative
    e_hat: NotNegative
    d_hat: Chance
    winner: PlannedTrial

    @abstractmethod
    def rule(self, claim: Claimed) -> TwoPoint:
        """What the winner has to meet, from this document alone. Raises InvalidValue."""

    @property
    @abstractmethod
    def theorem(self) -> str:
        """By which the claim holds."""

    @property
    def plans(self) -> tuple[PlannedTrial, ...]:
        """See `Counted.plans`."""
        return (self.winner,)

    def title(self, sweep: str, claim: Claimed) -> str:
        """See `Counted.title`."""
        return f"Privacy certificate of the best trial of {sweep} and the search for it"

    def covers(self, sweep: str) -> str:
        """See `Counted.covers`."""
        return f"The released trial of {sweep} with its score, and the sealed search that it was the best of."

    def lines(self) -> list[tuple[str, str]]:
        """See `Counted.lines`."""
        points = f"δ({self.e1:.6g}) ≤ {self.d1:.6g} and δ({self.e_hat:.6g}) ≤ {self.d_hat:.6g}"
        lines = [("mode", "private selection"), ("law of K", f"{self.named}: {self.law}"), ("two points", points)]
        return [*lines, ("penalty", f"{self.penalty:.6g}")]

    @property
    def besides(self) -> tuple[str, ...]:
        """What the claim rests on besides what every sealed search does."""
        return ()

    @property
    def sealed(self) -> bool:
        """See `Counted.sealed`."""
        return True

    @property
    def attested(self) -> tuple[str, ...]:
        """See `Counted.attested`."""
        return SEALED

    def parts(self) -> ReleasedParts:
        """What the winner's plan releases of each part of the records."""
        return ReleasedParts(
            training=self.winner.training, reports=self.winner.reports, parallel=composes_in_parallel([self.winner])
        )

    def checks(self, claim: Claimed, rows: Sequence[LedgerRow]) -> Iterator[Check]:
        """The price of the selection, and that the winner's events meet both points."""
        try:
            rule = self.rule(claim)
        except InvalidValue as error:
            yield Check("the law of K and its points", False, str(error))
            return
        yield number("mean of K", self.law.mean, rule.law.priced.mean)
        yield number("penalty", self.penalty, rule.penalty)
        yield number("e_hat", self.e_hat, rule.e_hat)
        yield number("d_hat", self.d_hat, rule.d_hat)
        events = self.parts().together(claim.adjacency)
        winner = WorstProfile(tuple(EventProfile(one, claim.adjacency) for one in events))
        yield at_most("the winner's delta at e1", winner.delta(rule.e1), self.d1)
        yield at_most("the winner's delta at e_hat", winner.delta(rule.e_hat), self.d_hat)
        yield sealed_row(claim.epsilon, claim, rows)
        yield from rests_on_search(claim, self.besides)
        yield number("lower end of epsilon", claim.epsilon_lower, None)
        yield word("notion", claim.notion, Notion.DP)
        yield word("accountant", claim.accountant, ACCOUNTANT)
        yield word("theorem", claim.theorem, self.theorem)
        yield word("status", claim.status, weakest(Status.PROVED_UNDER_ASSUMPTIONS, self.winner.status))

    def opinions(self, claim: Claimed, rows: Sequence[LedgerRow]) -> tuple[Event, ...]:
        """The winner's alone: the claim bounds it, and much besides."""
        return self.parts().together(claim.adjacency)


class Best(OfBest):
    """Of independent draws from the prior."""

    mode: Literal["best"]

    @property
    def theorem(self) -> str:
        """See `OfBest.theorem`."""
        return of_best(self.named)

    def rule(self, claim: Claimed) -> TwoPoint:
        """See `OfBest.rule`."""
        return TwoPoint(
            law=self.law.drawn, epsilon=claim.epsilon, delta=claim.delta, e1=float(self.e1), d1=float(self.d1)
        )


def sealed_row(epsilon: float, claim: Claimed, rows: Sequence[LedgerRow]) -> Check:
    """A sealed search is one row of the ledger: rows of its launches would tell how many trials there were.

    epsilon  that the row holds
    """
    held = tuple(rows) == (spent_at_once(epsilon, claim.delta, claim.adjacency),)
    return Check("the ledger has one row for the sealed search", held, f"{len(rows)} rows")


def rests_on_search(claim: Claimed, besides: tuple[str, ...] = ()) -> Iterator[Check]:
    """Whether the document states what every sealed search rests on, with `besides`, and how its prior was chosen."""
    yield rests_on(claim, (FLOATING_POINT, *OF_EVERY_SEARCH, *besides))
    said = [line for line in claim.assumptions if line.startswith(OF_THE_PRIOR)]
    yield Check("how the prior was chosen", len(said) == 1, "; ".join(said) or "not said")


def spent_at_once(epsilon: float, delta: float, adjacency: Adjacency) -> LedgerRow:
    """The one row of a sealed search."""
    spent = ApproximateDP(epsilon=epsilon, delta=delta, adjacency=adjacency)
    return LedgerRow(trial=SEARCH, attempt=1, from_step=0, to_step=1, charged_to=1, training=spent, reports=Composed())
