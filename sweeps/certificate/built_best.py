"""`scope: sweep, release: best`: the price of a private selection, and the plan of the trial that left.

The two points are those that every configuration of the prior was planned by, found anew from the public spec alone.
"""

from __future__ import annotations

from sweeps.certificate.built import Built, planned
from sweeps.certificate.gathering import KnownSweep
from sweeps.certificate.judging import CannotCertify, check_trial
from sweeps.certificate.modes import Best
from sweeps.certificate.modes.best import spent_at_once
from sweeps.certificate.modes.laws import TrialsLaw
from sweeps.records import TrialState
from sweeps.sealed.law import law_text
from sweeps.sealed.planning import SealedPlanner, middles
from trainables.system import Refusal


def of_search(known: KnownSweep) -> Built:
    """The winner of a sealed search, and the search. Raises CannotCertify, InvalidValue."""
    winners = [one for one in known.trials if one.state is TrialState.COMPLETE]
    if len(winners) != 1:
        raise CannotCertify(
            f"{known.record.called}: {len(winners)} trials left; expected the one winner of a sealed search that is "
            "over. One that released nothing has spent its budget all the same."
        )
    (winner,) = winners
    assert known.spec.selection is not None
    check_trial(winner)
    assert winner.plan is not None
    assert winner.guarantee is not None
    planner = SealedPlanner.of(known.spec, known.facts, {}, middles(known.spec))
    if isinstance(planner, Refusal):
        raise CannotCertify(f"{known.record.called}: its search has no price any more ({planner.reason}).")
    rule, claim = planner.pricing.rule, winner.guarantee
    mode = Best(
        mode="best",
        scope="sweep",
        release="best",
        law=TrialsLaw.of(rule.law),
        named=law_text(known.spec.selection, known.spec.search.trials),
        e1=rule.e1,
        d1=rule.d1,
        penalty=rule.penalty,
        e_hat=rule.e_hat,
        d_hat=rule.d_hat,
        winner=planned(winner.key, winner.plan, claim),
    )
    row = spent_at_once(claim.epsilon, claim.delta, claim.adjacency)
    artefact = f"the winner alone, with its score, as {winner.key}: which of the trials it was is not told"
    return Built(mode=mode, claim=claim, rows=(row,), artefact=artefact)
