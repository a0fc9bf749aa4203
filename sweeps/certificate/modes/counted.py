"""What every mode has in common: what it says of itself, and how its claim is recomputed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence

from dpcore.events import Event
from dpcore.guarantee import STANDING, Guarantee, Status
from sweeps.certificate.chain import LedgerRow
from sweeps.certificate.claimed import Check, Claimed
from sweeps.certificate.fields import FrozenPart
from sweeps.certificate.modes.plans import PlannedTrial


class Counted(FrozenPart):
    """One way in which a claim is counted, with every number that it needs."""

    @property
    @abstractmethod
    def plans(self) -> tuple[PlannedTrial, ...]:
        """Plans that the document names."""

    @abstractmethod
    def title(self, sweep: str, claim: Claimed) -> str:
        """What kind of document it is."""

    @abstractmethod
    def covers(self, sweep: str) -> str:
        """What is certified, in words."""

    @abstractmethod
    def lines(self) -> list[tuple[str, str]]:
        """Constants of the theorem, for people: (name, value)."""

    @abstractmethod
    def checks(self, claim: Claimed, rows: Sequence[LedgerRow]) -> Iterator[Check]:
        """The claim, recomputed from this and the rows of the ledger alone."""

    def promised(self, claim: Claimed) -> Guarantee:
        """What `claim` was beforehand, of whichever way the sweep might have gone. Raises InvalidValue."""
        return claim.guarantee

    def opinions(self, claim: Claimed, rows: Sequence[LedgerRow]) -> tuple[Event, ...]:
        """Events that another accountant may be asked about: the claim bounds each of them."""
        return ()

    @property
    def searched(self) -> bool:
        """Whether all trials of the sweep, and so the search among them, are covered."""
        return True

    @property
    def fixed(self) -> bool:
        """Whether the claim is one on trials that no result chose."""
        return self.searched

    @property
    def sealed(self) -> bool:
        """Whether the number of its launches is secret."""
        return False

    @property
    def statuses(self) -> tuple[Status, ...]:
        """Of claims that it may carry."""
        return STANDING

    @property
    def attested(self) -> tuple[str, ...]:
        """What is the signer's word alone, besides what is so in every document."""
        return ()
