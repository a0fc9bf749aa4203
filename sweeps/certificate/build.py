"""The certificate of a sweep or of one trial, from the store: judged, gathered, recomputed, and only then signed."""

from __future__ import annotations

import math
import platform
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from dpcore.checks import InvalidValue
from dpcore.guarantee import Guarantee
from dpcore.rounding import delta_text, epsilon_text
from sweeps.audit import AuditRecord
from sweeps.certificate import document
from sweeps.certificate.count import CannotCertify, Counted, Subject, count
from sweeps.certificate.document import Approval, Body, FinalTarget, HoldoutBody, Signature, utc, written
from sweeps.certificate.page import certificate_page
from sweeps.certificate.plans import same
from sweeps.certificate.signing import SIGNATURE, key_text, signed
from sweeps.certificate.verify import recomputed
from sweeps.execution.final_run import check_parts
from sweeps.planning.spec_code import WEIGHTS, code_of
from sweeps.privacy import wording
from sweeps.privacy.claims import HOLDOUT, Assumptions, count_text
from sweeps.privacy.heldout import readings
from sweeps.privacy.holdout_guarantee import both, tuned_by_now
from sweeps.privacy.population import ELSEWHERE, IN_THIS_STORE, account
from sweeps.privacy.published_store import PublishedStore
from sweeps.privacy.quoting import Verdict, dependence, quote_of_metric
from sweeps.privacy.release import Published
from sweeps.privacy.totals import earlier_lines, earlier_totals, sentences
from sweeps.privacy.wording import recorded_text
from sweeps.spec.problems import SpecErrors
from sweeps.spec.sections import Chosen, learns
from sweeps.store.errors import UnknownSweep
from sweeps.store.records import DECIDED, SweepState, accepted
from sweeps.util.files import write_output
from trainables.data import SOURCES
from trainables.data.source import parted
from trainables.data.splits import CONTENT
from trainables.metrics import Dependence
from trainables.worker.redaction import redacted

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

VERSIONS = ("private-sweeps", "torch", "numpy", "scipy", "optuna", "ray", "cryptography")
TRUST = "central curator: who runs the sweep sees the records, workers and store included; everybody else what leaves"
_COINS = {
    "pseudorandom": "pseudorandom: noise and batches from statistical generators, seeded by a secret of each run",
    "secure": "secure: noise from a cryptographic source that nobody can seed, batches from a keystream of a secret",
}
_PUBLIC_SEED = "starting weights and proposals come from the public seed of the spec"
_SEALED_COINS = (
    "pseudorandom: noise and batches from statistical generators, seeded by a secret of the search, drawn once",
    "the number of trials from a cryptographic source, proposals and starting weights from the secret of the search",
)
_NOT_HIDDEN = (
    "not hidden: metrics leave as they are recorded, and the release of every step is counted as if it had left by "
    "itself"
)
_HIDDEN_ALL = "hidden: every trial, and how many there were"
_HIDDEN = "hidden: every trial but what left, how many there were, and which of them left"
_DRAWN = "independent draws from a public prior with secret coins"
ALWAYS_ATTESTED = (
    "That what ran is what was planned, and that every launch is in the ledger.",
    "Metrics and subgroup accuracy, as they were published.",
    "The random sources, and that nobody kept what they drew.",
    "Who approved this epsilon and why, and how the ranges of hyperparameters were chosen.",
    "Public facts, fingerprints, versions, provenance, data accesses and verdicts of audits.",
)
ATTESTED_OF_BOTH = (
    "That each record was read by the sweep that the hash of its own id, or of its content, names, and by no other.",
    "That every point which the tuning could have found was held to the target of the final run, and would have "
    "claimed no less firmly.",
    "That of the records nothing but what tuning released had a say in the final run.",
)
"""What no arithmetic shows of both together; each has words of its own besides."""
_UNLISTED = (
    "Attacks on membership, and audits whose records were deleted, are not listed here: what left with them is not "
    "counted."
)
_ACCEPTED = (
    "What changes of code, data or spec did with which the sweep went on: they are named since there is a record of "
    "them, and fingerprints of code and records are as the sweep has them now."
)


