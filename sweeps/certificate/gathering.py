"""The body of a certificate, read from the store: every row of the document that is not its arithmetic."""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from sweeps.audit import AuditRecord, audits_of
from sweeps.certificate import document, titles
from sweeps.certificate.approval import Approved
from sweeps.certificate.chain import LedgerRow
from sweeps.certificate.holdout import part_line, point_line
from sweeps.certificate.modes import Mode
from sweeps.heldout import readings
from sweeps.planning.spec_code import WEIGHTS, code_of, shown
from sweeps.privacy import wording
from sweeps.privacy.claims import count_text
from sweeps.privacy.population_account import ELSEWHERE, IN_THIS_STORE, account
from sweeps.privacy.published_store import PublishedStore
from sweeps.privacy.quoting import Verdict, dependence, quote_of_metric
from sweeps.privacy.release import Published, Release
from sweeps.privacy.wording import recorded_text
from sweeps.search import samplers
from sweeps.spec import SweepSpec, load_spec, public_facts
from sweeps.store.records import DECIDED, LedgerEntry, SweepRecord, TrialState, accepted
from trainables.data import SOURCES
from trainables.data.source import parted
from trainables.metrics import Dependence
from trainables.system import DatasetSpec
from trainables.worker.redaction import redacted

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
_HIDDEN = "hidden: every trial but the one that left, how many there were, and which of them it was"
_HIDDEN_ALL = "hidden: every trial, and how many there were"
_HIDDEN_OF_FRONT = "hidden: every trial but those that left, how many there were, and which of them these were"
_DRAWN = "independent draws from a public prior with secret coins"
_BEST = "{}, ranked inside the release boundary; {} left"
_BEST_BY = "{}, ranked inside the release boundary by {} public orders; {} left"
_FIRST = "{}, held against a public target inside the release boundary; {} left"
_NOT_HIDDEN = (
    "not hidden: metrics leave as they are recorded, and the release of every step is counted as if it had left by "
    "itself"
)
NO_VALIDATION = "there are no validation records"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSweep:
    """What is known of a sweep, read once.

    chosen  trials that the certificate is about
    """

    store: PublishedStore
    record: SweepRecord
    spec: SweepSpec
    facts: DatasetSpec
    release: Release
    trials: Sequence[Published]
    chosen: Sequence[Published]
    entries: Sequence[LedgerEntry]
    audits: Sequence[AuditRecord]

    @classmethod
    def of(cls, store: PublishedStore, sweep: str, trial: Published | None) -> KnownSweep:
        """Of a sweep that was not deleted. Raises UnknownSweep, InvalidValue, SpecErrors."""
        record = store.sweep(sweep).kept()
        spec = load_spec(record.spec.canonical)
        trials = store.trials(record.name)
        entries = store.ledger(record.name)
        return cls(
            store=store,
            record=record,
            spec=spec,
            facts=public_facts(spec),
            release=Release.recorded(record.spec),
            trials=trials,
            chosen=trials if trial is None else [trial],
            entries=entries if trial is None else [one for one in entries if one.key == trial.key],
            audits=audits_of(Path(record.root) / record.name),
        )

    @property
    def sealed(self) -> bool:
        """Whether its trials are, so that how many there were is secret."""
        return self.spec.selection is not None

    @property
    def complete(self) -> int:
        """Trials that are."""
        return sum(one.state is TrialState.COMPLETE for one in self.trials)


def sweep_row(known: KnownSweep) -> document.CertifiedSweep:
    """Which sweep."""
    record = known.record
    return document.CertifiedSweep(
        name=record.name, digest=record.digest, state=str(record.state), began=_utc(record.created_at)
    )


def released_row(known: KnownSweep, artefact: str) -> document.ReleaseTerms:
    """What leaves, and whom one has to trust."""
    hidden = _hidden(known) if known.sealed else _NOT_HIDDEN
    return document.ReleaseTerms(artefact=artefact, intermediates=hidden, trust=TRUST, heading=known.release.heading)


def _hidden(known: KnownSweep) -> str:
    """Of a sealed search."""
    if not known.complete:
        return _HIDDEN_ALL
    return _HIDDEN_OF_FRONT if len(known.spec.orders) > 1 else _HIDDEN


def _selected(known: KnownSweep) -> str:
    """How a sealed search read its records."""
    assert known.spec.selection is not None
    how, orders = _DRAWN, len(known.spec.orders)
    if orders > 1:
        return _BEST_BY.format(how, orders, "the best by each" if known.complete else "none")
    if known.spec.selection.target is not None:
        return _FIRST.format(how, "the first to meet it" if known.complete else "none")
    return _BEST.format(how, "one" if known.complete else "none")


def accesses_row(known: KnownSweep, mode: Mode, rows: Sequence[LedgerRow]) -> document.Accesses:
    """Every reading of records, of the whole sweep.

    rows  of the published ledger: launches are counted as a total of them counts
    """
    launches, steps = len(rows), sum(row.charged_to - row.from_step for row in rows)
    if not mode.searched:
        entries = known.store.ledger(known.record.name)
        launches, steps = len(entries), sum(one.steps_spent for one in entries)
    store, record, sampler = known.store, known.record, known.spec.search.sampler
    learns = samplers.learns(known.record.spec.sampler or sampler)
    how = "chose trials by the results of earlier ones" if learns else "was told no result"
    return document.Accesses(
        training=None if mode.sealed else launches,
        steps=None if mode.sealed else steps,
        tuning=_selected(known)
        if known.sealed
        else f"the {sampler} sampler {how}; whoever chose among {known.complete} finished trials saw their results",
        validation=recorded_text(record.spec) or NO_VALIDATION,
        tests=tuple(f"{one.trial}: {one}" for one in readings(store, record.name)),
        audits=tuple(
            f"audit {one.number} of {one.trial} trained {one.trainings} twins on the records: no claim covers it"
            for one in known.audits
            if one.reads_records
        ),
        population=_population(known),
    )


