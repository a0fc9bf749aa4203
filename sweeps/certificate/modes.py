"""The open modes of release: one class for each way in which a claim is counted.

A mode is a frozen record of every number that its claim needs. `build` makes it from the store; `recompute` counts the
claim again from these numbers and the published ledger alone; `opinions` are the events that another accountant may be
asked about. The modes of sealed searches are in `sealed`.

mode         released                                    claim
composition  every trial                                 their events composed by the privacy-loss accountant
trial        one trial, and the search is not covered    its plan's events
filter       every trial, budgets adapting to results    the budget that a filter kept
statement    one trial of another notion                 none that anybody recomputes
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from dpcore.accountants.gdp import GDPAccountant
from dpcore.accounting import headline, larger_of_parts
from dpcore.checks import InvalidValue
from dpcore.events import Adjacency, Composed, Event, Gaussian, phases
from dpcore.guarantee import STANDING, Guarantee, Notion, Status, weakest
from dpcore.selection.filters import BudgetExceeded, GDPCharge, GDPFilter, PrivacyFilter, RenyiCharge, RenyiFilter
from dpcore.selection.profiles import EventProfile, covering_mu
from sweeps.certificate.checks import Check, at_most, equal, number, same_claim
from sweeps.certificate.plans import (
    Delta,
    EventText,
    Ledger,
    LedgerRow,
    NotNegative,
    Part,
    PlannedTrial,
    Profile,
    check_ledger,
    check_whole,
    in_parallel,
    launches,
    released_by,
    released_whole,
)
from sweeps.certificate.subject import STATED, Subject, checked_total, checked_trial
from sweeps.privacy.charge import TOLERANCE, FilterCharge, LaunchCharge, charge_of, shown_to_cover
from sweeps.privacy.heldout import Charged, charged
from sweeps.privacy.ledger import Procedure
from sweeps.privacy.totals import charged_as, choices_of, cut_short, summary, sweep_total
from sweeps.spec.sweep_budget import budget_of

OneTrial = Annotated[tuple[PlannedTrial, ...], Field(min_length=1, max_length=1)]
Trials = Annotated[tuple[PlannedTrial, ...], Field(min_length=1)]


class Mode(Part):
    """One way in which a claim is counted, with every number that it needs.

    trials    plans of what was released, each fixed before it ran
    searched  whether all trials of the sweep, and so the search among them, are covered
    fixed     whether the claim is one on trials that no result chose
    sealed    whether the number of its launches is secret
    statuses  of claims that it may carry
    """

    searched: ClassVar[bool] = True
    fixed: ClassVar[bool] = True
    sealed: ClassVar[bool] = False
    statuses: ClassVar[Sequence[Status]] = STANDING

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

    @property
    def attested(self) -> tuple[str, ...]:
        """What is the signer's word alone, besides what is so in every document."""
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """A claim as it was counted.  artefact  what was released, exactly"""

    mode: Mode
    claim: Guarantee
    ledger: Ledger
    artefact: str


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

    @classmethod
    def build(cls, subject: Subject, total: Procedure, tests: Sequence[Charged], ledger: Ledger) -> Counted:
        """All trials of a sweep together, as they were launched.  tests  readings of private test records"""
        plans, claim = subject.plans, total.guarantee
        trials = tuple(PlannedTrial.of(key, plan) for key, plan in plans.items())
        tested, apart = Composed(events=tuple(one.event for one in tests)), all(one.apart for one in tests)
        parts = released_by(trials, ledger, tested, apart).together(claim.adjacency)
        mode = cls(
            scope=subject.spec.privacy.scope,
            budget=None if total.budget is None else total.budget.epsilon,
            delta=min(plan.guarantee.delta for plan in plans.values()),
            trials=trials,
            tests=tested,
            tests_apart=apart,
            profile=Profile.of(parts, claim),
        )
        return Counted(mode=mode, claim=claim, ledger=ledger, artefact=_every_metric(trials))

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

    trials: OneTrial

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

    mode: Literal["trial"] = "trial"
    profile: Profile

    @classmethod
    def of(cls, plan: PlannedTrial, claim: Guarantee) -> TrialAlone:
        """Of one plan and what its trial claims."""
        return cls(trials=(plan,), profile=Profile.of(released_whole(plan, claim.adjacency), claim))

    def title(self, sweep: str) -> str:
        """See `Mode.title`."""
        return f"Privacy certificate of one trial of {sweep}, the search for its hyperparameters not covered"

    @property
    def attested(self) -> tuple[str, ...]:
        """See `Mode.attested`."""
        return ("By which theorem epsilon is as large as claimed, where its accountant is not the headline's.",)

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
            yield number("delta", claim.delta, found.delta)
            yield equal("notion", claim.notion, found.notion)
            yield equal("status", claim.status, found.status)
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

    mode: Literal["statement"] = "statement"

    def title(self, sweep: str) -> str:
        """See `Mode.title`."""
        status = self.trials[0].status
        return f"Statement, and no privacy certificate, of one trial of {sweep} ({STATED.get(status, status)})"

    @property
    def attested(self) -> tuple[str, ...]:
        """See `Mode.attested`."""
        return ("Its epsilon and delta: nothing recomputes them.",)

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

    mode: Literal["filter"] = "filter"
    trials: Trials
    order: Annotated[float, Field(gt=1)] | None
    charges: tuple[LaunchCharge, ...]

    @classmethod
    def build(cls, subject: Subject, total: Procedure) -> Counted:
        """All trials of a sweep with one budget, which is the claim. Raises InvalidValue."""
        budget, plans, known = budget_of(subject.spec), subject.plans, dict[str, float]()
        assert budget is not None
        # What a launch was allowed to run is charged, however far it came.
        ledger = [LedgerRow.of(replace(entry, executed_to=entry.to_step)) for entry in subject.entries]
        mode = cls(
            trials=tuple(PlannedTrial.of(key, plan) for key, plan in plans.items()),
            order=budget.order,
            charges=tuple(charge_of(budget, plans[row.trial], row.from_step, row.to_step, known) for row in ledger),
        )
        return Counted(mode=mode, claim=total.guarantee, ledger=ledger, artefact=_every_metric(mode.trials))

    def title(self, sweep: str) -> str:
        """See `Mode.title`."""
        return f"Privacy certificate of all trials of {sweep} together, whose budgets adapted to results"

    def covers(self, sweep: str) -> str:
        """See `Mode.covers`."""
        return (
            f"All results of all {len(self.trials)} trials of {sweep}, whatever was chosen by them, and the choice of "
            "the best."
        )

    @property
    def attested(self) -> tuple[str, ...]:
        """See `Mode.attested`."""
        return ("That the budget was fixed before the first trial, and the order of a Renyi filter with it.",)

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
        released = [
            released_by([plan], [row]).in_parallel(claim.adjacency) for plan, row in launches(self.trials, ledger)
        ]
        training = [(events[0], one.training) for events, one in zip(released, self.charges, strict=False)]
        yield from self._kept(claim, training)
        if apart and kept:
            reports = [(events[1], one.validation) for events, one in zip(released, self.charges, strict=False)]
            yield from self._kept(claim, [(event, one) for event, one in reports if one is not None])
        yield number("lower end of epsilon", claim.epsilon_lower, None)
        yield equal("notion", claim.notion, Notion.DP)
        yield equal("accountant", claim.accountant, "gdp-filter" if self.order is None else "renyi-filter")
        yield equal("status", claim.status, weakest(Status.PROVED, *(one.status for one in self.trials)))

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


