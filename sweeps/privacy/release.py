"""Which results of a sweep leave its store, and when: one decision for the world and for what steers the search.

Sampler, screen, store, MLflow, fronts and reports hear of a trial through a `Release` alone, as a `Published` record,
which this package alone makes. Workers record nothing that a release withholds (`trainables.publishing`), and the
controller passes their results through it before it writes or tells them. Nothing here says what a result costs: a
policy decides what leaves, the ledger counts what ran.

Views open a store by `PublishedStore` alone, and read it by the store's own names. A trial comes out as its sweep's
release policy lets it be seen, its claim refuted where an audit refuted that of its code; ledger entries and counts say
what was spent, whatever is seen.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NewType, cast

from dpcore.checks import InvalidValue
from dpcore.guarantee import Guarantee, Status, weakest
from sweeps.privacy.ledger import covers_search
from sweeps.store.errors import StoreOlder
from sweeps.store.records import (
    OVER,
    AttemptRecord,
    CurveReport,
    LedgerEntry,
    Refutation,
    Request,
    SweepRecord,
    SweepState,
    TrialRecord,
    TrialState,
    this_person,
)
from sweeps.store.workspace import Workspace, newer_attempt
from trainables.metrics import WITHHELD, Config, Dependence, Metric, Scalarisation
from trainables.system import PrivacyPlan

if TYPE_CHECKING:
    from sweeps.spec.sections import SweepSpec
    from sweeps.store.store import Store

Published = NewType("Published", TrialRecord)
"""A trial as the world may see it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasePolicy:
    """What leaves of a sweep's trials beyond what was public before they ran.

    at_once  every result, as soon as it is recorded: views are told of it, and it steers sampler and early stopping
    winners  the results of the trials that are best by the sweep's orders, once it is over: of the first objective, or
             of several orders
    """

    at_once: bool = False
    winners: bool = False

    @classmethod
    def called(cls, word: object) -> ReleasePolicy:
        """The policy that a spec calls `word` under privacy.release: a word without a meaning publishes nothing."""
        return _BY_WORD.get(str(word), NOTHING)

    def published(
        self,
        records: Iterable[TrialRecord],
        orders: Sequence[Scalarisation] = (),
        over: bool = False,
        deleted: bool = False,
    ) -> list[Published]:
        """The trials of one sweep as they may be seen, in their order.

        orders   by which winners win
        over     whether the sweep is
        deleted  whether its results are: those that had left keep their claims, with nothing to be ranked by
        """
        listed = list(records)
        if self.at_once:
            return cast("list[Published]", listed)
        best = {best_by(order, listed) for order in orders} if self.winners and over else set()
        if self.winners and deleted:
            best = {one.key for one in listed if one.state is TrialState.COMPLETE}
        return [Published(record if record.key in best else _sealed(record)) for record in listed]

    def published_alone(self, record: TrialRecord) -> Published:
        """One trial of a sweep that is not over."""
        return self.published([record])[0]


OPEN = ReleasePolicy(at_once=True)
WINNERS_ALONE = ReleasePolicy(winners=True)
NOTHING = ReleasePolicy()
_BY_WORD = {"all": OPEN, "best": WINNERS_ALONE, "first": WINNERS_ALONE, "front": WINNERS_ALONE}


def was_published(record: TrialRecord) -> Published:
    """A trial that a view holds: it left when it was written there."""
    return Published(record)


def _sealed(record: TrialRecord) -> TrialRecord:
    """What is public of a trial: what was proposed and planned, and that it was launched. How it ended is a result."""
    if record.state is TrialState.INFEASIBLE:
        return record
    nothing: dict[str, object] = {"metrics": {}, "reports": {}, "guarantee": None, "step": 0, "finished_at": None}
    return replace(record, state=TrialState.PLANNED, reason="", **nothing)  # type: ignore[arg-type]


def best_by(order: Scalarisation, records: Iterable[TrialRecord]) -> str | None:
    """The key of the complete trial that wins by an order; None where none can."""
    ranked = [
        (-worth, record.number, record.key)
        for record in records
        if record.state is TrialState.COMPLETE and (worth := order.worth(_measured(record, order))) is not None
    ]
    return min(ranked)[2] if ranked else None


def _measured(record: TrialRecord, order: Scalarisation) -> dict[str, float]:
    found = {name: record.metric(name) for name, _ in order.weights}
    return {name: value for name, value in found.items() if value is not None}


_EVERYTHING: frozenset[Dependence] = frozenset()
_PUBLIC = "The records are public"


