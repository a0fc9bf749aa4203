"""`scope: sweep, release: all` under a filter: budgets adapt to results, and stop before the total is exceeded.

The claim is the budget itself, fixed before the first trial, whatever was chosen after looking (`dpcore.selection.
filters`). Every launch is charged for all steps that it might have run.

rule   a launch is charged                                         while
gdp    mu of a Gaussian that covers its events up to chance tau    sum mu^2 <= mu_total^2, sum tau <= tau_total
renyi  the Renyi divergence of its events at one order             sum <= the divergence that converts to the budget
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Annotated, Literal

from pydantic import Field

from dpcore.accountants.gdp import GDPAccountant
from dpcore.checks import InvalidValue
from dpcore.events import Adjacency, Composed, Event, Gaussian, phases
from dpcore.guarantee import FLOATING_POINT, Notion, Status, weakest
from dpcore.rounding import delta_text, epsilon_text
from dpcore.selection import (
    BudgetExceeded,
    EventProfile,
    GDPCharge,
    GDPFilter,
    PrivacyFilter,
    RenyiCharge,
    RenyiFilter,
    covering_mu,
)
from sweeps.certificate.chain import LedgerRow
from sweeps.certificate.claimed import Check, Claimed, at_most, number, rests_on, word
from sweeps.certificate.fields import Chance, Delta, FrozenPart, NotNegative, Sentence
from sweeps.certificate.modes.counted import Counted
from sweeps.certificate.modes.plans import PlannedTrial, composes_in_parallel, slices
from sweeps.privacy.charge import shown_to_cover
from sweeps.privacy.totals import IN_TIME

_CONCURRENT = "launches in parallel: Haney et al. (2023), concurrent composition of filters"
THEOREMS = {
    "gdp": "Gaussian privacy filter: Smith & Thakurta (2022), fully adaptive composition; Koskela, Tobaben & Honkela "
    f"(2023); each launch covered by a Gaussian up to a chance that delta holds; {_CONCURRENT}",
    "renyi": f"Renyi filter at one order fixed beforehand: Feldman & Zrnic (2021); {_CONCURRENT}",
}
TOLERANCE = 2e-3
"""Of a mu that covers, relative and from above."""
Part = Literal["training", "reports", "both"]


class ChargedLaunch(FrozenPart):
    """What a filter was charged for one launch.

    amount  mu, or the Renyi divergence
    tau     the chance beside the Gaussian; 0 where there is none
    """

    trial: Sentence
    attempt: Annotated[int, Field(ge=1)]
    amount: NotNegative
    tau: Annotated[float, Field(ge=0, lt=1)]


class FilterLedger(FrozenPart):
    """The charges of one part of the records, and their sums.

    part  training records, private validation records (which then compose in parallel), or both added
    sum   of mu^2, or of divergences
    taus  sum of tau
    """

    part: Part
    charges: tuple[ChargedLaunch, ...]
    sum: NotNegative
    taus: Chance

    def __str__(self) -> str:
        return f"{self.part}: {epsilon_text(self.sum, digits=6)}, Στ = {delta_text(self.taus)}"


class GaussianRule(FrozenPart):
    """The filter of Gaussian privacy.  tau_share  the part of delta that is kept for the chances tau"""

    kind: Literal["gdp"]
    tau_share: Delta
    mu_total: NotNegative
    tau_total: Chance

    def empty(self, claim: Claimed) -> GDPFilter:
        """Before the first launch."""
        return GDPFilter(epsilon=claim.epsilon, delta=claim.delta, tau_share=self.tau_share)

    def constants(self, claim: Claimed) -> Iterator[Check]:
        """Whether they follow from the budget."""
        yield number("mu_total of the budget", self.mu_total, self.empty(claim).mu_total)
        yield number("tau_total of the budget", self.tau_total, self.empty(claim).tau_total)

    def charge(self, one: ChargedLaunch) -> GDPCharge:
        """As the filter takes it."""
        return GDPCharge(one.amount, one.tau)

    def added(self, one: ChargedLaunch) -> float:
        """What adds up."""
        return one.amount * one.amount

    def is_enough(self, event: Event, one: float, tau: float, adjacency: Adjacency) -> bool:
        """Whether it is quickly shown that this amount covers these events: most are, and no least one is asked for."""
        return not _is_gaussian(event) and shown_to_cover(event, one, tau, adjacency)

    def needed(self, event: Event, tau: float, adjacency: Adjacency) -> float:
        """The least amount for these events."""
        return _covering(event, tau, adjacency)

    def __str__(self) -> str:
        mu, squared = epsilon_text(self.mu_total, digits=6), epsilon_text(self.mu_total**2, digits=6)
        return f"Σμ² ≤ {squared}, Στ ≤ {delta_text(self.tau_total)} (μ total {mu})"


class RenyiRule(FrozenPart):
    """The filter at one order, declared before the search.  budget  the largest divergence that it admits in all"""

    kind: Literal["renyi"]
    order: Annotated[float, Field(gt=1)]
    budget: NotNegative

    def empty(self, claim: Claimed) -> RenyiFilter:
        """Before the first launch. Raises InvalidValue for an order that leaves nothing."""
        return RenyiFilter(epsilon=claim.epsilon, delta=claim.delta, order=self.order)

    def constants(self, claim: Claimed) -> Iterator[Check]:
        """Whether they follow from the budget."""
        yield number("divergence of the budget", self.budget, self.empty(claim).budget)

    def charge(self, one: ChargedLaunch) -> RenyiCharge:
        """As the filter takes it. Raises InvalidValue for a tau, which it has none of."""
        if one.tau:
            raise InvalidValue("tau", one.tau, "0 in a Renyi filter")
        return RenyiCharge(one.amount)

    def added(self, one: ChargedLaunch) -> float:
        """What adds up."""
        return one.amount

    def is_enough(self, event: Event, one: float, tau: float, adjacency: Adjacency) -> bool:
        """See `GaussianRule.is_enough`: a divergence is its own quickest proof."""
        return self.needed(event, tau, adjacency) <= one

    def needed(self, event: Event, tau: float, adjacency: Adjacency) -> float:
        """The least amount for these events."""
        return _divergence(event, self.order, adjacency)

    def __str__(self) -> str:
        return f"sum of divergences at order {self.order:g} ≤ {epsilon_text(self.budget, digits=6)}"


class Filtered(Counted):
    """The filter, its constants, and all that it was charged.

    ledgers  one; or one of training and one of reports, where both compose in parallel
    """

    mode: Literal["filter"]
    scope: Literal["sweep"]
    release: Literal["all"]
    trials: Annotated[tuple[PlannedTrial, ...], Field(min_length=1)]
    rule: Annotated[GaussianRule | RenyiRule, Field(discriminator="kind")]
    ledgers: Annotated[tuple[FilterLedger, ...], Field(min_length=1, max_length=2)]

    @property
    def plans(self) -> tuple[PlannedTrial, ...]:
        """See `Counted.plans`."""
        return self.trials

    def title(self, sweep: str, claim: Claimed) -> str:
        """See `Counted.title`."""
        return f"Privacy certificate of all trials of {sweep} together, whose budgets adapted to results"

    def covers(self, sweep: str) -> str:
        """See `Counted.covers`."""
        return (
            f"All results of all {len(self.trials)} trials of {sweep}, whatever was chosen by them, and the choice of "
            "the best."
        )

    def lines(self) -> list[tuple[str, str]]:
        """See `Counted.lines`."""
        sums = "; ".join(map(str, self.ledgers))
        return [("mode", f"{self.rule.kind} filter"), ("budget", str(self.rule)), ("charged", sums)]

    @property
    def fixed(self) -> bool:
        """See `Counted.fixed`."""
        return False

    def checks(self, claim: Claimed, rows: Sequence[LedgerRow]) -> Iterator[Check]:
        """The filter's constants, its sums, and that every charge covers what its launch released."""
        yield from slices(self.trials, rows)
        yield from self.rule.constants(claim)
        yield self._parts(claim.adjacency)
        for ledger in self.ledgers:
            found = math.fsum(self.rule.added(one) for one in ledger.charges)
            yield number(f"sum of charges, {ledger.part}", ledger.sum, found)
            yield number(f"sum of tau, {ledger.part}", ledger.taus, math.fsum(one.tau for one in ledger.charges))
            yield self._admitted(claim, ledger)
            yield _complete(ledger, rows)
            yield from self._covered(ledger, rows, claim.adjacency)
        yield rests_on(claim, (FLOATING_POINT, IN_TIME))
        yield number("lower end of epsilon", claim.epsilon_lower, None)
        yield word("notion", claim.notion, Notion.DP)
        yield word("accountant", claim.accountant, f"{self.rule.kind}-filter")
        yield word("theorem", claim.theorem, THEOREMS[self.rule.kind])
        yield word("status", claim.status, weakest(Status.PROVED, *(one.status for one in self.trials)))

    def _parts(self, adjacency: Adjacency) -> Check:
        found = tuple(one.part for one in self.ledgers)
        apart = composes_in_parallel(self.trials) and adjacency is Adjacency.ADD_REMOVE
        allowed = [("both",), ("training", "reports")] if apart else [("both",)]
        return Check("ledgers", found in allowed, " and ".join(found))

    def _admitted(self, claim: Claimed, ledger: FilterLedger) -> Check:
        filled: PrivacyFilter = self.rule.empty(claim)
        what = f"the filter admits every charge, {ledger.part}"
        try:
            for index, one in enumerate(ledger.charges):
                filled = filled.reserve(str(index), self.rule.charge(one))
        except (BudgetExceeded, InvalidValue) as error:
            return Check(what, False, str(error))
        return Check(what, True, f"{len(ledger.charges)} charges within the budget")

    def _covered(self, ledger: FilterLedger, rows: Sequence[LedgerRow], adjacency: Adjacency) -> Iterator[Check]:
        """One check for each pair of events and tau."""
        released = {(row.trial, row.attempt): _released(row, ledger.part) for row in rows}
        least: dict[tuple[Event, float], float] = {}
        for one in ledger.charges:
            event = released.get((one.trial, one.attempt), Composed())
            least[event, one.tau] = min(least.get((event, one.tau), math.inf), one.amount)
        what = f"what covers a launch, {ledger.part}"
        for (event, tau), amount in least.items():
            if phases(event) and self.rule.is_enough(event, amount, tau, adjacency):
                yield Check(what, True, f"{amount:.10g}, which is shown to be enough")
            else:
                yield at_most(what, self.rule.needed(event, tau, adjacency) if phases(event) else 0.0, amount)


