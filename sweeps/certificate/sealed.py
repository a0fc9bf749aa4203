"""The modes of sealed searches: a secret number of trials, a ledger without rows, and plans of what left.

mode   released                                      claim
best   the best of a secret number of trials         the price of private selection
first  the first success, of the cheapest budget     the price of the rung that it was of: of several, known ex post
front  the best by each of several public orders     the price of all winners together

Every price holds for all configurations that meet public points, so the events of what left, which are published, are
held against them. The points are those that every configuration of the prior was planned by, found anew from the public
spec alone. Where nothing left, the document holds the price and its constants, and no plan. That nothing leaves is one
of the outputs that the price is of (`dpcore.selection.best`, `ladder`): a trial that may not leave is behind all others
in the order, and of a ladder word of none has a price of its own, at most its dearest. So it costs what a winner would.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from dpcore.checks import InvalidValue
from dpcore.events import Event
from dpcore.guarantee import Guarantee, Notion, Status, weakest
from dpcore.selection.best import HeterogeneousTrials
from dpcore.selection.counts import BinomialCount, Capped, CountLaw, PoissonCount, TruncatedNegativeBinomial
from dpcore.selection.front import FrontPoints
from dpcore.selection.ladder import LadderPoints
from dpcore.selection.profiles import EventProfile, TrialProfile, WorstProfile
from sweeps.certificate.checks import SAME, Check, equal, number
from sweeps.certificate.modes import Counted, Mode
from sweeps.certificate.plans import Chance, Count, Ledger, NotNegative, PlannedTrial, Sentence, released_whole
from sweeps.certificate.subject import CannotCertify, Subject, checked_trial
from sweeps.privacy.claims import PRIVATE_SELECTION, claim_of_search
from sweeps.selection.price import SealedPlanner, SealedPrior
from sweeps.spec.sweep_budget import law_text
from sweeps.store.records import TARGET_EPSILON, SweepState
from trainables.scalarisation import Scalarisation
from trainables.system import PrivacyPlan, Refusal

OneWinner = Annotated[tuple[PlannedTrial, ...], Field(max_length=1)]


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
    def attested(self) -> tuple[str, ...]:
        """See `Mode.attested`."""
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
        yield equal("notion", claim.notion, self.notion)
        yield equal("accountant", claim.accountant, PRIVATE_SELECTION)
        found = weakest(Status.PROVED_UNDER_ASSUMPTIONS, *(one.status for one in self.trials))
        yield equal("status", claim.status, found)

    def opinions(self, claim: Guarantee, ledger: Ledger) -> tuple[Event, ...]:
        """Those of each winner alone: the claim bounds them, and much besides."""
        return tuple(event for one in self.trials for event in released_whole(one, claim.adjacency))


class Best(SealedSearch):
    """The best of independent draws (`dpcore.selection.best`): every configuration meets delta(e1) <= d1 and
    delta(e_hat) <= d_hat, with e_hat = epsilon - penalty(law, e1, d1) and d_hat = delta / mean."""

    winners: ClassVar[str] = "the best trial"

    mode: Literal["best"] = "best"
    trials: OneWinner
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
    trials: OneWinner
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
        return LadderPoints(
            law=self.drawn,
            weights=self.weights,
            epsilons=self.epsilons,
            delta=claim.delta,
            shifts=self.shifts,
            deltas=self.deltas,
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
        return FrontPoints(
            law=self.drawn,
            orders=len(self.orders),
            epsilon=claim.epsilon,
            delta=claim.delta,
            mu=self.mu,
            tau=self.tau,
        )

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


def count_search(subject: Subject) -> Counted:
    """The winners of a sealed search that is over, or none, and the search. Raises CannotCertify, InvalidValue."""
    record, spec, winners = subject.record, subject.spec, subject.complete
    if record.state is not SweepState.FINISHED:
        raise CannotCertify(f"{record.called}: {record.state}; expected a sealed search that is over.")
    planner = SealedPlanner.of(SealedPrior(spec, subject.facts))
    if isinstance(planner, Refusal):
        raise CannotCertify(f"{record.called}: its search has no price any more ({planner.reason}).")
    left = [(one, *checked_trial(one)) for one in winners]
    rule, claim = planner.pricing.rule, _claim(subject, planner, [(plan, own) for _, plan, own in left])
    trials = tuple(PlannedTrial.of(one.key, plan, claim) for one, plan, _ in left)
    budgets = [float(one.config[TARGET_EPSILON]) for one in winners]
    assert spec.selection is not None
    named, target = law_text(spec.selection, spec.search.trials), str(spec.selection.target)
    mode = mode_of(rule, named, trials, spec.orders, target, budgets)
    return Counted(mode=mode, claim=claim, ledger=(), artefact=_artefact(subject))


def mode_of(
    rule: HeterogeneousTrials | LadderPoints | FrontPoints,
    named: str,
    trials: tuple[PlannedTrial, ...],
    orders: Sequence[Scalarisation] = (),
    target: str = "",
    budgets: Sequence[float] = (),
) -> SealedSearch:
    """The mode of a price.

    orders   of a front;  target  of the first success, in words;  budgets  of the trials: where the search ended
    """
    cap = rule.law.cap if isinstance(rule.law, Capped) else None
    law = rule.law.priced
    assert isinstance(law, TruncatedNegativeBinomial | BinomialCount | PoissonCount)
    match rule:
        case HeterogeneousTrials():
            return Best(
                law=law,
                cap=cap,
                named=named,
                trials=trials,
                e1=rule.e1,
                d1=rule.d1,
                e_hat=rule.e_hat,
                d_hat=rule.d_hat,
            )
        case LadderPoints():
            return First(
                law=law,
                cap=cap,
                named=named,
                trials=trials,
                target=target,
                epsilons=rule.epsilons,
                weights=rule.weights,
                shifts=rule.shifts,
                deltas=rule.deltas,
                d_hat=rule.d_hat,
                ended=1 + rule.epsilons.index(budgets[0]) if budgets else None,
            )
        case FrontPoints():
            orders = tuple(orders)
            return Front(law=law, cap=cap, named=named, trials=trials, orders=orders, mu=rule.mu, tau=rule.tau)


def _claim(subject: Subject, planner: SealedPlanner, left: Sequence[tuple[PrivacyPlan, Guarantee]]) -> Guarantee:
    """Of what left; of one success of several budgets what it cost, an epsilon that is known afterwards."""
    rule = planner.pricing.rule
    if not left:
        return _of_nothing(subject, planner)
    if isinstance(rule, LadderPoints) and len(rule.epsilons) > 1:
        return left[0][0].beside[0]
    claim = claim_of_search([own for _, own in left])
    assert claim is not None
    return claim


def _of_nothing(subject: Subject, planner: SealedPlanner) -> Guarantee:
    """The price of the whole, as any winner would have claimed it; of whichever system, so none may claim less."""
    dearest = planner.prior.spec.privacy.epsilon[-1]
    plans = [planner.plan({**one, TARGET_EPSILON: dearest}) for one in planner.prior.space.middles()]
    claims = [planner.claim(planner.pricing.reference)]
    claims += [one.guarantee for one in plans if isinstance(one, PrivacyPlan)]
    for one in claims:
        if one.status is not Status.PROVED_UNDER_ASSUMPTIONS:
            raise CannotCertify(
                f"{subject.record.called}: it released nothing, and trials of its space would have claimed "
                f"{one.standing}; expected {Status.PROVED_UNDER_ASSUMPTIONS} of all of them."
            )
    return claims[0]


def _artefact(subject: Subject) -> str:
    """What left, exactly."""
    listed = ", ".join(one.key for one in subject.complete)
    if not listed:
        return "nothing: whether no trial might leave, or not every one had ended in time, is not told"
    if subject.spec.privacy.release == "front":
        return f"the winners of all orders, with their scores, as {listed}: which of the trials they were is not told"
    what = "the winner" if subject.spec.privacy.release == "best" else "the first success"
    return f"{what} alone, with its score, as {listed}: which of the trials it was is not told"
