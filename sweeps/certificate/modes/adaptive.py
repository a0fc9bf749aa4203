"""`release: best` with `sampler: adaptive`: the best of K trials whose configurations follow results, within bounds.

As `best`, at the price of any policy whose proposals have, at every step, between low and high times the density of the
public prior (`dpcore.selection.best`):

    e_hat = epsilon - penalty(law, e1, d1, low, high)      and      d_hat = delta / (high mean).

That proposals kept to the bounds is attested, as that K was drawn from its law.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from dpcore.selection import HeterogeneousTrials
from sweeps.certificate.claimed import Claimed
from sweeps.certificate.modes.best import OfBest
from sweeps.selection.law import ADAPTED, of_adaptive

BOUNDED = (
    "That every proposal was drawn within these bounds of the prior, from secret candidates and by coins of its own."
)


class BestAdaptive(OfBest):
    """Of proposals that follow results.

    low, high  bounds on the ratio of every proposal's density to the prior's
    """

    mode: Literal["best-adaptive"]
    low: Annotated[float, Field(gt=0, lt=1)]
    high: Annotated[float, Field(gt=1)]

    @property
    def theorem(self) -> str:
        """See `SealedSearch.theorem`."""
        return of_adaptive(self.named, float(self.low), float(self.high))

    @property
    def besides(self) -> tuple[str, ...]:
        """See `SealedSearch.besides`."""
        return (ADAPTED,)

    @property
    def fixed(self) -> bool:
        """See `Counted.fixed`: results chose, at a price."""
        return False

    @property
    def attested(self) -> tuple[str, ...]:
        """See `Counted.attested`."""
        return (*super().attested, BOUNDED)

    def rule(self, claim: Claimed) -> HeterogeneousTrials:
        """See `OfBest.rule`."""
        return HeterogeneousTrials(
            law=self.law.drawn,
            epsilon=claim.epsilon,
            delta=claim.delta,
            e1=float(self.e1),
            d1=float(self.d1),
            low=float(self.low),
            high=float(self.high),
        )

    def lines(self) -> list[tuple[str, str]]:
        """See `Counted.lines`."""
        told = f"between {self.low:g} and {self.high:g} times as often as by the prior"
        return [*super().lines(), ("proposals", told)]
