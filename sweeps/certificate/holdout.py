"""`scope: holdout` as a whole: a sweep that tuned on one part of the records, and a final run on the other.

Each is a document of one sweep, recomputed as any is. What both cost together is the larger of two numbers, since a
record is in one part whoever else is there (`sweeps.privacy.holdout_guarantee`, `dpcore.accounting`):

    epsilon = max(of the tuning, launches of the final run * target, of the final run),   delta likewise.

Of the tuning that is what was promised beforehand: of a ladder of budgets its dearest end, wherever it ended. Where the
point is from depends on the records that tuned, so that the final run counts as what every point was held to. That each
record was read where its hash says is the signer's word.
"""

from __future__ import annotations

from collections.abc import Iterator

from dpcore.events import Adjacency
from dpcore.guarantee import STANDING, Notion
from dpcore.rounding import delta_text, epsilon_text
from sweeps.certificate.claimed import Check, at_most, number, word
from sweeps.certificate.document import Body, CertifiedSweep, HoldoutBody, RecordsSplit
from sweeps.certificate.modes import ComposedTrials
from sweeps.certificate.modes.one_trial import headline_of
from sweeps.certificate.modes.plans import composes_in_parallel
from sweeps.privacy.charge import ReleasedParts
from sweeps.privacy.holdout_guarantee import Tuned, both, chosen_line
from sweeps.spec.sections import Chosen
from trainables.data.splits import CONTENT, PartUse, RecordsPart

ATTESTED = (
    "That each record was read by the sweep that the hash of its own id, or of its content, names, and by no other.",
    "That every point which the tuning could have found was held to the target of the final run, and would have "
    "claimed no less firmly.",
    "That of the records nothing but what tuning released had a say in the final run.",
)
"""What no arithmetic shows of both together; each has words of its own besides."""


def title_of_both(tuning: Body, final: Body) -> str:
    """What kind of document it is."""
    headings = dict.fromkeys(one.released.heading for one in (tuning, final) if one.released.heading)
    what = f"Privacy certificate of {tuning.sweep.name}, which tuned, and the final run {final.sweep.name} together"
    return ". ".join([*headings, what])


def covered_by_both(tuning: CertifiedSweep, final: CertifiedSweep, at: str) -> str:
    """What is certified, and as of when.  at  when the certificate was made"""
    return (
        f"All results of {tuning.name}, which tuned on one part of the records, the choice of its best trial, and all "
        f"results of {final.name}, the final run on the other part. As of {at}, {tuning.state} and {final.state}: "
        "nothing that is launched later is covered."
    )


def part_line(part: RecordsPart) -> str:
    """Which records of its file a sweep reads, where it reads a part of them."""
    does = "tune" if part.use is PartUse.TUNING else "are of the final run"
    of = "each record's own content" if part.id is CONTENT else part.id
    return f"records that {does}: a hash of {of} under the key {part.key!r} decides; the share {part.share} tunes"


def point_line(chosen: Chosen) -> str:
    """Where the hyperparameters of a final run are from, and which records tuned."""
    return f"{chosen_line(chosen)} The fingerprint of those records, keyed alike: {chosen.records}."


def part_of(split: RecordsSplit, use: PartUse) -> RecordsPart:
    """One of the two parts."""
    id_ = CONTENT if split.id is None else split.id
    return RecordsPart(use=use, share=float(split.share), id=id_, key=split.key)


def lines_of_both(body: HoldoutBody) -> list[tuple[str, str]]:
    """How both claims were joined, for people: (name, value)."""
    tuning, target, launches = body.tuning.mode.promised(body.tuning.claim), body.target, len(body.final.ledger.rows)
    held = f"epsilon {epsilon_text(target.epsilon)} at delta {delta_text(target.delta)}"
    times = "" if launches == 1 else f", for each of {launches} launches"
    return [
        ("mode", "the larger of tuning and final run, each on its own part of the records"),
        ("parts", "; ".join(part_line(part_of(body.split, use)) for use in PartUse)),
        ("tuning", f"epsilon {epsilon_text(tuning.epsilon)} at delta {delta_text(tuning.delta)}"),
        ("final run", f"{held}, to which every point was held{times}"),
        ("hyperparameters", f"those of {body.point}"),
    ]