def count_trial(subject: Subject) -> Counted:
    """One trial's own claim, or the statement of a weaker one. Raises CannotCertify."""
    assert subject.trial is not None
    key, (plan, claim) = subject.trial.key, checked_trial(subject.trial)
    planned = PlannedTrial.of(key, plan, claim)
    mode = Statement(trials=(planned,)) if claim.status in STATED else TrialAlone.of(planned, claim)
    artefact = f"the metrics of {key} at every report, and its model where its system has one"
    return Counted(mode=mode, claim=claim, ledger=list(map(LedgerRow.of, subject.entries)), artefact=artefact)


def count_all(subject: Subject) -> Counted:
    """All trials together, by composition or by the budget that a filter kept. Raises CannotCertify."""
    record, trials, entries = subject.record, subject.trials, subject.entries
    tests, choices = charged(subject.store, record), choices_of(record, trials)
    counted = summary(trials, entries, choices, cut_short(record, trials), tests, sweep_total(record.spec))
    total = checked_total(record, counted)
    if total.filtered:
        return Filtered.build(subject, total)
    return ComposedTrials.build(subject, total, tests, list(map(LedgerRow.of, charged_as(trials, entries, choices))))


def _every_metric(trials: Sequence[PlannedTrial]) -> str:
    return f"every published metric of {len(trials)} trials at every report, and their models where systems have any"
