"""The modes of release: one class for each way in which a claim is counted.

A mode is a frozen record of every number that its claim needs. `recompute` counts the claim again from these numbers
and the published ledger alone; `opinions` are the events that another accountant may be asked about. `count` makes a
mode from the store.

mode         released                                      claim
composition  every trial                                   their events composed by the privacy-loss accountant
trial        one trial, and the search is not covered      its plan's events
filter       every trial, budgets adapting to results      the budget that a filter kept
statement    one trial of another notion                   none that anybody recomputes
best         the best of a secret number of trials         the price of private selection
first        the first success, of the cheapest budget     the price of the rung that it was of: of several, ex post
front        the best by each of several public orders     the price of all winners together

Sealed searches have a secret number of trials, a ledger without rows, and plans of what left. Every price holds for all
configurations that meet public points, so the events of what left, which are published, are held against them. The
points are those that every configuration of the prior was planned by, found anew from the public spec alone. Where
nothing left, the document holds the price and its constants, and no plan. That nothing leaves is one of the outputs
that the price is of (`dpcore.selection.best`, `ladder`): a trial that may not leave is behind all others in the order,
and of a ladder word of none has a price of its own, at most its dearest. So it costs what a winner would.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, PlainSerializer, PlainValidator

from dpcore import events
from dpcore.accountants.gdp import GDPAccountant
from dpcore.accounting import headline, larger_of_parts
from dpcore.checks import InvalidValue
from dpcore.events import Adjacency, Composed, Event, Gaussian, Repeated, blocks, phases
from dpcore.guarantee import STANDING, Guarantee, Notion, Status, weakest
from dpcore.mechanisms.protocol import Scheduled
from dpcore.selection.best import HeterogeneousTrials
from dpcore.selection.counts import BinomialCount, Capped, CountLaw, PoissonCount, TruncatedNegativeBinomial
from dpcore.selection.filters import BudgetExceeded, GDPCharge, GDPFilter, PrivacyFilter, RenyiCharge, RenyiFilter
from dpcore.selection.front import FrontPoints
from dpcore.selection.ladder import LadderPoints
from dpcore.selection.profiles import EventProfile, TrialProfile, WorstProfile, covering_mu
from sweeps.privacy.charge import TOLERANCE, FilterCharge, LaunchCharge, ReleasedParts, shown_to_cover
from sweeps.privacy.ledger import PRIVATE_SELECTION
from sweeps.store.records import LedgerEntry
from trainables.metrics import Scalarisation
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


def equal(what: str, claimed: object, found: object) -> Check:
    """Whether a value of the document is the one that was found; of numbers, counted twice."""
    held = same(claimed, found) if isinstance(claimed, float) and isinstance(found, float) else claimed == found
    return Check(what, held, f"{_shown(claimed)} in the document, {_shown(found)} recomputed")


def at_most(what: str, found: float, allowed: float) -> Check:
    """Whether what was found keeps a bound of the document."""
    return Check(what, found <= allowed * (1 + SAME), f"{_shown(found)} recomputed, at most {_shown(allowed)} allowed")


def same_claim(claim: Guarantee, found: Guarantee, what: str) -> Iterator[Check]:
    """Whether the claim is the one that was found.  what  the epsilon is of"""
    yield equal(f"epsilon of {what}", claim.epsilon, found.epsilon)
    yield equal("delta", claim.delta, found.delta)
    yield equal("lower end of epsilon", claim.epsilon_lower, found.epsilon_lower)
    yield from same_kind(claim, accountant=found.accountant, notion=found.notion, status=found.status)


def same_kind(claim: Guarantee, **found: str) -> Iterator[Check]:
    """Whether these words of the claim are those that were found."""
    return (equal(name, getattr(claim, name), value) for name, value in found.items())


def _shown(value: object) -> str:
    return "none" if value is None else f"{value:.10g}" if isinstance(value, float) else str(value)


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
        if total != self.steps:
            return self.training
        return Scheduled(schedule=tuple(listed)).event(start, stop)

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
            yield equal("a point of the profile", claimed.epsilon, point.epsilon)
            yield equal(f"delta at epsilon {point.epsilon:.4g}", claimed.delta, point.delta)
        yield equal("tau", self.tau, found.tau)
        yield equal("covering mu", self.mu, found.mu)


@lru_cache(maxsize=256)
def _profile(parts: tuple[Event, ...], adjacency: Adjacency, at: tuple[float, ...], tau: float) -> Profile:
    whole = WorstProfile(tuple(EventProfile(one, adjacency) for one in parts))
    mu = covering_mu(whole, tau, _TOLERANCE)
    points = tuple(ProfilePoint(epsilon=epsilon, delta=whole.delta(epsilon)) for epsilon in at)
    return Profile(points=points, mu=mu if math.isfinite(mu) else None, tau=tau)


STATED = {
    Status.AVERAGE_CASE: "average-case: an average over people, which bounds nothing of one",
    Status.MEMBERSHIP_ONLY: "membership only: the guess who was in the data is bounded, and nothing else",
}
"""Statuses of which there are statements, and no certificates, with what their titles say."""
Trials = Annotated[tuple[PlannedTrial, ...], Field(min_length=1)]


class Mode(Part):
    """One way in which a claim is counted, with every number that it needs.

    trials    plans of what was released, each fixed before it ran
    searched  whether all trials of the sweep, and so the search among them, are covered
    fixed     whether the claim is one on trials that no result chose
    sealed    whether the number of its launches is secret
    statuses  of claims that it may carry
    attested  what is the signer's word alone, besides what is so in every document
    """

    searched: ClassVar[bool] = True
    fixed: ClassVar[bool] = True
    sealed: ClassVar[bool] = False
    statuses: ClassVar[Sequence[Status]] = STANDING
    attested: ClassVar[tuple[str, ...]] = ()

    trials: tuple[PlannedTrial, ...]

    @abstractmethod
    def title(self, sweep: str) -> str:
        """What kind of document it is."""

    @abstractmethod
    def covers(self, sweep: str) -> str:
        """What is certified, in words."""

    @abstractmethod
    def recompute(self, claim: Guarantee, ledger: Ledger) -> Iterator[Check]:
        """The claim, counted again from this and the rows of the ledger alone. Raises as accountants do."""

    def promised(self, claim: Guarantee) -> Guarantee:
        """What `claim` was beforehand, of whichever way the sweep might have gone."""
        return claim

    def opinions(self, claim: Guarantee, ledger: Ledger) -> tuple[Event, ...]:
        """Events that another accountant may be asked about: the claim bounds each of them."""
        return ()

    def constants(self, claim: Guarantee) -> Mapping[str, object]:
        """What follows from this and the claim, for people."""
        return {}


class ComposedTrials(Mode):
    """All trials are released, and their events compose (Zhu, Dong & Wang 2022): every launch of every trial, counted
    as one release. So do the launches of a final run, which is one trial.

    scope     as the spec says
    budget    epsilon of the whole sweep, which the composition keeps; null where each trial has its own
    delta     that the accountant was asked at; what approximate releases have fixed themselves comes on top
    tests     readings of private test records; `tests_apart` where nobody among them trains or validates
    """

    mode: Literal["composition"] = "composition"
    scope: Literal["trial", "sweep", "public", "holdout"]
    budget: NotNegative | None
    delta: Delta
    trials: Trials
    tests: EventText
    tests_apart: bool
    profile: Profile

    def title(self, sweep: str) -> str:
        """See `Mode.title`."""
        if self.scope == "holdout":
            return f"The final run {sweep} by itself, what tuned for it not covered"
        return f"Privacy certificate of all trials of {sweep} together"

    def covers(self, sweep: str) -> str:
        """See `Mode.covers`."""
        if self.scope == "holdout":
            return f"All results of the final run {sweep} on its part of the records, given its hyperparameters."
        return f"All results of all {len(self.trials)} trials of {sweep}, and the choice of the best among them."

    def recompute(self, claim: Guarantee, ledger: Ledger) -> Iterator[Check]:
        """The claim, from the events of the ledger's rows."""
        yield check_ledger(self.trials, ledger)
        yield check_whole(self.trials, ledger)
        yield Check("scope", (self.scope == "sweep") is (self.budget is not None), self.scope)
        if self.budget is not None:
            yield at_most("epsilon within the sweep's budget", claim.epsilon, self.budget)
        parts = released_by(self.trials, ledger, self.tests, self.tests_apart)
        found, _ = parts.claim(self.delta, claim.adjacency, claim.unit)
        found = replace(found, status=weakest(found.status, *(one.status for one in self.trials)))
        yield from same_claim(claim, found, "all trials together")
        yield from self.profile.recompute(parts.together(claim.adjacency), claim)

    def opinions(self, claim: Guarantee, ledger: Ledger) -> tuple[Event, ...]:
        """See `Mode.opinions`."""
        return released_by(self.trials, ledger, self.tests, self.tests_apart).together(claim.adjacency)


