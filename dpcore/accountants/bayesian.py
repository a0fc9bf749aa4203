"""Bayesian differential privacy: what a typical record, drawn like the data, loses on average. Not a promise to anyone.

Source  Triastcyn & Faltings (2020), Theorems 1-4 and Corollary 1. Conventions: sum of contributions plus
        N(0, sigma^2 I), one more record x' ~ mu or none, orders lambda integer.

An outlier rarer than delta_mu may be fully exposed, so a claim made here is `average-case` and stands beside the
ordinary differential privacy of the same run, never instead of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, gammaln, logsumexp, xlog1py

from dpcore import checks
from dpcore.accountants.rdp import log_expm1
from dpcore.events import Adjacency
from dpcore.guarantee import Guarantee, Notion, Status

# Privacy cost of one subsampled Gaussian step against one record whose contribution is known.
#
# A step releases a sum of contributions plus N(0, sigma^2 I). A record takes part with probability `rate` and then
# moves the sum by a vector of length u. Its cost at order lambda is lambda * D_{lambda+1}, in nats.
#
# Source Triastcyn & Faltings (2020), Theorem 3. Its `c_R` bounds the reverse direction by convexity, linear in the
# rate, and is far too large; the true reverse divergence of equal-variance Gaussians never exceeds that of `c_L`
# (Mironov, Talwar & Zhang 2019, Corollary 7), so every claim uses `c_L` and `c_R` is here to be compared.

Array = NDArray[np.float64]

# exp overflows past this; 1 beside exp(40) is far below rounding.
_LARGE = 40.0


def left_cost(distances: ArrayLike, rate: float, sigma: float, order: int) -> Array:
    """lambda * D_{lambda+1} for each distance: ln E_{k ~ Bin(lambda+1, rate)} exp((k^2 - k) u^2 / (2 sigma^2)).

    distances  u, one per record, same unit as sigma, each finite and at least 0; shape (m,)
    rate       probability that the record takes part, in (0, 1]
    sigma      standard deviation of the noise, above 0
    order      lambda, an integer of at least 1
    Returns shape (m,), in nats. With u replaced by the clipping norm this is the moments accountant of Abadi et al.
    (2016). Raises InvalidValue.
    """
    ratios = _squared_ratios(distances, rate, sigma, order)
    k = np.arange(2, order + 2, dtype=np.float64)
    # The terms k = 0 and 1 sum, with the rest of the weights, to 1: adding excesses over 1 keeps the digits.
    excess = _log_binomial(order + 1, k, rate)[None, :] + log_expm1(np.outer(ratios, k * (k - 1) / 2))
    total = logsumexp(excess, axis=1)
    out: Array = np.where(total < _LARGE, np.log1p(np.exp(np.minimum(total, _LARGE))), total)
    return out


def right_cost(distances: ArrayLike, rate: float, sigma: float, order: int) -> Array:
    """The convexity bound of Theorem 3 on the reverse direction: ln E_{k ~ Bin(lambda, rate)} exp((k^2 + k) u^2/2s^2).

    Arguments and result as in `left_cost`. Never used in a claim.
    """
    ratios = _squared_ratios(distances, rate, sigma, order)
    k = np.arange(0, order + 1, dtype=np.float64)
    terms = _log_binomial(order, k, rate)[None, :] + np.outer(ratios, k * (k + 1) / 2)
    out: Array = logsumexp(terms, axis=1)
    return out


def _squared_ratios(distances: ArrayLike, rate: float, sigma: float, order: int) -> Array:
    checks.rate(rate=rate)
    checks.positive_finite(sigma=sigma)
    checks.count(1, order=order)
    u = np.asarray(distances, dtype=np.float64)
    if u.ndim != 1 or u.size == 0 or not np.all(np.isfinite(u)) or np.any(u < 0):
        raise checks.InvalidValue("distances", distances, "a non-empty vector of finite numbers of at least 0")
    ratios: Array = (u / sigma) ** 2
    return ratios


def _log_binomial(n: int, k: Array, rate: float) -> Array:
    choose = gammaln(n + 1.0) - gammaln(k + 1) - gammaln(n - k + 1)
    out: Array = choose + k * np.log(rate) + xlog1py(n - k, -rate)
    return out


# How far one record can move a release, sampled from the data: the distances that the Bayesian accountant needs.
#
# Which distance is right depends on the sampling. Under Poisson sampling a record adds its own contribution or
# nothing, so the distance is the contribution's norm. In a batch of fixed size drawn without replacement it takes the
# place of another record, so the distance is between two independently drawn contributions, as Triastcyn & Faltings
# (2020) use it. Pair distances under Poisson sampling count far too little when contributions have a large common
# part: that a record took part at all would show.
#
# Contributions carry the update's own clipping, scale and mask: divide by the batch size exactly where the update
# does, and give sigma on the same scale.


def contribution_norms(gradients: ArrayLike, clip_norm: float | None = None) -> Array:
    """Norm of each record's contribution: the distances under Poisson sampling.

    gradients  shape (m, d), one row per independently drawn record, of the coordinates that the step updates
    clip_norm  C above 0, or None for unbounded sensitivity (then no ordinary differential privacy holds)
    Returns shape (m,).
    """
    rows = _contributions(gradients)
    norms: Array = np.linalg.norm(rows, axis=1)
    if clip_norm is None:
        return norms
    checks.positive_finite(clip_norm=clip_norm)
    out: Array = np.linalg.norm(rows * (clip_norm / np.maximum(norms, clip_norm))[:, None], axis=1)
    return out


def pair_distances(gradients: ArrayLike) -> Array:
    """Distance between rows 2i and 2i+1: the distances for batches of fixed size, from independent pairs only.

    `gradients` as in `contribution_norms`, with an even number of rows. Returns shape (m/2,). Two clipped contributions
    may be 2C apart. Raises InvalidValue.
    """
    rows = _contributions(gradients)
    if len(rows) % 2:
        raise checks.InvalidValue("gradients", rows.shape, "an even number of rows", "Draw the records in pairs.")
    out: Array = np.linalg.norm(rows[0::2] - rows[1::2], axis=1)
    return out


def random_mask(dimension: int, fraction: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """A random set of ceil(fraction * dimension) coordinates to update, drawn without looking at the data.

    fraction  in (0, 1]. Returns shape (dimension,).

    Raises InvalidValue.
    """
    checks.count(1, dimension=dimension)
    checks.rate(fraction=fraction)
    mask = np.zeros(dimension, dtype=bool)
    mask[rng.choice(dimension, size=math.ceil(fraction * dimension), replace=False)] = True
    return mask


def _contributions(gradients: ArrayLike) -> Array:
    rows = np.asarray(gradients, dtype=np.float64)
    if rows.ndim != 2 or not np.all(np.isfinite(rows)):
        raise checks.InvalidValue("gradients", rows.shape, "a finite matrix with one row per record")
    return rows


# Estimating a population's privacy cost from a sample, so that the estimate is rarely too small.
#
# Source Triastcyn & Faltings (2020), Theorem 4, after Oliphant (2006).
#
# The failure probability gamma holds under a maximum-entropy prior, not for every population: a record that is rarer
# than one in the sample's size and costs much is not seen and not covered (the tests show it).


def estimated_cost(costs: ArrayLike, steps: int, failure: float) -> float:
    """c_hat = (1/T) ln[M + t S / sqrt(m-1)] of h_i = exp(T * cost_i), with mean M and deviation S (divisor m).

    costs    lambda * D_{lambda+1} of m independently drawn records, shape (m,), in nats, m at least 3
    steps    T, fixed before training
    failure  gamma in (0, 0.5): probability, under the prior, that the estimate is below the population's cost;
             t is the upper gamma quantile of Student's t with m - 1 degrees of freedom
    Everything in logarithms, so that T * cost may exceed 700. Raises InvalidValue, also for a sample without any
    spread: it says nothing about the tail.
    """
    checks.count(1, steps=steps)
    checks.probability_open(failure=failure)
    if failure >= 0.5:
        raise checks.InvalidValue("failure", failure, "a number below 0.5", "Above it the estimate is below the mean.")
    scaled = steps * np.asarray(costs, dtype=np.float64)
    if scaled.ndim != 1 or scaled.size < 3 or not np.all(np.isfinite(scaled)):
        raise checks.InvalidValue("costs", costs, "at least 3 finite numbers", "Draw more records for the estimate.")
    top, below = float(np.max(scaled)), _below_the_largest(scaled)
    spread = float(np.std(below))
    if spread == 0:
        remedy = "Draw more records, or account for the clipping norm by ordinary differential privacy."
        raise checks.InvalidValue("costs", costs, "costs that differ from each other", remedy)
    # It takes longer to import than all else here: not for every plan.
    from scipy.stats import t

    # The survival inverse: 1 - gamma would round to 1.
    quantile = float(t.isf(failure, scaled.size - 1))
    excess = float(np.mean(below)) + quantile * spread / math.sqrt(scaled.size - 1)
    return (top + math.log1p(excess)) / steps


def _below_the_largest(scaled: NDArray[np.float64]) -> NDArray[np.float64]:
    """h_i / max(h) - 1 of h_i = exp(scaled_i): where these are all 0, a sample has no spread."""
    below: NDArray[np.float64] = np.expm1(scaled - np.max(scaled))
    return below


def step_cost(
    distances: ArrayLike,
    rate: float,
    sigma: float,
    order: int,
    *,
    steps: int,
    failure: float,
    largest: float | None = None,
) -> float:
    """One step's share at `order`: the estimate, and never more than `largest`, the distance no record exceeds, costs.

    distances, rate, sigma, order  as `left_cost` takes them
    steps, failure                 as `estimated_cost` takes them
    largest                        the clip norm for contributions, twice that for pairs; None for unbounded ones.
                                   With it, a sample without spread (every gradient clipped) costs the worst case
    Raises InvalidValue.
    """
    costs = left_cost(distances, rate, sigma, order)
    if largest is None:
        return estimated_cost(costs, steps, failure)
    checks.positive_finite(largest=largest)
    worst = float(left_cost([largest], rate, sigma, order)[0])
    if np.std(_below_the_largest(steps * costs)) == 0:
        return worst
    return min(worst, estimated_cost(costs, steps, failure))


NAME = "bayesian"
DEFAULT_ORDERS = (2, 4, 8, 16, 32)
"""The orders of the published MNIST experiment."""

AVERAGE = "Average over records drawn from the data's own distribution; an outlier rarer than delta may be exposed."
EXCHANGEABLE = "Records are exchangeable, and the sampled distances come from independent draws of the same population."
MAXIMUM_ENTROPY = "The estimator's failure probability holds under a maximum-entropy prior, not for every population."
UNPROTECTED = "epsilon is itself computed from private data and is not protected."


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

        distances  as `dpcore.accountants.bayesian` measures them, shape (m,), m at least 3, on sigma's scale
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


def attack_success(epsilon: float) -> float:
    """Largest posterior probability of a right guess with even prior odds: exp(eps) / (1 + exp(eps)) (equation 1).

    Raises InvalidValue.
    """
    checks.non_negative(epsilon=epsilon)
    return float(expit(epsilon))


def log_left(delta_mu: float, failure_probability: float) -> float:
    """ln(delta_mu - failure_probability): what Chernoff's bound may use. Raises InvalidValue where nothing is left."""
    checks.probability_open(delta_mu=delta_mu)
    if failure_probability >= delta_mu:
        remedy = "Fewer orders, a smaller failure probability per estimate, or a larger delta_mu."
        expected = f"more than the {failure_probability:g} that the estimates may fail with"
        raise checks.InvalidValue("delta_mu", delta_mu, expected, remedy)
    return math.log(delta_mu - failure_probability)


