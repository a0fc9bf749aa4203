"""`scope: holdout` as a whole: the document of the sweep that tuned, that of the final run, and the claim of both."""

from __future__ import annotations

from dataclasses import replace

from dpcore.checks import InvalidValue
from dpcore.guarantee import Guarantee
from dpcore.rounding import delta_text, epsilon_text
from sweeps.certificate.built_sweep import body_of, built, claimed
from sweeps.certificate.claimed import same
from sweeps.certificate.document import Approval, Body, FinalTarget, HoldoutBody, RecordsSplit
from sweeps.certificate.gathering import KnownSweep
from sweeps.certificate.holdout import ATTESTED, covered_by_both, title_of_both
from sweeps.certificate.judging import CannotCertify
from sweeps.execution.final_run import check_parts
from sweeps.privacy.holdout_guarantee import both, tuned_by_now
from sweeps.spec.problems import SpecErrors
from sweeps.spec.sections import Chosen
from sweeps.store.errors import UnknownSweep
from sweeps.store.records import SweepState
from trainables.data import SOURCES
from trainables.data.splits import CONTENT


def of_both(known: KnownSweep, ranges: str, approval: Approval) -> HoldoutBody:
    """A holdout whose final run has ended, with its tuning as it was when its best trial was chosen.

    ranges  how they were chosen, by the operator

    Raises CannotCertify, InvalidValue, SpecErrors.
    """
    chosen, tuned = known.spec.search.chosen, tuned_by_now(known.store, known.record.spec)
    part = SOURCES[known.spec.data.source].part(known.spec.data.options())
    assert chosen is not None
    assert tuned is not None
    assert part is not None
    final = body_of(known, built(known, None), ranges, approval)
    tuning = _tuning(known, chosen, tuned.claim, ranges, approval)
    cost = replace(tuned, claim=tuning.mode.promised(tuning.claim))
    whole = both(cost, final.claim.guarantee, len(final.ledger.rows))
    return HoldoutBody(
        format="private-sweeps holdout certificate 1",
        title=title_of_both(tuning, final),
        claim=claimed(known, whole, covered_by_both(tuning.sweep, final.sweep, approval.at)),
        split=RecordsSplit(share=part.share, id=None if part.id is CONTENT else str(part.id), key=part.key),
        target=FinalTarget(epsilon=tuned.target, delta=tuned.delta),
        point=chosen.trial,
        approval=approval,
        tuning=tuning,
        final=final,
        attested=ATTESTED,
    )


def _tuning(final: KnownSweep, chosen: Chosen, recorded: Guarantee, ranges: str, approval: Approval) -> Body:
    """The sweep that tuned, which certifies what it did when its best trial was chosen.

    recorded  what it cost then

    Raises CannotCertify for one that no certificate may carry, is gone, or is another by now.
    """
    try:
        record = final.store.sweep(chosen.sweep)
        if record.state is SweepState.DELETED:
            raise CannotCertify("it was deleted, and with it its results and the verdicts of its audits")
        known = KnownSweep.of(final.store, record.name, None)
        check_parts(final.spec, record)
        body = body_of(known, built(known, None), ranges, approval)
        _check_same(known, body.mode.promised(body.claim), chosen, recorded)
    except (CannotCertify, UnknownSweep, InvalidValue, SpecErrors) as error:
        reason = str(error).removesuffix(".")
        raise CannotCertify(
            f"{final.record.called}: {chosen.sweep}, which tuned for it, cannot be certified ({reason}), so that both "
            "together cannot. With --trial 0 the final run can, by itself."
        ) from None
    return body


def _check_same(known: KnownSweep, claim: Guarantee, chosen: Chosen, recorded: Guarantee) -> None:
    """Whether the sweep that tuned claims what it did when its best trial was chosen, of the same records."""
    if not (same(claim.epsilon, recorded.epsilon) and same(claim.delta, recorded.delta)):
        now, then = (f"{epsilon_text(one.epsilon, digits=6)} at {delta_text(one.delta)}" for one in (claim, recorded))
        raise CannotCertify(
            f"it claims epsilon {now} now, and {then} when {chosen.trial} was chosen: it is not what it was then"
        )
    if known.record.fingerprints.get("data", "") != chosen.records:
        raise CannotCertify(f"its records are others now than those by which {chosen.trial} was chosen")
