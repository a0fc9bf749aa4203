"""What a trial's epsilon counts as beside another's.

Calibration leaves a claim a little below its budget, each by another hair: 0.999490 here, 0.999493 there. Compared as
they are, neither trial would beat the other, however far apart their accuracies. So where noise was solved for a budget
and the claim uses it up, the trial counts with the budget; any other epsilon is rounded up to a public grid. Either is
a function of the one claim and never below it, so dominance stays an order (a tolerance between pairs is not
transitive) and nobody gains by it. What is printed is the claim.
"""

from __future__ import annotations

from dpcore.guarantee import Guarantee
from sweeps.release.rounding import on_grid
from sweeps.store.records import EPSILON, TrialRecord

USED_UP = 0.99
"""Share of the budget aimed at from which it counts as used up: calibration leaves at most a few thousandths."""


def compared_epsilon(claim: Guarantee) -> float:
    """What a claim counts as where trials are compared; never below its epsilon."""
    budget = claim.aimed_at
    return budget if budget is not None and USED_UP * budget <= claim.epsilon else on_grid(claim.epsilon)


def compared(record: TrialRecord, metric: str) -> float | None:
    """The number by which a trial is compared with others: `TrialRecord.metric`, but for epsilon."""
    if metric != EPSILON:
        return record.metric(metric)
    return None if record.guarantee is None else compared_epsilon(record.guarantee)