class _Alone(Mode):
    """One trial's own claim, however early it was stopped: the search for its hyperparameters is not covered."""

    searched: ClassVar[bool] = False
    fixed: ClassVar[bool] = False

    trials: Annotated[Trials, Field(max_length=1)]

    def covers(self, sweep: str) -> str:
        """See `Mode.covers`."""
        return (
            f"What the training of {self.trials[0].trial} released. The search is not covered: choosing this trial "
            f"among others of {sweep} for its results costs more than this epsilon."
        )


class TrialAlone(_Alone):
    """The whole plan of one trial.

    Where its claim is that of the headline's accountant, it is recomputed to the digit. Else it is by a theorem of its
    system (of one release in closed form, say): then the headline confirms that the events spend no more.
    """

    attested: ClassVar[tuple[str, ...]] = (
        "By which theorem epsilon is as large as claimed, where its accountant is not the headline's.",
    )

    mode: Literal["trial"] = "trial"
    profile: Profile

    @classmethod
    def of(cls, plan: PlannedTrial, claim: Guarantee) -> TrialAlone:
        """Of one plan and what its trial claims."""
        return cls(trials=(plan,), profile=Profile.of(released_whole(plan, claim.adjacency), claim))

    def title(self, sweep: str) -> str:
        """See `Mode.title`."""
        return f"Privacy certificate of one trial of {sweep}, the search for its hyperparameters not covered"

    def recompute(self, claim: Guarantee, ledger: Ledger) -> Iterator[Check]:
        """The claim, from the events of the plan."""
        (plan,) = self.trials
        yield check_ledger(self.trials, ledger)
        found = headline_of(plan, claim.delta, claim.adjacency, claim.unit)
        found = replace(found, status=weakest(found.status, plan.status))
        if found.accountant == claim.accountant:
            yield from same_claim(claim, found, "the trial")
        else:
            yield at_most(f"epsilon of the trial, by {found.accountant}", found.epsilon, claim.epsilon)
            yield equal("delta", claim.delta, found.delta)
            yield from same_kind(claim, notion=found.notion, status=found.status)
        yield from self.profile.recompute(released_whole(plan, claim.adjacency), claim)

    def opinions(self, claim: Guarantee, ledger: Ledger) -> tuple[Event, ...]:
        """See `Mode.opinions`."""
        return released_whole(self.trials[0], claim.adjacency)


