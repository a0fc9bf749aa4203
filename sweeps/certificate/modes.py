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
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from dpcore.accountants.gdp import GDPAccountant
from dpcore.accounting import headline, larger_of_parts
from dpcore.checks import InvalidValue
from dpcore.events import Adjacency, Event, Gaussian, phases
from dpcore.guarantee import STANDING, Guarantee, Notion, Status, weakest
from dpcore.selection.best import HeterogeneousTrials
from dpcore.selection.counts import BinomialCount, Capped, CountLaw, PoissonCount, TruncatedNegativeBinomial
from dpcore.selection.filters import BudgetExceeded, GDPCharge, GDPFilter, PrivacyFilter, RenyiCharge, RenyiFilter
from dpcore.selection.front import FrontPoints
from dpcore.selection.ladder import LadderPoints
from dpcore.selection.profiles import EventProfile, TrialProfile, WorstProfile, covering_mu
from sweeps.certificate.plans import (
    SAME,
    Chance,
    Check,
    Count,
    Delta,
    EventText,
    Ledger,
    NotNegative,
    Part,
    PlannedTrial,
    Profile,
    Sentence,
    at_most,
    check_ledger,
    check_whole,
    equal,
    in_parallel,
    launches,
    number,
    released_by,
    released_whole,
    same_claim,
    same_kind,
)
from sweeps.privacy.charge import TOLERANCE, FilterCharge, LaunchCharge, shown_to_cover
from sweeps.privacy.claims import PRIVATE_SELECTION
from trainables.scalarisation import Scalarisation

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
            yield number("delta", claim.delta, found.delta)
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
        released = [
            released_by([plan], [row]).in_parallel(claim.adjacency) for plan, row in launches(self.trials, ledger)
        ]
        training = [(events[0], one.training) for events, one in zip(released, self.charges, strict=False)]
        yield from self._kept(claim, training)
        if apart and kept:
            reports = [(events[1], one.validation) for events, one in zip(released, self.charges, strict=False)]
            yield from self._kept(claim, [(event, one) for event, one in reports if one is not None])
        yield number("lower end of epsilon", claim.epsilon_lower, None)
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
        yield from self.priced(claim, [profile_of(one, claim) for one in self.trials])
        yield Check("winners", len({one.trial for one in self.trials}) == len(self.trials), "each once")
        # Rows of its launches would tell how many trials there were.
        yield Check("the ledger of a sealed search has no rows", not ledger, f"{len(ledger)} rows")
        yield number("lower end of epsilon", claim.epsilon_lower, None)
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
        yield number("e_hat", self.e_hat, points.e_hat)
        yield number("d_hat", self.d_hat, points.d_hat)
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
        yield number("epsilon of where it ended", claim.epsilon, self.epsilons[self.rung])
        yield number("d_hat", self.d_hat, points.d_hat)
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
        yield number("epsilon of all winners", claim.epsilon, points.of_orders(len(self.orders)))
        yield Check("each order has one winner", len(profiles) <= len(self.orders), f"{len(profiles)} winners")
        yield from map(_meets, map(points.exceeds, profiles))

    def constants(self, claim: Guarantee) -> Mapping[str, object]:
        """See `Mode.constants`."""
        return {"shift": self.points(claim).shift}


def _meets(excess: float) -> Check:
    """excess  by how much, as a logarithm, a winner misses the points: at most 0 where it meets all"""
    said = f"ln of what it spends over what they allow: {excess:.3g}"
    return Check("a winner meets the points of the price", excess <= SAME, said)


def profile_of(winner: PlannedTrial, claim: Guarantee) -> WorstProfile:
    """The profile of what a winner's plan releases of each part of the records."""
    released = released_whole(winner, claim.adjacency)
    return WorstProfile(tuple(EventProfile(one, claim.adjacency) for one in released))
