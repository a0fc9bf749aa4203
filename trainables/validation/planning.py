"""A system's plan with its reports on private validation records inside the same budget.

Where train and validation compose in parallel (`dpcore.accounting`), the trial's claim is the larger of two: training
keeps the whole budget, and the reports' noise is solved for what training claims, so that they raise no claim. Where
the parts add, the reports take `budget_share` of the budget's squared mu, and training is planned for what is left: its
epsilon is first guessed as if all were Gaussian, then moved until the composition of both, counted by the headline
accountant, is within the budget. Either way the claim is that count.

Every report counts, whether the trial gets so far or not: their number follows from the rungs of early stopping, from
the points of the curve and from the planned steps, all public.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, MutableMapping
from dataclasses import replace

import numpy as np

from dpcore.accountants.pld import DiscretisationInvalid, ToleranceNotReached
from dpcore.accounting import headline_of_parts
from dpcore.checks import InvalidValue
from dpcore.events import Adjacency
from dpcore.gdp import eps_gdp, mu_gdp
from dpcore.guarantee import epsilon_text, resting_on
from dpcore.mechanisms.noisy_histogram import NoisyHistogram, noise_for
from trainables.planning import attributed_plan
from trainables.reports import PUBLIC_VALIDATION, PrivateReports
from trainables.system import Config, Dataset, DatasetSpec, PrivacyPlan, PrivacyTarget, Refusal, System, traits_of
from trainables.validation.histogram_bins import cells_for

SHARE_WHERE_PARTS_ADD = 0.1
"""Training keeps 95% of its mu, and the reports have a third of it."""

ROUNDS = 4
"""Attempts at an epsilon for training; the first is mostly within a percent of the last."""
_NEAR, _BACK_OFF = 2e-3, 5e-4

Reports = Callable[[int], tuple[int, ...]]
"""Of a number of planned steps: after how many of them a trial reports."""


def plan_with_reports(
    system: System,
    config: Config,
    facts: DatasetSpec,
    target: PrivacyTarget,
    calibrations: MutableMapping[str, float],
    reported: Reports,
) -> PrivacyPlan | Refusal:
    """`system.plan`, and where validation records are private the reports after `reported(steps)` steps besides.

    Raises InvalidValue as `System.plan` does, and for a system whose metrics do not come from a noised histogram.
    """
    check_private(system, facts)
    private = facts.private_validation

    def planned(epsilon: float) -> PrivacyPlan | Refusal:
        return attributed_plan(system, config, facts, replace(target, epsilon=epsilon), calibrations)

    if private is None or not facts.n_validation:
        return planned(target.epsilon)
    adds = not private.parts or target.adjacency is not Adjacency.ADD_REMOVE
    share = SHARE_WHERE_PARTS_ADD if adds else 1.0
    share = share if private.budget_share is None else private.budget_share

    def with_reports(plan: PrivacyPlan, epsilon: float) -> PrivacyPlan:
        return _with(plan, facts, target, reported, epsilon, share)

    if adds and share == 1:
        raise InvalidValue(
            "data.validation.budget_share",
            share,
            "a share below 1: training and validation add here, and nothing would be left for training",
            "Lower it, or split by a hash of an id (share, id) under add-remove.",
        )
    try:
        if adds:
            return _adding(target, share, planned, with_reports)
        plan = planned(target.epsilon)
        return plan if isinstance(plan, Refusal) else with_reports(plan, plan.guarantee.epsilon)
    except (ToleranceNotReached, DiscretisationInvalid) as error:
        # Nothing can be claimed of it, so it is not launched; other points of the space go on.
        return Refusal(violations={"accounting": 1.0}, reason=f"epsilon cannot be bounded closely enough: {error}")


def check_private(system: System, facts: DatasetSpec) -> None:
    """Raises InvalidValue for a system that cannot report on the private validation records that `facts` name.

    One that can, says so: `Traits.private_reports`.
    """
    if facts.private_validation is not None and not traits_of(system).private_reports:
        raise InvalidValue(
            "data.validation.records",
            "private",
            f"public with {system.name}: it answers, or measures on, validation records outside of a noised histogram",
            "Sweep noisy-sgd, noisy-adam, clipped-sgld or dp-sgld, or validate on records that may be public.",
        )


def _adding(
    target: PrivacyTarget,
    share: float,
    planned: Callable[[float], PrivacyPlan | Refusal],
    with_reports: Callable[[PrivacyPlan, float], PrivacyPlan],
) -> PrivacyPlan | Refusal:
    """Training, `planned` for an epsilon of its own, and reports within one budget."""
    left = target.epsilon
    if target.solve != "none":
        left = min(left, eps_gdp(math.sqrt(1 - share) * mu_gdp(target.epsilon, target.delta), target.delta))
    best: PrivacyPlan | None = None
    spent = math.inf
    for _ in range(ROUNDS):
        if left <= 0:
            break
        plan = planned(left)
        if isinstance(plan, Refusal):
            return best or plan
        both = with_reports(plan, target.epsilon)
        spent = both.guarantee.epsilon
        if spent <= target.epsilon and (best is None or spent > best.guarantee.epsilon):
            best = both
        if target.solve == "none" or target.epsilon * (1 - _NEAR) <= spent <= target.epsilon:
            break
        left = min(left * target.epsilon / spent * (1 - _BACK_OFF), target.epsilon)
    if best is not None:
        return best
    return Refusal(
        violations={"epsilon": math.log(spent / target.epsilon) if 0 < spent < math.inf else 1.0},
        reason=f"epsilon={epsilon_text(spent, digits=6)} at delta={target.delta} of training and reports together: "
        f"expected at most {target.epsilon}. Raise the noise or epsilon, or lower data.validation.budget_share.",
    )


def _with(
    plan: PrivacyPlan, facts: DatasetSpec, target: PrivacyTarget, reported: Reports, epsilon: float, share: float
) -> PrivacyPlan:
    """The plan with reports that spend `share` of (epsilon, delta), claiming what both claim together."""
    private = facts.private_validation
    assert private is not None
    at = reported(plan.steps)
    histogram = NoisyHistogram(
        cells=cells_for(facts, private.bins).size,
        noise_multiplier=noise_for(epsilon, target.delta, len(at), share),
        adjacency=target.adjacency,
        unit_records=facts.unit_records,
    )
    reports = PrivateReports(histogram=histogram, at=at, bins=private.bins, parts=private.parts)
    counted = headline_of_parts(
        plan.event(),
        reports.event(),
        parallel=reports.parallel,
        delta=target.delta,
        adjacency=target.adjacency,
        unit=target.unit,
    )
    each = "the report" if len(at) == 1 else f"each of {len(at)} reports"
    own = [line for line in plan.guarantee.assumptions if line != PUBLIC_VALIDATION]
    lines = dict.fromkeys((*counted.assumptions, *own, *([private.assumption] if reports.parallel else ())))
    return replace(
        plan,
        description=f"{plan.description}; {each} on validation records is one histogram of {histogram.cells} counts "
        f"with Gaussian noise of {histogram.deviation:.4g} records on each",
        guarantee=replace(resting_on(counted, [plan.guarantee]), assumptions=tuple(filter(None, lines))),
        # They count training alone.
        beside=(),
        validation=reports,
    )


OF_SEVERAL_VALUES = {"auc": "classes", "average_precision": "classes", "r2": "targets"}
"""{metric that records of one value leave undefined: what these are values of}"""


def check_defined(data: Dataset, objectives: Iterable[str]) -> None:
    """Raises InvalidValue for a metric that steers a search and that no trial could report of these records."""
    targets = data.validation.targets
    if data.facts.private_validation is not None or not len(targets) or len(np.unique(targets)) > 1:
        return
    for metric in objectives:
        if metric in OF_SEVERAL_VALUES:
            what = OF_SEVERAL_VALUES[metric]
            expected = f"validation records of several {what}, without which there is no {metric}; all are {targets[0]}"
            raise InvalidValue("objectives", metric, expected, "Validate on others, or choose another objective.")
