"""The certificate of a sweep or of one trial, from the store: judged, gathered, recomputed, and only then signed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dpcore.adjacency import Adjacency
from dpcore.events import Composed
from dpcore.guarantee import Guarantee
from sweeps.certificate import gathering
from sweeps.certificate.approval import Approved
from sweeps.certificate.canonical import NotCanonical
from sweeps.certificate.chain import Chain, LedgerRow
from sweeps.certificate.claimed import Claimed
from sweeps.certificate.document import Body, Signature, Signed, normalised, spelled
from sweeps.certificate.gathering import KnownSweep
from sweeps.certificate.judging import CannotCertify, check_total, check_trial
from sweeps.certificate.modes import ComposedTrials, Mode, OneTrial, StatedTrial
from sweeps.certificate.modes.composition import released_parts
from sweeps.certificate.modes.plans import PlannedTrial
from sweeps.certificate.modes.profile import Profile
from sweeps.certificate.modes.statement import STATED
from sweeps.certificate.page import certificate_page
from sweeps.certificate.signing import key_text, signed
from sweeps.certificate.titles import attested, title_of
from sweeps.certificate.verifying import recomputed
from sweeps.held_out.readings import charged
from sweeps.ledger.assumptions import Assumptions
from sweeps.ledger.spending import charged_as, choices_of, cut_short, summary
from sweeps.ledger.totals import earlier_lines, earlier_totals, sentences, total_of
from sweeps.process.outputs import write_output
from sweeps.records import LedgerEntry
from sweeps.release.published import Published
from sweeps.release.publisher import Publisher
from trainables.registry import SYSTEMS
from trainables.system import PrivacyPlan

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
        return f"{self.body.title}: epsilon {claim.epsilon:.6g} at delta {claim.delta:g}, {claim.adjacency}"


def certified(
    store: Publisher, sweep: str, trial: Published | None, approved: Approved, key: Ed25519PrivateKey
) -> Certificate:
    """The certificate of all trials of a sweep together, or of one of its trials.

    Nothing is signed that does not verify. Raises CannotCertify, UnknownSweep, InvalidValue, SpecErrors.
    """
    known = KnownSweep.of(store, sweep, trial)
    spec = known.spec.privacy
    if spec.scope != "trial" or spec.release != "all":
        raise CannotCertify(
            f"{known.record.called}: privacy.scope: {spec.scope}, release: {spec.release}; expected scope: trial and "
            "release: all. Others have no certificate yet."
        )
    body = _of_trial(known, trial, approved) if trial is not None else _of_all(known, approved)
    try:
        body = normalised(body)
        content = spelled(body)
    except NotCanonical as error:
        raise CannotCertify(f"{known.record.called}: {error}") from None
    if failed := [check for check in recomputed(body) if not check.held]:
        listed = "; ".join(f"{one.what}: {one.said}" for one in failed)
        raise CannotCertify(f"{body.title}: its own arithmetic does not give it back, so it is not signed ({listed}).")
    signature = Signature(algorithm="Ed25519", key=key_text(key.public_key()), value=signed(key, content))
    return Certificate(Signed(body=body, signature=signature))


def _of_all(known: KnownSweep, approved: Approved) -> Body:
    store, record, trials, entries = known.store, known.record, known.trials, known.entries
    tests = charged(store, record)
    choices, rests_on = choices_of(record, trials), cut_short(record, trials)
    counted = summary(trials, entries, choices, rests_on, tests)
    check_total(record, total_of(record.name, counted))
    assert counted.procedure is not None
    claim = counted.procedure.guarantee
    plans = {one.key: one.plan for one in trials if one.plan is not None}
    rows = _rows(plans, charged_as(trials, entries, choices))
    listed = tuple(_planned(key, plan) for key, plan in plans.items())
    tested, apart = Composed(events=tuple(one.event for one in tests)), all(one.apart for one in tests)
    parts = released_parts(listed, rows, tested, apart).together(claim.adjacency)
    mode = ComposedTrials(
        mode="composition",
        scope="trial",
        release="all",
        delta=min(plan.guarantee.delta for plan in plans.values()),
        trials=listed,
        tests=tested,
        tests_apart=apart,
        profile=Profile.of(parts, claim.adjacency, claim.epsilon, claim.delta),
    )
    artefact = f"every published metric of {len(plans)} trials at every report, and their models where systems have any"
    return _body(known, mode, claim, rows, approved, artefact)


def _of_trial(known: KnownSweep, trial: Published, approved: Approved) -> Body:
    check_trial(trial)
    assert trial.plan is not None
    assert trial.guarantee is not None
    claim, planned = trial.guarantee, _planned(trial.key, trial.plan, trial.guarantee)
    rows = _rows({trial.key: trial.plan}, known.entries)
    mode: Mode
    if claim.status in STATED:
        mode = StatedTrial(mode="statement", trial=planned)
    else:
        parts = released_parts([planned], [_whole(trial.key, trial.plan)], Composed(), False)
        found, _ = parts.claim(claim.delta, claim.adjacency, claim.unit)
        profile = Profile.of(parts.together(claim.adjacency), claim.adjacency, claim.epsilon, claim.delta)
        headline = found.accountant == claim.accountant
        mode = OneTrial(mode="trial", trial=planned, headline=headline, profile=profile)
    artefact = f"the metrics of {trial.key} at every report, and its model where its system has one"
    return _body(known, mode, claim, rows, approved, artefact)


def _body(
    known: KnownSweep, mode: Mode, claim: Guarantee, rows: Sequence[LedgerRow], approved: Approved, artefact: str
) -> Body:
    record = known.record
    totals = earlier_totals(known.store, record.spec.warm_start)
    assumptions = Assumptions.of([one for total in totals for one in total.claims()])
    earlier = [sentences([line]) for line in earlier_lines(totals, assumptions)]
    claimed = _claimed(known, mode, claim)
    released = gathering.released_row(known, artefact)
    return Body(
        format="private-sweeps certificate 1",
        title=title_of(mode, claimed, released.heading, record.name),
        claim=claimed,
        mode=mode,
        sweep=gathering.sweep_row(known),
        released=released,
        accesses=gathering.accesses_row(known),
        provenance=gathering.provenance_row(known),
        searched=gathering.searched_row(known, approved),
        accuracy=gathering.accuracy_row(known),
        random=gathering.random_rows(known),
        software=gathering.software_row(known),
        approval=gathering.approval_row(approved),
        audits=gathering.audit_rows(known),
        ledger=Chain.of(f"{record.name} {record.digest}", rows),
        not_covered=gathering.uncovered(known, not isinstance(mode, OneTrial | StatedTrial), earlier),
        attested=attested(mode),
    )


def _claimed(known: KnownSweep, mode: Mode, claim: Guarantee) -> Claimed:
    return Claimed(
        covers=mode.covers(known.record.name),
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


def _planned(key: str, plan: PrivacyPlan, claim: Guarantee | None = None) -> PlannedTrial:
    system, reports = SYSTEMS.get(plan.system), plan.validation
    return PlannedTrial(
        trial=key,
        system=plan.system,
        publication="" if system is None else system.source,
        mechanism=plan.description,
        hyperparameters=dict(plan.config),
        solved=plan.solved,
        status=(claim or plan.guarantee).status,
        steps=plan.steps,
        training=plan.event(),
        reports=Composed() if reports is None else reports.event(),
        parts=reports.parts if reports is not None and reports.histogram.adjacency is Adjacency.ADD_REMOVE else "",
    )


def _rows(plans: dict[str, PrivacyPlan], entries: Sequence[LedgerEntry]) -> list[LedgerRow]:
    return [_row(plans[entry.key], entry) for entry in entries]


def _row(plan: PrivacyPlan, entry: LedgerEntry) -> LedgerRow:
    spent, reports = entry.steps_spent, plan.validation
    start, stop = entry.from_step, entry.from_step + entry.steps_spent
    return LedgerRow(
        trial=entry.key,
        attempt=entry.attempt,
        from_step=start,
        to_step=max(entry.to_step, stop),
        charged_to=stop,
        training=plan.event(start, stop) if spent else Composed(),
        reports=reports.event(start, stop) if reports is not None and spent else Composed(),
    )


def _whole(key: str, plan: PrivacyPlan) -> LedgerRow:
    """A plan as if one launch had run all of it."""
    return _row(plan, LedgerEntry(key=key, attempt=1, from_step=0, to_step=plan.steps, executed_to=plan.steps))