@dataclass(frozen=True, slots=True)
class Certificate:
    """A signed certificate: `data` are the bytes of the document, `page` is the same for people."""

    body: Body | HoldoutBody
    data: bytes
    signature: Signature

    @property
    def page(self) -> str:
        """The same as one self-contained HTML page."""
        return certificate_page(self.body, self.data, self.signature)

    def save(self, output: str | Path) -> tuple[Path, Path, Path]:
        """Write the document to `output`, its signature beside it (`output`.sig), and the page with the ending .html.

        Returns the three paths. Raises InvalidValue, OSError.
        """
        target = Path(output)
        return (
            write_output(self.data, target),
            write_output(written(self.signature), target.with_name(target.name + SIGNATURE)),
            write_output(self.page, target.with_suffix(".html")),
        )

    def __str__(self) -> str:
        claim = self.body.claim
        epsilon = epsilon_text(claim.epsilon, digits=6)
        return f"{self.body.title}: epsilon {epsilon} at delta {delta_text(claim.delta)}, {claim.adjacency}"


def certified(
    store: PublishedStore, sweep: str, trial: Published | None, approval: Approval, key: Ed25519PrivateKey
) -> Certificate:
    """The certificate of all trials of a sweep together, with the sweep that tuned where it is the final run of a
    holdout; or of one of its trials.

    Nothing is signed that does not verify. Raises CannotCertify, UnknownSweep, InvalidValue, SpecErrors.
    """
    store.check_not_stale(sweep)
    subject = Subject.of(store, sweep, trial)
    of_both = trial is None and subject.spec.privacy.scope == HOLDOUT
    made = _of_holdout(subject, approval) if of_both else _of_sweep(subject, approval)
    try:
        data = written(made)
    except ValueError as error:
        raise CannotCertify(f"{subject.record.called}: {error}") from None
    body = document.parsed(data)
    if failed := [check for check in recomputed(body) if not check.held]:
        listed = "; ".join(f"{one.what}: {one.said}" for one in failed)
        raise CannotCertify(f"{body.title}: its own arithmetic does not give it back, so it is not signed ({listed}).")
    return Certificate(body, data, Signature(key=key_text(key.public_key()), value=signed(key, data)))


def _of_sweep(subject: Subject, approval: Approval) -> Body:
    """The document of one sweep, or of one of its trials. Raises CannotCertify, InvalidValue."""
    counted, record, spec = count(subject), subject.record, subject.spec
    mode, heading = counted.mode, subject.heading
    title, state = mode.title(record.name), str(record.state)
    hidden = _NOT_HIDDEN
    if spec.selection is not None:
        hidden = _HIDDEN if subject.complete else _HIDDEN_ALL
    return Body(
        title=f"{heading}. {title}" if heading else title,
        covers=f"{mode.covers(record.name)} As of {approval.at}, {state}: nothing that is launched later is covered.",
        claim=counted.claim,
        mode=mode,  # type: ignore[arg-type]
        sweep=document.CertifiedSweep(
            name=record.name, digest=record.digest, state=state, began=utc(record.created_at)
        ),
        released=document.ReleaseTerms(artefact=counted.artefact, intermediates=hidden, trust=TRUST, heading=heading),
        accesses=_accesses(subject, counted),
        provenance=_provenance(subject),
        searched=document.Searched(
            sampler=spec.search.sampler,
            trials=spec.search.trials,
            ranges={name: dict(one) for name, one in record.spec.canonical()["systems"].items()},
            fixed_points=len(spec.search.first),
        ),
        accuracy=document.Accuracy(
            groups="" if subject.facts.groups is None else subject.facts.groups.column,
            metrics=tuple(one for trial in subject.about for one in _measured(trial)),
        ),
        random=_SEALED_COINS if mode.sealed else (_COINS[spec.privacy.noise_source], _PUBLIC_SEED),
        software=_software(subject),
        approval=approval,
        audits=tuple(map(_audit, subject.audits)),
        ledger=tuple(counted.ledger),
        not_covered=_not_covered(subject),
        attested=(*mode.attested, *ALWAYS_ATTESTED),
    )


