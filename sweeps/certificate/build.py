"""The certificate of a sweep or of one trial, from the store: judged, gathered, recomputed, and only then signed."""

from __future__ import annotations

import math
import platform
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpcore.checks import InvalidValue
from dpcore.events import Composed
from dpcore.guarantee import STANDING, Guarantee, Status, delta_text, epsilon_text
from dpcore.selection.best import HeterogeneousTrials
from dpcore.selection.counts import Capped
from dpcore.selection.front import FrontPoints
from dpcore.selection.ladder import LadderPoints
from sweeps.audit import AuditRecord, audits_of
from sweeps.certificate import document, modes
from sweeps.certificate.document import Approval, Body, FinalTarget, HoldoutBody, Signature, utc, written
from sweeps.certificate.page import certificate_page
from sweeps.certificate.signing import SIGNATURE, key_text, signed
from sweeps.certificate.verify import recomputed
from sweeps.execution.final_run import check_parts
from sweeps.planning.plan import WEIGHTS, code_of
from sweeps.privacy import totals, wording
from sweeps.privacy.charge import charge_of
from sweeps.privacy.heldout import charged, readings
from sweeps.privacy.ledger import (
    HOLDOUT,
    Assumptions,
    Procedure,
    Summary,
    both,
    claim_of_search,
    count_text,
)
from sweeps.privacy.population import ELSEWHERE, IN_THIS_STORE, account
from sweeps.privacy.release import Published, PublishedStore, Release
from sweeps.privacy.wording import Verdict, dependence, quote_of_claim, quote_of_metric, quote_of_total, recorded_text
from sweeps.selection.price import SealedPlanner, SealedPrior
from sweeps.spec.parse import load_spec, public_facts
from sweeps.spec.problems import SpecErrors
from sweeps.spec.sections import Chosen, SweepSpec, learns
from sweeps.spec.sweep_budget import budget_of, law_text
from sweeps.store.errors import UnknownSweep
from sweeps.store.records import DECIDED, TARGET_EPSILON, LedgerEntry, SweepRecord, SweepState, TrialState, accepted
from sweeps.util.files import write_output
from trainables.data import SOURCES
from trainables.data.source import parted
from trainables.data.splits import CONTENT
from trainables.metrics import Dependence, Scalarisation
from trainables.system import DatasetSpec, PrivacyPlan, Refusal
from trainables.worker.redaction import redacted

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_ONE = "`sweeps certify {sweep} --trial NUMBER` certifies one trial, and says that its search is not covered."


class CannotCertify(ValueError):
    """A claim that no certificate may carry; the message says why, and what can be certified instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A sweep, read once.

    trial    that the certificate is about; None: all of them together
    entries  of the ledger, of that trial alone where there is one
    """

    store: PublishedStore
    record: SweepRecord
    spec: SweepSpec
    facts: DatasetSpec
    trials: Sequence[Published]
    trial: Published | None
    entries: Sequence[LedgerEntry]
    audits: Sequence[AuditRecord]

    @classmethod
    def of(cls, store: PublishedStore, sweep: str, trial: Published | None = None) -> Subject:
        """Of a sweep that was not deleted. Raises UnknownSweep, InvalidValue, SpecErrors."""
        record = store.sweep(sweep).kept()
        spec, entries = load_spec(record.spec.canonical()), store.ledger(record.name)
        return cls(
            store=store,
            record=record,
            spec=spec,
            facts=public_facts(spec),
            trials=store.trials(record.name),
            trial=trial,
            entries=[one for one in entries if trial is None or one.key == trial.key],
            audits=audits_of(Path(record.root) / record.name),
        )

    @property
    def about(self) -> Sequence[Published]:
        """Trials that the certificate is about."""
        return self.trials if self.trial is None else [self.trial]

    @property
    def complete(self) -> list[Published]:
        """Trials that are."""
        return [one for one in self.trials if one.state is TrialState.COMPLETE]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """A claim as it was counted.  artefact  what was released, exactly"""

    mode: modes.Mode
    claim: Guarantee
    ledger: modes.Ledger
    artefact: str


def count(subject: Subject) -> Counted:
    """How the sweep, or one of its trials, is counted. Raises CannotCertify, InvalidValue."""
    privacy, trial = subject.spec.privacy, subject.trial
    if privacy.release == "all":
        return _all(subject) if trial is None else _trial(subject, trial)
    if trial is None:
        return _search(subject)
    named = f"privacy.scope: {privacy.scope}, release: {privacy.release} of a single trial"
    raise CannotCertify(f"{subject.record.called}: {named} has no certificate yet.")


# Open modes: one trial, or all of them.


