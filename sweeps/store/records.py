"""The values that the store keeps: sweeps, proposals, trials, attempts and ledger entries.

Whoever reads a trial reads it here: `TrialRecord.metric` is the one place that says where a number comes from.
"""

from __future__ import annotations

import getpass
import json
import math
import os
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast

from pydantic_core import from_json

from dpcore.checks import InvalidValue
from dpcore.guarantee import Guarantee, epsilon_text
from trainables.models import shaping

if TYPE_CHECKING:
    from sweeps.spec.sections import Reference, SweepSpec
    from trainables.system import PrivacyPlan, Scalar


T = TypeVar("T")

SYSTEM = "system"
EPSILON, TARGET_EPSILON, WORK = "epsilon", "target_epsilon", "work"
DECIDED = (EPSILON, TARGET_EPSILON, WORK)
"""Known from the plan before a trial runs: no reported metric of the same name can replace them."""


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


def sweep_of(key: str) -> str:
    """The sweep in the name of one of its trials."""
    return key.rpartition("-")[0]


class SweepState(StrEnum):
    """Where a sweep stands. RUNNING stays recorded when a controller is killed; the lease tells whether one lives."""

    CREATED = "created"
    RUNNING = "running"
    FINISHED = "finished"
    EXHAUSTED = "exhausted"
    STOPPED = "stopped"
    OUT_OF_HOURS = "out of hours"
    OUT_OF_BUDGET = "out of budget"
    DELETED = "deleted"


OVER = (SweepState.FINISHED, SweepState.EXHAUSTED)
"""Sweeps of which all has run that was asked for, or that there is."""
ENDED = (*OVER, SweepState.STOPPED, SweepState.OUT_OF_HOURS, SweepState.OUT_OF_BUDGET)
"""Those that go on spending no more, unless somebody resumes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """What somebody asked of a sweep beyond what it began with. What is None stays as it was.

    trials    how many in all, instead of search.trials
    hours     how many in all, instead of limits.hours
    epsilon   budgets besides those that it had
    proposed  the sampler's own proposals by then: `epsilon` takes part in those after them
    launched  trials that had been launched by then: where there were none, no result of the sweep can have asked for it
    at        when, in seconds since 1970
    """

    trials: int | None = None
    hours: float | None = None
    epsilon: tuple[float, ...] = ()
    proposed: int = 0
    launched: int
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRecord:
    """One sweep as the store knows it.

    name          for ever: of its folder, and the first part of its trials' keys
    label         by which people call it now, if it was renamed
    spec          that it began with
    digest        of the spec's meaning
    fingerprints  {"code": ..., "data": ...}; that of the data is keyed (`Store.data_fingerprint`)
    root          the controller's folder: reports, logs; and the workers' records where `records` is empty
    records       folder or URL of the workers' records, which every node sees
    created_at    seconds since 1970
    extensions    what it was extended by later, oldest first
    """

    name: str
    spec: SweepSpec
    digest: str
    fingerprints: Mapping[str, str]
    root: str
    created_at: float
    state: SweepState = SweepState.CREATED
    records: str = ""
    extensions: tuple[Extension, ...] = ()
    label: str = ""

    @property
    def references(self) -> Mapping[str, Reference]:
        """Where the axes of its front end: those of the spec, as far as later budgets moved none."""
        from sweeps.spec.sections import with_budgets

        added = [epsilon for one in self.extensions for epsilon in one.epsilon]
        return with_budgets(self.spec, (*self.spec.privacy.epsilon, *added)).front.reference

    @property
    def called(self) -> str:
        """What people call it."""
        return self.label or self.name

    def kept(self) -> Self:
        """This sweep. Raises InvalidValue for a deleted one, of which only what was spent is left."""
        if self.state is SweepState.DELETED:
            expected = "a sweep that was not deleted: of this one only what it spent is left"
            raise InvalidValue("sweep", self.called, expected, "`sweeps show` has it.")
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """Who drives a sweep now.

    token  of its lease
    who    process, host, and since when, in words
    """

    token: int
    who: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveReport:
    """What a trial told of itself after `step` of its steps.

    attempt  that ran the last of them
    at       when it was recorded, in seconds since 1970
    """

    key: str
    step: int
    attempt: int
    metrics: Mapping[str, float]
    at: float


def by_trial(told: Iterable[CurveReport]) -> dict[str, list[CurveReport]]:
    """{key: its curve}, each in the order in which it came."""
    found: dict[str, list[CurveReport]] = {}
    for one in told:
        found.setdefault(one.key, []).append(one)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxRow:
    """A change that a view has not been told yet.

    kind  "settled", "told", "lost", "failed", "infeasible", or "state" (of the sweep; then `key` is None). The row
          says that something changed; what it is now is read from the store
    """

    id: int
    sweep: str
    key: str | None
    kind: str
    at: float


class Configured:
    """A point of the space: `config` holds "system", "target_epsilon" and the knobs of that system."""

    __slots__ = ()
    config: Mapping[str, Scalar]

    @property
    def system(self) -> str:
        """The word for its system; empty where a record has none."""
        return str(self.config.get(SYSTEM, ""))

    @property
    def target_epsilon(self) -> float | None:
        """The budget that it is held to; None where a record has none."""
        budget = self.config.get(TARGET_EPSILON)
        return None if budget is None else float(budget)

    @property
    def knobs(self) -> dict[str, Scalar]:
        """The system's own hyperparameters, as proposed, without what shapes nothing of it."""
        kept = shaping(self.config)
        return {name: value for name, value in kept.items() if name not in (SYSTEM, TARGET_EPSILON)}


