"""`scope: sweep`, `release: best`, `first` or `front`: the price of a sealed search, and the plans of what left.

The points are those that every configuration of the prior was planned by, found anew from the public spec alone. So is
the claim where nothing left: the price is paid from the beginning on, and word of none is one of the outputs it is of.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpcore.guarantee import Guarantee, Status
from dpcore.selection import FrontPoints, HeterogeneousTrials, LadderPoints
from sweeps.certificate.built import Built, planned
from sweeps.certificate.gathering import KnownSweep
from sweeps.certificate.judging import CannotCertify, check_trial
from sweeps.certificate.modes import Best, First, Mode, PricedFront
from sweeps.certificate.modes.first import Rung
from sweeps.certificate.modes.front import WeighedMetric
from sweeps.certificate.modes.laws import TrialsLaw
from sweeps.certificate.modes.plans import PlannedTrial
from sweeps.certificate.modes.sealed_search import spent_at_once
from sweeps.privacy.claims import claim_of_search
from sweeps.privacy.release import Published
from sweeps.selection.law import law_text
from sweeps.selection.price import SealedPlanner, SealedPrior
from sweeps.store.records import TARGET_EPSILON, SweepState, TrialState
from trainables.system import Config, PrivacyPlan, Refusal

_NOTHING = "nothing: whether no trial might leave, or not every one had ended in time, is not told"


def of_search(known: KnownSweep) -> Built:
    """The winners of a sealed search that is over, or none, and the search. Raises CannotCertify, InvalidValue."""
    winners = [one for one in known.trials if one.state is TrialState.COMPLETE]
    if known.record.state is not SweepState.FINISHED:
        raise CannotCertify(f"{known.record.called}: {known.record.state}; expected a sealed search that is over.")
    if len(winners) > len(known.spec.orders):
        raise CannotCertify(
            f"{known.record.called}: {len(winners)} trials left; expected at most {len(known.spec.orders)}."
        )
    for one in winners:
        check_trial(one)
    planner = SealedPlanner.of(SealedPrior(known.spec, known.facts))
    if isinstance(planner, Refusal):
        raise CannotCertify(f"{known.record.called}: its search has no price any more ({planner.reason}).")
    claim = _claim(known, planner, winners)
    mode = _mode(known, planner.pricing.rule, winners, claim)
    # Of a ladder the dearest end, whichever it came to.
    row = spent_at_once(planner.pricing.rule.epsilon, claim.delta, claim.adjacency)
    return Built(mode=mode, claim=claim, rows=(row,), artefact=_artefact(known, winners))


def _claim(known: KnownSweep, planner: SealedPlanner, winners: Sequence[Published]) -> Guarantee:
    """Of what left; of one success of several budgets what it cost, an epsilon that is known afterwards."""
    rule = planner.pricing.rule
    if not winners:
        return _of_nothing(known, planner)
    if isinstance(rule, LadderPoints) and len(rule.epsilons) > 1:
        assert winners[0].plan is not None
        return winners[0].plan.beside[0]
    claim = claim_of_search([one.guarantee for one in winners if one.guarantee is not None])
    assert claim is not None
    return claim


def _of_nothing(known: KnownSweep, planner: SealedPlanner) -> Guarantee:
    """The price of the whole, as any winner would have claimed it; of whichever system, so none may claim less."""
    plans = [planner.plan(one) for one in _dearest(planner.prior)]
    claims = [
        planner.claim(planner.pricing.reference),
        *(one.guarantee for one in plans if isinstance(one, PrivacyPlan)),
    ]
    weaker = [one for one in claims if one.status is not Status.PROVED_UNDER_ASSUMPTIONS]
    if weaker:
        raise CannotCertify(
            f"{known.record.called}: it released nothing, and trials of its space would have claimed "
            f"{weaker[0].standing}; expected {Status.PROVED_UNDER_ASSUMPTIONS} of all of them."
        )
    return claims[0]


def _dearest(prior: SealedPrior) -> list[Config]:
    """The middle of the space for each system, at the dearest budget."""
    return [{**one, TARGET_EPSILON: prior.spec.privacy.epsilon[-1]} for one in prior.space.middles()]


def _mode(
    known: KnownSweep,
    rule: HeterogeneousTrials | LadderPoints | FrontPoints,
    winners: Sequence[Published],
    claim: Guarantee,
) -> Mode:
    assert known.spec.selection is not None
    law, named = TrialsLaw.of(rule.law), law_text(known.spec.selection, known.spec.search.trials)
    left = tuple(planned(one.key, one.plan, claim) for one in winners if one.plan is not None)
    if isinstance(rule, FrontPoints):
        return _front(known, rule, law, named, left)
    winner = left[0] if left else None
    if isinstance(rule, LadderPoints):
        ended = None if winner is None else 1 + rule.epsilons.index(float(winners[0].config[TARGET_EPSILON]))
        return _first(str(known.spec.selection.target), rule, law, named, winner, ended)
    return _best(rule, law, named, winner)


def _best(rule: HeterogeneousTrials, law: TrialsLaw, named: str, winner: PlannedTrial | None) -> Mode:
    of_both: dict[str, Any] = {
        "scope": "sweep",
        "release": "best",
        "law": law,
        "named": named,
        "e1": rule.e1,
        "d1": rule.d1,
        "penalty": rule.penalty,
        "e_hat": rule.e_hat,
        "d_hat": rule.d_hat,
        "winner": winner,
    }
    return Best(mode="best", **of_both)


def _front(
    known: KnownSweep, rule: FrontPoints, law: TrialsLaw, named: str, winners: tuple[PlannedTrial, ...]
) -> PricedFront:
    return PricedFront(
        mode="front",
        scope="sweep",
        release="front",
        law=law,
        named=named,
        orders=tuple(
            tuple(WeighedMetric(metric=metric, weight=weight) for metric, weight in order.weights)
            for order in known.spec.orders
        ),
        mu=rule.mu,
        tau=rule.tau,
        shift=rule.shift,
        winners=winners,
    )


def _first(
    target: str, rule: LadderPoints, law: TrialsLaw, named: str, winner: PlannedTrial | None, ended: int | None
) -> First:
    rungs = zip(rule.epsilons, rule.weights, rule.shifts, rule.deltas, strict=True)
    return First(
        mode="first",
        scope="sweep",
        release="first",
        law=law,
        named=named,
        target=target,
        rungs=tuple(Rung(epsilon=e, weight=weight, shift=shift, deltas=row) for e, weight, shift, row in rungs),
        d_hat=rule.d_hat,
        failure=rule.failure,
        ended=ended,
        winner=winner,
        ex_ante=rule.epsilon,
    )


def _artefact(known: KnownSweep, winners: Sequence[Published]) -> str:
    """What left, exactly."""
    if not winners:
        return _NOTHING
    listed = ", ".join(one.key for one in winners)
    which = "which of the trials it was is not told"
    if known.spec.privacy.release == "front":
        which = "which of the trials they were is not told"
        return f"the winners of all orders, with their scores, as {listed}: {which}"
    what = "the winner" if known.spec.privacy.release == "best" else "the first success"
    return f"{what} alone, with its score, as {listed}: {which}"