def _of_holdout(subject: Subject, approval: Approval) -> HoldoutBody:
    """A holdout whose final run has ended, with its tuning as it was when its best trial was chosen.

    Raises CannotCertify, InvalidValue, SpecErrors.
    """
    chosen, tuned = subject.spec.search.chosen, tuned_by_now(subject.store, subject.record.spec)
    assert chosen is not None
    assert tuned is not None
    final = _of_sweep(subject, approval)
    tuning = _tuning(subject, chosen, tuned.claim, approval)
    whole = both(replace(tuned, claim=tuning.mode.promised(tuning.claim)), final.claim, len(final.ledger))
    headings = dict.fromkeys(one.released.heading for one in (tuning, final) if one.released.heading)
    what = f"Privacy certificate of {tuning.sweep.name}, which tuned, and the final run {final.sweep.name} together"
    return HoldoutBody(
        title=". ".join([*headings, what]),
        covers=f"All results of {tuning.sweep.name}, which tuned on one part of the records, the choice of its best "
        f"trial, and all results of {final.sweep.name}, the final run on the other part. As of {approval.at}, "
        f"{tuning.sweep.state} and {final.sweep.state}: nothing that is launched later is covered.",
        claim=whole,
        target=FinalTarget(epsilon=tuned.target, delta=tuned.delta),
        tuning=tuning,
        final=final,
        attested=ATTESTED_OF_BOTH,
    )


def _tuning(final: Subject, chosen: Chosen, recorded: Guarantee, approval: Approval) -> Body:
    """The sweep that tuned, which certifies what it did when its best trial was chosen.

    recorded  what it cost then

    Raises CannotCertify for one that no certificate may carry, is gone, or is another by now.
    """
    try:
        record = final.store.sweep(chosen.sweep)
        if record.state is SweepState.DELETED:
            raise CannotCertify("it was deleted, and with it its results and the verdicts of its audits")
        subject = Subject.of(final.store, record.name)
        check_parts(final.spec, record)
        body = _of_sweep(subject, approval)
        claim = body.mode.promised(body.claim)
        if not (same(claim.epsilon, recorded.epsilon) and same(claim.delta, recorded.delta)):
            now, then = (
                f"{epsilon_text(one.epsilon, digits=6)} at {delta_text(one.delta)}" for one in (claim, recorded)
            )
            raise CannotCertify(
                f"it claims epsilon {now} now, and {then} when {chosen.trial} was chosen: it is not what it was then"
            )
        if body.provenance.fingerprint != chosen.records:
            raise CannotCertify(f"its records are others now than those by which {chosen.trial} was chosen")
    except (CannotCertify, UnknownSweep, InvalidValue, SpecErrors) as error:
        reason = str(error).removesuffix(".")
        raise CannotCertify(
            f"{final.record.called}: {chosen.sweep}, which tuned for it, cannot be certified ({reason}), so that both "
            "together cannot. With --trial 0 the final run can, by itself."
        ) from None
    return body


def _tuned_by(subject: Subject) -> str:
    """How results of one trial came to bear on others."""
    selection, complete, orders = subject.spec.selection, len(subject.complete), len(subject.spec.orders)
    if selection is None:
        sampler = subject.spec.search.sampler
        learned = learns(sampler)
        how = "chose trials by the results of earlier ones" if learned else "was told no result"
        return f"the {sampler} sampler {how}; whoever chose among {complete} finished trials saw their results"
    ranked, left = "ranked inside the release boundary", "one"
    if orders > 1:
        ranked, left = f"{ranked} by {orders} public orders", "the best by each"
    elif selection.target is not None:
        ranked, left = "held against a public target inside the release boundary", "the first to meet it"
    return f"{_DRAWN}, {ranked}; {left if complete else 'none'} left"


def _accesses(subject: Subject, counted: Counted) -> document.Accesses:
    """Every reading of records, of the whole sweep: launches are counted as a total of them counts."""
    name, population, sealed = subject.record.name, subject.spec.data.population, counted.mode.sealed
    launches, steps = len(counted.ledger), sum(row.charged_to - row.from_step for row in counted.ledger)
    if not counted.mode.searched:
        entries = subject.store.ledger(name)
        launches, steps = len(entries), sum(one.steps_spent for one in entries)
    spent: tuple[str, ...] = ("none is declared: nothing is counted across sweeps",)
    if population is not None:
        found = account(subject.store, population)
        of_all = f"{population}: all sweeps over it {IN_THIS_STORE} spent {found.spent_text}"
        spent = (of_all, f"left: {found.left_text}", ELSEWHERE)
    return document.Accesses(
        training=None if sealed else launches,
        steps=None if sealed else steps,
        tuning=_tuned_by(subject),
        validation=recorded_text(subject.record.spec) or "there are no validation records",
        tests=tuple(f"{one.trial}: {one}" for one in readings(subject.store, name)),
        audits=tuple(
            f"audit {one.number} of {one.trial} trained {one.trainings} twins on the records: no claim covers it"
            for one in subject.audits
            if one.reads_records
        ),
        population=spent,
    )


