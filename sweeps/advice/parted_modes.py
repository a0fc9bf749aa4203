"""Modes in which tuning and the final run read different records: one record is in one of them, never in both.

Each is two sweeps, of which the final one names the other: each row says what has to be declared.

holdout  a share of the records tunes, by a public hash of each record alone; the final run is on the others. Together
         they cost the larger of the two under add-remove (`dpcore.selection.profiles`): both may use the whole budget
public   everything about the search is on records that are nobody's, and the final run alone is on these
"""

from __future__ import annotations

from dataclasses import replace

from dpcore.events import Adjacency
from dpcore.selection import BestProfile, CountLaw, split_in_public
from dpcore.selection.best import TIGHT
from sweeps.advice.comparison import BudgetFor, ModeRow
from sweeps.advice.middle import Middle, NotPlanned
from sweeps.advice.open_modes import one_run
from sweeps.advice.sealed_modes import best_price, sealed_row
from sweeps.budget.trial_profiles import trial_profile

SHARE = 0.2
"""Of the records, for tuning."""


def holdout(middle: Middle, law: CountLaw, share: float = SHARE) -> ModeRow:
    """The best of K trials on a share of the records, then one run on the others.

    share  in (0, 1), of the records that tune

    Raises NotPlanned under replace-one, where the parts add and no such sweep is admitted.
    """
    if middle.adjacency is not Adjacency.ADD_REMOVE:
        raise NotPlanned(
            f"under {middle.adjacency} one record may give way to one of the other part, and so an exchange may change "
            "both parts: they would add"
        )
    tuned, final = middle.on(share), middle.on(1 - share)
    tune = tuned.costing(best_price(law, middle.delta))
    last = final.plan(middle.epsilon)
    whole = split_in_public(BestProfile(law, trial_profile(tune)), trial_profile(last))
    row = sealed_row(
        middle,
        f"holdout, {share:.0%}",
        [tune],
        law,
        setting="scope: holdout",
        epsilon=whole.epsilon(middle.delta),
        theorem=f"the larger of two parts (McSherry 2009; Koskela & Kulkarni 2023); {TIGHT}",
        says=f"The best of the trials on {share:.0%} of the records, and a final run on the other {1 - share:.0%} with "
        "its configuration. Noise and epsilon of both; a trial costs only its share of the work.",
    )
    return replace(
        row,
        trials=f"{row.trials}, and 1",
        noise=tuple(sorted({*middle.noise(tune), *middle.noise(last)})),
        spent=tuple(sorted({tune.guarantee.epsilon, last.guarantee.epsilon})),
        expected=row.expected + 1,
        most=row.most + 1,
        work=(row.work[0] + last.work, row.work[1] + last.work),
        declare="the share of the records that tunes (`data.part`), by a hash of each record alone; and how the "
        "configuration carries over to more records",
    )


def public(middle: Middle) -> ModeRow:
    """A search on public proxy data, then one run on these records."""
    return replace(
        one_run(middle),
        mode="public",
        setting="scope: public",
        trials="any, and 1",
        chance=None,
        budget_for=BudgetFor.SWEEP,
        says="The search trains and validates on public proxy data alone, and costs nothing; then one run. How good "
        "the proxy's best is here, nothing says beforehand.",
        declare="the proxy data, apart from these records, and that the space was not chosen by looking at these",
    )
