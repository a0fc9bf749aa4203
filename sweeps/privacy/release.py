"""Which results of a sweep leave its store, and when: one decision for the world and for what steers the search.

Sampler, screen, store, MLflow, fronts and reports hear of a trial through a `Release` alone, as a `Published` record,
which this package alone makes. Workers record nothing that a release withholds (`trainables.publishing`), and the
controller passes their results through it before it writes or tells them. Nothing here says what a result costs: a
policy decides what leaves, the ledger counts what ran.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NewType, cast

from dpcore.guarantee import Guarantee, Status, weakest
from sweeps.store.records import TrialRecord, TrialState
from trainables.metrics import WITHHELD, Config, Dependence, Metric
from trainables.scalarisation import Scalarisation
from trainables.system import PrivacyPlan

if TYPE_CHECKING:
    from sweeps.spec.sections import SweepSpec


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
