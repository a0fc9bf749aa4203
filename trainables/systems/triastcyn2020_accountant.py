"""Hyperparameters of the Bayesian systems, their metrics, and what counts their steps and stops them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpcore.accountants.bayesian import BayesianAccountant, BayesianFilter, log_left
from dpcore.checks import InvalidValue
from trainables.hyperparameters import hyperparameter, hyperparameters
from trainables.metrics import Dependence, Metric
from trainables.system import DatasetSpec, PrivacyPlan, State
from trainables.systems.noisy_sgd import DescentHyperparameters
from trainables.training.hyperparameters import (
    ModelHyperparameters,
    PassHyperparameters,
    PriorHyperparameters,
    RateHyperparameters,
)
from trainables.training.trained_model import METRICS as TRAINING_METRICS

if TYPE_CHECKING:
    pass


NO_BUDGET = 0.0
ORDERS = "2,4,8,16,32"
PAIR = 2


@hyperparameters
class EstimateHyperparameters:
    """What is estimated before each step.

    percentile_delta  delta of the percentile metrics: what each record inside the share is promised
    bayesian_orders   orders lambda of the Bayesian figure, whole numbers separated by commas; each one is charged its
                      failures
    estimate_failure  gamma, probability that one estimate is too small, under the estimator's own prior
    distance_records  records (or pairs) whose gradients are looked at before each step
    distances         whose gradients: the public validation records, or private training records as published
    """

    percentile_delta: float = hyperparameter(low=1e-200, high=0.5, default=1e-5)
    bayesian_orders: str = hyperparameter(default=ORDERS)
    estimate_failure: float = hyperparameter(low=1e-200, high=0.4, default=1e-15)
    distance_records: int = hyperparameter(low=3, high=100_000, default=64, unit="records")
    distances: str = hyperparameter(choices=("held-out", "training"), default="held-out")

    @property
    def held_out(self) -> bool:
        """Whether they are those of public validation records."""
        return self.distances == "held-out"

    @property
    def orders(self) -> tuple[int, ...]:
        """The orders lambda. Raises InvalidValue."""
        try:
            orders = tuple(int(one) for one in self.bayesian_orders.split(","))
        except ValueError:
            orders = ()
        if not orders or min(orders) < 1 or len(set(orders)) < len(orders):
            expected = "whole numbers from 1, each once"
            raise InvalidValue("bayesian_orders", self.bayesian_orders, expected, f"For example {ORDERS}.")
        return orders


@hyperparameters
class WatchedHyperparameters(EstimateHyperparameters, DescentHyperparameters):
    """Of every system whose claim is an ordinary one, with the Bayesian figure beside it.

    bayesian_delta   delta_mu of the Bayesian figure, the estimates' failures included; 1e-10 is 1e-5 for 99.999% of
                     records
    bayesian_budget  Bayesian epsilon at bayesian_delta before which the run stops; 0 never stops it. Needs held-out
                     distances
    """

    bayesian_delta: float = hyperparameter(low=1e-200, high=0.5, default=1e-10)
    bayesian_budget: float = hyperparameter(low=NO_BUDGET, high=1e6, default=NO_BUDGET)


@hyperparameters
class StoppedHyperparameters(EstimateHyperparameters, PassHyperparameters, RateHyperparameters):
    """Of every system that a filter stops, and that claims no more."""


@hyperparameters
class ShareHyperparameters(ModelHyperparameters):
    """Of every system that trains a model.

    updated_share  share of the weights, drawn anew for every step, that a step updates
    """

    updated_share: float = hyperparameter(low=1e-6, high=1.0, default=1.0)


@hyperparameters
class VariationalHyperparameters(PriorHyperparameters):
    """Of a mean-field Gaussian over weights.

    first_sd  standard deviation of every weight before the first step
    draws     draws of the weights that a prediction is averaged over
    """

    first_sd: float = hyperparameter(low=1e-6, high=1e3, default=0.1)
    draws: int = hyperparameter(low=1, high=100_000, default=100, unit="draws")


@hyperparameters
class BayesianSGDHyperparameters(WatchedHyperparameters, ShareHyperparameters):
    """Of `bayesian-sgd`."""


@hyperparameters
class BayesianVariationalHyperparameters(WatchedHyperparameters, VariationalHyperparameters):
    """Of `bayesian-variational`."""


@hyperparameters
class VariationalDrawsHyperparameters(StoppedHyperparameters, VariationalHyperparameters):
    """Of `variational-draws`."""


@hyperparameters
class AverageCaseHyperparameters(StoppedHyperparameters, ShareHyperparameters):
    """Of `average-case-sgd`.

    sensitivity       unbounded: gradients are not clipped; bounded: each is clipped to clip_norm
    clip_norm         the clip where sensitivity is bounded, and in any case the unit of the noise
    noise_multiplier  noise standard deviation on the sum of gradients, divided by clip_norm
    batches           fixed: batch_size records without replacement, distances between pairs; poisson: coins, distances
                      are norms
    """

    sensitivity: str = hyperparameter(choices=("unbounded", "bounded"), default="unbounded")
    clip_norm: float = hyperparameter(low=1e-6, high=1e6, unit="gradient norm")
    noise_multiplier: float = hyperparameter(low=1e-3, high=1e6)
    batches: str = hyperparameter(choices=("fixed", "poisson"), default="fixed")

    @property
    def fixed(self) -> bool:
        """Whether batches have a fixed size."""
        return self.batches == "fixed"


def check_records(params: EstimateHyperparameters, facts: DatasetSpec, pairs: bool) -> None:
    """Raises InvalidValue when there are not as many records as each step looks at."""
    each = PAIR if pairs else 1
    present = facts.n_validation if params.held_out else facts.n
    if params.distance_records * each > present:
        raise InvalidValue(
            "distance_records",
            params.distance_records,
            f"at most {present // each}, {facts.dataset} has {present} "
            f"{'validation' if params.held_out else 'training'} records",
            "Lower distance_records, or use a split with more of them.",
        )


# Metrics that the Bayesian systems share.

_DISTANCES_OF_TRAINING = {"distances": "training"}
_figure = partial(
    Metric,
    released="average-case, no DP epsilon; with held-out distances a fact about the released weights and the "
    "validation records, with training distances about private records, without noise: then releasing it is itself a "
    "release that no claim covers",
    depends=Dependence.VALIDATION,
    raw_under=_DISTANCES_OF_TRAINING,
)
SHARES = (0.5, 0.1, 0.01)
"""Shares of the population left outside the percentile metrics."""


def percentile_metric(share: float) -> str:
    """The metric's name for the epsilon of all but `share` of the population."""
    return f"bayesian_epsilon_p{100 * (1 - share):.4g}"


