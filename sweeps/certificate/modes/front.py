"""`scope: sweep, release: front`: the best trials of a sealed search by each of several public orders.

The price holds for every configuration that a Gaussian of this mu covers up to tau (`dpcore.selection.front`),
whichever of them win and however many they are. So the events of each winner, which are published, are held against
that; that every configuration of the prior was covered, and that K, the losers and the winners' slots stayed secret, is
attested.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from pydantic import Field

from dpcore.checks import InvalidValue
from dpcore.rounding import delta_text, epsilon_text
from dpcore.selection import FrontPoints
from sweeps.certificate.chain import LedgerRow
from sweeps.certificate.claimed import Check, Claimed, at_most, number
from sweeps.certificate.fields import Chance, FrozenPart, NotNegative, Sentence
from sweeps.certificate.modes.plans import PlannedTrial
from sweeps.certificate.modes.sealed_search import SealedSearch, profile_of
from sweeps.selection.law import of_front
from trainables.scalarisation import Scalarisation


class WeighedMetric(FrozenPart):
    """One term of an order; a metric that is to be small has a weight below 0."""

    metric: Sentence
    weight: Annotated[float, Field(allow_inf_nan=False)]


class PricedFront(SealedSearch):
    """The price of the best of K by several orders.

    orders   each a sum, of which the largest leaves
    mu, tau  of the Gaussian that covers a trial, and the chance beside it
    shift    what a trial's chance of being beaten moves by
    winners  the plans of the trials that left, each once; none where nothing did
    """

    mode: Literal["front"]
    release: Literal["front"]
    orders: Annotated[tuple[tuple[WeighedMetric, ...], ...], Field(min_length=1)]
    mu: NotNegative
    tau: Chance
    shift: NotNegative
    winners: tuple[PlannedTrial, ...]

    @property
    def plans(self) -> tuple[PlannedTrial, ...]:
        """See `Counted.plans`."""
        return self.winners

    @property
    def theorem(self) -> str:
        """See `SealedSearch.theorem`."""
        return of_front(self.named, self._orders)

    def title_of_released(self, sweep: str) -> str:
        """See `SealedSearch.title_of_released`."""
        return f"Privacy certificate of the front of {sweep} and the search for it"

    def covers_released(self, sweep: str) -> str:
        """See `SealedSearch.covers_released`."""
        return (
            f"The {len(self.winners)} released trials of {sweep} with their scores, and the sealed search of which "
            f"they were the best by {len(self.orders)} orders."
        )

    def lines(self) -> list[tuple[str, str]]:
        """See `Counted.lines`."""
        covering = f"a Gaussian of μ = {epsilon_text(self.mu, digits=6)} up to a chance of {delta_text(self.tau)}"
        return [
            ("mode", "private selection by several orders"),
            ("law of K", f"{self.named}: {self.law}"),
            ("orders", "; ".join(map(str, self._orders))),
            ("each trial is covered by", covering),
            ("shift", epsilon_text(self.shift, digits=6)),
        ]

    @property
    def attested(self) -> tuple[str, ...]:
        """See `Counted.attested`."""
        how = "as the winners are" if self.plans else "by this Gaussian"
        return (
            *super().attested,
            f"That every configuration of the prior was covered {how}.",
            "That the orders were public, and fixed before the search.",
        )

    @property
    def _orders(self) -> tuple[Scalarisation, ...]:
        return tuple(Scalarisation(tuple((term.metric, float(term.weight)) for term in order)) for order in self.orders)

    def checks(self, claim: Claimed, rows: Sequence[LedgerRow]) -> Iterator[Check]:
        """The price of the front, and that the events of every winner are covered."""
        try:
            rule = FrontPoints(
                law=self.law.drawn,
                orders=len(self.orders),
                epsilon=claim.epsilon,
                delta=claim.delta,
                mu=float(self.mu),
                tau=float(self.tau),
            )
        except InvalidValue as error:
            yield Check("the law of K and what covers a trial", False, str(error))
            return
        yield number("mean of K", self.law.mean, rule.priced.mean)
        yield number("shift", self.shift, rule.shift)
        few = len(self.winners) <= len(self.orders) and len({one.trial for one in self.winners}) == len(self.winners)
        yield Check("each order has one winner", few, f"{len(self.winners)} winners of {len(self.orders)} orders")
        for winner in self.winners:
            exceeds = rule.exceeds(profile_of(winner, claim.adjacency))
            yield at_most(f"{winner.trial}: ln of its mu over the covering one", exceeds, 0.0)
        yield from self.in_common(claim, claim.epsilon, rows)