# A stopping rule that keeps a run within a Bayesian budget although its costs depend on what was already released.
#
# The published composition (Triastcyn & Faltings 2020, Theorem 1) averages over the unknown record x' inside every
# step. Once a step's cost depends on earlier outputs this fails: outputs that lean towards x' make the steps that are
# dear for x' more likely than the average knows (the tests compute an example). The filter bounds the sum all the
# same:
#
# Let D be the run without x', D' with it, T the planned steps, and k = 2 lambda + 1. Under the law of D the weights
# do not depend on x', and the product of exp((k+1) L'_t - k D_{k+1,t}(x')) has mean at most 1 for every x', L' being
# the loss of D' against D. Cauchy-Schwarz splits E exp(lambda L') = E_D exp((lambda+1) L') into the root of that mean
# and the root of E_D E_{x'} exp(sum_t k D_{k+1,t}(x')), which Hoelder bounds along each path by exp(sum_t c_t(k; T)).
# The other direction takes k = 2 lambda in the same way, which is less. So E exp(lambda L) <= exp(budget / 2) as long
# as no path lets sum_t c_t(2 lambda + 1; T) exceed the budget.

STOPPED = "No step ran whose cost did not fit; whether one ran is visible."


@dataclass(frozen=True)
class BayesianFilter:
    """A budget (epsilon, delta_mu) fixed before training, of which every step asks its share before it runs.

    epsilon   target, above 0
    delta_mu  target, in (0, 1), the estimates' failures included
    steps     T, the most steps that may run, fixed before training
    order     lambda, a single one, fixed before training
    failure   gamma of one estimate, in (0, 0.5); T of them are charged to delta_mu
    spent     sum of the costs at order 2 lambda + 1 so far, in nats
    taken     steps so far

    Raises InvalidValue where epsilon, delta_mu and order leave no budget.
    """

    epsilon: float
    delta_mu: float
    steps: int
    order: int
    failure: float = 1e-15
    spent: float = 0.0
    taken: int = 0

    def __post_init__(self) -> None:
        checks.positive_finite(epsilon=self.epsilon)
        checks.count(1, steps=self.steps, order=self.order)
        checks.probability_open(failure=self.failure)
        if self.budget <= 0:
            remedy = f"At delta_mu={self.delta_mu:g} the order must exceed ln(1/delta_mu) / epsilon."
            raise checks.InvalidValue("order", self.order, "an order whose bound can fall to epsilon", remedy)

    @property
    def budget(self) -> float:
        """Largest sum of costs at order 2 lambda + 1: 2 (lambda epsilon + ln(delta_mu - T gamma)), in nats."""
        return 2 * (self.order * self.epsilon + log_left(self.delta_mu, self.steps * self.failure))

    def admit(
        self, distances: ArrayLike, rate: float, sigma: float, largest: float | None = None
    ) -> BayesianFilter | None:
        """The filter after one more step, or None where the step must not run and the run ends.

        Arguments as in `BayesianAccountant.observe`, measured at the current weights before the step's noise is drawn.
        """
        if self.taken == self.steps:
            return None
        order = 2 * self.order + 1
        cost = step_cost(distances, rate, sigma, order, steps=self.steps, failure=self.failure, largest=largest)
        spent = self.spent + cost
        return replace(self, spent=spent, taken=self.taken + 1) if spent <= self.budget else None

    def guarantee(self, unit: str = "record") -> Guarantee:
        """The claim for everything released under the filter: its target, known before training."""
        return average_case(
            self.epsilon, self.delta_mu, "Corollary 1 and Theorem 4, with a stopping rule", unit, STOPPED
        )