METRICS = (
    *TRAINING_METRICS,
    _figure(
        name="bayesian_epsilon",
        goal="minimize",
        doc="Bayesian epsilon of the run at bayesian_delta (Triastcyn & Faltings 2020); never a DP epsilon",
    ),
    *(
        _figure(
            name=percentile_metric(share),
            goal="minimize",
            doc=f"Bayesian epsilon at percentile_delta for {1 - share:.4g} of the population, by Markov",
        )
        for share in SHARES
    ),
    _figure(
        name="steps_taken",
        goal="maximize",
        worst=0.0,
        doc="steps before the Bayesian budget stopped the run; all planned steps without a budget",
    ),
)
STOPPED_METRICS = tuple(replace(metric, raw_under=_DISTANCES_OF_TRAINING) for metric in METRICS)
"""Of systems that may stop on training distances: then all that is measured at the stop depends on them."""


# The Bayesian bookkeeping of one run: asked before each step, kept in its checkpoints, reported at its end.

_COSTS, _SPENT, _COUNTS = "bayesian.costs", "bayesian.spent", "bayesian.counts"


def filter_for(epsilon: float, delta_mu: float, steps: int, failure: float) -> BayesianFilter:
    """The filter whose order buys most: budget over cost, (lambda eps - L) / lambda^2, peaks at lambda = 2 L / eps.

    L = -ln(delta_mu - T gamma). Raises InvalidValue where the estimates alone use up delta_mu.
    """
    order = max(1, math.ceil(-2 * log_left(delta_mu, steps * failure) / epsilon))
    return BayesianFilter(epsilon=epsilon, delta_mu=delta_mu, steps=steps, order=order, failure=failure)


def accountant_for(params: EstimateHyperparameters, steps: int) -> BayesianAccountant:
    """The accountant of a run before its first step. Raises InvalidValue (orders)."""
    return BayesianAccountant(steps=steps, orders=params.orders, failure=params.estimate_failure)


def check_figures(params: EstimateHyperparameters, delta_mu: float, steps: int) -> None:
    """Raises InvalidValue where the estimates alone use up a delta that an epsilon is stated at."""
    failures = accountant_for(params, steps).failure_probability
    smallest = min(delta_mu, min(SHARES) * params.percentile_delta)
    if failures >= smallest:
        raise InvalidValue(
            "estimate_failure",
            params.estimate_failure,
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
    def of(cls, params: EstimateHyperparameters, plan: PrivacyPlan, largest: float | None) -> Watch:
        """The watch over a run from scratch: by its hyperparameters, or by a claim of the average case alone."""
        delta_mu, budget = plan.guarantee.delta, plan.guarantee.epsilon
        if isinstance(params, WatchedHyperparameters):
            delta_mu, budget = params.bayesian_delta, params.bayesian_budget
        return cls(
            accountant=accountant_for(params, plan.steps),
            filter=None if budget == NO_BUDGET else filter_for(budget, delta_mu, plan.steps, params.estimate_failure),
            delta_mu=delta_mu,
            percentile_delta=params.percentile_delta,
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
        epsilon = self.accountant.epsilon
        return {
            "bayesian_epsilon": epsilon(self.delta_mu),
            # The published "99.999% of the data distribution" is share 1e-5 at delta 1e-5, hence delta_mu 1e-10.
            **{percentile_metric(share): epsilon(share * self.percentile_delta) for share in SHARES},
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
