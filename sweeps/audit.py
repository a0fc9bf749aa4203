"""What audits leave behind: one folder each, `<root>/<sweep>/audits/<number>/`, inside the release boundary.

The store hears the verdict alone, where it is `refuted` (`sweeps.privacy.release`), and with it every view. A
number that an audit computed from records is in no claim, so no view, front or MLflow server hears of it, and the
report page, which reads these folders, names such an audit without its numbers, unless the spec declares the records
public or says why raw measures leave. The folder is made before a twin is trained: an audit that was begun counts
among the sweep's audits, so that nobody can look at many and keep the one he likes.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dpcore.audit.audit import Audit, AuditOutcome, AuditVerdict
from dpcore.checks import InvalidValue
from dpcore.guarantee import Guarantee
from sweeps.planning.plan import accepting, code_of, weights_of
from sweeps.privacy.population import charge_audit
from sweeps.privacy.release import FILE, FOLDER, PublishedStore, tell
from sweeps.spec.parse import load_spec
from sweeps.spec.sections import SweepSpec
from sweeps.store.records import Refutation, SweepRecord, this_person, trial_key
from sweeps.store.store import Store
from sweeps.store.workspace import Workspace
from sweeps.util import fingerprint
from trainables.data import SOURCES
from trainables.hooks import Auditable
from trainables.measures import audits
from trainables.registry import SYSTEMS
from trainables.system import Dataset, RunSettings, Split, System
from trainables.worker.files import Folder

__all__ = ["AuditRecord", "audits_of", "begin", "keep", "share"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """One finished audit.

    number         which audit of its sweep this is, from 1
    claim          what was held against it
    headline       the trial's own claim: `claim`, or one of another notion that no audit can be held against
    steps          of the trial, behind the claim
    level          error probability of the verdict; those of all audits of a sweep add up to at most 0.05
    on_curve       whether the whole trade-off curve of the planned steps was tested, or the claimed point alone
    design         who the canaries are, or how the neighbours differ
    reads_records  whether twins were trained on the sweep's own records
    at             seconds since 1970
    """

    sweep: str
    trial: str
    system: str
    number: int
    claim: Guarantee
    headline: Guarantee
    steps: int
    audit: Audit
    outcome: AuditOutcome
    level: float
    on_curve: bool
    design: str
    reads_records: bool
    trainings: int
    seconds: float
    at: float

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        plain = {name: getattr(self, name) for name in self.__slots__}
        values = {name: plain[name].to_dict() for name in ("claim", "headline", "audit")}
        return plain | values | {"outcome": str(self.outcome), "covered_by_claim": False}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> AuditRecord:
        """The inverse of `to_dict`; the bound is computed anew from the evidence."""
        claims = {name: Guarantee.from_dict(data[name]) for name in ("claim", "headline")}
        values = {"audit": Audit.from_dict(data["audit"]), "outcome": AuditOutcome(data["outcome"])}
        return cls(**{name: data[name] for name in cls.__slots__} | claims | values)


def begin(folder: Path) -> int:
    """The number of a new audit of the sweep with this folder, taken by nobody else."""
    audits = folder / FOLDER
    audits.mkdir(parents=True, exist_ok=True)
    number = 1 + max((int(one.name) for one in audits.iterdir() if one.name.isdigit()), default=0)
    while True:
        try:
            (audits / str(number)).mkdir()
            return number
        except FileExistsError:
            number += 1


def share(number: int) -> int:
    """The `number`-th audit gets 1/share of the error: 1/2, 1/6, 1/12, ..., all of which add up to 1 (from 1 on)."""
    return number * (number + 1)


def keep(folder: Path, record: AuditRecord) -> Path:
    """Write the record and return its path. Raises OSError."""
    target = folder / FOLDER / str(record.number)
    Folder(str(target)).write(FILE, json.dumps(record.to_dict(), indent=2).encode())
    return target / FILE


def audits_of(folder: Path) -> list[AuditRecord]:
    """Finished audits of the sweep with this folder, in order."""
    kept = (folder / FOLDER).glob(f"*/{FILE}")
    records = (AuditRecord.from_dict(json.loads(path.read_text(encoding="utf-8"))) for path in kept)
    return sorted(records, key=lambda one: one.number)


# One audit of one trial: from the store's records to a verdict, which is appended to the store if it refutes.


class Audited:
    """A trial that can be audited: its plan, the claim on `steps` of it, and how long it took to train.

    headline  what the trial claims first of all: `claim`, unless that is of another notion
    """

    def __init__(self, workspace: Workspace, sweep: str, trial: str) -> None:
        """By key or number. Raises UnknownSweep, UnknownTrial, InvalidValue."""
        self.store = workspace.open_store()
        self.sweep, seen = self.store.sweep(sweep).kept(), PublishedStore(self.store, workspace)
        name = self.sweep.name
        seen.check_not_stale(name)
        key = trial_key(name, int(trial)) if trial.isdigit() else trial
        seen.trials_of(name, [key])
        # What it claimed when it ran: though an earlier audit refuted its code, something is left to be tested.
        self.record = next(one for one in seen.claimed(name) if one.key == key)
        if self.record.plan is None:
            why = f"It is {self.record.state}: {self.record.reason}"
            raise InvalidValue("trial", key, "a trial that was planned", why)
        self.plan = plan = self.record.plan
        if SYSTEMS.known(plan.system) is None:
            raise InvalidValue("trial", key, f"a system that is installed, not {plan.system!r}")
        self.system, self.seconds = SYSTEMS[plan.system], self.record.metrics.get("seconds")
        self.headline = self.record.guarantee or plan.guarantee
        self.steps = self.record.step if self.record.guarantee else plan.steps
        claim = audits.dp_claim(plan if self.steps == plan.steps else replace(plan, beside=()), self.headline)
        if claim is None:
            why = (
                f"No audit can be held against {self.headline.notion}: an average does not bound what one record shows."
            )
            raise InvalidValue("trial", key, "a claim of differential privacy", why)
        self.claim = claim


def audit_trial(
    workspace: Workspace,
    sweep: str,
    trial: str,
    *,
    method: str | None = None,
    canaries: int = audits.CANARIES,
    runs: int | None = None,
    accept: Collection[str] = (),
    say: Callable[[str], None] = lambda line: None,
) -> AuditRecord:
    """Audit `trial` (a key or a number) of `sweep`, and keep the record.

    method       None: the first that the system offers
    canaries     of one run; runs: with the target and without it (see `trainables.measures.audits.gather`)
    accept       "code", "data": audit although these changed since the sweep ran
    say          told beforehand what will be trained

    Twins that read the sweep's own records are charged to its population before they are trained.

    Raises UnknownSweep, UnknownTrial, Changed, InvalidValue (no plan, no claim of differential privacy, no way to audit
    it, data), PopulationSpent.
    """
    audits.check_sizes(canaries, runs)
    audited = Audited(workspace, sweep, trial)
    store, sweep = audited.store, audited.sweep.name
    chosen = _method(audited, method)
    made_up, trainings = _made_up(audited, chosen), _trainings(audited.system, chosen, runs)
    setting = _setting(workspace, audited, made_up, accept)
    say(_forecast(audited, trainings))
    curve = audits.curve_of(setting)
    if not made_up:
        what = f"{audited.record.key} {chosen} {secrets.token_hex(8)}"
        charge_audit(store, audited.sweep, what, audited.plan, audited.steps, trainings)
    tell(store, sweep, [workspace.folder(sweep)])
    number = begin(workspace.folder(sweep))
    found = audits.gather(setting, chosen, canaries=canaries, runs=runs, curve=curve)
    verdict = AuditVerdict(audit=found.audit, guarantee=audited.claim, audits=share(number), curve=curve)
    record = AuditRecord(
        sweep=sweep,
        trial=audited.record.key,
        system=audited.plan.system,
        number=number,
        claim=audited.claim,
        headline=audited.headline,
        steps=audited.steps,
        audit=found.audit,
        outcome=verdict.outcome,
        level=verdict.level,
        on_curve=verdict.tests_curve,
        design=found.design,
        reads_records=found.reads_records,
        trainings=found.trainings,
        seconds=found.seconds,
        at=time.time(),
    )
    keep(workspace.folder(sweep), record)
    if record.outcome is AuditOutcome.REFUTED:
        # Every view of the sweep asks for it, wherever the folder of this audit is.
        store.ask(sweep, Refutation(trial=record.trial, system=record.system, audit=number), this_person())
    return record


def attack_trial(
    workspace: Workspace,
    sweep: str,
    trial: str,
    shadows: int,
    *,
    accept: Collection[str] = (),
    say: Callable[[str], None] = lambda line: None,
) -> tuple[str, tuple[audits.Attacked, ...]]:
    """Membership attacks on a twin of `trial` with `shadows` further twins: (key, attacks). No verdict follows.

    The other arguments are those of `audit_trial`. Raises what it raises, and InvalidValue for a system without a model
    to ask.
    """
    audited = Audited(workspace, sweep, trial)
    audits.check_shadows(audited.system, audited.claim, shadows)
    setting = _setting(workspace, audited, False, accept)
    what = f"{audited.record.key} shadows {secrets.token_hex(8)}"
    charge_audit(audited.store, audited.sweep, what, audited.plan, audited.steps, shadows + 1)
    say(_forecast(audited, shadows + 1))
    return audited.record.key, audits.likelihood_ratio_attack(setting, shadows)


def _method(audited: Audited, method: str | None) -> audits.Method:
    """The method that is asked for, or the first that the system offers. Raises InvalidValue."""
    possible, under = audits.methods(audited.system, audited.claim), f"under {audited.claim.adjacency}"
    if not possible:
        offers = f"{audited.plan.system} {under} offers neither canaries nor neighbours (trainables/hooks.py says how)."
        raise InvalidValue("trial", audited.record.key, "a system that can be audited", offers)
    chosen = next((one for one in possible if method in (None, one)), None)
    if chosen is None:
        raise InvalidValue("method", method, f"{' or '.join(possible)} for {audited.plan.system} {under}")
    if (
        audited.sweep.spec.selection is not None
        and audited.sweep.spec.data.records_are_public is None
        and not _made_up(audited, chosen)
    ):
        raise InvalidValue(
            "method",
            chosen,
            "multi-run on made-up records, where the system offers it: twins on the sweep's own records would be a "
            "release that the price of a sealed search does not cover",
            "Audit the same system in an open sweep, or on public data.",
        )
    return chosen


def _setting(
    workspace: Workspace,
    audited: Audited,
    made_up: bool,
    accept: Collection[str],
) -> audits.AuditSetting:
    spec = load_spec(audited.sweep.spec.canonical())
    if spec.privacy.scope == "sweep" and spec.data.records_are_public is None:
        raise InvalidValue(
            "sweep",
            audited.sweep.called,
            "one whose trials have budgets of their own: twins are trained on its records, and its one budget does not "
            "count them",
            "Audit the system in a sweep over records that are public.",
        )
    knobs = spec.execution
    return audits.AuditSetting(
        system=audited.system,
        plan=audited.plan,
        claim=audited.claim,
        data=_data(audited.store, audited.sweep, spec, made_up, accept, workspace.features),
        to_step=audited.steps,
        # The sweep's settings of speed, in one process; pseudorandom noise from the twins' own secret.
        execution=RunSettings(
            microbatch=knobs.microbatch, device=knobs.device, threads=knobs.threads, precision=knobs.precision
        ),
    )


def _data(
    store: Store, recorded: SweepRecord, spec: SweepSpec, made_up: bool, accept: Collection[str], kept_in: Path
) -> Dataset:
    """The sweep's records; or its public facts alone where made-up neighbours take the records' place."""
    source, options = SOURCES[spec.data.source], spec.data.options()
    now = {"code": code_of(spec), **weights_of(spec, source.facts(options))}
    if made_up:
        empty = Split({}, np.zeros(0))
        data = Dataset(facts=source.facts(options), train=empty, validation=empty, fingerprint="not read")
    else:
        data = source.load(options, kept_in)
        now["data"] = store.data_fingerprint(data.fingerprint)
    moved = fingerprint.changes(recorded.fingerprints, now)
    changed = [name for name in moved if not {*accepting([name])} <= {*accept}]
    if changed:
        words = " ".join(f"--accept {word}" for word in accepting(changed))
        raise fingerprint.Changed(
            f"sweep {recorded.name!r}: {' and '.join(changed)} changed since it ran, so that an audit would judge "
            f"something else. Restore what it was, or audit what is here with {words}."
        )
    return data


def _trainings(system: System, method: audits.Method, runs: int | None) -> int:
    """How many twins an audit trains."""
    if method != "multi-run":
        return 1
    default = audits.RUNS if isinstance(system, Auditable) else audits.RUNS_OF_SLOW
    wanted = default if runs is None else runs
    return 2 * (wanted + max(5, int(wanted * audits.CALIBRATION)))


def _made_up(audited: Audited, chosen: audits.Method) -> bool:
    """Whether the twins of an audit read made-up records alone."""
    return chosen == "multi-run" and isinstance(audited.system, Auditable)


def _forecast(audited: Audited, trainings: int) -> str:
    """What will be trained, before it is."""
    took = "" if audited.seconds is None else f"; the trial took {audited.seconds:.3g} s"
    return f"{trainings} twin(s) of {audited.record.key}, {audited.steps} step(s) each, in this process{took}"