def varied_knobs(points: Iterable[Configured]) -> list[str]:
    """Knobs that differ among points of one system, in order: what a spec fixed for each says nothing beside them."""
    values: dict[str, dict[str, set[object]]] = {}
    for point in points:
        for name, value in point.knobs.items():
            values.setdefault(name, {}).setdefault(point.system, set()).add(value)
    return [name for name, found in values.items() if any(len(one) > 1 for one in found.values())]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal(Configured):
    """One point of the space.

    seed     public: initial weights and the like
    request  number of the request that asked for this very point (`sweeps.store.records`); None: the search proposed it
    """

    number: int
    config: Mapping[str, Scalar]
    seed: int
    request: int | None = None


class ParsedLater(Generic[T]):
    """A field that the store gives as JSON, parsed when it is first looked into: most plans of 30,000 never are.

    The JSON stands in the record under the field's name with `AS_JSON` behind it.
    """

    def __init__(self, parse: Callable[[Any], T] = lambda content: content) -> None:
        self._parse = parse

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, record: Any, owner: type | None = None) -> T:
        if record is None:
            # Dataclasses ask the class for the field's default.
            return cast(T, None)
        content = record.__dict__[self._name + AS_JSON]
        value = self._parse(read_json(content) if isinstance(content, str) else content)
        record.__dict__[self._name] = value
        return value

    if TYPE_CHECKING:
        # A value is set on the record itself: what is read later costs no call.
        def __set__(self, record: Any, value: T | str) -> None: ...


AS_JSON = "_json"


def read_json(text: str) -> Any:
    """By pydantic's reader, in half the time of Python's, which reads what that refuses: half a surrogate in a name."""
    try:
        return from_json(text)
    except ValueError:
        return json.loads(text)


def _plan(content: Mapping[str, object] | None) -> PrivacyPlan | None:
    from trainables.system import PrivacyPlan

    return None if content is None else PrivacyPlan.from_dict(content)


def _claim(content: dict[str, Any] | None) -> Guarantee | None:
    return None if content is None else Guarantee.from_dict(content)


