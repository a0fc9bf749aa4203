"""Plans and the ledger as a document has them, what they released, and checks of what is recomputed from them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue, PlainSerializer, PlainValidator

from dpcore import events
from dpcore.events import Adjacency, Composed, Event, Repeated, blocks, phases
from dpcore.guarantee import Guarantee, Status
from dpcore.selection.profiles import EventProfile, WorstProfile, covering_mu
from sweeps.privacy.charge import ReleasedParts
from sweeps.store.records import LedgerEntry
from trainables.registry import SYSTEMS
from trainables.system import PrivacyPlan

SAME = 1e-9
"""Relative difference of one number counted twice: on another machine the last digits of a logarithm may differ."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was recomputed.

    what  was looked at, in few words
    held  whether it is as the document says
    said  both values, or what held
    """

    what: str
    held: bool
    said: str

    def __str__(self) -> str:
        return f"{'holds' if self.held else 'FAILS'}  {self.what}: {self.said}"


def same(one: float, other: float) -> bool:
    """Whether both are one number, counted twice."""
    return one == other or math.isclose(one, other, rel_tol=SAME, abs_tol=1e-300)


def number(what: str, claimed: float | None, found: float | None) -> Check:
    """Whether a number of the document is the one that was found."""
    held = claimed is found if claimed is None or found is None else same(claimed, found)
    return Check(what, held, f"{_shown(claimed)} in the document, {_shown(found)} recomputed")


def at_most(what: str, found: float, allowed: float) -> Check:
    """Whether what was found keeps a bound of the document."""
    return Check(what, found <= allowed * (1 + SAME), f"{_shown(found)} recomputed, at most {_shown(allowed)} allowed")


def equal(what: str, claimed: object, found: object) -> Check:
    """Whether a value of the document is the one that was found."""
    return Check(what, claimed == found, f"{claimed} in the document, {found} recomputed")


def same_claim(claim: Guarantee, found: Guarantee, what: str) -> Iterator[Check]:
    """Whether the claim is the one that was found.  what  the epsilon is of"""
    yield number(f"epsilon of {what}", claim.epsilon, found.epsilon)
    yield number("delta", claim.delta, found.delta)
    yield number("lower end of epsilon", claim.epsilon_lower, found.epsilon_lower)
    yield from same_kind(claim, accountant=found.accountant, notion=found.notion, status=found.status)


def same_kind(claim: Guarantee, **found: str) -> Iterator[Check]:
    """Whether these words of the claim are those that were found."""
    return (equal(name, getattr(claim, name), value) for name, value in found.items())


def _shown(value: float | None) -> str:
    return "none" if value is None else f"{value:.10g}"


class Part(BaseModel):
    """Common ground of everything in a document: frozen, strict, without unknown fields and infinite numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


Sentence = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=1)]
NotNegative = Annotated[float, Field(ge=0)]
Chance = Annotated[float, Field(ge=0, le=1)]
Delta = Annotated[float, Field(gt=0, lt=1)]


def _event(value: Any) -> Event:
    if type(value) in events.KINDS.values():
        found: Event = value
        return found
    if not isinstance(value, dict):
        raise ValueError("expected an event")
    try:
        return events.from_dict(value)
    except (TypeError, AttributeError, KeyError) as error:
        raise ValueError(f"expected an event: {error}") from None


EventText = Annotated[Event, PlainValidator(_event), PlainSerializer(events.to_dict)]
"""An event: a value here, a tree of objects with `kind` in the document."""


