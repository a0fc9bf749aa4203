"""Certificates of a holdout made by hand: a sweep that tuned, of each kind, and one final run."""

from __future__ import annotations

from sweeps.certificate.chain import Chain
from sweeps.certificate.document import Body, CertifiedSweep, FinalTarget, HoldoutBody, RecordsSplit, normalised
from sweeps.certificate.holdout import ATTESTED, covered_by_both, part_line, part_of, point_line, title_of_both
from sweeps.certificate.modes import ComposedTrials
from sweeps.certificate.modes.composition import released_parts
from sweeps.certificate.modes.profile import Profile
from sweeps.certificate.titles import covered, title_of
from sweeps.privacy.holdout_guarantee import Tuned, both
from sweeps.spec.sections import Chosen
from tests.sweeps.certificate import documents
from tests.sweeps.certificate.documents import ADD_REMOVE, AT, DELTA, NOTHING, planned, row
from trainables.data.splits import PartUse

SPLIT = RecordsSplit(share=0.2, id="person_id", key="tuning")
TARGET = FinalTarget(epsilon=2.0, delta=DELTA)
POINT = "hand-1"


def final_run(*launches) -> Body:
    """One trial of q .01, T 1000 and sigma 1, whose epsilon is 1.828 (private_search.md, D1).

    launches  rows of the ledger; one of the whole plan where none are given
    """
    plans = (planned(7, 1.0, 1000),)
    rows = launches or (row(plans[0]),)
    parts = released_parts(plans, rows, NOTHING, True)
    found, _ = parts.claim(DELTA, ADD_REMOVE, "record")
    mode = ComposedTrials(
        mode="composition", scope="holdout", release="all", budget=None, delta=DELTA, trials=plans, tests=NOTHING,
        tests_apart=True, profile=Profile.of(parts.together(ADD_REMOVE), ADD_REMOVE, found.epsilon, found.delta),
    )  # fmt: skip
    made = documents.body(mode, documents.claimed(found, mode), rows)
    swept = CertifiedSweep(name="last", digest="cd34", state="finished", began=AT)
    claim = made.claim.model_copy(update={"covers": covered(mode, swept, AT)})
    changes = {
        "sweep": swept,
        "claim": claim,
        "title": title_of(mode, claim, "", "last"),
        "ledger": Chain.of("last cd34", rows),
        "provenance": made.provenance.model_copy(update={"fingerprint": "0f"}),
    }
    return made.model_copy(update=changes)


def in_part(made: Body, use: PartUse, *inputs: str) -> Body:
    """A document of a sweep that read a part of the records."""
    part, old = part_of(SPLIT, use), made.provenance
    declared, public = (*old.declared, part_line(part)), (*old.public_inputs, *inputs)
    provenance = old.model_copy(update={"declared": declared, "public_inputs": public})
    claim = made.claim.model_copy(update={"assumptions": (*made.claim.assumptions, part.assumption)})
    return made.model_copy(update={"provenance": provenance, "claim": claim})


def holdout(tuning: Body | None = None, *launches) -> HoldoutBody:
    """Of two trials that tuned and a final run at the target (2, 1e-5)."""
    tuned = in_part(documents.composition() if tuning is None else tuning, PartUse.TUNING)
    chosen = Chosen(sweep="hand", trial=POINT, public_because="", records=tuned.provenance.fingerprint, claim={})
    last = in_part(final_run(*launches), PartUse.FINAL, point_line(chosen))
    cost = Tuned(claim=tuned.mode.promised(tuned.claim), target=TARGET.epsilon, delta=TARGET.delta)
    found = both(cost, last.claim.guarantee, len(last.ledger.rows))
    fields = {name: getattr(found, name) for name in type(last.claim).model_fields if hasattr(found, name)}
    claim = last.claim.model_copy(update={**fields, "covers": covered_by_both(tuned.sweep, last.sweep, AT)})
    return normalised(
        HoldoutBody(
            format="private-sweeps holdout certificate 1",
            title=title_of_both(tuned, last),
            claim=claim,
            split=SPLIT,
            target=TARGET,
            point=POINT,
            approval=tuned.approval,
            tuning=tuned,
            final=last,
            attested=ATTESTED,
        )
    )


KINDS = ("composition", "filter", "renyi", "best", "first", "front")
"""Of sweeps that may tune, among `documents.MADE`."""
