"""The values that the store keeps: proposals, trials, attempts and ledger entries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from trainables.system import Scalar


class TrialState(StrEnum):
    """Where a trial stands. PLANNED: recorded as feasible, no attempt running (between attempts or rungs)."""

    PLANNED = "planned"
    RUNNING = "running"
    COMPLETE = "complete"
    FAILED = "failed"
    INFEASIBLE = "infeasible"


def trial_key(sweep: str, number: int) -> str:
    """The name of a trial everywhere: store, Ray, MLflow, folder."""
    return f"{sweep}-{number}"


class SweepState(StrEnum):
    """Where a sweep stands. RUNNING stays recorded when a controller is killed; the lease tells whether one lives."""

    CREATED = "created"
    RUNNING = "running"
    FINISHED = "finished"
    EXHAUSTED = "exhausted"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRecord:
    """One sweep as the store knows it.

    spec          canonical spec as plain JSON values
    digest        of the spec's meaning
    fingerprints  {"code": ..., "data": ...}; that of the data is keyed (`Store.data_fingerprint`)
    root          the controller's folder: secret, reports, logs; and the workers' records where `records` is empty
    records       folder or URL of the workers' records, which every node sees
    created_at    seconds since 1970
    """

    name: str
    spec: Mapping[str, Any]
    digest: str
    fingerprints: Mapping[str, str]
    root: str
    created_at: float
    state: SweepState = SweepState.CREATED
    records: str = ""


class Outcome(StrEnum):
    """How an attempt ended."""

    RUNNING = "running"
    SETTLED = "settled"
    LOST = "lost"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecord:
    """One launch of a trial, and why it ended."""

    key: str
    attempt: int
    outcome: Outcome
    reason: str
    step: int
    seconds: float
    started_at: float
    ended_at: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxRow:
    """A change that a view has not been told yet.

    kind  "settled", "lost", "failed", "infeasible", or "state" (of the sweep; then `key` is None). The row says
          that something changed; what it is now is read from the store
    """

    id: int
    sweep: str
    key: str | None
    kind: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """One point of the space. `config` holds "system", "target_epsilon" and the knobs of that system."""

    number: int
    config: Mapping[str, Scalar]
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRecord:
    """One trial as the store knows it.

    plan         PrivacyPlan.to_dict(), None when infeasible
    violations   constraint amounts; empty or all <= 0 means feasible
    metrics      of the latest committed report, one number per name
    guarantee    what the trial claims (Guarantee.to_dict()), its whole plan's claim; None before the first report
    step         steps behind those metrics
    reports      {step: metrics} of every committed report, in order of steps; the rungs of early stopping
    """

    key: str
    number: int
    state: TrialState
    config: Mapping[str, Scalar]
    seed: int
    plan: Mapping[str, Any] | None
    violations: Mapping[str, float]
    reason: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)
    guarantee: Mapping[str, Any] | None = None
    step: int = 0
    attempts: int = 0
    proposed_at: float = 0.0
    finished_at: float | None = None
    reports: Mapping[int, Mapping[str, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """Steps [from_step, to_step) of one attempt: reserved before launch, settled to what was (or may have been) run.

    executed_to  None while only reserved (all of it counts as spent); then the step up to which noise may
                 have been drawn
    """

    key: str
    attempt: int
    from_step: int
    to_step: int
    executed_to: int | None = None

    @property
    def steps_spent(self) -> int:
        """Steps that the ledger counts: the whole reservation until settled."""
        stop = self.to_step if self.executed_to is None else self.executed_to
        return max(0, stop - self.from_step)
