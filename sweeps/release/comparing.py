"""The numbers of a trial that it is judged by, and what its epsilon counts as beside another's.

Calibration leaves a claim a little below its budget, each by another hair: 0.999490 here, 0.999493 there. Compared as
they are, neither trial would beat the other, however far apart their accuracies. So where noise was solved for a budget
and the claim uses it up, the trial counts with the budget; any other epsilon is rounded up to a public grid. Either is
a function of the one claim and never below it, so dominance stays an order (a tolerance between pairs is not
transitive) and nobody gains by it. What is printed is the claim.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from sweeps.records import TrialRecord
from sweeps.release.rounding import on_grid

EPSILON, TARGET_EPSILON, WORK = "epsilon", "target_epsilon", "work"
DECIDED = (EPSILON, TARGET_EPSILON, WORK)
"""Known from the plan before a trial runs: no reported metric of the same name can replace them."""

USED_UP = 0.99
"""Share of the budget aimed at from which it counts as used up: calibration leaves at most a few thousandths."""

Reader = Callable[[TrialRecord], float | None]


def reader(metric: str) -> Reader:
    """What reads `metric` from a trial, None before it is known.

    epsilon         the claim
    target_epsilon  the budget that the trial was held to; infinite where its claim exceeds that (no protection)
    work            the plan's estimate
    """
    return _DECIDED.get(metric) or (lambda record: _number(record.metrics.get(metric)))


def compared_epsilon(guarantee: Mapping[str, Any]) -> float:
    """What a claim (as `Guarantee.to_dict` gives it) counts as where trials are compared; never below its epsilon."""
    epsilon, aimed_at = float(guarantee["epsilon"]), guarantee.get("aimed_at")
    if aimed_at is not None and USED_UP * aimed_at <= epsilon <= aimed_at:
        return float(aimed_at)
    return on_grid(epsilon)


def compared(record: TrialRecord, metric: str) -> float | None:
    """The number by which a trial is compared with others: `reader`'s, but for epsilon."""
    if metric == EPSILON:
        return None if record.guarantee is None else compared_epsilon(record.guarantee)
    return reader(metric)(record)


def _claimed(record: TrialRecord) -> float | None:
    return None if record.guarantee is None else float(record.guarantee["epsilon"])


def _target(record: TrialRecord) -> float | None:
    target, epsilon = _number(record.config.get(TARGET_EPSILON)), _claimed(record)
    return None if target is None or epsilon is None else target if epsilon <= target else math.inf


def _planned(record: TrialRecord) -> float | None:
    return None if record.plan is None else float(record.plan["work"])


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


_DECIDED: Mapping[str, Reader] = {EPSILON: _claimed, TARGET_EPSILON: _target, WORK: _planned}
