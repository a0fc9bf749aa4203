"""What may be said of one sweep, as Python has it: the claims as values, and in words when printed."""

from __future__ import annotations

from dataclasses import dataclass, fields

from dpcore.rounding import delta_text, epsilon_text
from sweeps.face.notebook_page import as_page
from sweeps.face.overview import Shown
from sweeps.ledger.summary import Summary


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class SweepClaim(Summary):
    """A `Summary`, with the words that stand beside its numbers wherever they are printed.

    sweep  whose
    words  a line each: what stands above, each kind of claim, the totals, what they rest on
    """

    sweep: str
    words: tuple[str, ...]

    @classmethod
    def of(cls, shown: Shown) -> SweepClaim:
        """That of an overview."""
        counted = {one.name: getattr(shown.ledger, one.name) for one in fields(Summary)}
        return cls(sweep=shown.called or shown.sweep, words=tuple(shown.claim_lines()), **counted)

    def __str__(self) -> str:
        return "\n".join(self.words)

    def __repr__(self) -> str:
        kinds = f"{len(self.claims)} kind{'s' * (len(self.claims) != 1)} of claim"
        total = "no total that may be quoted"
        if self.procedure is not None and self.procedure.is_claim:
            claim = self.procedure.guarantee
            total = f"total epsilon {epsilon_text(claim.epsilon)} at delta {delta_text(claim.delta)}, {claim.standing}"
        return f"<SweepClaim of {self.sweep!r}: {kinds}; {total}>"

    def _repr_html_(self) -> str:
        """For notebooks: what `print` says."""
        return as_page(self.sweep, *self.words)
