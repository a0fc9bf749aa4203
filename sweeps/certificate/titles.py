"""What a certificate says of itself: its title, what it covers and does not, and what is the signer's word alone."""

from __future__ import annotations

from sweeps.certificate.claimed import Claimed
from sweeps.certificate.document import Body, CertifiedSweep, HoldoutBody
from sweeps.certificate.modes import Mode
from sweeps.privacy import wording

ALWAYS = (
    "That what ran is what was planned, and that every launch is in the ledger.",
    "Metrics and subgroup accuracy, as they were published.",
    "The random sources, and that nobody kept what they drew.",
    "Who approved this epsilon and why, and how the ranges of hyperparameters were chosen.",
    "Public facts, fingerprints, versions, provenance, data accesses and verdicts of audits.",
)

UNLISTED = (
    "Attacks on membership, and audits whose records were deleted, are not listed here: what left with them is not "
    "counted."
)
ACCEPTED = (
    "What changes of code, data or spec did with which the sweep went on: they are named since there is a record of "
    "them, and fingerprints of code and records are as the sweep has them now."
)


def title_of(mode: Mode, claim: Claimed, heading: str, sweep: str) -> str:
    """The title of a document.

    heading  what stands above every claim of the sweep; empty where claims stand for themselves
    """
    return f"{heading}. {mode.title(sweep, claim)}" if heading else mode.title(sweep, claim)


def covered(mode: Mode, sweep: CertifiedSweep, at: str) -> str:
    """What is certified, and as of when.  at  when the certificate was made"""
    return f"{mode.covers(sweep.name)} As of {at}, {sweep.state}: nothing that is launched later is covered."


def uncovered(mode: Mode) -> tuple[str, ...]:
    """What no number of any certificate of this mode says anything about."""
    selection = () if mode.searched else (wording.SELECTION,)
    shared = (wording.SPACE, wording.MACHINE, wording.ELSEWHERE, wording.FACTS, UNLISTED, ACCEPTED)
    return (wording.FLOATING_POINT, *selection, *shared)


def attested(mode: Mode) -> tuple[str, ...]:
    """What no arithmetic over the document shows."""
    return (*mode.attested, *ALWAYS)


def attested_in(body: Body | HoldoutBody) -> tuple[str, ...]:
    """What is the signer's word alone in a document, of whichever of its sweeps; each sentence once."""
    return tuple(dict.fromkeys([*body.attested, *(line for _, one in body.sweeps for line in one.attested)]))
