"""Estimating a population's privacy cost from a sample, so that the estimate is rarely too small.

Source  Triastcyn & Faltings (2020), Theorem 4, after Oliphant (2006).

The failure probability gamma holds under a maximum-entropy prior, not for every population: a record that is rarer than
one in the sample's size and costs much is not seen and not covered (the tests show it).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpcore import checks
from dpcore.accountants.bayesian_cost import left_cost


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
