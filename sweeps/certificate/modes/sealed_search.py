"""What the certificates of all sealed searches have in common: a secret number of trials, one row of the ledger, and
plans of what left.

Where nothing left, the document holds the price and its constants, and no plan. That nothing leaves is one of the
outputs that the price is of (`dpcore.selection.best`, `ladder`): a trial that may not leave is behind all others in the
order, and of a ladder word of none has a price of its own, at most its dearest. So it costs what a winner would have.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Literal

from dpcore.events import Adjacency, ApproximateDP, Composed, Event
from dpcore.guarantee import FLOATING_POINT, Notion, Status, weakest
from dpcore.selection import EventProfile, WorstProfile
from sweeps.certificate.chain import LedgerRow
from sweeps.certificate.claimed import Check, Claimed, number, rests_on, word
from sweeps.certificate.fields import Sentence
from sweeps.certificate.modes.counted import Counted
from sweeps.certificate.modes.laws import TrialsLaw
from sweeps.certificate.modes.plans import PlannedTrial, composes_in_parallel
from sweeps.privacy.charge import ReleasedParts
from sweeps.selection.law import OF_EVERY_SEARCH, OF_THE_PRIOR

ACCOUNTANT = "private-selection"
SEARCH = "sealed search"
"""In place of a trial in the one row of the ledger."""
_DRAWN = "That K was drawn once from this law, and that neither K, the losers nor the winner's slot left the boundary."
_DRAWN_FOR_NOTHING = (
    "That K was drawn once from this law, and that neither K nor anything of any trial left the boundary."
)


class SealedSearch(Counted):
    """The price of a sealed search, and the plans of what left.

    law    of K; how many trials there were is not known to whoever reads this
    named  the law in words, as the spec has it
    """

    scope: Literal["sweep"]
    law: TrialsLaw
    named: Sentence

    @property
    @abstractmethod
    def plans(self) -> tuple[PlannedTrial, ...]:
        """See `Counted.plans`: of what left, each once; none where nothing did."""

    @property
    @abstractmethod
    def theorem(self) -> str:
        """By which the claim holds."""

    @property
    def notion(self) -> Notion:
        """Of the claim."""
        return Notion.DP

    @property
    def besides(self) -> tuple[str, ...]:
        """What the claim rests on besides what every sealed search does."""
        return ()

    @abstractmethod
    def title_of_released(self, sweep: str) -> str:
        """`Counted.title`, where something left."""

    @abstractmethod
    def covers_released(self, sweep: str) -> str:
        """`Counted.covers`, where something left."""

    def title(self, sweep: str, claim: Claimed) -> str:
        """See `Counted.title`."""
        nothing = f"Privacy certificate of the sealed search of {sweep}, which released nothing"
        return self.title_of_released(sweep) if self.plans else nothing

    def covers(self, sweep: str) -> str:
        """See `Counted.covers`."""
        nothing = (
            f"The sealed search of {sweep}, and that it released nothing: that is one of its outputs, at the price of "
            "any other."
        )
        return self.covers_released(sweep) if self.plans else nothing

    @property
    def sealed(self) -> bool:
        """See `Counted.sealed`."""
        return True

    @property
    def attested(self) -> tuple[str, ...]:
        """See `Counted.attested`: what is so of every sealed search."""
        return (_DRAWN if self.plans else _DRAWN_FOR_NOTHING,)

    def in_common(self, claim: Claimed, spent: float, rows: Sequence[LedgerRow]) -> Iterator[Check]:
        """Whether ledger, words and status of the claim are those of such a search.  spent  epsilon, in the ledger"""
        yield _sealed_row(spent, claim, rows)
        yield rests_on(claim, (FLOATING_POINT, *OF_EVERY_SEARCH, *self.besides))
        said = [line for line in claim.assumptions if line.startswith(OF_THE_PRIOR)]
        yield Check("how the prior was chosen", len(said) == 1, "; ".join(said) or "not said")
        yield number("lower end of epsilon", claim.epsilon_lower, None)
        yield word("notion", claim.notion, self.notion)
        yield word("accountant", claim.accountant, ACCOUNTANT)
        yield word("theorem", claim.theorem, self.theorem)
        found = weakest(Status.PROVED_UNDER_ASSUMPTIONS, *(one.status for one in self.plans))
        yield word("status", claim.status, found)

    def opinions(self, claim: Claimed, rows: Sequence[LedgerRow]) -> tuple[Event, ...]:
        """Those of each winner alone: the claim bounds them, and much besides."""
        return tuple(event for one in self.plans for event in _released(one, claim.adjacency))


def profile_of(winner: PlannedTrial, adjacency: Adjacency) -> WorstProfile:
    """The profile of what a winner's plan releases of each part of the records."""
    return WorstProfile(tuple(EventProfile(one, adjacency) for one in _released(winner, adjacency)))


def _released(winner: PlannedTrial, adjacency: Adjacency) -> tuple[Event, ...]:
    parts = ReleasedParts(training=winner.training, reports=winner.reports, parallel=composes_in_parallel([winner]))
    return parts.together(adjacency)


def _sealed_row(epsilon: float, claim: Claimed, rows: Sequence[LedgerRow]) -> Check:
    """A sealed search is one row of the ledger: rows of its launches would tell how many trials there were."""
    held = tuple(rows) == (spent_at_once(epsilon, claim.delta, claim.adjacency),)
    return Check("the ledger has one row for the sealed search", held, f"{len(rows)} rows")


def spent_at_once(epsilon: float, delta: float, adjacency: Adjacency) -> LedgerRow:
    """The one row of a sealed search."""
    spent = ApproximateDP(epsilon=epsilon, delta=delta, adjacency=adjacency)
    return LedgerRow(trial=SEARCH, attempt=1, from_step=0, to_step=1, charged_to=1, training=spent, reports=Composed())
