"""What it costs, and may bring, that results lead a sealed search: beside the same search of independent draws."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from dpcore.rounding import epsilon_text
from dpcore.selection import HeterogeneousTrials
from sweeps.selection.price import CANDIDATES, SealedPlanner
from sweeps.spec.sections import AdaptOptions
from trainables.system import Config

DECILE = 0.1
"""The part of the prior that counts as good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Led:
    """What it costs that results lead a search, beside the search of independent draws under the same budget.

    low, high  bounds on the ratio of every proposal's density to the prior's
    penalty    of the budget, in nats, what the random number of trials and the bounds take
    independent_alone  epsilon that one trial in the middle of the space could claim alone under independent draws
    independent_penalty  of the budget, what the number of trials takes there
    deciles    chance that some trial comes from the best tenth of the prior, at least and at most: were each proposal
               to avoid or to favour it as far as the bounds allow
    planned    candidates that are planned before the search begins
    """

    low: float
    high: float
    penalty: float
    independent_alone: float
    independent_penalty: float
    deciles: tuple[float, float]
    planned: int

    def lines(self, alone: float) -> list[str]:
        """For people.  alone  what one trial in the middle could claim alone as the search is asked for"""
        least, most = self.deciles
        took, alone_then = epsilon_text(self.independent_penalty), epsilon_text(self.independent_alone)
        return [
            f"led      results lead what is proposed, between {self.low:g} and {self.high:g} times as often as by the "
            f"prior: one of its best tenth is among them with a chance of {least:.0%} to {most:.0%}",
            f"         that and the number of trials take epsilon {epsilon_text(self.penalty)} of the budget and leave "
            f"a trial {epsilon_text(alone)}; the number alone takes {took} and leaves {alone_then} (sampler: random). "
            f"{self.planned} candidates are planned before the deadline is announced",
        ]


def led_by(planner: SealedPlanner, adapt: AdaptOptions, further: Iterable[Config]) -> Led:
    """Beside the same search of independent draws, which has its own reference."""
    prior, rule, law = planner.prior, planner.pricing.rule, planner.pricing.law
    spec = prior.spec
    changed = {
        "selection": prior.selection.model_copy(update={"adapt": None}),
        "search": spec.search.model_copy(update={"sampler": "random"}),
    }
    other = SealedPlanner.of(replace(prior, spec=spec.model_copy(update=changed)), further)
    # What has a price where results lead has a lower one where none does.
    assert isinstance(other, SealedPlanner)
    independent = other.pricing
    assert isinstance(rule, HeterogeneousTrials)
    assert isinstance(independent.rule, HeterogeneousTrials)
    return Led(
        low=adapt.low,
        high=adapt.high,
        penalty=rule.penalty,
        independent_alone=independent.reference.guarantee.epsilon,
        independent_penalty=independent.rule.penalty,
        deciles=(law.reach(DECILE * adapt.low), law.reach(min(1.0, DECILE * adapt.high))),
        planned=law.cap * CANDIDATES,
    )