class Statement(_Alone):
    """What no accountant recomputes: a claim about averages over people, or about the guess of membership alone.

    It is no (epsilon, delta) of differential privacy, and the title says which it is. Its arithmetic (a bound on an
    estimate, a published formula) is the signer's word.
    """

    statuses: ClassVar[Sequence[Status]] = tuple(STATED)
    attested: ClassVar[tuple[str, ...]] = ("Its epsilon and delta: nothing recomputes them.",)

    mode: Literal["statement"] = "statement"

    def title(self, sweep: str) -> str:
        """See `Mode.title`."""
        status = self.trials[0].status
        return f"Statement, and no privacy certificate, of one trial of {sweep} ({STATED.get(status, status)})"

    def recompute(self, claim: Guarantee, ledger: Ledger) -> Iterator[Check]:
        """That it is one of these, and its ledger one of that plan."""
        yield check_ledger(self.trials, ledger)
        yield equal("status", claim.status, self.trials[0].status)
        yield Check("notion is another", claim.notion is not Notion.DP, str(claim.notion))


class Filtered(Mode):
    """Budgets adapt to results, and a filter stops before the total is exceeded. The claim is the budget itself, fixed
    before the first trial, whatever was chosen after looking (`dpcore.selection.filters`). Every launch is charged for
    all steps that it might have run.

    filter  a launch is charged                                         while
    gdp     mu of a Gaussian that covers its events up to chance tau    sum mu^2 <= limit^2, sum tau <= delta / 10
    renyi   the Renyi divergence of its events at one order             sum <= limit

    order    declared before the search; null in a Gaussian filter
    charges  of each row of the ledger: of training and validation, each in a filter of its own where both compose in
             parallel, and else of both together
    """

    fixed: ClassVar[bool] = False
    attested: ClassVar[tuple[str, ...]] = (
        "That the budget was fixed before the first trial, and the order of a Renyi filter with it.",
    )

    mode: Literal["filter"] = "filter"
    trials: Trials
    order: Annotated[float, Field(gt=1)] | None
    charges: tuple[LaunchCharge, ...]

    def title(self, sweep: str) -> str:
        """See `Mode.title`."""
        return f"Privacy certificate of all trials of {sweep} together, whose budgets adapted to results"

    def covers(self, sweep: str) -> str:
        """See `Mode.covers`."""
        return (
            f"All results of all {len(self.trials)} trials of {sweep}, whatever was chosen by them, and the choice of "
            "the best."
        )

    def empty(self, claim: Guarantee) -> GDPFilter | RenyiFilter:
        """Before the first launch. Raises InvalidValue for an order that leaves nothing."""
        if self.order is None:
            return GDPFilter(epsilon=claim.epsilon, delta=claim.delta)
        return RenyiFilter(epsilon=claim.epsilon, delta=claim.delta, order=self.order)

    def constants(self, claim: Guarantee) -> Mapping[str, object]:
        """See `Mode.constants`."""
        empty = self.empty(claim)
        return {"limit": empty.mu_total if isinstance(empty, GDPFilter) else empty.budget}

    def recompute(self, claim: Guarantee, ledger: Ledger) -> Iterator[Check]:
        """That the filter admits all charges, and that every charge covers what its launch released.

        Raises InvalidValue.
        """
        yield check_ledger(self.trials, ledger)
        whole = len(self.charges) == len(ledger) and all(row.charged_to == row.to_step for row in ledger)
        said = f"{len(self.charges)} charges of {len(ledger)} launches, {'each' if whole else 'not each'} for all steps"
        yield Check("every launch is charged", whole, said)
        apart = in_parallel(self.trials) and claim.adjacency is Adjacency.ADD_REMOVE
        parts = self.trials[0].parts if apart else ""
        kept = all((one.validation is not None) is apart and one.parts == parts for one in self.charges)
        yield Check("filters", kept, "one of each part of the records" if apart else "one")
        released = (released_by([plan], [row]) for plan, row in launches(self.trials, ledger))
        paid = [(one.in_parallel(claim.adjacency), charge) for one, charge in zip(released, self.charges, strict=False)]
        yield from self._kept(claim, [(parts[0], charge.training) for parts, charge in paid])
        if apart and kept:
            reports = ((parts[1], charge.validation) for parts, charge in paid)
            yield from self._kept(claim, [(event, one) for event, one in reports if one is not None])
        yield equal("lower end of epsilon", claim.epsilon_lower, None)
        accountant = "gdp-filter" if self.order is None else "renyi-filter"
        status = weakest(Status.PROVED, *(one.status for one in self.trials))
        yield from same_kind(claim, notion=Notion.DP, accountant=accountant, status=status)

    def _kept(self, claim: Guarantee, charged: Sequence[tuple[Event, FilterCharge]]) -> Iterator[Check]:
        """Of one filter, by what each launch released of its part of the records, and was charged for it."""
        filled: PrivacyFilter = self.empty(claim)
        try:
            for index, (_, charge) in enumerate(charged):
                filled = filled.reserve(str(index), charge)
        except (BudgetExceeded, InvalidValue) as error:
            yield Check("the filter admits every charge", False, str(error))
            return
        yield Check("the filter admits every charge", True, f"{len(charged)} charges within the budget")
        for event, charge in dict.fromkeys(charged):
            if isinstance(charge, RenyiCharge):
                assert self.order is not None
                needed = float(EventProfile(event, claim.adjacency).renyi((self.order,))[0])
                yield at_most("what covers a launch", needed, charge.divergence)
            else:
                yield at_most("what covers a launch", _least_mu(event, charge, claim.adjacency), charge.mu)


