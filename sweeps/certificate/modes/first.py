"""`scope: sweep, release: first`: the first success of a sealed search, of the cheapest budget that has one.

With one budget the claim is that budget. With several it is the price of the rung that the search ended at: an epsilon
that is known when it has ended, at the sum of all rungs' deltas. Beforehand it is the dearest rung, which the ledger
holds. The winner's events are held against every point at which the price looks at its rung.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field

from dpcore.checks import InvalidValue
from dpcore.events import Adjacency
from dpcore.guarantee import Guarantee, Notion
from dpcore.rounding import epsilon_text
from dpcore.selection import LadderPoints
from sweeps.certificate.chain import LedgerRow
from sweeps.certificate.claimed import Check, Claimed, at_most, number
from sweeps.certificate.fields import Chance, FrozenPart, NotNegative, Sentence
from sweeps.certificate.modes.plans import PlannedTrial
from sweeps.certificate.modes.sealed_search import SealedSearch, profile_of
from sweeps.selection.law import TARGET, of_first


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


class First(SealedSearch):
    """The ladder, and where the search ended.

    target   in words, as the spec has it
    d_hat    delta of a trial of any rung at what its penalty leaves, at most
    failure  epsilon of saying that no trial reached the target
    ended    number of the rung, from 1; null where no trial left
    winner   the plan of the trial that left; null likewise
    ex_ante  the dearest end: what a ledger reserves
    """

    mode: Literal["first"]
    release: Literal["first"]
    target: Sentence
    rungs: Annotated[tuple[Rung, ...], Field(min_length=1)]
    d_hat: Chance
    failure: NotNegative
    ended: Annotated[int, Field(ge=1)] | None
    winner: PlannedTrial | None
    ex_ante: NotNegative

    @property
    def plans(self) -> tuple[PlannedTrial, ...]:
        """See `Counted.plans`."""
        return () if self.winner is None else (self.winner,)

    @property
    def notion(self) -> Notion:
        """See `SealedSearch.notion`: of a success of several budgets what it cost is known afterwards."""
        return Notion.EX_POST if self.plans and len(self.rungs) > 1 else Notion.DP

    @property
    def theorem(self) -> str:
        """See `SealedSearch.theorem`."""
        return of_first(self.named, self.target, len(self.rungs))

    @property
    def besides(self) -> tuple[str, ...]:
        """See `SealedSearch.besides`."""
        return (TARGET,)

    def title_of_released(self, sweep: str) -> str:
        """See `SealedSearch.title_of_released`."""
        kind = "Privacy" if len(self.rungs) == 1 else "Ex-post privacy"
        return f"{kind} certificate of the released trial of {sweep} and the search for it"

    def covers_released(self, sweep: str) -> str:
        """See `SealedSearch.covers_released`."""
        left = f"The released trial of {sweep} with its score, and the sealed search that it was the first success of"
        if len(self.rungs) == 1:
            return f"{left}."
        return (
            f"{left}, at the price of where it ended: an epsilon that was not promised before it. Beforehand the "
            "dearest end was."
        )

    def lines(self) -> list[tuple[str, str]]:
        """See `Counted.lines`."""
        failure = epsilon_text(self.failure, digits=6)
        ended = "no trial left" if self.ended is None else f"budget {self.ended} of {len(self.rungs)}"
        prices = ", ".join(epsilon_text(one.epsilon, digits=6) for one in self.rungs)
        return [
            ("mode", "utility first"),
            ("law of K", f"{self.named}: {self.law}"),
            ("target", self.target),
            ("ended", ended),
            ("prices", f"{prices}; of no success {failure}; ex ante {epsilon_text(self.ex_ante, digits=6)}"),
        ]

    @property
    def attested(self) -> tuple[str, ...]:
        """See `Counted.attested`."""
        points = "the points that the winner meets" if self.plans else "these points"
        met = f"That every configuration of the prior met {points}."
        return (*super().attested, met, "That the target was public, and fixed before the search.")

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
        rung = self._rung
        yield Check("where the search ended", rung is not None, f"budget {self.ended}")
        if rung is not None:
            yield number("epsilon of where it ended", claim.epsilon, points.epsilons[rung])
            yield from self._within(points, rung, claim.adjacency)
        yield from self.in_common(claim, self.ex_ante, rows)

    def promised(self, claim: Claimed) -> Guarantee:
        """See `Counted.promised`: of several budgets the dearest end, at the deltas of all (`checks` recomputes it)."""
        return replace(claim.guarantee, notion=Notion.DP, epsilon=float(self.ex_ante))

    @property
    def _rung(self) -> int | None:
        """From 0, of the epsilon that is claimed: where nothing left the dearest, which was promised beforehand; None
        where the document tells of no such end."""
        if self.ended is None and self.winner is None:
            return len(self.rungs) - 1
        told = self.ended is not None and self.winner is not None and self.ended <= len(self.rungs)
        return self.ended - 1 if told and self.ended is not None else None

    def _within(self, points: LadderPoints, rung: int, adjacency: Adjacency) -> Iterator[Check]:
        for winner in (profile_of(one, adjacency) for one in self.plans):
            for place in range(rung, len(points.shifts)):
                found = winner.delta(points.shifts[place])
                yield at_most(f"the winner's delta at shift {place + 1}", found, points.deltas[place][rung])
            yield at_most("the winner's delta at e_hat", winner.delta(points.e_hat(rung)), points.d_hat)