class PlannedTrial(Part):
    """What one trial releases at most, fixed before it ran.

    system, publication  who trains, and after whom
    mechanism        in one sentence
    hyperparameters  complete; `solved` names those that calibration chose
    status           of what the trial claims for itself
    steps            of the plan
    training, reports  of all its steps, as events
    reported_after   numbers of steps after which there is a report, increasing
    parts            what parts validation records from those that are trained on, where both compose in parallel
    """

    trial: Sentence
    system: Sentence
    publication: str
    mechanism: Sentence
    hyperparameters: dict[str, JsonValue]
    solved: tuple[str, ...]
    status: Status
    steps: Count
    training: EventText
    reports: EventText
    reported_after: tuple[Count, ...]
    parts: str

    @classmethod
    def of(cls, key: str, plan: PrivacyPlan, claim: Guarantee | None = None) -> PlannedTrial:
        """A plan in a document.  claim  what the trial claims, where that is not the plan's own"""
        system, reports = SYSTEMS.get(plan.system), plan.validation
        return cls(
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
            reported_after=() if reports is None else reports.at,
            parts=reports.parts if reports is not None and reports.histogram.adjacency is Adjacency.ADD_REMOVE else "",
        )

    def trained(self, start: int, stop: int) -> Event:
        """What steps `start` to `stop` - 1 release of training records: exactly where the plan tells its steps apart
        (all are alike, or each is one release in order), and else all of the plan, which is no less."""
        listed = list(blocks(self.training))
        total, ran = sum(count for _, count in listed), stop - start
        if ran <= 0:
            return Composed()
        if len(phases(self.training)) == 1 and total % self.steps == 0:
            return Repeated(event=listed[0][0], count=total // self.steps * ran)
        return _in_order(listed, start, stop) if total == self.steps else self.training

    def reported(self, start: int, stop: int) -> Event:
        """What the reports after more than `start` and at most `stop` steps release, likewise: all are alike."""
        drawn, every = sum(start < one <= stop for one in self.reported_after), len(self.reported_after)
        whole = phases(self.reports)
        if not drawn or any(count % every for count in whole.values()):
            return self.reports if drawn else Composed()
        return Composed(events=tuple(Repeated(event=one, count=count // every * drawn) for one, count in whole.items()))

    @property
    def reports_fit(self) -> bool:
        """Whether its reports come after steps that it has, in order, and there is none of which nothing is said."""
        after = self.reported_after
        in_order = list(after) == sorted(set(after)) and all(step <= self.steps for step in after)
        return in_order and bool(after) is bool(phases(self.reports))


def _in_order(listed: Sequence[tuple[Event, int]], start: int, stop: int) -> Event:
    found, position = [], 0
    for one, count in listed:
        inside = min(stop, position + count) - max(start, position)
        if inside > 0:
            found.append(Repeated(event=one, count=inside))
        position += count
    return Composed(events=tuple(found))


class LedgerRow(Part):
    """What one launch was charged for.

    trial, attempt      whose, and the number of the launch
    from_step, to_step  that it was allowed to run
    charged_to          up to which it is counted: at least as far as noise may have been drawn
    """

    trial: Sentence
    attempt: Count
    from_step: Annotated[int, Field(ge=0)]
    to_step: Count
    charged_to: Annotated[int, Field(ge=0)]

    @classmethod
    def of(cls, entry: LedgerEntry) -> LedgerRow:
        """An entry of the store's ledger."""
        stop = entry.from_step + entry.steps_spent
        return cls(
            trial=entry.key,
            attempt=entry.attempt,
            from_step=entry.from_step,
            to_step=max(entry.to_step, stop),
            charged_to=stop,
        )


Ledger = Sequence[LedgerRow]


def launches(plans: Sequence[PlannedTrial], ledger: Ledger) -> Iterator[tuple[PlannedTrial, LedgerRow]]:
    """Rows with their plans. A row without a plan is in none: `check_ledger` finds it."""
    known = {one.trial: one for one in plans}
    return ((known[row.trial], row) for row in ledger if row.trial in known)


def check_ledger(plans: Sequence[PlannedTrial], ledger: Ledger) -> Check:
    """Whether every plan was launched from its first step, and every row is of a plan and counts steps that it was
    allowed to run."""
    known = {one.trial for one in plans}
    wrong = [f"{one.trial}: its reports are not after steps of its plan" for one in plans if not one.reports_fit]
    wrong += [f"{row.trial}: no such plan" for row in ledger if row.trial not in known]
    for plan, row in launches(plans, ledger):
        if not row.from_step < row.to_step <= plan.steps or not row.from_step <= row.charged_to <= row.to_step:
            ran = f"steps {row.from_step} to {row.charged_to} of {row.to_step} within a plan of {plan.steps}"
            wrong.append(f"{row.trial}, launch {row.attempt}: {ran}")
    if len({(row.trial, row.attempt) for row in ledger}) < len(ledger) or len(known) < len(plans):
        wrong.append("a trial or a launch is listed twice")
    wrong += [
        f"{one}: no launch of its first step" for one in known - {row.trial for row in ledger if not row.from_step}
    ]
    said = "; ".join(wrong) or f"{len(ledger)} rows of {len(plans)} plans"
    return Check("ledger rows against plans", not wrong, said)


def check_whole(plans: Sequence[PlannedTrial], ledger: Ledger) -> Check:
    """Whether the last launch of every plan is charged to its end.

    Budgets add up that were fixed beforehand: how far a trial came that failed, or was left on its way, is none.
    """
    last = {row.trial: row for row in sorted(ledger, key=lambda row: row.attempt)}
    short = [plan.trial for plan, row in launches(plans, list(last.values())) if row.charged_to < plan.steps]
    said = f"{', '.join(short)}: charged for a part of what was fixed beforehand" if short else "all of them"
    return Check("plans are charged whole", not short, said)


def in_parallel(plans: Sequence[PlannedTrial]) -> bool:
    """Whether training and reports of all of them compose so: every one parts the records, and in one way."""
    found = {one.parts for one in plans}
    return len(found) == 1 and "" not in found


def released_by(
    plans: Sequence[PlannedTrial], ledger: Ledger, tests: Event | None = None, tests_apart: bool = False
) -> ReleasedParts:
    """What the launches of these plans released, by part of the records.

    tests  readings of private test records; `tests_apart` where nobody among them trains or validates
    """
    rows = list(launches(plans, ledger))
    return ReleasedParts(
        training=Composed(events=tuple(plan.trained(row.from_step, row.charged_to) for plan, row in rows)),
        reports=Composed(events=tuple(plan.reported(row.from_step, row.charged_to) for plan, row in rows)),
        parallel=in_parallel(plans),
        tests=tests or Composed(),
        apart=tests_apart,
    )


def released_whole(plan: PlannedTrial, adjacency: Adjacency) -> tuple[Event, ...]:
    """What a whole plan releases of each part of the records: parts that compose in parallel."""
    parts = ReleasedParts(training=plan.training, reports=plan.reports, parallel=in_parallel([plan]))
    return parts.together(adjacency)


_AT = (0.0, 0.25, 0.5, 1.0, 1.5)
"""Points of the profile, in units of the claimed epsilon."""
_SHARE = 0.1
_TOLERANCE = 1e-2


class ProfilePoint(Part):
    """delta: an upper bound at this epsilon."""

    epsilon: NotNegative
    delta: Chance


class Profile(Part):
    """The whole curve of a release in a few numbers, since two with one (epsilon, delta) may differ at every other one.

    Gomez et al. (2025) ask for mu with its regret; here mu is one that *covers*: up to the chance `tau` the release
    reveals no more than N(0, 1) against N(mu, 1), so that

        delta(epsilon) <= tau + (1 - tau) delta_mu(epsilon)   for all epsilon of at least 0, in both directions

    (`dpcore.selection.profiles`). The regret is thus on the safe side. The points say how much is lost by it.

    mu  null where none covers the release, since a part of it is known at one delta alone
    """

    points: tuple[ProfilePoint, ...]
    mu: NotNegative | None
    tau: Delta

    @classmethod
    def of(cls, parts: tuple[Event, ...], claim: Guarantee) -> Profile:
        """The profile of `parts`, which compose in parallel, for a claim. Raises as accountants."""
        at = tuple(share * claim.epsilon for share in _AT)
        return _profile(parts, claim.adjacency, at, claim.delta * _SHARE)

    def recompute(self, parts: tuple[Event, ...], claim: Guarantee) -> Iterator[Check]:
        """Whether the events have this profile."""
        found = Profile.of(parts, claim)
        yield Check("points of the profile", len(self.points) == len(found.points), f"{len(self.points)} points")
        for claimed, point in zip(self.points, found.points, strict=False):
            yield number("a point of the profile", claimed.epsilon, point.epsilon)
            yield number(f"delta at epsilon {point.epsilon:.4g}", claimed.delta, point.delta)
        yield number("tau", self.tau, found.tau)
        yield number("covering mu", self.mu, found.mu)


@lru_cache(maxsize=256)
def _profile(parts: tuple[Event, ...], adjacency: Adjacency, at: tuple[float, ...], tau: float) -> Profile:
    whole = WorstProfile(tuple(EventProfile(one, adjacency) for one in parts))
    mu = covering_mu(whole, tau, _TOLERANCE)
    points = tuple(ProfilePoint(epsilon=epsilon, delta=whole.delta(epsilon)) for epsilon in at)
    return Profile(points=points, mu=mu if math.isfinite(mu) else None, tau=tau)
