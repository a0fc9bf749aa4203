"""The certificate of a sweep or of one trial, from the store: judged, gathered, recomputed, and only then signed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dpcore.rounding import delta_text, epsilon_text
from sweeps.certificate import gathering
from sweeps.certificate.approval import Approved
from sweeps.certificate.built_holdout import of_both
from sweeps.certificate.built_sweep import body_of, built
from sweeps.certificate.canonical import NotCanonical
from sweeps.certificate.document import Body, HoldoutBody, Signature, Signed, normalised, spelled
from sweeps.certificate.gathering import KnownSweep
from sweeps.certificate.judging import CannotCertify
from sweeps.certificate.page import certificate_page
from sweeps.certificate.signing import key_text, signed
from sweeps.certificate.verifying import recomputed
from sweeps.privacy.claims import HOLDOUT
from sweeps.privacy.published_store import PublishedStore
from sweeps.privacy.release import Published
from sweeps.util.files import write_output

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


@dataclass(frozen=True, slots=True)
class Certificate:
    """A signed certificate: `data` are the bytes of the document, `page` is the same for people."""

    signed: Signed

    @property
    def body(self) -> Body | HoldoutBody:
        """What is signed."""
        return self.signed.body

    @property
    def data(self) -> bytes:
        """The document, to the byte as it is verified."""
        return spelled(self.signed)

    @property
    def page(self) -> str:
        """The same as one self-contained HTML page."""
        return certificate_page(self.signed)

    def save(self, output: str | Path) -> tuple[Path, Path]:
        """Write the document to `output` and the page beside it, with the ending .html. Returns both paths.

        Raises InvalidValue, OSError.
        """
        target = Path(output)
        return write_output(self.data, target), write_output(self.page, target.with_suffix(".html"))

    def __str__(self) -> str:
        claim = self.body.claim
        epsilon = epsilon_text(claim.epsilon, digits=6)
        return f"{self.body.title}: epsilon {epsilon} at delta {delta_text(claim.delta)}, {claim.adjacency}"


def certified(
    store: PublishedStore, sweep: str, trial: Published | None, approved: Approved, key: Ed25519PrivateKey
) -> Certificate:
    """The certificate of all trials of a sweep together, with the sweep that tuned where it is the final run of a
    holdout; or of one of its trials.

    Nothing is signed that does not verify. Raises CannotCertify, UnknownSweep, InvalidValue, SpecErrors.
    """
    known = KnownSweep.of(store, sweep, trial)
    try:
        body = _body(known, trial, approved)
        content = spelled(body)
    except NotCanonical as error:
        raise CannotCertify(f"{known.record.called}: {error}") from None
    if failed := [check for check in recomputed(body) if not check.held]:
        listed = "; ".join(f"{one.what}: {one.said}" for one in failed)
        raise CannotCertify(f"{body.title}: its own arithmetic does not give it back, so it is not signed ({listed}).")
    signature = Signature(algorithm="Ed25519", key=key_text(key.public_key()), value=signed(key, content))
    return Certificate(Signed(body=body, signature=signature))


def _body(known: KnownSweep, trial: Published | None, approved: Approved) -> Body | HoldoutBody:
    approval = gathering.approval_row(approved)
    if trial is None and known.spec.privacy.scope == HOLDOUT:
        return normalised(of_both(known, approved.ranges, approval))
    return normalised(body_of(known, built(known, trial), approved.ranges, approval))
