"""`scope: trial` as a whole: all trials are released, and their events compose (Zhu, Dong & Wang 2022). So do the
launches of a final run, which is one trial."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from pydantic import Field

from dpcore.events import Composed, Event
from dpcore.guarantee import Notion, weakest
from sweeps.certificate.chain import LedgerRow
from sweeps.certificate.claimed import Check, Claimed, at_most, number, rests_on, word
from sweeps.certificate.fields import Delta, EventText, NotNegative
from sweeps.certificate.modes.counted import Counted
from sweeps.certificate.modes.plans import PlannedTrial, composes_in_parallel, run_whole, slices
from sweeps.certificate.modes.profile import Profile
from sweeps.privacy.charge import ReleasedParts, rounding_line


class ComposedTrials(Counted):
    """Every launch of every trial, counted as one release.

    scope, release  as the spec says
    budget    epsilon of the whole sweep, which the composition keeps; null where each trial has its own
    delta     that the accountant was asked at; what approximate releases have fixed themselves comes on top
    trials    plans, fixed before each ran
    tests     readings of private test records; `tests_apart` where nobody among them trains or validates
    """

    mode: Literal["composition"]
    scope: Literal["trial", "sweep", "public", "holdout"]
    release: Literal["all"]
    budget: NotNegative | None
    delta: Delta
    trials: Annotated[tuple[PlannedTrial, ...], Field(min_length=1)]
    tests: EventText
    tests_apart: bool
    profile: Profile

    @property
    def plans(self) -> tuple[PlannedTrial, ...]:
        """See `Counted.plans`."""
        return self.trials

    def title(self, sweep: str, claim: Claimed) -> str:
        """See `Counted.title`."""
        if self.scope == "holdout":
            return f"The final run {sweep} by itself, what tuned for it not covered"
        return f"Privacy certificate of all trials of {sweep} together"

    def covers(self, sweep: str) -> str:
        """See `Counted.covers`."""
        if self.scope == "holdout":
            return f"All results of the final run {sweep} on its part of the records, given its hyperparameters."
        return f"All results of all {len(self.trials)} trials of {sweep}, and the choice of the best among them."

    def lines(self) -> list[tuple[str, str]]:
        """See `Counted.lines`."""
        return [("mode", f"composition of {len(self.trials)} plans, as they were launched"), *self.profile.lines()]

    def parts(self, rows: Sequence[LedgerRow]) -> ReleasedParts:
        """What was released of each part of the records."""
        return released_parts(self.trials, rows, self.tests, self.tests_apart)

    def checks(self, claim: Claimed, rows: Sequence[LedgerRow]) -> Iterator[Check]:
        """The claim, recomputed from the events of the ledger rows."""
        yield from slices(self.trials, rows)
        yield run_whole(self.trials, rows)
        yield Check("scope", (self.scope == "sweep") is (self.budget is not None), self.scope)
        if self.budget is not None:
            yield at_most("epsilon within the sweep's budget", claim.epsilon, self.budget)
        parts = self.parts(rows)
        found, ratio = parts.claim(self.delta, claim.adjacency, claim.unit)
        yield number("epsilon of all trials together", claim.epsilon, found.epsilon)
        yield number("delta", claim.delta, found.delta)
        yield number("lower end of epsilon", claim.epsilon_lower, found.epsilon_lower)
        yield word("accountant", claim.accountant, found.accountant)
        yield word("theorem", claim.theorem, found.theorem)
        yield word("notion", claim.notion, Notion.DP)
        yield word("status", claim.status, weakest(found.status, *(one.status for one in self.trials)))
        yield rests_on(claim, (*found.assumptions, *rounding_line(ratio)))
        yield from self.profile.checks(parts.together(claim.adjacency), claim.adjacency, claim.epsilon, claim.delta)

    def opinions(self, claim: Claimed, rows: Sequence[LedgerRow]) -> tuple[Event, ...]:
        """See `Counted.opinions`."""
        return self.parts(rows).together(claim.adjacency)


def released_parts(
    plans: Sequence[PlannedTrial], rows: Sequence[LedgerRow], tests: Event, tests_apart: bool
) -> ReleasedParts:
    """What the rows of a ledger released, by part of the records."""
    return ReleasedParts(
        training=Composed(events=tuple(row.training for row in rows)),
        reports=Composed(events=tuple(row.reports for row in rows)),
        parallel=composes_in_parallel(plans),
        tests=tests,
        apart=tests_apart,
    )
