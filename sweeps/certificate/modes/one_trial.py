"""One trial's own claim: the search for its hyperparameters is not covered, and the certificate says so first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from dpcore.accounting import headline, larger_of_parts
from dpcore.events import Adjacency, Event
from dpcore.guarantee import Guarantee, Notion, weakest
from sweeps.certificate.chain import LedgerRow
from sweeps.certificate.claimed import Check, Claimed, at_most, number, rests_on, word
from sweeps.certificate.modes.counted import Counted
from sweeps.certificate.modes.plans import PlannedTrial, composes_in_parallel, slices
from sweeps.certificate.modes.profile import Profile
from sweeps.privacy.charge import ReleasedParts


class OneTrial(Counted):
    """The whole plan of one trial, however early it was stopped.

    headline  whether the claim is that of the headline's accountant, to the digit. Else it is by a theorem of its
              system (of one release in closed form, say): then the headline confirms that the events spend no more
    """

    mode: Literal["trial"]
    trial: PlannedTrial
    headline: bool
    profile: Profile

    @property
    def plans(self) -> tuple[PlannedTrial, ...]:
        """See `Counted.plans`."""
        return (self.trial,)

    def title(self, sweep: str, claim: Claimed) -> str:
        """See `Counted.title`."""
        return f"Privacy certificate of one trial of {sweep}, the search for its hyperparameters not covered"

    def covers(self, sweep: str) -> str:
        """See `Counted.covers`."""
        return covers_one(self.trial.trial, sweep)

    def lines(self) -> list[tuple[str, str]]:
        """See `Counted.lines`."""
        return [("mode", "the plan of one trial"), *self.profile.lines()]

    @property
    def searched(self) -> bool:
        """See `Counted.searched`."""
        return False

    @property
    def attested(self) -> tuple[str, ...]:
        """See `Counted.attested`."""
        return () if self.headline else ("By which theorem epsilon is as large as claimed: the events spend less.",)

    @property
    def parts(self) -> ReleasedParts:
        """What the plan releases of each part of the records."""
        return ReleasedParts(
            training=self.trial.training,
            reports=self.trial.reports,
            parallel=composes_in_parallel([self.trial]),
        )

    def checks(self, claim: Claimed, rows: Sequence[LedgerRow]) -> Iterator[Check]:
        """The claim, recomputed from the events of the plan."""
        yield from slices([self.trial], rows)
        parts = self.parts.together(claim.adjacency)
        found = headline_of(parts, claim.delta, claim.adjacency, claim.unit)
        if self.headline:
            yield word("accountant", claim.accountant, found.accountant)
            yield number("epsilon of the trial", claim.epsilon, found.epsilon)
            yield number("lower end of epsilon", claim.epsilon_lower, found.epsilon_lower)
            yield word("theorem", claim.theorem, found.theorem)
            yield rests_on(claim, found.assumptions)
        else:
            yield at_most(f"epsilon of the trial, by {found.accountant}", found.epsilon, claim.epsilon)
        yield number("delta", claim.delta, found.delta)
        yield word("notion", claim.notion, Notion.DP)
        yield word("status", claim.status, weakest(found.status, self.trial.status))
        yield from self.profile.checks(
            self.parts.together(claim.adjacency), claim.adjacency, claim.epsilon, claim.delta
        )

    def opinions(self, claim: Claimed, rows: Sequence[LedgerRow]) -> tuple[Event, ...]:
        """See `Counted.opinions`."""
        return self.parts.together(claim.adjacency)


def headline_of(parts: tuple[Event, ...], delta: float, adjacency: Adjacency, unit: str) -> Guarantee:
    """The headline at `delta` of one or two parts that compose in parallel. What is known at a delta of its own alone
    counts within it, as in a trial's plan. Raises as `dpcore.accounting.headline` does."""
    claims = [headline(part, delta, adjacency, unit) for part in parts]
    return claims[0] if len(claims) == 1 else larger_of_parts(*claims)


def covers_one(trial: str, sweep: str) -> str:
    """What is certified of one trial, in words."""
    return (
        f"What the training of {trial} released. The search is not covered: choosing this trial among others of "
        f"{sweep} for its results costs more than this epsilon."
    )
