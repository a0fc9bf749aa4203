"""`scope: sweep, release: first`: the cheapest budget whose trials reach a public target, with an ex-post epsilon.

The claim is the price of the rung that the search ended at (`dpcore.selection.ladder`): an epsilon that is known when
it has ended, at the sum of all rungs' deltas. Ex ante it is the dearest end, which is among the constants. The winner's
events are held against its rung's reference at every point at which the price looks at that rung.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Annotated, Literal

from pydantic import Field

from dpcore.adjacency import Adjacency
from dpcore.checks import InvalidValue
from dpcore.events import Event
from dpcore.guarantee import Notion, Status, weakest
from dpcore.selection import EventProfile, Ladder, LadderPrice, LadderRelease, WorstProfile, price_ladder
from dpcore.selection.counts import CountLaw
from sweeps.certificate.chain import LedgerRow
from sweeps.certificate.claimed import Check, Claimed, at_most, number, word
from sweeps.certificate.fields import Delta, EventText, FrozenPart, NotNegative
from sweeps.certificate.modes.best import ACCOUNTANT, SEALED, rests_on_search, sealed_row
from sweeps.certificate.modes.counted import Counted
from sweeps.certificate.modes.laws import TrialsLaw
from sweeps.certificate.modes.plans import PlannedTrial, composes_in_parallel
from sweeps.ledger.composing import ReleasedParts

THEOREM = (
    "utility first over a ladder of budgets, ex post: Liu & Talwar (2019), algorithm 1; Ghazi et al. (2025); proof in "
    "dpcore.selection.ladder"
)


class Rung(FrozenPart):
    """One budget of the ladder, from the cheapest on.

    reference  what a trial of it releases at most, at the points that the price looks at
    weight     the chance that a trial is of this rung
    delta      its part of the whole, unconditional
    price      its epsilon, where the search ends here
    """

    reference: EventText
    weight: Annotated[float, Field(gt=0, le=1)]
    delta: Delta
    price: NotNegative


class First(Counted):
    """The ladder, and where the search ended.

    which          success leaves: the first or the best, of the lowest rung or of any
    failure_delta, failure  of saying that no trial reached the target
    ended          number of the rung, from 1; null: no trial reached the target
    winner         the plan of the trial that left; null where none did
    ex_ante        the dearest end: what a ledger reserves
    """

    mode: Literal["first"]
    scope: Literal["sweep"]
    release: Literal["first"]
    law: TrialsLaw
    which: LadderRelease
    rungs: Annotated[tuple[Rung, ...], Field(min_length=1)]
    failure_delta: Delta
    failure: NotNegative
    ended: Annotated[int, Field(ge=1)] | None
    winner: PlannedTrial | None
    ex_ante: NotNegative

    @property
    def plans(self) -> tuple[PlannedTrial, ...]:
        """See `Counted.plans`."""
        return () if self.winner is None else (self.winner,)

    def title(self, sweep: str, claim: Claimed) -> str:
        """See `Counted.title`."""
        if self.winner is None:
            return f"Ex-post privacy certificate of the search {sweep}, in which no trial reached the target"
        return f"Ex-post privacy certificate of the released trial of {sweep} and the search for it"

    def covers(self, sweep: str) -> str:
        """See `Counted.covers`."""
        return (
            f"What left the sealed search {sweep}, at the price of where it ended: an epsilon that was not promised "
            "before it. Beforehand the dearest end was."
        )

    def lines(self) -> list[tuple[str, str]]:
        """See `Counted.lines`."""
        prices = ", ".join(f"{one.price:.6g}" for one in self.rungs)
        where = "no trial reached the target" if self.ended is None else f"rung {self.ended} of {len(self.rungs)}"
        lines = [("mode", f"utility first, {self.which}"), ("law of K", str(self.law)), ("ended", where)]
        return [*lines, ("prices of rungs", f"{prices}; of none {self.failure:.6g}; ex ante {self.ex_ante:.6g}")]

    @property
    def sealed(self) -> bool:
        """See `Counted.sealed`."""
        return True

    @property
    def attested(self) -> tuple[str, ...]:
        """See `Counted.attested`."""
        return (*SEALED, "That the target was public, and fixed before the search.")

    def checks(self, claim: Claimed, rows: Sequence[LedgerRow]) -> Iterator[Check]:
        """The price of every end, and that the winner's events are within its rung."""
        references = tuple(one.reference for one in self.rungs)
        weights, deltas = tuple(one.weight for one in self.rungs), tuple(one.delta for one in self.rungs)
        try:
            drawn = self.law.drawn
            shifts, price = _priced(drawn, references, weights, deltas, self.failure_delta, self.which, claim.adjacency)
        except InvalidValue as error:
            yield Check("the ladder", False, str(error))
            return
        yield number("mean of K", self.law.mean, drawn.priced.mean)
        for place, (rung, found) in enumerate(zip(self.rungs, price.rungs, strict=True), start=1):
            yield number(f"price of rung {place}", rung.price, found)
        yield number("price of reaching no target", self.failure, price.failure)
        yield number("ex ante", self.ex_ante, price.epsilon)
        yield from self._ended(claim, price)
        yield from self._within(claim.adjacency, shifts)
        yield sealed_row(self.ex_ante, claim, rows)
        yield from rests_on_search(claim)
        yield number("lower end of epsilon", claim.epsilon_lower, None)
        yield word("notion", claim.notion, Notion.EX_POST)
        yield word("accountant", claim.accountant, ACCOUNTANT)
        yield word("theorem", claim.theorem, THEOREM)
        stated = () if self.winner is None else (self.winner.status,)
        yield word("status", claim.status, weakest(Status.PROVED_UNDER_ASSUMPTIONS, *stated))

    def _ended(self, claim: Claimed, price: LadderPrice) -> Iterator[Check]:
        known = self.ended is None or self.ended <= len(self.rungs)
        held = known and (self.ended is None) is (self.winner is None)
        yield Check("where the search ended", held, "nowhere" if self.ended is None else f"rung {self.ended}")
        if held:
            found = price.failure if self.ended is None else price.rungs[self.ended - 1]
            yield number("epsilon of where it ended", claim.epsilon, found)
        yield number("delta of all ends", claim.delta, price.delta)

    def _within(self, adjacency: Adjacency, shifts: tuple[float, ...]) -> Iterator[Check]:
        if self.winner is None or self.ended is None or self.ended > len(self.rungs):
            return
        parts = ReleasedParts(
            training=self.winner.training, reports=self.winner.reports, parallel=composes_in_parallel([self.winner])
        )
        winner = WorstProfile(tuple(EventProfile(one, adjacency) for one in parts.together(adjacency)))
        rung = self.rungs[self.ended - 1]
        reference = EventProfile(rung.reference, adjacency)
        for place, shift in enumerate(shifts[self.ended :], start=self.ended):
            yield at_most(f"the winner's delta at shift {place}", winner.delta(shift), reference.delta(shift))
        own = rung.delta / (self.law.mean * rung.weight)
        if own < 1:
            yield at_most("the winner's own delta", winner.delta(reference.epsilon(own)), own)


@lru_cache(maxsize=64)
def _priced(
    law: CountLaw,
    references: tuple[Event, ...],
    weights: tuple[float, ...],
    deltas: tuple[float, ...],
    failure_delta: float,
    which: LadderRelease,
    adjacency: Adjacency,
) -> tuple[tuple[float, ...], LadderPrice]:
    """Shifts e*_0 to e*_J, and the price of every end. Raises InvalidValue."""
    rungs = tuple(EventProfile(one, adjacency) for one in references)
    ladder = Ladder(law=law, rungs=rungs, weights=weights, release=which)
    return ladder.shifts(), price_ladder(ladder, deltas, failure_delta)
