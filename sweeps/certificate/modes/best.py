"""`scope: sweep, release: best`: private selection. One trial of a secret number of them leaves, and nothing else.

The price holds for every configuration that meets two public points (`dpcore.selection.best`):

    delta(e1) <= d1      and      delta(e_hat) <= d_hat,

with e_hat = epsilon - penalty(law, e1, d1) and d_hat = delta / mean. So the winner's events, which are published, are
held against them; that every configuration of the prior met them, and that K, the losers and the winner's slot stayed
secret, is attested.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Literal

from dpcore.checks import InvalidValue
from dpcore.rounding import delta_text, epsilon_text
from dpcore.selection import HeterogeneousTrials
from sweeps.certificate.chain import LedgerRow
from sweeps.certificate.claimed import Check, Claimed, at_most, number
from sweeps.certificate.fields import Chance, NotNegative
from sweeps.certificate.modes.plans import PlannedTrial
from sweeps.certificate.modes.sealed_search import SealedSearch, profile_of
from sweeps.selection.law import of_best


class OfBest(SealedSearch):
    """The price of the best of K, whether or not results lead what is proposed.

    e1, d1   the first point
    penalty  what the number of trials adds
    e_hat, d_hat  the second point
    winner   the plan of the trial that left; null where none did
    """

    release: Literal["best"]
    e1: NotNegative
    d1: Chance
    penalty: NotNegative
    e_hat: NotNegative
    d_hat: Chance
    winner: PlannedTrial | None

    @abstractmethod
    def rule(self, claim: Claimed) -> HeterogeneousTrials:
        """What the winner has to meet, from this document alone. Raises InvalidValue."""

    @property
    def plans(self) -> tuple[PlannedTrial, ...]:
        """See `Counted.plans`."""
        return () if self.winner is None else (self.winner,)

    def title_of_released(self, sweep: str) -> str:
        """See `SealedSearch.title_of_released`."""
        return f"Privacy certificate of the best trial of {sweep} and the search for it"

    def covers_released(self, sweep: str) -> str:
        """See `SealedSearch.covers_released`."""
        return f"The released trial of {sweep} with its score, and the sealed search that it was the best of."

    def lines(self) -> list[tuple[str, str]]:
        """See `Counted.lines`."""
        points = " and ".join(
            f"δ({epsilon_text(epsilon, digits=6)}) ≤ {delta_text(delta)}"
            for epsilon, delta in ((self.e1, self.d1), (self.e_hat, self.d_hat))
        )
        lines = [("mode", "private selection"), ("law of K", f"{self.named}: {self.law}"), ("two points", points)]
        return [*lines, ("penalty", epsilon_text(self.penalty, digits=6))]

    @property
    def attested(self) -> tuple[str, ...]:
        """See `Counted.attested`."""
        points = "the points that the winner meets" if self.plans else "these points"
        return (*super().attested, f"That every configuration of the prior met {points}.")

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
        for winner in (profile_of(one, claim.adjacency) for one in self.plans):
            yield at_most("the winner's delta at e1", winner.delta(rule.e1), self.d1)
            yield at_most("the winner's delta at e_hat", winner.delta(rule.e_hat), self.d_hat)
        yield from self.in_common(claim, claim.epsilon, rows)


class Best(OfBest):
    """Of independent draws from the prior."""

    mode: Literal["best"]

    @property
    def theorem(self) -> str:
        """See `SealedSearch.theorem`."""
        return of_best(self.named)

    def rule(self, claim: Claimed) -> HeterogeneousTrials:
        """See `OfBest.rule`."""
        return HeterogeneousTrials(
            law=self.law.drawn, epsilon=claim.epsilon, delta=claim.delta, e1=float(self.e1), d1=float(self.d1)
        )
