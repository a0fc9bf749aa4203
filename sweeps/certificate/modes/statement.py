"""What no accountant recomputes: a claim about averages over people, or about the guess of membership alone.

It is no (epsilon, delta) of differential privacy, and the title says which it is. Its arithmetic (a bound on an
estimate, a published formula) is the signer's word.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from dpcore.guarantee import Notion, Status
from sweeps.certificate.chain import LedgerRow
from sweeps.certificate.claimed import Check, Claimed, word
from sweeps.certificate.modes.counted import Counted
from sweeps.certificate.modes.one_trial import covers_one
from sweeps.certificate.modes.plans import PlannedTrial, slices

STATED = {
    Status.AVERAGE_CASE: "average-case: an average over people, which bounds nothing of one",
    Status.MEMBERSHIP_ONLY: "membership only: the guess who was in the data is bounded, and nothing else",
}
"""Statuses of which there are statements, and no certificates, with what their titles say."""


class StatedTrial(Counted):
    """The plan of the one trial that it is about."""

    mode: Literal["statement"]
    trial: PlannedTrial

    @property
    def plans(self) -> tuple[PlannedTrial, ...]:
        """See `Counted.plans`."""
        return (self.trial,)

    def title(self, sweep: str, claim: Claimed) -> str:
        """See `Counted.title`."""
        what = STATED.get(claim.status, str(claim.status))
        return f"Statement, and no privacy certificate, of one trial of {sweep} ({what})"

    def covers(self, sweep: str) -> str:
        """See `Counted.covers`."""
        return covers_one(self.trial.trial, sweep)

    def lines(self) -> list[tuple[str, str]]:
        """See `Counted.lines`."""
        return [("mode", "a statement: no accountant recomputes it")]

    @property
    def statuses(self) -> tuple[Status, ...]:
        """See `Counted.statuses`."""
        return tuple(STATED)

    @property
    def searched(self) -> bool:
        """See `Counted.searched`."""
        return False

    @property
    def attested(self) -> tuple[str, ...]:
        """See `Counted.attested`."""
        return ("Its epsilon and delta: nothing recomputes them.",)

    def checks(self, claim: Claimed, rows: Sequence[LedgerRow]) -> Iterator[Check]:
        """That it is one of these, and its ledger one of that plan."""
        yield from slices([self.trial], rows)
        yield word("status", claim.status, self.trial.status)
        yield Check("notion is another", claim.notion is not Notion.DP, str(claim.notion))
