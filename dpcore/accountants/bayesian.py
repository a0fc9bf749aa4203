"""Bayesian differential privacy: what a typical record, drawn like the data, loses on average. Not a promise to anyone.

Source  Triastcyn & Faltings (2020), Theorems 1-4 and Corollary 1. Conventions: sum of contributions plus
        N(0, sigma^2 I), one more record x' ~ mu or none, orders lambda integer.

An outlier rarer than delta_mu may be fully exposed, so a claim made here is `average-case` and stands beside the
ordinary differential privacy of the same run (`beside_ordinary`), never instead of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from numpy.typing import ArrayLike
from scipy.special import expit

from dpcore import checks
from dpcore.accountants.bayesian_estimator import step_cost
from dpcore.accounting import headline
from dpcore.adjacency import Adjacency
from dpcore.events import Event, NonPrivate
from dpcore.guarantee import Guarantee, Notion, Status

NAME = "bayesian"
DEFAULT_ORDERS = (2, 4, 8, 16, 32)
"""The orders of the published MNIST experiment."""

AVERAGE = "Average over records drawn from the data's own distribution; an outlier rarer than delta may be exposed."
EXCHANGEABLE = "Records are exchangeable, and the sampled distances come from independent draws of the same population."
MAXIMUM_ENTROPY = "The estimator's failure probability holds under a maximum-entropy prior, not for every population."
UNPROTECTED = "epsilon is itself computed from private data and is not protected."
REALISED = "Step costs do not follow the noise of earlier steps; where they do, only the stopping filter bounds them."


@dataclass(frozen=True)
class BayesianAccountant:
    """Costs read off along one run, one estimate per step and order. Nothing is mutated.

    steps     T, fixed before training; the run may be shorter, never longer
    orders    lambda, integers of at least 1, each of which needs an estimate that holds
    failure   gamma, probability that one estimate is too small, in (0, 0.5)
    costs     sum of the step costs so far, one per order, in nats
    observed  steps counted so far

    Raises InvalidValue.
    """

    steps: int
    orders: tuple[int, ...] = DEFAULT_ORDERS
    failure: float = 1e-15
    costs: tuple[float, ...] = ()
    observed: int = 0

    def __post_init__(self) -> None:
        checks.count(1, steps=self.steps)
        checks.probability_open(failure=self.failure)
        if not self.orders or len(set(self.orders)) != len(self.orders):
            raise checks.InvalidValue("orders", self.orders, "at least one order, each once")
        for order in self.orders:
            checks.count(1, order=order)
        if not self.costs:
            object.__setattr__(self, "costs", (0.0,) * len(self.orders))

    @property
    def failure_probability(self) -> float:
        """T * L * gamma: the probability that any estimate of the run is too small.

        The best of L orders is picked after the estimates, so all of them must hold; one order costs T * gamma.
        """
        return self.steps * len(self.orders) * self.failure

    def observe(
        self, distances: ArrayLike, rate: float, sigma: float, largest: float | None = None
    ) -> BayesianAccountant:
        """After one more step, whose distances were sampled at the current weights.

        distances  as `dpcore.accountants.bayesian_distances` measures them, shape (m,), m at least 3, on sigma's scale
        rate       sampling rate in (0, 1]
        sigma      standard deviation of the step's noise
        largest    the distance that clipping allows; None without clipping
        Raises InvalidValue past the planned steps, and where `step_cost` does.
        """
        if self.observed == self.steps:
            remedy = "Plan more steps before training: every cost so far was estimated for this number."
            raise checks.InvalidValue("steps", self.steps, "a step still planned", remedy)
        new = tuple(
            old + step_cost(distances, rate, sigma, order, steps=self.steps, failure=self.failure, largest=largest)
            for old, order in zip(self.costs, self.orders, strict=True)
        )
        return replace(self, costs=new, observed=self.observed + 1)

    def epsilons(self, delta_mu: float) -> tuple[float, ...]:
        """(cost - ln(delta_mu - T L gamma)) / lambda for each order: Corollary 1 with the failures charged.

        delta_mu  total failure probability in (0, 1), estimates included. Raises InvalidValue where the estimates alone
                  use it up.
        """
        log_delta = log_left(delta_mu, self.failure_probability)
        return tuple((cost - log_delta) / order for cost, order in zip(self.costs, self.orders, strict=True))

    def epsilon(self, delta_mu: float) -> float:
        """The least of `epsilons`, at least 0; 0 before the first step."""
        values = self.epsilons(delta_mu)
        return max(0.0, min(values)) if self.observed else 0.0

    def guarantee(self, delta_mu: float, unit: str = "record") -> Guarantee:
        """The average-case claim, with what it rests on."""
        return average_case(self.epsilon(delta_mu), delta_mu, "Theorems 1-4", unit, REALISED)


def average_case(epsilon: float, delta_mu: float, theorem: str, unit: str, *assumptions: str) -> Guarantee:
    """A claim in the notion of Bayesian differential privacy."""
    return Guarantee(
        notion=Notion.BAYESIAN_DP,
        epsilon=epsilon,
        delta=delta_mu,
        adjacency=Adjacency.ADD_REMOVE,
        unit=unit,
        accountant=NAME,
        status=Status.AVERAGE_CASE,
        theorem=f"Triastcyn & Faltings (2020), {theorem}",
        assumptions=(AVERAGE, EXCHANGEABLE, MAXIMUM_ENTROPY, UNPROTECTED, *assumptions),
    )


def beside_ordinary(bayesian: Guarantee, event: Event | None, delta: float) -> tuple[Guarantee, Guarantee]:
    """The average-case claim and the ordinary differential privacy of the same run, in this order.

    event  what the run released, with the clipping norm as its sensitivity; None where nothing was clipped or the
           batches were not Poisson samples: the second epsilon is then infinite
    delta  of the second, in (0, 1)
    """
    return bayesian, headline(NonPrivate() if event is None else event, delta, bayesian.adjacency, bayesian.unit)


def attack_success(epsilon: float) -> float:
    """Largest posterior probability of a right guess with even prior odds: exp(eps) / (1 + exp(eps)) (equation 1).

    Raises InvalidValue.
    """
    checks.non_negative(epsilon=epsilon)
    return float(expit(epsilon))


def percentile_curve(
    epsilon: Callable[[float], float], delta: float, unprotected: Sequence[float]
) -> tuple[tuple[float, float], ...]:
    """(share outside the promise, epsilon at `delta` for everyone else), for each share in (0, 1).

    epsilon  epsilon as a function of delta_mu, such as `BayesianAccountant.epsilon`
    The published "99.999% of the data distribution" is share 1e-5 at delta 1e-5, hence delta_mu 1e-10.
    """
    checks.probability_open(delta=delta)
    for share in unprotected:
        checks.probability_open(unprotected=share)
    return tuple((share, epsilon(share * delta)) for share in unprotected)


def log_left(delta_mu: float, failure_probability: float) -> float:
    """ln(delta_mu - failure_probability): what Chernoff's bound may use. Raises InvalidValue where nothing is left."""
    checks.probability_open(delta_mu=delta_mu)
    if failure_probability >= delta_mu:
        remedy = "Fewer orders, a smaller failure probability per estimate, or a larger delta_mu."
        expected = f"more than the {failure_probability:g} that the estimates may fail with"
        raise checks.InvalidValue("delta_mu", delta_mu, expected, remedy)
    return math.log(delta_mu - failure_probability)
