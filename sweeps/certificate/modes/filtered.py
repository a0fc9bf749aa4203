"""`scope: sweep, release: all` under a GDP filter: budgets adapt to results, and stop before the total is exceeded.

The claim is the budget itself, fixed before the first trial: whatever was chosen after looking, all releases together
are (epsilon, delta_mu_total(epsilon) + tau_total)-DP while the charges keep

    sum mu_i^2 <= mu_total^2      and      sum tau_i <= tau_total       (`dpcore.selection.filters`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Annotated, Literal

from pydantic import Field

from dpcore.adjacency import Adjacency
from dpcore.events import Composed, Event, phases
from dpcore.guarantee import Notion, Status, weakest
from dpcore.selection import BudgetExceeded, EventProfile, GDPCharge, GDPFilter, covering_mu
from sweeps.certificate.chain import LedgerRow
from sweeps.certificate.claimed import Check, Claimed, at_most, number, word
from sweeps.certificate.fields import Chance, Delta, FrozenPart, NotNegative, Sentence
from sweeps.certificate.modes.counted import Counted
from sweeps.certificate.modes.plans import PlannedTrial, composes_in_parallel, slices

THEOREM = (
    "Gaussian differential privacy filter: Smith & Thakurta (2022), Koskela, Tobaben & Honkela (2023); for launches in "
    "parallel Haney et al. (2023)"
)
Part = Literal["training", "reports", "both"]


class ChargedRow(FrozenPart):
    """What a filter was charged for one launch: a Gaussian that covers its events up to the chance `tau`."""

    trial: Sentence
    attempt: Annotated[int, Field(ge=1)]
    mu: NotNegative
    tau: Annotated[float, Field(ge=0, lt=1)]


class FilterLedger(FrozenPart):
    """The charges of one part of the records, and their sums.

    part  training records, private validation records (which then compose in parallel), or both added
    squares, taus  sum mu_i^2 and sum tau_i
    """

    part: Part
    charges: tuple[ChargedRow, ...]
    squares: NotNegative
    taus: Chance


class Filtered(Counted):
    """The filter, its constants, and all that it was charged.

    tau_share  the part of delta that is kept for the chances tau
    ledgers    one; or one of training and one of reports, where both compose in parallel
    """

    mode: Literal["filter"]
    scope: Literal["sweep"]
    release: Literal["all"]
    trials: Annotated[tuple[PlannedTrial, ...], Field(min_length=1)]
    tau_share: Delta
    mu_total: NotNegative
    tau_total: Chance
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
        return f"All results of all trials of {sweep}, whatever was chosen by them, and the choice of the best."

    def lines(self) -> list[tuple[str, str]]:
        """See `Counted.lines`."""
        sums = "; ".join(f"{one.part}: Σμ² = {one.squares:.6g}, Στ = {one.taus:.6g}" for one in self.ledgers)
        constants = f"Σμ² ≤ {self.mu_total**2:.6g}, Στ ≤ {self.tau_total:.6g} (μ total {self.mu_total:.6g})"
        return [("mode", "Gaussian filter"), ("budget", constants), ("charged", sums)]

    def checks(self, claim: Claimed, rows: Sequence[LedgerRow]) -> Iterator[Check]:
        """The filter's constants, its sums, and that every charge covers what its launch released."""
        yield from slices(self.trials, rows)
        empty = GDPFilter(epsilon=claim.epsilon, delta=claim.delta, tau_share=self.tau_share)
        yield number("mu_total of the budget", self.mu_total, empty.mu_total)
        yield number("tau_total of the budget", self.tau_total, empty.tau_total)
        yield self._parts(claim.adjacency)
        for ledger in self.ledgers:
            yield number(f"sum of mu^2, {ledger.part}", ledger.squares, math.fsum(one.mu**2 for one in ledger.charges))
            yield number(f"sum of tau, {ledger.part}", ledger.taus, math.fsum(one.tau for one in ledger.charges))
            yield _admitted(empty, ledger)
            yield _complete(ledger, rows)
            yield from _covered(ledger, rows, claim.adjacency)
        yield number("lower end of epsilon", claim.epsilon_lower, None)
        yield word("notion", claim.notion, Notion.DP)
        yield word("accountant", claim.accountant, "gdp-filter")
        yield word("theorem", claim.theorem, THEOREM)
        yield word("status", claim.status, weakest(Status.PROVED, *(one.status for one in self.trials)))

    def _parts(self, adjacency: Adjacency) -> Check:
        found = tuple(one.part for one in self.ledgers)
        apart = composes_in_parallel(self.trials) and adjacency is Adjacency.ADD_REMOVE
        allowed = [("both",), ("training", "reports")] if apart else [("both",)]
        return Check("ledgers", found in allowed, " and ".join(found))


def _admitted(empty: GDPFilter, ledger: FilterLedger) -> Check:
    filled = empty
    what = f"the filter admits every charge, {ledger.part}"
    try:
        for index, one in enumerate(ledger.charges):
            filled = filled.reserve(str(index), GDPCharge(one.mu, one.tau))
    except BudgetExceeded as error:
        return Check(what, False, str(error))
    return Check(what, True, f"{len(ledger.charges)} charges within the budget")


def _complete(ledger: FilterLedger, rows: Sequence[LedgerRow]) -> Check:
    charged = [(one.trial, one.attempt) for one in ledger.charges]
    wanted = [(row.trial, row.attempt) for row in rows if phases(_released(row, ledger.part))]
    held = charged == wanted
    return Check(f"every launch is charged, {ledger.part}", held, f"{len(charged)} charges of {len(wanted)} launches")


def _covered(ledger: FilterLedger, rows: Sequence[LedgerRow], adjacency: Adjacency) -> Iterator[Check]:
    """One check for each pair of events and tau."""
    released = {(row.trial, row.attempt): _released(row, ledger.part) for row in rows}
    least: dict[tuple[Event, float], float] = {}
    for one in ledger.charges:
        event = released.get((one.trial, one.attempt), Composed())
        mu = least.get((event, one.tau), math.inf)
        least[event, one.tau] = min(mu, one.mu)
    for (event, tau), mu in least.items():
        yield at_most("mu that covers a launch", _needed(event, tau, adjacency), mu)


@lru_cache(maxsize=4096)
def _needed(event: Event, tau: float, adjacency: Adjacency) -> float:
    return covering_mu(EventProfile(event, adjacency), tau) if phases(event) else 0.0


def _released(row: LedgerRow, part: Part) -> Event:
    match part:
        case "training":
            return row.training
        case "reports":
            return row.reports
        case "both":
            return Composed(events=(row.training, row.reports))