def _least_mu(event: Event, charge: GDPCharge, adjacency: Adjacency) -> float:
    """The least mu that covers an event up to the chance of the charge; that of the charge where it is quickly shown to
    cover, and infinite where no chance is left for an event that is not Gaussian itself."""
    if all(isinstance(part, Gaussian) for part in phases(event)):
        return GDPAccountant(adjacency).compose(event).mu
    if shown_to_cover(event, charge.mu, charge.tau, adjacency):
        return charge.mu
    return covering_mu(EventProfile(event, adjacency), charge.tau, TOLERANCE) if charge.tau else math.inf


def headline_of(plan: PlannedTrial, delta: float, adjacency: Adjacency, unit: str) -> Guarantee:
    """The headline of a whole plan at `delta`, whose one or two parts compose in parallel. What is known at a delta of
    its own alone counts within it, as in a trial's plan. Raises as `dpcore.accounting.headline` does."""
    claims = [headline(part, delta, adjacency, unit) for part in released_whole(plan, adjacency)]
    return claims[0] if len(claims) == 1 else larger_of_parts(*claims)


class SealedSearch(Mode):
    """The price of a sealed search, and the plans of what left: none where nothing did.

    law    of K; how many trials there were is not known to whoever reads this
    cap    K is drawn from the law conditioned on K <= cap, where there is one
    named  the law in words, as the spec has it
    winners  what leaves, in words
    """

    sealed: ClassVar[bool] = True
    winners: ClassVar[str]

    law: TruncatedNegativeBinomial | BinomialCount | PoissonCount
    cap: Count | None
    named: Sentence

    @property
    def drawn(self) -> CountLaw:
        """The law that K was drawn from. Raises InvalidValue."""
        return self.law if self.cap is None else Capped(self.law, self.cap)

    @property
    def notion(self) -> Notion:
        """Of the claim."""
        return Notion.DP

    def title(self, sweep: str) -> str:
        """See `Mode.title`."""
        if not self.trials:
            return f"Privacy certificate of the sealed search of {sweep}, which released nothing"
        kind = "Privacy" if self.notion is Notion.DP else "Ex-post privacy"
        return f"{kind} certificate of {self.winners} of {sweep} and the search for it"

    def covers(self, sweep: str) -> str:
        """See `Mode.covers`."""
        if not self.trials:
            return f"The sealed search of {sweep}, and that it released nothing: one of its outputs, at its price."
        ex_post = "" if self.notion is Notion.DP else ", at a price that was not promised before it"
        return f"What {sweep} released ({self.winners}), with scores, and the sealed search for it{ex_post}."

    @property
    def attested(self) -> tuple[str, ...]:  # type: ignore[override]
        """See `Mode`."""
        inside = "K, the losers nor the winner's slot" if self.trials else "K nor anything of any trial"
        return (
            f"That K was drawn once from this law, and that neither {inside} left the boundary.",
            "That every configuration of the prior met these points.",
            "That targets and orders were public, and fixed before the search.",
        )

    @abstractmethod
    def priced(self, claim: Guarantee, profiles: Sequence[TrialProfile]) -> Iterator[Check]:
        """Whether the claim is the price of the points, and what left meets them.

        profiles  of the trials. Raises InvalidValue for points that cost more than is claimed.
        """

    def recompute(self, claim: Guarantee, ledger: Ledger) -> Iterator[Check]:
        """The price by this document's points, that what left meets them, and a ledger without rows.

        Raises InvalidValue for points that cost more than is claimed.
        """
        released = (released_whole(one, claim.adjacency) for one in self.trials)
        profiles = [WorstProfile(tuple(EventProfile(one, claim.adjacency) for one in parts)) for parts in released]
        yield from self.priced(claim, profiles)
        yield Check("winners", len({one.trial for one in self.trials}) == len(self.trials), "each once")
        # Rows of its launches would tell how many trials there were.
        yield Check("the ledger of a sealed search has no rows", not ledger, f"{len(ledger)} rows")
        yield equal("lower end of epsilon", claim.epsilon_lower, None)
        status = weakest(Status.PROVED_UNDER_ASSUMPTIONS, *(one.status for one in self.trials))
        yield from same_kind(claim, notion=self.notion, accountant=PRIVATE_SELECTION, status=status)

    def opinions(self, claim: Guarantee, ledger: Ledger) -> tuple[Event, ...]:
        """Those of each winner alone: the claim bounds them, and much besides."""
        return tuple(event for one in self.trials for event in released_whole(one, claim.adjacency))


