"""What a trial claims that early stopping ended before its last planned step: what its whole plan claims.

Why not less. Where a trial stops is chosen from results: its own at the rungs, and other trials' (asynchronous
successive halving promotes the best of those it has seen). "The first k steps are (epsilon_k, delta)-DP" is a theorem
about a k that was fixed before the first step. A rule may stop exactly where the steps so far have revealed most, and
spend delta once at every rung: stated for whichever k came out, delta is violated by up to the number of rungs.

Why the whole plan's claim holds. The plan fixes every step (mechanism, sampling rate, noise, count) before the first of
them. Adaptive composition (Dwork, Rothblum & Vadhan 2010; Zhu, Dong & Wang 2022, theorem 27) lets whoever looks on
choose between two steps what comes next, within those mechanisms; "nothing" is within each of them. Put as a filter
(Rogers, Roth, Ullman & Vadhan 2016; Whitehouse, Ramdas, Rogers & Wu 2023): the budget is that of all planned steps and
the trial halts at or before it. Or as post-processing: what is released, the path to the stop and the stop itself, is
computed from the path of the whole plan, from coins and from messages of other trials, none of which read a record
through this trial. Other trials may wait for this one's reports and read the same records: they are part of who looks
on, as concurrent composition allows (Vadhan & Wang 2021; Haney et al. 2023). Like every claim of one trial, this
one is about the trial's own release; what all of them released together is the total of the sweep.

What the prefix does guarantee. Of J rungs that are public before the first step, let epsilon_k be the epsilon of the
first k at delta / J. Split any set S of outcomes by the rung they stopped at: S_k is an event of the first k rungs, so

    P(S) = sum_k P(S_k) <= sum_k (exp(epsilon_k) P'(S_k) + delta / J) = sum_k exp(epsilon_k) P'(S_k) + delta.

Outcomes that stopped at rung k are bounded by epsilon_k, up to delta in all: a guarantee that is known when the trial
has ended (ex-post privacy; Ligett, Neel, Roth, Waggoner & Wu 2017), of another notion than an epsilon that was promised
beforehand. It stands beside the claim under its own name, and on no axis with it.
"""

from __future__ import annotations

from dataclasses import replace

from dpcore import checks
from dpcore.accountants.pld import DiscretisationInvalid, ToleranceNotReached
from dpcore.accounting import headline_of_parts
from dpcore.events import Composed, UnsupportedEvent
from dpcore.guarantee import Guarantee, Notion, resting_on
from trainables.system import PrivacyPlan

THEOREM = "The prefix at delta / J, a union over the J public rungs (ex-post privacy: Ligett et al. 2017)"


def ex_post(plan: PrivacyPlan, step: int, rungs: int) -> Guarantee | None:
    """What the first `step` steps guarantee after the event, where that is less than the whole plan's claim.

    rungs  number J of the steps at which the trial could have stopped, its last one included; public beforehand

    The guarantee covers reports on private validation records up to there, and carries the plan's delta, which all
    rungs share. None where it says no more than the claim, where the
    claim is of another notion than differential privacy, and where no accountant can count the prefix. Raises
    InvalidValue for a step beyond the plan's or fewer than one rung.
    """
    checks.count(minimum=1, rungs=rungs)
    event, whole, reports = plan.event(0, step), plan.guarantee, plan.validation
    if whole.notion is not Notion.DP or whole.delta == 0:
        return None
    try:
        counted = headline_of_parts(
            event,
            Composed() if reports is None else reports.event(0, step),
            parallel=reports is not None and reports.parallel,
            delta=whole.delta / rungs,
            adjacency=whole.adjacency,
            unit=whole.unit,
        )
    except (ToleranceNotReached, DiscretisationInvalid, UnsupportedEvent):
        return None
    if counted.epsilon >= whole.epsilon:
        return None
    return replace(
        resting_on(counted, [whole]),
        notion=Notion.EX_POST,
        delta=whole.delta,
        theorem=THEOREM,
        assumptions=whole.assumptions,
        epsilon_lower=None,
    )