def is_demonstration(claim: Guarantee) -> bool:
    """Whether a claim is made of public records: then more may leave than it counts."""
    return any(sentence.startswith(_PUBLIC) for sentence in claim.assumptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """What may leave the trials of one sweep, as its spec says.

    public_because  why the records are public: everything may leave, and claims are demonstrations
    raw_because     why metrics that read training records outside of every event leave: nothing is then covered
    policy          which trials' results leave, and when
    asked           metrics that the spec names: of functions of the user's own no others are known
    """

    public_because: str | None = None
    raw_because: str | None = None
    policy: ReleasePolicy = OPEN
    asked: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def of(cls, spec: SweepSpec) -> Release:
        """The release that a spec asks for."""
        return cls(
            public_because=spec.data.records_are_public,
            raw_because=spec.privacy.raw_because,
            policy=ReleasePolicy.called(spec.privacy.release),
            asked=spec.asked,
        )

    @property
    def withheld(self) -> frozenset[Dependence]:
        """Numbers that depend on these stay inside the trials."""
        return WITHHELD if self.public_because is None and self.raw_because is None else _EVERYTHING

    @property
    def covered(self) -> bool:
        """Whether claims say anything about all that leaves."""
        return self.raw_because is None

    @property
    def heading(self) -> str:
        """What stands above every claim of the sweep; empty where claims stand for themselves."""
        if self.public_because is not None:
            return f"DEMONSTRATION ON PUBLIC RECORDS: {self.public_because}"
        if self.raw_because is not None:
            return f"NOT COVERED: metrics that read training records outside of every claim leave: {self.raw_because}"
        return ""

    @property
    def _demonstration(self) -> str:
        return f"{_PUBLIC} ({self.public_because}): what is claimed of them is a demonstration."

    def claim(self, guarantee: Guarantee) -> Guarantee:
        """What `guarantee`, which counts the mechanism alone, is worth in this sweep."""
        if not self.covered:
            return replace(guarantee, status=weakest(guarantee.status, Status.NOT_COVERED))
        if self.public_because is not None:
            return replace(guarantee, assumptions=(*guarantee.assumptions, self._demonstration))
        return guarantee

    def plan(self, plan: PrivacyPlan) -> PrivacyPlan:
        """A system's own plan with claims as this sweep may make them."""
        return replace(plan, guarantee=self.claim(plan.guarantee), beside=tuple(self.claim(one) for one in plan.beside))

    def metrics(self, metrics: Mapping[str, float], system: str, config: Config) -> dict[str, float]:
        """Those of a trial's metrics that may leave.

        config  complete, or as proposed

        Raises Undeclared for a name that nobody declares.
        """
        from trainables.publishing import published
        from trainables.registry import SYSTEMS

        return published(metrics, SYSTEMS[system], config, self.withheld, self.asked)

    def seen(self, record: Published) -> Published:
        """A trial of another sweep, or that a view kept, with the metrics that may leave this one: none undeclared."""
        metrics = self._declared(record.metrics, record)
        reports = {step: self._declared(reported, record) for step, reported in record.reports.items()}
        return Published(replace(record, metrics=metrics, reports=reports))

    def _declared(self, metrics: Mapping[str, float], record: TrialRecord) -> dict[str, float]:
        known = declared_metrics(record, self.asked)
        return {
            name: value
            for name, value in metrics.items()
            if name in known and depends(known[name], record) not in self.withheld
        }


def declared_metrics(record: TrialRecord, asked: Collection[str]) -> Mapping[str, Metric]:
    """Metrics that a trial may report, by name, those of `asked` that are functions of the user's own among them; where
    its system is not installed, those of every trial."""
    from trainables.publishing import OWN_METRICS, declared
    from trainables.registry import SYSTEMS

    system = SYSTEMS.get(record.system)
    return OWN_METRICS if system is None else declared(system, asked)


def depends(metric: Metric, record: TrialRecord) -> Dependence:
    """On what a metric depends in a trial: by the plan's configuration where the proposal leaves that open."""
    proposed = record.plan is None or metric.raw_under.keys() <= record.config.keys()
    return metric.depends_under(record.config if proposed or record.plan is None else record.plan.config)


FOLDER, FILE = "audits", "audit.json"
"""Of a sweep's own folder: one folder each, and what it found in it."""


_REFUTED = "refuted"


def refutations(requests: Iterable[Request], folder: Path) -> dict[str, Refutation]:
    """{system: by which audit}, the first one of each.

    requests  of the sweep: audits tell its store
    folder    the sweep's own, for audits of a time when they did not
    """
    told = [one.wanted for one in requests if isinstance(one.wanted, Refutation)]
    found = sorted([*told, *_kept(folder)], key=lambda one: one.audit)
    return {one.system: one for one in reversed(found)}


def tell(store: Store, sweep: str, folders: Iterable[Path]) -> None:
    """Append to the store whatever audits in these folders of the sweep refuted and did not tell it: folders go.

    Raises UnknownSweep.
    """
    told = {one.wanted for one in store.requests(sweep) if isinstance(one.wanted, Refutation)}
    kept = {one for folder in folders for one in _kept(folder)}
    for one in sorted(kept - told, key=lambda one: one.audit):
        store.ask(sweep, one, this_person())


def _kept(folder: Path) -> list[Refutation]:
    audits = folder / FOLDER
    if not audits.is_dir():
        return []
    # Not by `AuditRecord`: what that needs takes seconds to import, and a verdict is three words of it.
    read = [json.loads(path.read_text(encoding="utf-8")) for path in audits.glob(f"*/{FILE}")]
    return [
        Refutation(trial=one["trial"], system=one["system"], audit=int(one["number"]))
        for one in read
        if one["outcome"] == _REFUTED
    ]


def refuted(claim: Guarantee, by: Refutation, key: str, system: str) -> Guarantee:
    """What is left of a claim of the trial `key`, of `system`."""
    said = by.sentence(key) if system == by.system else by.of_search
    if said in claim.assumptions:
        return claim
    return replace(claim, status=Status.REFUTED, assumptions=(said, *claim.assumptions))


def apply_refutations(trials: Sequence[Published], by: Mapping[str, Refutation]) -> list[Published]:
    """The trials, those of refuted systems with refuted claims: made, planned, and beside. Of a sealed search all."""
    if not by:
        return list(trials)
    return [one if (found := _bears_on(one, by)) is None else _marked(one, found) for one in trials]


def _bears_on(trial: Published, by: Mapping[str, Refutation]) -> Refutation | None:
    if trial.system in by:
        return by[trial.system]
    of_search = trial.plan is not None and covers_search(trial.plan.guarantee)
    return next(iter(by.values())) if of_search else None


def _marked(trial: Published, by: Refutation) -> Published:
    def left(claim: Guarantee) -> Guarantee:
        return refuted(claim, by, trial.key, trial.system)

    claim, plan = trial.guarantee, trial.plan
    if plan is not None:
        plan = replace(plan, guarantee=left(plan.guarantee), beside=tuple(map(left, plan.beside)))
    return Published(replace(trial, guarantee=None if claim is None else left(claim), plan=plan))


def _of_the_model(metrics: Mapping[str, float]) -> dict[str, float]:
    """Without the numbers of every trial, whatever its system: those are no curve."""
    from trainables.publishing import OWN_METRICS

    return {name: value for name, value in metrics.items() if name not in OWN_METRICS}


OLDER = (
    "OLDER STORE: it does not know {}, which lies beside it. What that drew is in no number below, and none may be "
    "quoted: put the newest copy of the store back."
)


class PublishedStore:
    """What of one store the world may see."""

    def __init__(self, store: Store, workspace: Workspace | None = None) -> None:
        self._store, self._workspace = store, workspace
        # What says nothing of a result is the store's own.
        self.close, self.url, self.sweep, self.sweeps = store.close, store.url, store.sweep, store.sweeps
        self.populations, self.population, self.charges = store.populations, store.population, store.charges
        self.outbox, self.backlog = store.outbox, store.backlog

    @classmethod
    def open(cls, workspace: Workspace) -> PublishedStore:
        """That of the store of a workspace. Raises StoreError, also where there is none."""
        return cls(workspace.open_store(), workspace)

    @classmethod
    def at(cls, url: str) -> PublishedStore:
        """That of the store at `url`, wherever its sweeps' files are. Raises StoreError."""
        from sweeps.store.store import open_store

        return cls(open_store(url, create=False))

    def heading(self, sweep: str, trials: Sequence[Published] | None = None) -> str:
        """What stands above every claim and number of a sweep; mostly empty. Raises UnknownSweep.

        trials  all of them, where somebody has just read them
        """
        record = self.sweep(sweep)
        older = ""
        with suppress(OSError, InvalidValue):
            # Records on another machine are not looked at.
            if newer := self._newer(record, trials):
                older = OLDER.format(newer)
        return " ".join(filter(None, (older, Release.of(record.spec).heading)))

    def check_not_stale(self, sweep: str) -> None:
        """Before anything is claimed, written or deleted: that the store is the newest one of its sweep.

        Raises StoreOlder, UnknownSweep, and OSError or InvalidValue for records that cannot be listed from here.
        """
        record = self.sweep(sweep)
        if newer := self._newer(record):
            raise StoreOlder(record.name, newer, record.records or record.root)

    def _newer(self, record: SweepRecord, known: Sequence[Published] | None = None) -> str:
        if self._workspace is None or record.state is SweepState.DELETED:
            return ""
        trials = self._workspace.of(record).trials(record.name)
        return newer_attempt(record.name, record.spec, trials, lambda: self._store.trials(record.name), known)

    def _at_once(self, sweep: str) -> bool:
        """Whether the results of a sweep are seen as soon as they are recorded. Raises UnknownSweep."""
        return Release.of(self.sweep(sweep).spec).policy.at_once

    def refuted(self, sweep: str) -> Mapping[str, Refutation]:
        """{system: the audit that refuted a claim of it}. Raises UnknownSweep."""
        record = self._store.sweep(sweep)
        return refutations(self._store.requests(record.name), Path(record.root) / record.name)

    def trials(self, sweep: str, states: Collection[TrialState] | None = None) -> list[Published]:
        """The trials of a sweep, in order of number, those that are seen in one of `states` if given.

        Raises UnknownSweep.
        """
        return apply_refutations(self.claimed(sweep, states), self.refuted(sweep))

    def claimed(self, sweep: str, states: Collection[TrialState] | None = None) -> list[Published]:
        """The same with claims as they were made, whatever audits found: for an audit alone. Raises UnknownSweep."""
        record = self._store.sweep(sweep)
        policy = Release.of(record.spec).policy
        if policy.at_once:
            return policy.published(self._store.trials(record.name, states))
        seen = policy.published(
            self._store.trials(record.name),
            record.spec.orders,
            over=record.state in OVER,
            deleted=record.state is SweepState.DELETED,
        )
        return seen if states is None else [one for one in seen if one.state in states]

    def trials_of(self, sweep: str, keys: Collection[str]) -> list[Published]:
        """Those with these keys, in order of number. Raises UnknownSweep, UnknownTrial."""
        record = self._store.sweep(sweep)
        policy = Release.of(record.spec).policy
        if not policy.at_once:
            return [one for one in self.trials(sweep) if one.key in keys]
        return apply_refutations(policy.published(self._store.trials_of(record.name, keys)), self.refuted(sweep))

    def curves(self, sweep: str, keys: Collection[str] | None = None) -> list[CurveReport]:
        """What the trials whose results are seen told of themselves (those with `keys`), in order of trial and step.

        Metrics of the model alone: what the plan decides, and time and memory, are no curve. Raises UnknownSweep,
        UnknownTrial.
        """
        at_once = self._at_once(sweep)
        trials = self.trials(sweep) if keys is None else self.trials_of(sweep, keys)
        seen = {one.key for one in trials if at_once or one.state is TrialState.COMPLETE}
        reported = [one for one in self._store.curves(self.sweep(sweep).name, keys) if one.key in seen]
        leaving = [replace(one, metrics=_of_the_model(one.metrics)) for one in reported]
        return [one for one in leaving if one.metrics]

    def held_back(self, sweep: str) -> list[Published]:
        """The trials of which no view is told when they report, as they may be seen now. Raises UnknownSweep."""
        return [] if self._at_once(sweep) else self.trials(sweep)

    def running(self, sweep: str) -> list[Published]:
        """The trials that run now, where the policy lets a trial be seen before all are over. Raises UnknownSweep."""
        return self.trials(sweep, [TrialState.RUNNING]) if self._at_once(sweep) else []

    def counts(self, sweep: str) -> dict[str, int]:
        """How many trials are seen in each state. Raises UnknownSweep."""
        if self._at_once(sweep):
            return self._store.counts(self.sweep(sweep).name)
        return {str(state): 0 for state in TrialState} | Counter(str(one.state) for one in self.trials(sweep))

    def ledger(self, sweep: str, key: str | None = None) -> list[LedgerEntry]:
        """All entries in order of trial and attempt, or those of one trial."""
        return self._store.ledger(self.sweep(sweep).name, key)

    def attempts_of(self, sweep: str, key: str) -> list[AttemptRecord]:
        """The launches of one trial and how each ended, in order; none of a trial whose results are held back.

        Raises UnknownSweep, UnknownTrial.
        """
        [seen] = self.trials_of(sweep, [key])
        name = self.sweep(sweep).name
        return self._store.attempts(name, key) if self._at_once(sweep) or seen.state is TrialState.COMPLETE else []

    def requests(self, sweep: str) -> list[Request]:
        """What people asked of it, oldest first: notes and tags among them."""
        return self._store.requests(self.sweep(sweep).name)

    def delivered(self, ids: Sequence[int]) -> None:
        """Forget these changes; unknown ones are ignored."""
        self._store.delivered(None, ids)
