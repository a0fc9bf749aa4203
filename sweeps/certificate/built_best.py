"""`scope: sweep`, `release: best`, `first` or `front`: the price of a sealed search, and the plans of what left.

The points are those that every configuration of the prior was planned by, found anew from the public spec alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpcore.selection import FrontPoints, LadderPoints, TwoPoint
from sweeps.certificate.built import Built, planned
from sweeps.certificate.gathering import KnownSweep
from sweeps.certificate.judging import CannotCertify, check_trial
from sweeps.certificate.modes import Best, BestAdaptive, First, Mode, PricedFront
from sweeps.certificate.modes.best import spent_at_once
from sweeps.certificate.modes.first import Rung
from sweeps.certificate.modes.front import WeighedMetric
from sweeps.certificate.modes.laws import TrialsLaw
from sweeps.ledger.assumptions import claim_of_search
from sweeps.records import TARGET_EPSILON, TrialState
from sweeps.release.published import Published
from sweeps.sealed.law import law_text
from sweeps.sealed.planning import SealedPlanner, middles
from trainables.system import Refusal


def of_search(known: KnownSweep) -> Built:
    """The winner of a sealed search, and the search. Raises CannotCertify, InvalidValue."""
    winners = [one for one in known.trials if one.state is TrialState.COMPLETE]
    most = len(known.spec.orders)
    if not 1 <= len(winners) <= most:
        expected = "the one winner" if most == 1 else f"1 to {most} winners"
        raise CannotCertify(
            f"{known.record.called}: {len(winners)} trials left; expected {expected} of a sealed search that is "
            "over. One that released nothing has spent its budget all the same."
        )
    winner = winners[0]
    for one in winners:
        check_trial(one)
    planner = SealedPlanner.of(known.spec, known.facts, {}, middles(known.spec))
    if isinstance(planner, Refusal):
        raise CannotCertify(f"{known.record.called}: its search has no price any more ({planner.reason}).")
    rule = planner.pricing.rule
    if isinstance(rule, FrontPoints):
        return _of_front(known, winners, rule)
    return _of_ladder(known, winner, rule) if isinstance(rule, LadderPoints) else _of_best(known, winner, rule)


def _of_best(known: KnownSweep, winner: Published, rule: TwoPoint) -> Built:
    assert known.spec.selection is not None
    assert winner.plan is not None
    assert winner.guarantee is not None
    claim = winner.guarantee
    law, plan = TrialsLaw.of(rule.law), planned(winner.key, winner.plan, claim)
    named = law_text(known.spec.selection, known.spec.search.trials)
    mode: Mode
    if rule.adaptive:
        mode = BestAdaptive(
            mode="best-adaptive",
            scope="sweep",
            release="best",
            law=law,
            named=named,
            e1=rule.e1,
            d1=rule.d1,
            low=rule.low,
            high=rule.high,
            penalty=rule.penalty,
            e_hat=rule.e_hat,
            d_hat=rule.d_hat,
            winner=plan,
        )
    else:
        mode = Best(
            mode="best",
            scope="sweep",
            release="best",
            law=law,
            named=named,
            e1=rule.e1,
            d1=rule.d1,
            penalty=rule.penalty,
            e_hat=rule.e_hat,
            d_hat=rule.d_hat,
            winner=plan,
        )
    row = spent_at_once(claim.epsilon, claim.delta, claim.adjacency)
    artefact = f"the winner alone, with its score, as {winner.key}: which of the trials it was is not told"
    return Built(mode=mode, claim=claim, rows=(row,), artefact=artefact)


def _of_front(known: KnownSweep, winners: Sequence[Published], rule: FrontPoints) -> Built:
    assert known.spec.selection is not None
    claims = [one.guarantee for one in winners if one.guarantee is not None]
    claim = claim_of_search(claims)
    assert claim is not None
    mode = PricedFront(
        mode="front",
        scope="sweep",
        release="front",
        law=TrialsLaw.of(rule.law),
        named=law_text(known.spec.selection, known.spec.search.trials),
        orders=tuple(
            tuple(WeighedMetric(metric=metric, weight=weight) for metric, weight in order.weights)
            for order in known.spec.orders
        ),
        mu=rule.mu,
        tau=rule.tau,
        shift=rule.shift,
        winners=tuple(planned(one.key, one.plan, claim) for one in winners if one.plan is not None),
    )
    row = spent_at_once(claim.epsilon, claim.delta, claim.adjacency)
    listed = ", ".join(one.key for one in winners)
    artefact = f"the winners of all orders, with their scores, as {listed}: which of the trials they were is not told"
    return Built(mode=mode, claim=claim, rows=(row,), artefact=artefact)


def _of_ladder(known: KnownSweep, winner: Published, rule: LadderPoints) -> Built:
    """The claim is that of where it ended: with several budgets the one beside the winner's own, which is ex ante."""
    assert known.spec.selection is not None
    assert winner.plan is not None
    assert winner.guarantee is not None
    claim = winner.plan.beside[0] if len(rule.epsilons) > 1 else winner.guarantee
    rungs = zip(rule.epsilons, rule.weights, rule.shifts, rule.deltas, strict=True)
    mode = First(
        mode="first",
        scope="sweep",
        release="first",
        law=TrialsLaw.of(rule.law),
        named=law_text(known.spec.selection, known.spec.search.trials),
        target=str(known.spec.selection.target),
        rungs=tuple(Rung(epsilon=e, weight=weight, shift=shift, deltas=row) for e, weight, shift, row in rungs),
        d_hat=rule.d_hat,
        failure=rule.failure,
        ended=1 + rule.epsilons.index(float(winner.config[TARGET_EPSILON])),
        winner=planned(winner.key, winner.plan, claim),
        ex_ante=rule.epsilon,
    )
    row = spent_at_once(rule.epsilon, claim.delta, claim.adjacency)
    artefact = f"the first success alone, with its score, as {winner.key}: which of the trials it was is not told"
    return Built(mode=mode, claim=claim, rows=(row,), artefact=artefact)
