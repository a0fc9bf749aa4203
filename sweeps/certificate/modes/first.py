"""`scope: sweep, release: first`: the first success of a sealed search, of the cheapest budget that has one.

With one budget the claim is that budget. With several it is the price of the rung that the search ended at: an epsilon
that is known when it has ended, at the sum of all rungs' deltas. Beforehand it is the dearest rung, which the ledger
holds. The winner's events are held against every point at which the price looks at its rung.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from pydantic import Field

from dpcore.adjacency import Adjacency
from dpcore.checks import InvalidValue
from dpcore.events import Event
from dpcore.guarantee import Notion, Status, weakest
from dpcore.selection import EventProfile, LadderPoints, WorstProfile
from sweeps.certificate.chain import LedgerRow
from sweeps.certificate.claimed import Check, Claimed, at_most, number, word
from sweeps.certificate.fields import Chance, FrozenPart, NotNegative, Sentence
from sweeps.certificate.modes.best import ACCOUNTANT, SEALED, rests_on_search, sealed_row
from sweeps.certificate.modes.counted import Counted
from sweeps.certificate.modes.laws import TrialsLaw
from sweeps.certificate.modes.plans import PlannedTrial, composes_in_parallel
from sweeps.ledger.composing import ReleasedParts
from sweeps.sealed.assumptions import TARGET
from sweeps.sealed.theorems import of_first


class Rung(FrozenPart):
    """One budget of the ladder, from the cheapest on.

    epsilon  where the search ends here
    weight   the chance that a trial is of this rung
    shift    what success up to this rung adds
    deltas   of a trial of each rung up to this one, at the shift, at most
    """

    epsilon: NotNegative
    weight: Annotated[float, Field(gt=0, le=1)]
    shift: NotNegative
    deltas: tuple[Chance, ...]


class First(Counted):
    """The ladder, and where the search ended.

    named    the law in words, as the spec has it; so the target
    d_hat    delta of a trial of any rung at what its penalty leaves, at most
    failure  epsilon of saying that no trial reached the target
    ended    number of the rung, from 1
    winner   the plan of the trial that left
    ex_ante  the dearest end: what a ledger reserves
    """

    mode: Literal["first"]
    scope: Literal["sweep"]
    release: Literal["first"]
    law: TrialsLaw
    named: Sentence
    target: Sentence
    rungs: Annotated[tuple[Rung, ...], Field(min_length=1)]
    d_hat: Chance
    failure: NotNegative
    ended: Annotated[int, Field(ge=1)]
    winner: PlannedTrial
    ex_ante: NotNegative

    @property
    def plans(self) -> tuple[PlannedTrial, ...]:
        """See `Counted.plans`."""
        return (self.winner,)

    def title(self, sweep: str, claim: Claimed) -> str:
        """See `Counted.title`."""
        kind = "Privacy" if len(self.rungs) == 1 else "Ex-post privacy"
        return f"{kind} certificate of the released trial of {sweep} and the search for it"

    def covers(self, sweep: str) -> str:
        """See `Counted.covers`."""
        left = f"The released trial of {sweep} with its score, and the sealed search that it was the first success of"
        if len(self.rungs) == 1:
            return f"{left}."
        return (
            f"{left}, at the price of where it ended: an epsilon that was not promised before it. Beforehand the "
            "dearest end was."
        )

    def lines(self) -> list[tuple[str, str]]:
        """See `Counted.lines`."""
        prices = ", ".join(f"{one.epsilon:.6g}" for one in self.rungs)
        return [
            ("mode", "utility first"),
            ("law of K", f"{self.named}: {self.law}"),
            ("target", self.target),
            ("ended", f"budget {self.ended} of {len(self.rungs)}"),
            ("prices", f"{prices}; of no success {self.failure:.6g}; ex ante {self.ex_ante:.6g}"),
        ]

    @property
    def sealed(self) -> bool:
        """See `Counted.sealed`."""
        return True

    @property
    def attested(self) -> tuple[str, ...]:
        """See `Counted.attested`."""
        return (*SEALED, "That the target was public, and fixed before the search.")

    def parts(self) -> ReleasedParts:
        """What the winner's plan releases of each part of the records."""
        return ReleasedParts(
            training=self.winner.training, reports=self.winner.reports, parallel=composes_in_parallel([self.winner])
        )

    def checks(self, claim: Claimed, rows: Sequence[LedgerRow]) -> Iterator[Check]:
        """The prices of the ladder, and that the winner's events are within its rung."""
        try:
            points = LadderPoints(
                law=self.law.drawn,
                weights=tuple(one.weight for one in self.rungs),
                epsilons=tuple(float(one.epsilon) for one in self.rungs),
                delta=claim.delta,
                shifts=tuple(float(one.shift) for one in self.rungs),
                deltas=tuple(tuple(map(float, one.deltas)) for one in self.rungs),
            )
        except InvalidValue as error:
            yield Check("the ladder and its points", False, str(error))
            return
        yield number("mean of K", self.law.mean, points.priced.mean)
        yield number("d_hat", self.d_hat, points.d_hat)
        yield number("price of reaching no target", self.failure, points.failure)
        yield number("ex ante", self.ex_ante, points.epsilon)
        yield Check("where the search ended", self.ended <= len(self.rungs), f"budget {self.ended}")
        if self.ended <= len(self.rungs):
            yield number("epsilon of where it ended", claim.epsilon, points.epsilons[self.ended - 1])
            yield from self._within(points, claim.adjacency)
        yield sealed_row(self.ex_ante, claim, rows)
        yield from rests_on_search(claim, (TARGET,))
        yield number("lower end of epsilon", claim.epsilon_lower, None)
        yield word("notion", claim.notion, Notion.DP if len(self.rungs) == 1 else Notion.EX_POST)
        yield word("accountant", claim.accountant, ACCOUNTANT)
        yield word("theorem", claim.theorem, of_first(self.named, self.target, len(self.rungs)))
        yield word("status", claim.status, weakest(Status.PROVED_UNDER_ASSUMPTIONS, self.winner.status))

    def _within(self, points: LadderPoints, adjacency: Adjacency) -> Iterator[Check]:
        events = self.parts().together(adjacency)
        winner, rung = WorstProfile(tuple(EventProfile(one, adjacency) for one in events)), self.ended - 1
        for place in range(rung, len(points.shifts)):
            found = winner.delta(points.shifts[place])
            yield at_most(f"the winner's delta at shift {place + 1}", found, points.deltas[place][rung])
        yield at_most("the winner's delta at e_hat", winner.delta(points.e_hat(rung)), points.d_hat)

    def opinions(self, claim: Claimed, rows: Sequence[LedgerRow]) -> tuple[Event, ...]:
        """The winner's alone: the claim bounds it, and much besides."""
        return self.parts().together(claim.adjacency)