def _population(known: KnownSweep) -> tuple[str, ...]:
    name = known.spec.data.population
    if name is None:
        return ("none is declared: nothing is counted across sweeps",)
    found = account(known.store, name)
    spent = f"{name}: all sweeps over it {IN_THIS_STORE} spent {found.spent_text}"
    return (spent, f"left: {found.left_text}", ELSEWHERE)


def provenance_row(known: KnownSweep) -> document.Provenance:
    """Which records, and everything public that went in."""
    spec, facts = known.spec, known.facts
    own, features = parted(spec.data.options())
    mapped = None if features is None else features.origin_of(SOURCES[spec.data.source].facts(own))
    named = [] if mapped is None else [redacted(f"map of records: {mapped.name} ({mapped.source}; {mapped.digest})")]
    named += [f"module of the user's own: {name}" for name in spec.user_modules()]
    if (weights := known.record.fingerprints.get(WEIGHTS)) is not None:
        named.append(f"what these bring that no seed draws, as weights do: fingerprint {shown(WEIGHTS, weights)}")
    named += [f"file: {text}" for text in spec.texts() if Path(text).expanduser().is_file()]
    if (chosen := spec.search.chosen) is not None:
        named.append(point_line(chosen))
    bounds = [f"bounds or categories of {count_text(len(facts.features), 'feature')}"]
    bounds += [f"{facts.classes} classes"] if facts.classes else []
    part = SOURCES[spec.data.source].part(spec.data.options())
    return document.Provenance(
        source=redacted(facts.dataset or spec.data.source),
        records=facts.n,
        validation_records=facts.n_validation,
        counted=facts.counted,
        fingerprint=known.record.fingerprints.get("data", ""),
        public_because=spec.data.records_are_public or "",
        public_inputs=tuple(named),
        declared=(*bounds, *facts.treatment, *([] if part is None else [part_line(part)])),
    )


def searched_row(known: KnownSweep, ranges: str) -> document.Searched:
    """What was searched.  ranges  how they were chosen, by the operator"""
    canonical = known.record.spec.canonical
    return document.Searched(
        sampler=str(known.record.spec.sampler or known.spec.search.sampler),
        trials=known.spec.search.trials,
        ranges={name: dict(knobs) for name, knobs in canonical["systems"].items()},
        fixed_points=len(known.spec.search.first),
        how_chosen=ranges.strip(),
    )


def accuracy_row(known: KnownSweep) -> document.Accuracy:
    """Published metrics that may be quoted, subgroup accuracy among them."""
    groups = known.facts.groups
    found = [one for trial in known.chosen for one in _measured(trial)]
    return document.Accuracy(groups="" if groups is None else groups.column, metrics=tuple(found))


def _measured(trial: Published) -> Iterator[document.Measured]:
    for name, value in trial.metrics.items():
        depends = dependence(trial, name)
        quote = quote_of_metric(name, depends, trial)
        if name in DECIDED or depends is Dependence.SIDE_CHANNEL or quote.verdict not in (Verdict.YES, Verdict.WITH):
            continue
        finite = float(value) if math.isfinite(value) else None
        said = f"{quote.said}: {quote.sentence}" if quote.sentence else quote.said
        yield document.Measured(trial=trial.key, metric=name, value=finite, quote=said)


def random_rows(known: KnownSweep) -> tuple[str, ...]:
    """Where coins come from."""
    if known.sealed:
        return _SEALED_COINS
    return (_COINS[known.spec.privacy.noise_source], _PUBLIC_SEED)


def software_row(known: KnownSweep) -> document.Software:
    """What ran, and what wrote this."""
    return document.Software(
        code=known.record.fingerprints.get("code", ""),
        code_now=code_of(known.spec),
        accepted=tuple(accepted(known.store.requests(known.record.name))),
        versions={"python": platform.python_version()}
        | {name: found for name in VERSIONS if (found := _version(name))},
    )


def own_version() -> str:
    """Of this project."""
    return _version("private-sweeps") or "unknown"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def approval_row(approved: Approved) -> document.Approval:
    """Who approved this epsilon, and why; now."""
    return document.Approval(by=approved.by.strip(), because=approved.because.strip(), at=_utc(time.time()))


def audit_rows(known: KnownSweep) -> tuple[document.CertifiedAudit, ...]:
    """Verdicts, without the numbers that no claim covers."""
    return tuple(
        document.CertifiedAudit(
            trial=one.trial,
            system=one.system,
            method=one.audit.method,
            outcome=str(one.outcome),
            said=f"audit {one.number}, at level {one.level:.3g}: {one.design}",
        )
        for one in known.audits
    )


def uncovered(known: KnownSweep, mode: Mode, earlier: Sequence[str]) -> tuple[str, ...]:
    """What no number of the certificate says anything about.

    earlier  what the search started from, in words
    """
    lines = [*titles.uncovered(mode)]
    if any("bayesian_epsilon" in one.metrics for one in known.chosen):
        lines.append(wording.BAYESIAN)
    if (validation := recorded_text(known.record.spec)) is not None:
        lines.append(f"Validation records are {validation}.")
    return (*lines, *earlier)


def _utc(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
