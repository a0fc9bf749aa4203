"""What the page says, as values: read once from the store, before any HTML."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sweeps import ledger
from sweeps.audit.records import AuditRecord, audits_of
from sweeps.front.panels import Front, Objective
from sweeps.front.pareto import LABELS, front, label_of, spec_objectives, spec_references
from sweeps.publishing import Release
from sweeps.records import SweepRecord, TrialRecord, TrialState
from sweeps.report.importance import Importance, importances
from sweeps.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Claims of trials that differ only in their epsilon.

    kind      the guarantee without its epsilons
    lowest, highest  epsilon, over `trials` trials
    """

    kind: Mapping[str, Any]
    lowest: float
    highest: float
    trials: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """Everything on the page.

    spending   steps in the ledger against steps on the trials' own paths (`sweeps.ledger.summary`)
    procedure  guarantee of everything that was executed, taken as released; None when it could not be counted
    uncounted  then why
    released   {metric: on what the published number depends}, as its system says
    audits     of its trials, from the sweep's own folder
    release    what may leave the trials: of an audit that read records as of them
    """

    sweep: SweepRecord
    trials: Sequence[TrialRecord]
    objectives: Sequence[Objective]
    front: Front
    claims: Sequence[Claim]
    spending: Mapping[str, Any]
    procedure: Mapping[str, Any] | None
    uncounted: str
    released: Mapping[str, str]
    importances: Sequence[Importance]
    audits: Sequence[AuditRecord]
    release: Release
    written_at: float

    def in_state(self, state: TrialState) -> list[TrialRecord]:
        """The trials in one state."""
        return [trial for trial in self.trials if trial.state is state]


def gather(store: Store, sweep: str) -> Content:
    """Read a sweep. Guarantees that differ in kind get a panel each, since a page has room for it."""
    record = store.sweep(sweep)
    trials = store.trials(sweep)
    objectives = spec_objectives(record.spec)
    finished = [trial for trial in trials if trial.state is TrialState.COMPLETE]
    kinds = {label_of(trial.guarantee) for trial in finished if trial.guarantee is not None}
    # Axes are never shared silently: each kind is drawn under its own title.
    mix = [name for position, name in enumerate(LABELS) if len({kind[position] for kind in kinds}) > 1]
    spending, procedure, uncounted = _spent(store, record, trials)
    release = Release.recorded(record.spec)
    return Content(
        sweep=record,
        trials=trials,
        objectives=objectives,
        front=replace(
            front(trials, objectives, mix=mix, reference=spec_references(record.spec), sweep=sweep),
            heading=release.heading,
        ),
        claims=_claims(trials),
        spending=spending,
        procedure=procedure,
        uncounted=uncounted,
        released=_released(trials),
        importances=importances(finished, objectives),
        audits=audits_of(Path(record.root) / record.name),
        release=release,
        written_at=time.time(),
    )


def _spent(
    store: Store, record: SweepRecord, trials: Sequence[TrialRecord]
) -> tuple[Mapping[str, Any], Mapping[str, Any] | None, str]:
    entries = store.ledger(record.name)
    counted = ledger.summary(trials, entries, adaptive=ledger.is_adaptive(record.spec))
    why = counted.get("uncounted", "") if entries else "Nothing has been launched yet."
    return counted, counted.get("procedure"), why


_EPSILONS = ("epsilon", "epsilon_lower", "aimed_at")


def _claims(trials: Sequence[TrialRecord]) -> list[Claim]:
    groups: dict[str, tuple[Mapping[str, Any], list[float]]] = {}
    for trial in trials:
        if trial.guarantee is not None:
            kind = {name: value for name, value in trial.guarantee.items() if name not in _EPSILONS} | {
                "system": trial.config.get("system", "")
            }
            groups.setdefault(repr(sorted(kind.items())), (kind, []))[1].append(float(trial.guarantee["epsilon"]))
    return [
        Claim(kind=kind, lowest=min(epsilons), highest=max(epsilons), trials=len(epsilons))
        for kind, epsilons in groups.values()
    ]


def _released(trials: Sequence[TrialRecord]) -> dict[str, str]:
    from trainables.measures.objectives import MEASURES
    from trainables.registry import SYSTEMS

    names = Counter(str(trial.config.get("system", "")) for trial in trials)
    measured = {metric.name: metric.released for metric in MEASURES.values()}
    own = {metric.name: metric.released for name in names if name in SYSTEMS for metric in SYSTEMS[name].metrics}
    return measured | own
