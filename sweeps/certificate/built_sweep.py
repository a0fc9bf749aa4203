"""The document of one sweep, or of one of its trials, from the store."""

from __future__ import annotations

from dpcore.guarantee import Guarantee
from sweeps.certificate import gathering
from sweeps.certificate.built import Built
from sweeps.certificate.built_best import of_search
from sweeps.certificate.built_trials import of_all, of_trial
from sweeps.certificate.chain import Chain
from sweeps.certificate.claimed import Claimed
from sweeps.certificate.document import Approval, Body
from sweeps.certificate.gathering import KnownSweep
from sweeps.certificate.judging import CannotCertify
from sweeps.certificate.titles import attested, covered, title_of
from sweeps.privacy.claims import Assumptions
from sweeps.privacy.release import Published
from sweeps.privacy.totals import earlier_lines, earlier_totals, sentences


def built(known: KnownSweep, trial: Published | None) -> Built:
    """A mode of release is one file, and one line here."""
    match known.spec.privacy.scope, known.spec.privacy.release:
        case "trial" | "sweep" | "public" | "holdout", "all":
            return of_all(known) if trial is None else of_trial(known, trial)
        case "sweep", "best" | "first" | "front" if trial is None:
            return of_search(known)
        case scope, release:
            raise CannotCertify(
                f"{known.record.called}: privacy.scope: {scope}, release: {release} has no certificate yet"
                f"{'' if trial is None else ' of a single trial'}."
            )


def body_of(known: KnownSweep, built: Built, ranges: str, approval: Approval) -> Body:
    """The document of one sweep.  ranges  how they were chosen, by the operator"""
    record, mode = known.record, built.mode
    totals = earlier_totals(known.store, record.spec)
    assumptions = Assumptions.of([one for total in totals for one in total.claims()])
    earlier = [sentences([line]) for line in earlier_lines(totals, assumptions)]
    swept = gathering.sweep_row(known)
    claim = claimed(known, built.claim, covered(mode, swept, approval.at))
    released = gathering.released_row(known, built.artefact)
    return Body(
        format="private-sweeps certificate 1",
        title=title_of(mode, claim, released.heading, record.name),
        claim=claim,
        mode=mode,
        sweep=swept,
        released=released,
        accesses=gathering.accesses_row(known, mode, built.rows),
        provenance=gathering.provenance_row(known),
        searched=gathering.searched_row(known, ranges),
        accuracy=gathering.accuracy_row(known),
        random=gathering.random_rows(known),
        software=gathering.software_row(known),
        approval=approval,
        audits=gathering.audit_rows(known),
        ledger=Chain.of(f"{record.name} {record.digest}", built.rows),
        not_covered=gathering.uncovered(known, mode, earlier),
        attested=attested(mode),
    )


def claimed(known: KnownSweep, claim: Guarantee, covers: str) -> Claimed:
    """A claim as it stands in a document."""
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
