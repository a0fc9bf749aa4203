"""What the page says, as values: read once from the store, before any HTML."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dpcore.guarantee import Guarantee
from sweeps.audit.audit_records import AuditRecord, audits_of
from sweeps.front.panels import Front, FrontAxis
from sweeps.front.pareto import LABELS, axis_ends, front, label_of, spec_objectives
from sweeps.held_out.readings import HeldOutReading, charged, readings
from sweeps.ledger import spending as ledger
from sweeps.ledger.assumptions import Assumptions
from sweeps.ledger.phases import tuned_by_now
from sweeps.ledger.summary import Summary
from sweeps.ledger.totals import Total, earlier_totals, total_of
from sweeps.release.policy import Release
from sweeps.release.published import Published
from sweeps.release.publisher import Publisher
from sweeps.report.importance import Importance, importances
from sweeps.store.records import CurveReport, SweepRecord, SweepState, TrialState, by_trial


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRange:
    """Claims of trials of one system that differ only in their epsilon.

    kind      what they share: a guarantee whose epsilon says nothing
    lowest, highest  epsilon, over `trials` trials
    """

    system: str
    kind: Guarantee
    lowest: float
    highest: float
    trials: int

    @property
    def bound(self) -> Guarantee:
        """The largest of them."""
        return replace(self.kind, epsilon=self.highest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """Everything on the page.

    curves        {key of a trial: what it told at planned steps}
    spending      steps, claims and the total of all trials, of whatever number
    started_from  totals of the sweeps whose results the search started from
    assumptions   what the statuses on the page rest on
    released      {metric: on what the published number depends}, as its system says
    audits        of its trials, from the sweep's own folder
    release       what may leave the trials: of an audit that read records as of them
    tests         readings of test records for its trials, oldest first
    """

    sweep: SweepRecord
    trials: Sequence[Published]
    curves: Mapping[str, Sequence[CurveReport]]
    objectives: Sequence[FrontAxis]
    front: Front
    claims: Sequence[ClaimRange]
    spending: Summary
    started_from: Sequence[Total]
    assumptions: Assumptions
    released: Mapping[str, str]
    importances: Sequence[Importance]
    audits: Sequence[AuditRecord]
    release: Release
    tests: Sequence[HeldOutReading]
    written_at: float

    @property
    def is_sealed(self) -> bool:
        """Whether all but what left stayed inside."""
        return self.sweep.spec.selection is not None

    @property
    def running(self) -> bool:
        """Whether more may come."""
        return self.sweep.state is not SweepState.FINISHED

    def in_state(self, state: TrialState) -> list[Published]:
        """The trials in one state."""
        return [trial for trial in self.trials if trial.state is state]


def gather(store: Publisher, sweep: str) -> Content:
    """Read a sweep. Guarantees that differ in kind get a panel each, since a page has room for it."""
    record = store.sweep(sweep)
    trials = store.trials(sweep)
    objectives = spec_objectives(record.spec)
    finished = [trial for trial in trials if trial.state is TrialState.COMPLETE]
    kinds = {label_of(trial.guarantee) for trial in finished if trial.guarantee is not None}
    # Axes are never shared silently: each kind is drawn under its own title.
    mix = [name for position, name in enumerate(LABELS) if len({kind[position] for kind in kinds}) > 1]
    release = Release.recorded(record.spec)
    spending = ledger.summary_of(
        record, trials, store.ledger(sweep), charged(store, record), tuned_by_now(store, record.spec)
    )
    started_from = earlier_totals(store, record.spec)
    counted = (total_of(sweep, spending), *started_from)
    claims = [trial.guarantee for trial in trials if trial.guarantee is not None]
    assumptions = Assumptions.of([*claims, *(claim for total in counted for claim in total.claims())])
    return Content(
        sweep=record,
        trials=trials,
        curves=by_trial(store.curves(sweep)),
        objectives=objectives,
        front=replace(
            front(trials, objectives, mix=mix, reference=axis_ends(record.references), sweep=sweep, may_be_empty=True),
            heading=release.heading,
            assumptions=assumptions,
        ),
        claims=_claims(trials),
        spending=spending,
        started_from=started_from,
        assumptions=assumptions,
        released=_released(trials),
        importances=importances(finished, objectives),
        audits=audits_of(Path(record.root) / record.name),
        release=release,
        tests=readings(store, sweep),
        written_at=time.time(),
    )


def _claims(trials: Sequence[Published]) -> list[ClaimRange]:
    groups: dict[tuple[str, Guarantee], list[Guarantee]] = {}
    for trial in trials:
        if trial.guarantee is not None:
            kind = replace(trial.guarantee, epsilon=0.0, epsilon_lower=None, aimed_at=None)
            groups.setdefault((trial.system, kind), []).append(trial.guarantee)
    return [
        ClaimRange(
            system=system,
            kind=kind,
            lowest=min(claim.epsilon for claim in claims),
            highest=max(claim.epsilon for claim in claims),
            trials=len(claims),
        )
        for (system, kind), claims in groups.items()
    ]


def _released(trials: Sequence[Published]) -> dict[str, str]:
    from trainables.measures.objectives import measured
    from trainables.registry import SYSTEMS

    names = {trial.system for trial in trials}
    reported = {name for trial in trials for name in trial.metrics}
    asked = {metric.name: metric.released for metric in measured(reported).values()}
    own = {metric.name: metric.released for name in names if name in SYSTEMS for metric in SYSTEMS[name].metrics}
    return asked | own