def checked_trial(trial: Published) -> tuple[PrivacyPlan, Guarantee]:
    """Plan and claim of a trial, where they may be certified, or stated as what they are. Raises CannotCertify."""
    claim, plan = trial.guarantee, trial.plan
    if trial.state is not TrialState.COMPLETE or claim is None or plan is None:
        raise CannotCertify(f"{trial.key}: {trial.state}; expected a trial that is complete, with a claim.")
    quote = quote_of_claim(claim)
    stated = claim.status in modes.STATED and math.isfinite(claim.epsilon)
    if not stated and (quote.verdict in (Verdict.NO, Verdict.REFUTED) or claim.status not in STANDING):
        raise CannotCertify(f"{trial.key}: its epsilon {quote.said}: {quote.sentence or quote.words}.")
    return plan, claim


def _trial(subject: Subject, trial: Published) -> Counted:
    """One trial's own claim, or the statement of a weaker one."""
    key, (plan, claim) = trial.key, checked_trial(trial)
    planned = modes.PlannedTrial.of(key, plan, claim)
    mode = modes.Statement(trials=(planned,)) if claim.status in modes.STATED else modes.TrialAlone.of(planned, claim)
    artefact = f"the metrics of {key} at every report, and its model where its system has one"
    return Counted(mode=mode, claim=claim, ledger=list(map(modes.LedgerRow.of, subject.entries)), artefact=artefact)


def _checked_total(record: SweepRecord, counted: Summary) -> Procedure:
    """The total of a sweep, where it may be certified."""
    name = record.called
    if record.state in (SweepState.CREATED, SweepState.RUNNING):
        raise CannotCertify(f"{name}: {record.state}; expected a sweep that ended, since this one goes on spending.")
    if counted.procedure is None:
        reason = counted.uncounted or "nothing was launched"
        raise CannotCertify(f"{name}: its total is not counted ({reason}). {_ONE.format(sweep=name)}")
    quote = quote_of_total(counted.procedure)
    if quote.verdict in (Verdict.NO, Verdict.REFUTED):
        instead = "Nothing of it can be certified." if quote.verdict is Verdict.REFUTED else _ONE.format(sweep=name)
        raise CannotCertify(f"{name}: the total of its trials {quote.said}: {quote.sentence or quote.words}. {instead}")
    return counted.procedure


def _all(subject: Subject) -> Counted:
    """All trials together, by composition or by the budget that a filter kept."""
    record, entries = subject.record, subject.entries
    tests, choices = charged(subject.store, record), totals.choices_of(record, subject.trials)
    cut, budget = totals.cut_short(record, subject.trials), budget_of(subject.spec)
    total = _checked_total(record, totals.summary(subject.trials, entries, choices, cut, tests, budget))
    plans = {one.key: one.plan for one in subject.trials if one.plan is not None}
    trials, claim = tuple(modes.PlannedTrial.of(key, plan) for key, plan in plans.items()), total.guarantee
    mode: modes.Mode
    if total.filtered:
        assert budget is not None
        known: dict[str, float] = {}
        # What a launch was allowed to run is charged, however far it came.
        ledger = [modes.LedgerRow.of(replace(entry, executed_to=entry.to_step)) for entry in entries]
        charges = (charge_of(budget, plans[row.trial], row.from_step, row.to_step, known) for row in ledger)
        mode = modes.Filtered(trials=trials, order=budget.order, charges=tuple(charges))
    else:
        ledger = list(map(modes.LedgerRow.of, totals.charged_as(subject.trials, entries, choices)))
        tested, apart = Composed(events=tuple(one.event for one in tests)), all(one.apart for one in tests)
        mode = modes.ComposedTrials(
            scope=subject.spec.privacy.scope,
            budget=None if total.budget is None else total.budget.epsilon,
            delta=min(plan.guarantee.delta for plan in plans.values()),
            trials=trials,
            tests=tested,
            tests_apart=apart,
            profile=modes.Profile.of(modes.released_by(trials, ledger, tested, apart).together(claim.adjacency), claim),
        )
    artefact = (
        f"every published metric of {len(trials)} trials at every report, and their models where systems have any"
    )
    return Counted(mode=mode, claim=claim, ledger=ledger, artefact=artefact)


# Sealed searches: what left, or nothing, at the price of the whole.

_LEFT = {
    "best": "the winner alone, with its score, as {}: which of the trials it was is not told",
    "first": "the first success alone, with its score, as {}: which of the trials it was is not told",
    "front": "the winners of all orders, with their scores, as {}: which of the trials they were is not told",
}
_LEFT_NOTHING = "nothing: whether no trial might leave, or not every one had ended in time, is not told"