def _complete(ledger: FilterLedger, rows: Sequence[LedgerRow]) -> Check:
    charged = [(one.trial, one.attempt) for one in ledger.charges]
    wanted = [(row.trial, row.attempt) for row in rows if phases(_released(row, ledger.part))]
    whole = all(row.charged_to == row.to_step for row in rows)
    said = f"{len(charged)} charges of {len(wanted)} launches, {'each' if whole else 'not each'} for all its steps"
    return Check(f"every launch is charged, {ledger.part}", charged == wanted and whole, said)


def _released(row: LedgerRow, part: Part) -> Event:
    match part:
        case "training":
            return row.training
        case "reports":
            return row.reports
        case "both":
            return Composed(events=(row.training, row.reports))


def _is_gaussian(event: Event) -> bool:
    return all(isinstance(part, Gaussian) for part in phases(event))


@lru_cache(maxsize=4096)
def _covering(event: Event, tau: float, adjacency: Adjacency) -> float:
    if _is_gaussian(event):
        # Exact, and nothing stands beside it (Dong, Roth & Su 2022, corollary 2).
        return GDPAccountant(adjacency).compose(event).mu
    return covering_mu(EventProfile(event, adjacency), tau, TOLERANCE) if tau else math.inf


@lru_cache(maxsize=4096)
def _divergence(event: Event, order: float, adjacency: Adjacency) -> float:
    return float(EventProfile(event, adjacency).renyi((order,))[0])
