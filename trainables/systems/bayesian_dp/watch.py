"""The Bayesian bookkeeping of one run: asked before each step, kept in its checkpoints, reported at its end."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpcore.accountants.bayesian import BayesianAccountant, BayesianFilter, log_left, percentile_curve
from dpcore.checks import InvalidValue
from trainables.system import PrivacyPlan, State
from trainables.systems.bayesian_dp.bayesian_knobs import NO_BUDGET, BudgetKnobs, DeltaKnobs, EstimateKnobs
from trainables.systems.bayesian_dp.bayesian_metrics import SHARES, percentile_metric

_COSTS, _SPENT, _COUNTS = "bayesian.costs", "bayesian.spent", "bayesian.counts"


def filter_for(epsilon: float, delta_mu: float, steps: int, failure: float) -> BayesianFilter:
    """The filter whose order buys most: budget over cost, (lambda eps - L) / lambda^2, peaks at lambda = 2 L / eps.

    L = -ln(delta_mu - T gamma). Raises InvalidValue where the estimates alone use up delta_mu.
    """
    order = max(1, math.ceil(-2 * log_left(delta_mu, steps * failure) / epsilon))
    return BayesianFilter(epsilon=epsilon, delta_mu=delta_mu, steps=steps, order=order, failure=failure)


def accountant_for(knobs: EstimateKnobs, steps: int) -> BayesianAccountant:
    """The accountant of a run before its first step. Raises InvalidValue (orders)."""
    return BayesianAccountant(steps=steps, orders=knobs.orders, failure=knobs.estimate_failure)


def check_figures(knobs: EstimateKnobs, delta_mu: float, steps: int) -> None:
    """Raises InvalidValue where the estimates alone use up a delta that an epsilon is stated at."""
    failures = accountant_for(knobs, steps).failure_probability
    smallest = min(delta_mu, min(SHARES) * knobs.percentile_delta)
    if failures >= smallest:
        raise InvalidValue(
            "estimate_failure",
            knobs.estimate_failure,
            f"steps x orders x estimate_failure below the smallest delta {smallest:g}, it is {failures:g}",
            "Lower estimate_failure, list fewer bayesian_orders, or take fewer epochs.",
        )


@dataclass(slots=True)
class Watch:
    """Counts steps and stops them.

    delta_mu          of the figure and of the filter
    percentile_delta  of the percentile metrics
    largest           the distance that clipping allows; None without clipping
    filter            None where nothing is to be stopped
    stopped           no further step may run
    """

    accountant: BayesianAccountant
    filter: BayesianFilter | None
    delta_mu: float
    percentile_delta: float
    largest: float | None
    stopped: bool = False

    @classmethod
    def of(cls, knobs: EstimateKnobs, plan: PrivacyPlan, largest: float | None) -> Watch:
        """The watch over a run from scratch: by its knobs, or by its claim where the claim is the average case."""
        delta_mu, budget = plan.guarantee.delta, plan.guarantee.epsilon
        if isinstance(knobs, BudgetKnobs) and isinstance(knobs, DeltaKnobs):
            delta_mu, budget = knobs.bayesian_delta, knobs.bayesian_budget
        return cls(
            accountant=accountant_for(knobs, plan.steps),
            filter=None if budget == NO_BUDGET else filter_for(budget, delta_mu, plan.steps, knobs.estimate_failure),
            delta_mu=delta_mu,
            percentile_delta=knobs.percentile_delta,
            largest=largest,
        )

    def admits(self, distances: ArrayLike, rate: float, sigma: float) -> bool:
        """Whether one more step may run, given distances at the current weights; counted if so.

        Arguments as in `BayesianAccountant.observe`. Once False, always False.
        """
        if self.stopped:
            return False
        if self.filter is not None:
            after = self.filter.admit(distances, rate, sigma, self.largest)
            if after is None:
                self.stopped = True
                return False
            self.filter = after
        self.accountant = self.accountant.observe(distances, rate, sigma, self.largest)
        return True

    def metrics(self) -> dict[str, float]:
        """The figure, its percentiles, and the steps that ran."""
        curve = percentile_curve(self.accountant.epsilon, self.percentile_delta, SHARES)
        return {
            "bayesian_epsilon": self.accountant.epsilon(self.delta_mu),
            **{percentile_metric(share): epsilon for share, epsilon in curve},
            "steps_taken": float(self.accountant.observed),
        }

    def state(self) -> dict[str, NDArray[np.generic]]:
        """What a checkpoint keeps."""
        spent = 0.0 if self.filter is None else self.filter.spent
        return {
            _COSTS: np.array(self.accountant.costs),
            _SPENT: np.array(spent),
            _COUNTS: np.array([self.accountant.observed, self.stopped], dtype=np.int64),
        }

    def restore(self, state: State) -> None:
        """Go on from a checkpoint of the same plan."""
        observed, stopped = (int(one) for one in state[_COUNTS])
        costs = tuple(float(one) for one in state[_COSTS])
        self.accountant = replace(self.accountant, costs=costs, observed=observed)
        if self.filter is not None:
            self.filter = replace(self.filter, spent=float(state[_SPENT]), taken=observed)
        self.stopped = bool(stopped)