def _search(subject: Subject) -> Counted:
    """The winners of a sealed search that is over, or none, and the search."""
    record, spec, winners = subject.record, subject.spec, subject.complete
    if record.state is not SweepState.FINISHED:
        raise CannotCertify(f"{record.called}: {record.state}; expected a sealed search that is over.")
    planner = SealedPlanner.of(SealedPrior(spec, subject.facts))
    if isinstance(planner, Refusal):
        raise CannotCertify(f"{record.called}: its search has no price any more ({planner.reason}).")
    left, rule = [checked_trial(one) for one in winners], planner.pricing.rule
    if not left:
        claim = _of_nothing(subject, planner)
    elif isinstance(rule, LadderPoints) and len(rule.epsilons) > 1:
        # Of one success of several budgets what it cost, an epsilon that is known afterwards.
        claim = left[0][0].beside[0]
    else:
        joint = claim_of_search([own for _, own in left])
        assert joint is not None
        claim = joint
    assert spec.selection is not None
    mode = mode_of(
        rule,
        law_text(spec.selection, spec.search.trials),
        tuple(modes.PlannedTrial.of(one.key, plan, claim) for one, (plan, _) in zip(winners, left, strict=True)),
        spec.orders,
        str(spec.selection.target),
        float(winners[0].config[TARGET_EPSILON]) if winners else None,
    )
    artefact = _LEFT[spec.privacy.release].format(", ".join(one.key for one in winners))
    return Counted(mode=mode, claim=claim, ledger=(), artefact=artefact if winners else _LEFT_NOTHING)


def mode_of(
    rule: HeterogeneousTrials | LadderPoints | FrontPoints,
    named: str,
    trials: tuple[modes.PlannedTrial, ...],
    orders: Sequence[Scalarisation] = (),
    target: str = "",
    budget: float | None = None,
) -> modes.SealedSearch:
    """The mode of a price.

    named   its law in words;  orders  of a front
    target  of the first success, in words;  budget  of what left: where a ladder ended
    """
    cap = rule.law.cap if isinstance(rule.law, Capped) else None
    told: dict[str, Any] = {"law": rule.law.priced, "cap": cap, "named": named, "trials": trials}
    kind: type[modes.SealedSearch] = modes.Best
    if isinstance(rule, LadderPoints):
        kind, ended = modes.First, None if budget is None else 1 + rule.epsilons.index(budget)
        told |= {"target": target, "ended": ended}
    elif isinstance(rule, FrontPoints):
        kind, told = modes.Front, told | {"orders": tuple(orders)}
    # All else that it has is the rule's, by the same names.
    return kind(**told, **{name: getattr(rule, name) for name in kind.model_fields.keys() - {*told, "mode"}})


def _of_nothing(subject: Subject, planner: SealedPlanner) -> Guarantee:
    """The price of the whole, as any winner would have claimed it; of whichever system, so none may claim less."""
    dearest = planner.prior.spec.privacy.epsilon[-1]
    plans = [planner.plan({**one, TARGET_EPSILON: dearest}) for one in planner.prior.space.middles()]
    claims = [planner.claim(planner.pricing.reference)]
    claims += [one.guarantee for one in plans if isinstance(one, PrivacyPlan)]
    for one in claims:
        if one.status is not Status.PROVED_UNDER_ASSUMPTIONS:
            raise CannotCertify(
                f"{subject.record.called}: it released nothing, and trials of its space would have claimed "
                f"{one.standing}; expected {Status.PROVED_UNDER_ASSUMPTIONS} of all of them."
            )
    return claims[0]


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
    mode, heading = counted.mode, Release.of(record.spec).heading
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
    chosen, tuned = subject.spec.search.chosen, totals.tuned_by_now(subject.store, subject.record.spec)
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
        if not (modes.same(claim.epsilon, recorded.epsilon) and modes.same(claim.delta, recorded.delta)):
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
        part = document.HashSplit(use=split.use, share=split.share, id=column, key=split.key)
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
        quote = quote_of_metric(depends, trial)
        if name in DECIDED or depends is Dependence.SIDE_CHANNEL or quote.verdict not in (Verdict.YES, Verdict.WITH):
            continue
        finite = float(value) if math.isfinite(value) else None
        yield document.Measured(trial=trial.key, metric=name, value=finite, quote=quote.line)


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
    earlier = totals.earlier_totals(subject.store, subject.record.spec)
    assumptions = Assumptions.of([one for total in earlier for one in total.claims()])
    return (*lines, *(totals.sentences([line]) for line in totals.earlier_lines(earlier, assumptions)))
