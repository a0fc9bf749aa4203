"""One budget for everything that leaves a sweep (`privacy.scope: sweep`, `release: all`), and each trial's part of it;
the law of the number of trials, where the winners alone leave.

What adds up is mu^2 of Gaussian differential privacy, or the Renyi divergence at one order: `dpcore.selection.filters`.
The sweep has so much of it in all. It is spread over `shares` trials by their numbers, which are public: nothing here
looks at a result. Whether a launch still fits is the filter's to say (`sweeps.privacy.charge`).

spread        the parts of N trials                               rung r of a trial
equal         total / N each                                      counts N times
front-loaded  as 1, 1/2, 1/3, ..., 1/N                            counts N times
halving       total / (what rungs cost under successive halving)  counts N / reduction^r times, rounded up

By `halving` the sum over the rungs that successive halving launches is within the total: rungs that most trials never
reach are paid for few times, and every trial has less noise. Where more go on, the filter ends it earlier.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

from dpcore.accountants.rdp import improved_epsilon
from dpcore.checks import InvalidValue
from dpcore.events import Adjacency
from dpcore.gdp import eps_gdp
from dpcore.selection.counts import BinomialCount, Capped, CountLaw, PoissonCount, geometric, logarithmic, with_mean
from dpcore.selection.filters import GDPFilter, RenyiFilter
from dpcore.selection.ladder import threshold_law
from sweeps.spec.sections import EarlyStopping, Privacy, Search, Selection, SweepSpec, TotalPrivacy

Spread = Literal["equal", "front-loaded", "halving"]

LAUNCHES = 4
"""For each rung of each share the delta beside a Gaussian is kept so many times: retries, and trials beyond the shares,
need theirs too. Each of them takes as much; it enters mu by its logarithm."""
_BELOW = 1 - 1e-9
"""Rounding of sums must not exceed what the plans were fitted to."""


@dataclass(frozen=True, kw_only=True)
class SweepBudget:
    """What may leave a sweep in all, and how it is spread.

    epsilon, delta  of everything together
    adjacency       what neighbours differ in
    shares          trials that it is spread over
    rungs           launches of a whole trial at most; 1 without early stopping
    reduction       of early stopping
    order           of the Renyi filter, declared before the first trial; None: the filter of Gaussian privacy
    """

    epsilon: float
    delta: float
    adjacency: Adjacency
    shares: int
    rungs: int = 1
    reduction: int = 3
    spread: Spread = "equal"
    order: float | None = None

    @property
    def kind(self) -> str:
        """Of the filter: "gdp" or "renyi"."""
        return "gdp" if self.order is None else "renyi"

    def to_dict(self) -> dict[str, object]:
        """What of it stands beside a total."""
        return {"epsilon": self.epsilon, "delta": self.delta, "filter": self.kind}

    @property
    def filter(self) -> GDPFilter | RenyiFilter:
        """The filter before the first launch. Raises InvalidValue for an order at which nothing is left."""
        if self.order is None:
            return GDPFilter(epsilon=self.epsilon, delta=self.delta)
        return RenyiFilter(epsilon=self.epsilon, delta=self.delta, order=self.order)

    @cached_property
    def total(self) -> float:
        """What may be spent in all: mu^2, or the Renyi divergence."""
        empty = self.filter
        return empty.mu_total**2 if isinstance(empty, GDPFilter) else empty.budget

    @property
    def tau(self) -> float:
        """The chance beside the Gaussian that covers one launch; 0 in a Renyi filter."""
        if self.order is not None:
            return 0.0
        return GDPFilter(epsilon=self.epsilon, delta=self.delta).tau_total / (self.shares * self.rungs * LAUNCHES)

    def part(self, number: int) -> float:
        """What trial `number` may spend with all of its rungs. Numbers beyond the shares get as much as the last."""
        whole = self.total / sum(self.times(rung) * share for rung, share in enumerate(self._shares_of_steps()))
        return whole * self._weight(number)

    def times(self, rung: int) -> int:
        """How often the launch of a rung counts while the budget is spread."""
        return math.ceil(self.shares / self.reduction**rung) if self.spread == "halving" else self.shares

    def excess(self, rungs: Sequence[float], number: int) -> float:
        """ln(spent / allowed) of trial `number` whose rungs cost so much each: at most 0 where it may be launched."""
        whole = math.fsum(rungs) / self.part(number)
        spread = math.fsum(cost * self.times(rung) for rung, cost in enumerate(rungs))
        most = max(whole, spread / (self.total * self._weight(number)))
        return math.log(most / _BELOW) if most > 0 else -700.0

    @cached_property
    def trial_epsilon(self) -> float:
        """The most that one trial claims by itself: the epsilon, at delta, of the largest part that a trial gets."""
        return self.alone(0)

    def alone(self, number: int) -> float:
        """The epsilon of the part of trial `number`."""
        if self.order is not None:
            return improved_epsilon(self.order, self.part(number), self.delta)
        return eps_gdp(math.sqrt(self.part(number)), self.delta - self.rungs * self.tau)

    def _weight(self, number: int) -> float:
        """Of a part, beside the equal one."""
        if self.spread != "front-loaded":
            return 1.0
        return self.shares / (self._harmonic * (min(number, self.shares - 1) + 1))

    @cached_property
    def _harmonic(self) -> float:
        """1 + 1/2 + ... + 1/shares."""
        return math.fsum(1 / one for one in range(1, self.shares + 1))

    def _shares_of_steps(self) -> list[float]:
        """Of each rung; costs of training rise with steps."""
        if self.spread != "halving":
            return [1.0]
        ends = [self.reduction ** (rung - self.rungs + 1) for rung in range(self.rungs)]
        return [end - before for before, end in zip([0.0, *ends], ends, strict=False)]


_BUDGETS = lru_cache(maxsize=256)(SweepBudget)
"""One value for equal ones: what follows from it is calculated once."""


def budget_of(spec: SweepSpec) -> SweepBudget | None:
    """The budget of a whole sweep; None where each trial has its own, or the winners of a sealed search alone leave."""
    return budget_of_sections(spec.privacy, spec.search, spec.early_stopping)


def budget_of_sections(privacy: Privacy, search: Search, early_stopping: EarlyStopping | None) -> SweepBudget | None:
    """As `budget_of`, of a spec that is still being read. Raises InvalidValue for an order that leaves nothing."""
    if not isinstance(privacy, TotalPrivacy):
        return None
    shares = privacy.shares or search.trials
    rungs = 1 if early_stopping is None else early_stopping.filled(search.trials).rungs
    return _BUDGETS(
        epsilon=privacy.epsilon[0],
        delta=privacy.delta,
        adjacency=privacy.adjacency,
        shares=shares,
        rungs=rungs,
        reduction=3 if early_stopping is None else early_stopping.reduction,
        spread=privacy.spread,
        order=privacy.order if privacy.filter == "renyi" else None,
    )


def trial_budgets(privacy: Privacy, search: Search, early_stopping: EarlyStopping | None) -> tuple[float, ...]:
    """What `target_epsilon` may be: the budgets of a spec, or the most that one trial of a whole sweep's budget claims.

    A trial of such a sweep is then found, on fronts and in comparisons, where one of a sweep with that budget for each
    trial would be."""
    budget = budget_of_sections(privacy, search, early_stopping)
    return privacy.epsilon if budget is None else (budget.trial_epsilon,)


# The law of the number of trials of a sealed search.

_FAIR = 0.5


def law_of(selection: Selection, most: int) -> Capped:
    """The law of K, conditioned on at most `most` trials. Raises InvalidValue, with the paths of a spec."""
    try:
        law = _uncapped(selection)
    except InvalidValue as error:
        raise InvalidValue(f"selection.{error.name}", error.value, error.expected, error.remedy) from error
    if selection.target is not None:
        try:
            threshold_law(law)
        except InvalidValue:
            expected = "geometric, logarithmic, or tnb with a shape in [0, 1]: of other laws the first success has no "
            raise InvalidValue("selection.count", selection.count, expected + "rule", "Use geometric.") from None
    try:
        return Capped(law, most)
    except InvalidValue as error:
        remedy = "Lower selection.mean, or let there be more trials."
        raise InvalidValue("search.trials", most, error.expected, remedy) from error


def law_text(selection: Selection, most: int) -> str:
    """The law in words."""
    shape = "" if selection.shape is None else f" of shape {selection.shape:g}"
    return f"{selection.count}{shape}, mean {selection.mean:g} before its cap at {most}"


def _uncapped(selection: Selection) -> CountLaw:
    mean, shape = selection.mean, selection.shape
    if (shape is None) == (selection.count == "tnb"):
        expected = "a number above -1" if shape is None else f"nothing with {selection.count}"
        raise InvalidValue("shape", shape, expected, "The shape is that of `count: tnb`.")
    match selection.count:
        case "geometric":
            return geometric(mean)
        case "logarithmic":
            return logarithmic(mean)
        case "poisson":
            return PoissonCount(mean)
        case "binomial":
            if round(mean / _FAIR) * _FAIR != mean:
                raise InvalidValue("mean", mean, "half a whole number: that of fair coins")
            return BinomialCount(round(mean / _FAIR), _FAIR)
        case "tnb":
            assert shape is not None
            return with_mean(shape, mean)