class Best(SealedSearch):
    """The best of independent draws (`dpcore.selection.best`): every configuration meets delta(e1) <= d1 and
    delta(e_hat) <= d_hat, with e_hat = epsilon - penalty(law, e1, d1) and d_hat = delta / mean."""

    winners: ClassVar[str] = "the best trial"

    mode: Literal["best"] = "best"
    trials: Annotated[tuple[PlannedTrial, ...], Field(max_length=1)]
    e1: NotNegative
    d1: Chance
    e_hat: NotNegative
    d_hat: Chance

    def priced(self, claim: Guarantee, profiles: Sequence[TrialProfile]) -> Iterator[Check]:
        """See `SealedSearch.priced`."""
        points = HeterogeneousTrials(law=self.drawn, epsilon=claim.epsilon, delta=claim.delta, e1=self.e1, d1=self.d1)
        yield equal("e_hat", self.e_hat, points.e_hat)
        yield equal("d_hat", self.d_hat, points.d_hat)
        yield from map(_meets, map(points.exceeds, profiles))


class First(SealedSearch):
    """The first success, of the cheapest budget that has one (`dpcore.selection.ladder`).

    With one budget the claim is that budget. With several it is the price of the rung that the search ended at: an
    epsilon that is known when it has ended, at the sum of all rungs' deltas. Beforehand it is the dearest rung.

    target    in words, as the spec has it
    epsilons  where the search ends at each rung, from the cheapest on
    weights   the chance that a trial is of each rung
    shifts    what success up to each rung adds
    deltas    of a trial of each rung up to this one, at its shift, at most
    d_hat     delta of a trial of any rung at what its penalty leaves, at most
    ended     number of the rung, from 1; null where no trial left
    """

    winners: ClassVar[str] = "the first success"

    mode: Literal["first"] = "first"
    trials: Annotated[tuple[PlannedTrial, ...], Field(max_length=1)]
    target: Sentence
    epsilons: Annotated[tuple[NotNegative, ...], Field(min_length=1)]
    weights: tuple[float, ...]
    shifts: tuple[NotNegative, ...]
    deltas: tuple[tuple[Chance, ...], ...]
    d_hat: Chance
    ended: Count | None

    @property
    def notion(self) -> Notion:
        """See `SealedSearch.notion`: of a success of several budgets what it cost is known afterwards."""
        return Notion.EX_POST if self.trials and len(self.epsilons) > 1 else Notion.DP

    @property
    def rung(self) -> int:
        """Where it ended, from 0: the dearest, which was promised beforehand, where nothing left."""
        return (len(self.epsilons) if self.ended is None else self.ended) - 1

    def points(self, claim: Guarantee) -> LadderPoints:
        """What every configuration has to meet. Raises InvalidValue where that costs more than the claim."""
        law, shifts, deltas = self.drawn, self.shifts, self.deltas
        return LadderPoints(
            law=law, weights=self.weights, epsilons=self.epsilons, delta=claim.delta, shifts=shifts, deltas=deltas
        )

    def priced(self, claim: Guarantee, profiles: Sequence[TrialProfile]) -> Iterator[Check]:
        """See `SealedSearch.priced`."""
        if (self.ended is None) is bool(self.trials) or self.rung >= len(self.epsilons):
            raise InvalidValue("ended", self.ended, f"a budget of {len(self.epsilons)}, or none where nothing left")
        points = self.points(claim)
        yield equal("epsilon of where it ended", claim.epsilon, self.epsilons[self.rung])
        yield equal("d_hat", self.d_hat, points.d_hat)
        yield from (_meets(points.exceeds(self.rung, one)) for one in profiles)

    def promised(self, claim: Guarantee) -> Guarantee:
        """See `Mode.promised`: of several budgets the dearest end, at the deltas of all."""
        return replace(claim, notion=Notion.DP, epsilon=self.epsilons[-1], aimed_at=None)

    def constants(self, claim: Guarantee) -> Mapping[str, object]:
        """See `Mode.constants`."""
        points = self.points(claim)
        return {"epsilon of no success": points.failure, "epsilon beforehand": points.epsilon}