def combined(body: HoldoutBody) -> Iterator[Check]:
    """The claim of both, recomputed from both claims, and whether all rows that tell of both agree.

    Raises as accountants do.
    """
    tuning, final, claim = body.tuning, body.final, body.claim
    yield word("title", body.title, title_of_both(tuning, final))
    yield word("what is covered", claim.covers, covered_by_both(tuning.sweep, final.sweep, body.approval.at))
    yield word("what is attested", body.attested, ATTESTED)
    yield Check("it may be certified", claim.status in STANDING, str(claim.status))
    for what, one in body.sweeps:
        yield word(f"approval, {what}", one.approval, body.approval)
        for name in ("adjacency", "unit", "contributions", "version"):
            yield word(f"{name}, {what}", getattr(one.claim, name), getattr(claim, name))
        yield word(f"notion, {what}", one.mode.promised(one.claim).notion, claim.notion)
    yield word("notion", claim.notion, Notion.DP)
    yield word("neighbours differ in one part", claim.adjacency, Adjacency.ADD_REMOVE)
    yield from _parted(body)
    yield from _held_to_target(body)
    target, launches = body.target, len(final.ledger.rows)
    tuned = Tuned(claim=tuning.mode.promised(tuning.claim), target=float(target.epsilon), delta=float(target.delta))
    found = both(tuned, final.claim.guarantee, launches)
    yield number("epsilon of both together", claim.epsilon, found.epsilon)
    yield number("delta", claim.delta, found.delta)
    yield number("lower end of epsilon", claim.epsilon_lower, found.epsilon_lower)
    for name in ("accountant", "theorem", "status", "assumptions"):
        yield word(name, getattr(claim, name), getattr(found, name))


def _parted(body: HoldoutBody) -> Iterator[Check]:
    """Whether both sweeps say that they read the two parts of this split, and what they rest on."""
    tuning, final = body.tuning, body.final
    for use, one in ((PartUse.TUNING, tuning), (PartUse.FINAL, final)):
        part = part_of(body.split, use)
        yield Check(f"the part of {one.sweep.name}", part_line(part) in one.provenance.declared, part_line(part))
        yield Check(f"what the part of {one.sweep.name} rests on", part.assumption in one.claim.assumptions, use)
    ours, theirs = final.provenance.fingerprint, tuning.provenance.fingerprint
    yield Check("the parts are not the same records", bool(ours and theirs) and ours != theirs, f"{theirs}, {ours}")
    chosen = Chosen(sweep=tuning.sweep.name, trial=body.point, public_because="", records=theirs, claim={})
    told = point_line(chosen)
    yield Check("where the hyperparameters are from", told in final.provenance.public_inputs, told)
    yield Check("two sweeps", tuning.ledger.sweep != final.ledger.sweep, f"{tuning.sweep.name}, {final.sweep.name}")
    scopes = (getattr(tuning.mode, "scope", ""), final.mode.mode, getattr(final.mode, "scope", ""))
    kinds = scopes[0] in ("trial", "sweep") and scopes[1:] == ("composition", "holdout")
    yield Check("a tuning, and its final run", kinds, f"{tuning.mode.mode} of scope {scopes[0]}, and scope {scopes[2]}")


def _held_to_target(body: HoldoutBody) -> Iterator[Check]:
    """Whether the one plan of the final run is within the target, which also is all that a launch of it releases."""
    mode, claim, target = body.final.mode, body.final.claim, body.target
    one_plan = isinstance(mode, ComposedTrials) and len(mode.trials) == 1
    yield Check("the final run is one trial", one_plan, f"{len(mode.plans)} plans")
    for plan in mode.plans:
        parts = ReleasedParts(training=plan.training, reports=plan.reports, parallel=composes_in_parallel([plan]))
        found = headline_of(parts.together(claim.adjacency), float(target.delta), claim.adjacency, claim.unit)
        yield at_most("the final run within its target", found.epsilon, target.epsilon)