def _provenance(subject: Subject) -> document.Provenance:
    """Which records, and everything public that went in."""
    spec, facts, chosen = subject.spec, subject.facts, subject.spec.search.chosen
    split = SOURCES[spec.data.source].part(spec.data.options())
    bounds = [f"bounds or categories of {count_text(len(facts.features), 'feature')}"]
    bounds += [f"{facts.classes} classes"] if facts.classes else []
    part = point = None
    if split is not None:
        column = None if split.id is CONTENT else str(split.id)
        part = document.HashSplit(use=split.use.value, share=split.share, id=column, key=split.key)
    if chosen is not None:
        point = document.ChosenPoint(sweep=chosen.sweep, trial=chosen.trial, records=chosen.records)
    return document.Provenance(
        source=redacted(facts.dataset or spec.data.source),
        records=facts.n,
        validation_records=facts.n_validation,
        counted=facts.counted,
        contributions=facts.unit_records,
        fingerprint=subject.record.fingerprints.get("data", ""),
        public_because=spec.data.records_are_public or "",
        public_inputs=tuple(public_inputs(subject)),
        declared=(*bounds, *facts.treatment),
        part=part,
        chosen=point,
    )


def public_inputs(subject: Subject) -> Iterator[str]:
    """Weights, encoders, files and code of the user's own that went in, one sentence each."""
    spec, source = subject.spec, SOURCES[subject.spec.data.source]
    own, features = parted(spec.data.options())
    if features is not None:
        yield redacted(features.provenance(source.facts(own)))
    yield from (f"module of the user's own: {name}" for name in spec.user_modules())
    if (weights := subject.record.fingerprints.get(WEIGHTS)) is not None:
        yield f"what these bring that no seed draws, as weights do: fingerprint {weights}"
    yield from map(redacted, spec.weight_lines(spec.weight_places))
    yield from (f"file: {text}" for text in spec.texts() if Path(text).expanduser().is_file())


def _measured(trial: Published) -> Iterator[document.Measured]:
    """Published metrics that may be quoted."""
    for name, value in trial.metrics.items():
        depends = dependence(trial, name)
        quote = quote_of_metric(name, depends, trial)
        if name in DECIDED or depends is Dependence.SIDE_CHANNEL or quote.verdict not in (Verdict.YES, Verdict.WITH):
            continue
        finite = float(value) if math.isfinite(value) else None
        said = f"{quote.said}: {quote.sentence}" if quote.sentence else quote.said
        yield document.Measured(trial=trial.key, metric=name, value=finite, quote=said)


def _software(subject: Subject) -> document.Software:
    versions = {"python": platform.python_version()}
    for name in VERSIONS:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return document.Software(
        code=subject.record.fingerprints.get("code", ""),
        code_now=code_of(subject.spec),
        accepted=tuple(accepted(subject.store.requests(subject.record.name))),
        versions=versions,
    )


def _audit(one: AuditRecord) -> document.CertifiedAudit:
    """A verdict, without the numbers that no claim covers."""
    said = f"audit {one.number}, at level {one.level:.3g}: {one.design}"
    outcome, method = str(one.outcome), one.audit.method
    return document.CertifiedAudit(trial=one.trial, system=one.system, method=method, outcome=outcome, said=said)


def _not_covered(subject: Subject) -> tuple[str, ...]:
    """What no number of the certificate says anything about."""
    lines = [wording.FLOATING_POINT, *([] if subject.trial is None else [wording.SELECTION])]
    lines += [wording.SPACE, wording.MACHINE, wording.ELSEWHERE, wording.FACTS, _UNLISTED, _ACCEPTED]
    if any("bayesian_epsilon" in one.metrics for one in subject.about):
        lines.append(wording.BAYESIAN)
    if (validation := recorded_text(subject.record.spec)) is not None:
        lines.append(f"Validation records are {validation}.")
    totals = earlier_totals(subject.store, subject.record.spec)
    assumptions = Assumptions.of([one for total in totals for one in total.claims()])
    return (*lines, *(sentences([line]) for line in earlier_lines(totals, assumptions)))