class Front(SealedSearch):
    """The best by each of several public orders (`dpcore.selection.front`): the price holds for every configuration
    that a Gaussian of this mu covers up to tau, whichever of them win and however many they are.

    orders   each a sum, of which the largest leaves
    mu, tau  of the Gaussian that covers a trial, and the chance beside it
    """

    winners: ClassVar[str] = "the best trials by several orders"

    mode: Literal["front"] = "front"
    orders: Annotated[tuple[Scalarisation, ...], Field(min_length=1)]
    mu: NotNegative
    tau: Chance

    def points(self, claim: Guarantee) -> FrontPoints:
        """What every configuration has to meet. Raises InvalidValue where that costs more than the claim."""
        orders, epsilon, delta = len(self.orders), claim.epsilon, claim.delta
        return FrontPoints(law=self.drawn, orders=orders, epsilon=epsilon, delta=delta, mu=self.mu, tau=self.tau)

    def priced(self, claim: Guarantee, profiles: Sequence[TrialProfile]) -> Iterator[Check]:
        """See `SealedSearch.priced`."""
        points = self.points(claim)
        yield equal("epsilon of all winners", claim.epsilon, points.of_orders(len(self.orders)))
        yield Check("each order has one winner", len(profiles) <= len(self.orders), f"{len(profiles)} winners")
        yield from map(_meets, map(points.exceeds, profiles))

    def constants(self, claim: Guarantee) -> Mapping[str, object]:
        """See `Mode.constants`."""
        return {"shift": self.points(claim).shift}


def _meets(excess: float) -> Check:
    """excess  by how much, as a logarithm, a winner misses the points: at most 0 where it meets all"""
    said = f"ln of what it spends over what they allow: {excess:.3g}"
    return Check("a winner meets the points of the price", excess <= SAME, said)


AnyMode = Annotated[
    ComposedTrials | TrialAlone | Filtered | Best | First | Front | Statement, Field(discriminator="mode")
]