@dataclass(frozen=True, kw_only=True)
class TrialRecord(Configured):
    """One trial as the store knows it.

    plan         what it releases at most; None when infeasible
    violations   constraint amounts; empty or all <= 0 means feasible
    metrics      of the latest committed report, one number per name
    guarantee    what the trial claims, its whole plan's claim; None before the first report
    step         steps behind those metrics
    reports      {step: metrics} of every committed report at the end of a launch, in order of steps; the rungs of early
                 stopping. What was told between is in its curve (`CurveReport`)
    request      as that of its `Proposal`
    """

    key: str
    number: int
    state: TrialState
    config: ParsedLater[Mapping[str, Scalar]] = ParsedLater()  # type: ignore[assignment]
    seed: int
    plan: ParsedLater[PrivacyPlan | None] = ParsedLater(_plan)
    violations: ParsedLater[Mapping[str, float]] = ParsedLater()
    reason: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)
    guarantee: ParsedLater[Guarantee | None] = ParsedLater(_claim)
    step: int = 0
    attempts: int = 0
    proposed_at: float = 0.0
    finished_at: float | None = None
    reports: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    request: int | None = None

    @classmethod
    def of(cls, sweep: str, proposal: Proposal, state: TrialState, **fields: Any) -> Self:
        """A trial that begins as `proposal`; fields that are not given say that there is nothing yet."""
        own: dict[str, Any] = {"number": proposal.number, "config": proposal.config, "seed": proposal.seed}
        own |= {"request": proposal.request}
        own |= {"key": trial_key(sweep, proposal.number), "plan": None, "violations": {}}
        return cls(state=state, **(own | fields))

    def __repr__(self) -> str:
        """In a line: what a prompt shows. `sweeps show SWEEP TRIAL` and `Sweep.describe` say all of it."""
        claim = self.guarantee
        said = [] if claim is None else [f"epsilon {epsilon_text(claim.epsilon)} {claim.standing}"]
        said += [f"{name} {value:.4g}" for name, value in self.metrics.items() if name not in DECIDED]
        knobs = [f"{name} {f'{one:.4g}' if isinstance(one, float) else one}" for name, one in self.knobs.items()]
        return f"<Trial {self.key}: {', '.join([self.state, *said])}; {', '.join(knobs)}>"

    @property
    def planned_steps(self) -> int:
        """Steps of its plan, at whichever of them it was stopped; 0 without a plan."""
        return 0 if self.plan is None else self.plan.steps

    def metric(self, name: str) -> float | None:
        """The number `name` of this trial, None before it is known.

        epsilon         the claim
        target_epsilon  the budget that the trial was held to; infinite where its claim exceeds that (no protection)
        work            the plan's estimate
        any other       as reported last
        """
        if name not in DECIDED:
            value = self.metrics.get(name)
            return None if value is None else float(value)
        if name == WORK:
            return None if self.plan is None else float(self.plan.work)
        claimed = None if self.guarantee is None else self.guarantee.epsilon
        if name == EPSILON or claimed is None:
            return claimed
        budget = self.target_epsilon
        return None if budget is None else budget if claimed <= budget else math.inf


