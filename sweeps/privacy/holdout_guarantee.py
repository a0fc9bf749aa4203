"""A final run whose hyperparameters an earlier sweep chose on other records: what it rests on, and what both cost.

public   the other records are nobody's: the final run's claim is that of the whole
holdout  they are the other part of these. A record is in one part, whoever else is there, so that it changes the tuning
         or the final run and never both; for everybody the whole costs at most the larger of the two
         (`dpcore.accounting`, and `dpcore.selection.profiles` for a public split). The share and key of the split are
         public, so that no coin is secret, and the smaller mixture of both is not claimed
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dpcore.guarantee import Guarantee, resting_on
from sweeps.privacy.claims import HOLDOUT
from sweeps.privacy.ledger import Summary
from sweeps.spec.sections import Chosen, SweepSpec

if TYPE_CHECKING:
    from sweeps.privacy.published_store import PublishedStore

THEOREM = (
    "the larger of tuning and final run, which read parts of the records that a function of each record alone decides "
    "(McSherry 2009, theorem 4; Koskela & Kulkarni 2023 for the procedure)"
)


UNTIL_CHOSEN = (
    "Of the sweep that tuned it covers what had left it when the hyperparameters were chosen; what leaves that sweep "
    "later counts besides."
)


AGAIN = (
    "The final run was launched {} times, and each launch counts as what any point was held to: of another point the "
    "steps that were run again could have cost as much."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """What the sweep that tuned cost the other part, and what the final run was aimed at.

    target, delta  what one launch of no point could have exceeded, whichever had been chosen
    refuted  what of that sweep an audit has refuted since: then nobody knows what it cost
    """

    claim: Guarantee
    target: float
    delta: float
    refuted: tuple[str, ...] = ()


def chosen_line(chosen: Chosen) -> str:
    """Where the hyperparameters are from, and what that means for the claim: one sentence of its assumptions."""
    whose = f"The hyperparameters are those of {chosen.trial}, the best of sweep {chosen.sweep}"
    if chosen.claim is not None:
        return f"{whose}, which read the other part of these records: what it cost them belongs to the whole procedure."
    return (
        f"{whose}, whose records are all declared public ({chosen.public_because}): none of them is one of these, and "
        "nobody looked at these to choose the spaces of both sweeps or the public records."
    )


def tuned_by_now(store: PublishedStore, spec: SweepSpec) -> Tuned | None:
    """`tuned_of`, with what audits have found since: the claim was recorded when the final run began."""
    tuned = tuned_of(spec)
    if tuned is None or spec.search.chosen is None:
        return None
    name = spec.search.chosen.sweep
    return replace(tuned, refuted=tuple(f"{system} in {name}" for system in sorted(store.refuted(name))))


def tuned_of(spec: SweepSpec) -> Tuned | None:
    """Of the final run of a holdout, as it was recorded; None of any other sweep."""
    chosen = spec.search.chosen
    if chosen is None or chosen.claim is None:
        return None
    claim = Guarantee.from_dict(chosen.claim)
    return Tuned(claim=claim, target=max(spec.privacy.epsilon), delta=spec.privacy.delta)


def both(tuned: Tuned, final: Guarantee, launches: int = 1) -> Guarantee:
    """What tuning and final run cost together.

    launches  of the final run: more than one where some were lost

    Which point the tuning found depends on its records: so the final run counts as what every point was held to, once
    for each launch. A launch runs some steps of a plan that is held to the target as a whole; what an accountant counts
    of the steps that were run twice is of this point alone, and of another it could have been more.
    """
    again = () if launches == 1 else (AGAIN.format(launches),)
    larger = replace(
        final,
        epsilon=max(tuned.claim.epsilon, launches * tuned.target, final.epsilon),
        delta=max(tuned.claim.delta, launches * tuned.delta, final.delta),
        epsilon_lower=None,
        accountant=HOLDOUT,
        theorem=THEOREM,
        assumptions=tuple(dict.fromkeys((*final.assumptions, *tuned.claim.assumptions, UNTIL_CHOSEN, *again))),
    )
    return resting_on(larger, [tuned.claim])


def with_tuning(found: Summary, tuned: Tuned | None) -> Summary:
    """The summary of a final run with the total of the whole procedure; any other as it is."""
    if tuned is None or found.procedure is None:
        return found
    final, refuted = found.procedure, (*found.procedure.refuted, *tuned.refuted)
    whole = both(tuned, final.guarantee, found.spent.attempts)
    return replace(found, procedure=replace(final, guarantee=whole, tuned=tuned.claim, refuted=refuted))
