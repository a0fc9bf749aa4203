"""Modes in which tuning and the final run read different records: one record is in one of them, never in both.

No spec can ask for these yet, so each row says what one would have to declare.

holdout  a share of the records, each by its own secret coin, tunes; the final run is on the others. The whole reveals
         delta(e) <= share delta_tune(e) + (1-share) delta_final(e) (`dpcore.selection.holdout`), so both parts may use
         the whole budget
public   everything about the search is on records that are nobody's, and the final run alone is on these
"""

from __future__ import annotations

from dataclasses import replace

from dpcore.selection import BestProfile, CountLaw, split_by_coin
from dpcore.selection.best import TIGHT
from sweeps.advice.comparison import BudgetFor, ModeRow
from sweeps.advice.middle import Middle
from sweeps.advice.open_modes import one_run
from sweeps.advice.sealed_modes import best_price, sealed_row
from sweeps.budget.trial_profiles import trial_profile

SHARE = 0.2
"""Of the records, for tuning."""


def holdout(middle: Middle, law: CountLaw, share: float = SHARE) -> ModeRow:
    """The best of K trials on a share of the records, then one run on the others.

    share  in (0, 1): the chance of each record's coin
    """
    tuned, final = middle.on(share), middle.on(1 - share)
    tune = tuned.costing(best_price(law, middle.delta))
    last = final.plan(middle.epsilon)
    whole = split_by_coin(share, BestProfile(law, trial_profile(tune)), trial_profile(last))
    row = sealed_row(
        middle,
        f"holdout, {share:.0%}",
        [tune],
        law,
        setting="",
        epsilon=whole.epsilon(middle.delta),
        theorem=f"joint convexity over the coin (Koskela & Kulkarni 2023); {TIGHT}",
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
        declare="the share of the records that tunes, by a keyed hash of each record's own id under the key of the "
        "population, kept for good; and how the configuration carries over to more records",
    )


def public(middle: Middle) -> ModeRow:
    """A search on public proxy data, then one run on these records."""
    return replace(
        one_run(middle),
        mode="public",
        setting="",
        trials="any, and 1",
        chance=None,
        budget_for=BudgetFor.SWEEP,
        says="The search trains and validates on public proxy data alone, and costs nothing; then one run. How good "
        "the proxy's best is here, nothing says beforehand.",
        declare="the proxy data, apart from these records, and that the space was not chosen by looking at these",
    )