PARSED_LATER = tuple(name for name, one in vars(TrialRecord).items() if isinstance(one, ParsedLater))


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """What came of an attempt that reported. Raises InvalidValue for a step that nothing executed.

    executed_to  step up to which noise may have been drawn, at least `step`
    step         steps behind `metrics`
    guarantee    what the trial claims
    seconds      that the attempt took
    finished     whether the trial is over; otherwise it waits for its next rung
    announced    whether views are told of it, as the sweep's release policy says
    curve        {step: metrics} of what was told before, at steps within the reservation; what is known of it already
                 may be left out or said again
    """

    executed_to: int
    step: int
    metrics: Mapping[str, float]
    guarantee: Guarantee
    seconds: float
    finished: bool = True
    announced: bool = True
    curve: Mapping[int, Mapping[str, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 < self.step <= self.executed_to:
            raise InvalidValue("step", self.step, f"an integer in [1, executed_to={self.executed_to}]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """Steps [from_step, to_step) that one attempt of a trial may run: durable before it is launched.

    Raises InvalidValue for no steps.
    """

    key: str
    attempt: int
    from_step: int
    to_step: int

    def __post_init__(self) -> None:
        if not 0 <= self.from_step < self.to_step:
            raise InvalidValue("from_step", self.from_step, f"an integer in [0, to_step={self.to_step})")


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry(Reservation):
    """A reservation, and what it was settled to.

    executed_to  None while only reserved (all of it counts as spent); then the step up to which noise may
                 have been drawn
    """

    executed_to: int | None = None

    @property
    def steps_spent(self) -> int:
        """Steps that the ledger counts: the whole reservation until settled."""
        stop = self.to_step if self.executed_to is None else self.executed_to
        return max(0, stop - self.from_step)


class Outcome(StrEnum):
    """How an attempt ended."""

    RUNNING = "running"
    SETTLED = "settled"
    LOST = "lost"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecord(LedgerEntry):
    """One launch of a trial, what of it is charged, and why it ended."""

    outcome: Outcome
    reason: str
    seconds: float
    started_at: float
    ended_at: float | None


# What people ask of a sweep that somebody else may be running, and what they accepted; what audits found, and what
# was read of its test records: words appended to its store.
#
# None of them needs the sweep's lease, and none is ever changed. The sweep's controller reads them and does what they
# say, so that it stays the one that writes.

DIGEST_SHOWN = 12
"""Of a digest, in a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequest:
    """The controller that holds the lease of this `token` is to end as by Ctrl-C. No later one is meant."""

    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A sentence about the sweep."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """A word about the sweep; an empty value takes it away."""

    key: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPoint:
    """A point of the space, complete, that is to be tried next. See `sweeps.store.records.Configured` for `config`."""

    config: Mapping[str, Scalar]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refutation:
    """An audit refuted the claim of a trial. It is about all trials of its system: they run the same code.

    audit  its number in the sweep
    """

    trial: str
    system: str
    audit: int

    def sentence(self, key: str) -> str:
        """Why the claim of the trial `key` is refuted."""
        found = f"Audit {self.audit} of this sweep refuted the claim of {self.trial}"
        return f"{found}." if key == self.trial else f"{found}, and this trial runs the same code ({self.system})."

    @property
    def of_search(self) -> str:
        """Why the claim of another winner of a sealed search is refuted, whatever its system."""
        return (
            f"Audit {self.audit} of this sweep refuted the claim of {self.trial}, and that of this trial covers the "
            f"search too, whose trials of that system ({self.system}) cost nobody knows what."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutRead:
    """The test records are about to be read for one trial: appended before any of them is scored.

    trial    its key
    records  the fingerprint of the test records, keyed by the store (`Store.data_fingerprint`): one content, one word
    """

    trial: str
    records: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutScore:
    """What came of a reading.

    read  number of its `HeldOutRead`
    metrics  see `trainables.validation.evaluate`
    """

    read: int
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The sweep goes on although something is not as it was: appended before anything is launched under it.

    what         "code", "data" or "spec"
    before, now  digests; of data those keyed by the store
    """

    what: str
    before: str
    now: str

    def __str__(self) -> str:
        return f"another {self.what} ({self.before[:DIGEST_SHOWN]} became {self.now[:DIGEST_SHOWN]})"


Wanted = Accepted | StopRequest | Note | Tag | KnownPoint | Refutation | HeldOutRead | HeldOutScore
KINDS: Mapping[str, type[Wanted]] = {
    "accepted": Accepted,
    "stop": StopRequest,
    "note": Note,
    "tag": Tag,
    "point": KnownPoint,
    "refutation": Refutation,
    "held-out read": HeldOutRead,
    "held-out score": HeldOutScore,
}
"""By the word with which a store keeps it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What somebody asked of a sweep.

    id     of no other request of its store
    asker  "user@host"
    at     seconds since 1970
    """

    id: int
    wanted: Wanted
    asker: str
    at: float

    @property
    def when(self) -> str:
        """Its time, for people."""
        return datetime.fromtimestamp(self.at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def this_person() -> str:
    """Who asks: "user@host"."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        # A container's user need not have a name.
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def notes(requests: Iterable[Request]) -> list[str]:
    """What was noted, oldest first, with who and when."""
    return [f"{one.wanted.text} ({one.asker}, {one.when})" for one in requests if isinstance(one.wanted, Note)]


def accepted(requests: Iterable[Request]) -> list[str]:
    """What was accepted although it had changed, oldest first, with who and when."""
    return [f"{one.wanted} ({one.asker}, {one.when})" for one in requests if isinstance(one.wanted, Accepted)]


def tags(requests: Iterable[Request]) -> dict[str, str]:
    """{key: value} as it was said last."""
    said = {one.wanted.key: one.wanted.value for one in requests if isinstance(one.wanted, Tag)}
    return {key: said[key] for key in sorted(said) if said[key]}
