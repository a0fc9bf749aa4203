"""What a certificate says of itself: its title, and what is the signer's word alone."""

from __future__ import annotations

from sweeps.certificate.claimed import Claimed
from sweeps.certificate.modes import Mode

ALWAYS = (
    "That what ran is what was planned, and that every launch is in the ledger.",
    "Metrics and subgroup accuracy, as they were published.",
    "The random sources, and that nobody kept what they drew.",
    "Who approved this epsilon and why, and how the ranges of hyperparameters were chosen.",
    "Public facts, fingerprints, versions, provenance, data accesses and verdicts of audits.",
)


def title_of(mode: Mode, claim: Claimed, heading: str, sweep: str) -> str:
    """The title of a document.

    heading  what stands above every claim of the sweep; empty where claims stand for themselves
    """
    return f"{heading}. {mode.title(sweep, claim)}" if heading else mode.title(sweep, claim)


def attested(mode: Mode) -> tuple[str, ...]:
    """What no arithmetic over the document shows."""
    return (*mode.attested, *ALWAYS)
