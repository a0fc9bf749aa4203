"""The certificate of a sweep or of one trial, from the store: judged, gathered, recomputed, and only then signed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dpcore.guarantee import Guarantee
from dpcore.rounding import delta_text, epsilon_text
from sweeps.certificate import gathering
from sweeps.certificate.approval import Approved
from sweeps.certificate.built import Built
from sweeps.certificate.built_best import of_search
from sweeps.certificate.built_trials import of_all, of_trial
from sweeps.certificate.canonical import NotCanonical
from sweeps.certificate.chain import Chain
from sweeps.certificate.claimed import Claimed
from sweeps.certificate.document import Body, Signature, Signed, normalised, spelled
from sweeps.certificate.gathering import KnownSweep
from sweeps.certificate.judging import CannotCertify
from sweeps.certificate.page import certificate_page
from sweeps.certificate.signing import key_text, signed
from sweeps.certificate.titles import attested, covered, title_of
from sweeps.certificate.verifying import recomputed
from sweeps.ledger.assumptions import Assumptions
from sweeps.ledger.totals import earlier_lines, earlier_totals, sentences
from sweeps.process.outputs import write_output
from sweeps.release.published import Published
from sweeps.release.publisher import Publisher

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


@dataclass(frozen=True, slots=True)
class Certificate:
    """A signed certificate: `data` are the bytes of the document, `page` is the same for people."""

    signed: Signed

    @property
    def body(self) -> Body:
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
    store: Publisher, sweep: str, trial: Published | None, approved: Approved, key: Ed25519PrivateKey
) -> Certificate:
    """The certificate of all trials of a sweep together, or of one of its trials.

    Nothing is signed that does not verify. Raises CannotCertify, UnknownSweep, InvalidValue, SpecErrors.
    """
    known = KnownSweep.of(store, sweep, trial)
    try:
        body = normalised(_body(known, _built(known, trial), approved))
        content = spelled(body)
    except NotCanonical as error:
        raise CannotCertify(f"{known.record.called}: {error}") from None
    if failed := [check for check in recomputed(body) if not check.held]:
        listed = "; ".join(f"{one.what}: {one.said}" for one in failed)
        raise CannotCertify(f"{body.title}: its own arithmetic does not give it back, so it is not signed ({listed}).")
    signature = Signature(algorithm="Ed25519", key=key_text(key.public_key()), value=signed(key, content))
    return Certificate(Signed(body=body, signature=signature))


def _built(known: KnownSweep, trial: Published | None) -> Built:
    """A mode of release is one file, and one line here."""
    match known.spec.privacy.scope, known.spec.privacy.release:
        case "trial" | "sweep" | "public", "all":
            return of_all(known) if trial is None else of_trial(known, trial)
        case "holdout", "all":
            if trial is not None:
                return of_trial(known, trial)
            raise CannotCertify(
                f"{known.record.called}: its total is the larger of two sweeps', and a document holds the ledger of "
                f"one, so that nobody could recompute it. Certify {known.record.spec.chosen_from}, and the final "
                "run with --trial: for everybody the larger of both holds."
            )
        case "sweep", "best" | "first" | "front" if trial is None:
            return of_search(known)
        case scope, release:
            raise CannotCertify(
                f"{known.record.called}: privacy.scope: {scope}, release: {release} has no certificate yet"
                f"{'' if trial is None else ' of a single trial'}."
            )


def _body(known: KnownSweep, built: Built, approved: Approved) -> Body:
    record, mode = known.record, built.mode
    totals = earlier_totals(known.store, record.spec)
    assumptions = Assumptions.of([one for total in totals for one in total.claims()])
    earlier = [sentences([line]) for line in earlier_lines(totals, assumptions)]
    swept, approval = gathering.sweep_row(known), gathering.approval_row(approved)
    claimed = _claimed(known, built.claim, covered(mode, swept, approval.at))
    released = gathering.released_row(known, built.artefact)
    return Body(
        format="private-sweeps certificate 1",
        title=title_of(mode, claimed, released.heading, record.name),
        claim=claimed,
        mode=mode,
        sweep=swept,
        released=released,
        accesses=gathering.accesses_row(known, mode, built.rows),
        provenance=gathering.provenance_row(known),
        searched=gathering.searched_row(known, approved),
        accuracy=gathering.accuracy_row(known),
        random=gathering.random_rows(known),
        software=gathering.software_row(known),
        approval=approval,
        audits=gathering.audit_rows(known),
        ledger=Chain.of(f"{record.name} {record.digest}", built.rows),
        not_covered=gathering.uncovered(known, mode, earlier),
        attested=attested(mode),
    )


def _claimed(known: KnownSweep, claim: Guarantee, covers: str) -> Claimed:
    return Claimed(
        covers=covers,
        notion=claim.notion,
        epsilon=claim.epsilon,
        delta=claim.delta,
        adjacency=claim.adjacency,
        unit=claim.unit,
        contributions=known.facts.unit_records,
        accountant=claim.accountant,
        version=gathering.own_version(),
        status=claim.status,
        theorem=claim.theorem,
        epsilon_lower=claim.epsilon_lower,
        assumptions=claim.assumptions,
    )
