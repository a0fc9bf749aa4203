"""Which candidate of a slot is run where results may lead a sealed search: within bounds of the prior, at every step.

A slot has G candidates, fresh and secret draws of the prior that nothing else depends on. What came before gives them
scores; their chances are in proportion to these as far as low/G <= chance <= high/G allows. So for every set S of
configurations and whatever came before,

    P[proposal in S | before] = E[sum of the chances of the candidates in S]  is between low P and high P,

P being the prior's chance of S: what `dpcore.selection.best` asks of a policy, and all that it asks.

Workers. The theorem lets a proposal be any function of earlier slots, in an order fixed beforehand, and of coins of its
own. Slots are numbered; a worker looks at those that it ran before, which have smaller numbers, and at no others'. So
the policy depends on how many workers there are and its price does not; nor does it matter which slots of different
workers run at the same time. A worker that is lost knows again what it had written, and proposes the same again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainables.sealed.drawn import SealedDraw
from trainables.sealed.surrogate import upper_ends

WINDOW = 256
"""Results that are looked at, and kept: the latest."""
FEWEST = 2
"""Results without which every candidate has the same chance."""
SHARPNESS = 10.0
"""Of the scores, exp(SHARPNESS deviations): the bounds are paid for whatever the chances are, so these go to them."""
_WITHIN = 1e-9
"""Relatively, chances stay within the bounds by as much: rounding takes none across."""


class Seen(NamedTuple):
    """What became of one slot.

    slot, chosen  its number, and which of its candidates was run
    value         of the result, the larger the better; None where it failed
    """

    slot: int
    chosen: int
    value: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapting:
    """How far proposals may lean to what was seen: 0 < low < 1 < high, on the ratio of densities to the prior's."""

    low: float
    high: float

    def chances(self, drawn: SealedDraw, number: int, seen: Sequence[Seen]) -> NDArray[np.float64]:
        """Of the candidates of slot `number` after the results `seen`, (G,): each in [low/G, high/G], with sum 1."""
        from dpcore.selection.best import clipped_weights

        scores = _scores(drawn, number, seen)
        low, high = min(1.0, self.low * (1 + _WITHIN)), max(1.0, self.high * (1 - _WITHIN))
        return clipped_weights(tuple(map(float, scores)), low, high)

    def chosen(self, drawn: SealedDraw, number: int, seen: Sequence[Seen]) -> int:
        """Which of the candidates of slot `number` is run: by the slot's own coin."""
        upto = np.cumsum(self.chances(drawn, number, seen))
        return min(int(np.searchsorted(upto, drawn.coins.proposal(number), side="right")), len(upto) - 1)


def _scores(drawn: SealedDraw, number: int, seen: Sequence[Seen]) -> NDArray[np.float64]:
    """Of each candidate, at least 0."""
    candidates = drawn.candidates(number)
    if len(seen) < FEWEST:
        return np.ones(len(candidates))
    known = np.array([drawn.of(one.slot, one.chosen).place for one in seen], dtype=np.float64)
    places = np.array([one.place for one in candidates], dtype=np.float64)
    ends = upper_ends(known, [one.value for one in seen], places)
    return np.asarray(np.exp(SHARPNESS * (ends - ends.max())))
