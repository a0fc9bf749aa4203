"""Sensitivities as Lu et al. (2021) print them: to be reproduced, not relied on.

Theorem 4 holds for convex losses, a mean objective, exact minimisers and public n. Proposition 1 and everything derived
from an evenly divided weight change are refuted (`dpcore.convexified.counterexamples`).

Symbols  rho Lipschitz constant, lambda strong convexity, n records, C classes, eta step size, all above 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from dpcore import checks


class Bound(StrEnum):
    """A row of Table I: the bound on the L2 sensitivity of the weights that the chain starts from; convex losses."""

    CHAUDHURI_BINARY = "chaudhuri-binary"
    """2 rho / (lambda n): Chaudhuri et al. (2011), two classes, inputs of norm at most 1."""

    CHAUDHURI_GENERAL = "chaudhuri-general"
    """C ||x|| rho / (lambda n): Chaudhuri et al. (2011), any number of classes."""

    WU_DECREASING = "wu-decreasing"
    """2 rho / (lambda n): Wu et al. (2017), smooth loss, decreasing step sizes."""

    WU_CONSTANT = "wu-constant"
    """2 eta rho / (1 - (1 - eta lambda)^n): Wu et al. (2017), smooth loss, eta lambda below 1."""

    LU = "lu"
    """2 rho / (lambda n): Lu et al. (2021), Theorem 4, mean objective."""


def lu_convex(lipschitz: float, convexity: float, records: int) -> float:
    """2 rho / (lambda n), three rows of Table I alike. Raises InvalidValue."""
    checks.positive_finite(lipschitz=lipschitz, convexity=convexity)
    checks.count(1, records=records)
    return 2 * lipschitz / (convexity * records)


def weights_bound(
    bound: Bound,
    lipschitz: float,
    convexity: float,
    records: int,
    *,
    classes: int,
    input_norm: float = 1.0,
    step_size: float | None = None,
) -> float:
    """The bound by name. `step_size` is needed for WU_CONSTANT alone. Raises InvalidValue."""
    same = lu_convex(lipschitz, convexity, records)
    match bound:
        case Bound.CHAUDHURI_GENERAL:
            checks.count(2, classes=classes)
            checks.positive_finite(input_norm=input_norm)
            return classes * input_norm * lipschitz / (convexity * records)
        case Bound.WU_CONSTANT:
            if step_size is None:
                raise checks.InvalidValue("step_size", None, "a number above 0 for a bound with constant steps")
            checks.positive_finite(step_size=step_size)
            if step_size * convexity >= 1:
                raise checks.InvalidValue("step_size", step_size, f"a number below 1 / convexity = {1 / convexity:g}")
            return 2 * step_size * lipschitz / -math.expm1(records * math.log1p(-step_size * convexity))
        case _:
            return same


@dataclass(frozen=True, slots=True)
class PublishedNoise:
    """The publication's way from a network's shape to its noise (Proposition 1, equation 18, Corollaries 1 and 2).

    lipschitz        rho
    weights          D2W, L2 sensitivity of all weights, by the chosen bound
    weight           Dw = D2W / sqrt(|W|), of one weight
    logit            Dz, of one output before the softmax
    probability_raw  exp(2 Dz) - 1
    stability        2 rho^2 / (lambda n), on-average-remove-one
    """

    lipschitz: float
    weights: float
    weight: float
    logit: float
    probability_raw: float
    stability: float

    @property
    def probability(self) -> float:
        """Dp = min(exp(2 Dz) - 1, 1), of one predicted probability."""
        return min(self.probability_raw, 1.0)


def lipschitz_constant(layers: tuple[int, ...], classes: int) -> float:
    """rho = (C-1)/(C |V_last|) * product of sqrt(|V_t|) x_t: Proposition 1.

    layers  sizes of the input and hidden layers, biases not counted

    x_t, the largest absolute value in each of these layers, is 1, as the printed numbers have it. Read off training
    data it is private, which the publication does not account for. Raises InvalidValue.
    """
    checks.count(2, classes=classes)
    if not layers:
        raise checks.InvalidValue("layers", layers, "at least the input layer")
    for size in layers:
        checks.count(1, layers=size)
    return (classes - 1) / (classes * layers[-1]) * math.prod(math.sqrt(size) for size in layers)


def chain(
    layers: tuple[int, ...],
    classes: int,
    records: int,
    regulariser: float,
    *,
    bound: Bound = Bound.LU,
    input_norm: float = 1.0,
    step_size: float | None = None,
) -> PublishedNoise:
    """Every sensitivity of a fully connected network, a_u of whose last hidden layer is 1, as for tanh.

    layers            sizes of the input and hidden layers, biases not counted
    regulariser       lambda, taken as the strong convexity of 2 lambda ||W||^2, as published
    bound             which row of Table I the chain starts from; two of them have further conditions, see there
    input_norm, step_size  what CHAUDHURI_GENERAL and WU_CONSTANT ask for

    Raises InvalidValue.
    """
    rho = lipschitz_constant(layers, classes)
    total = weights_bound(bound, rho, regulariser, records, classes=classes, input_norm=input_norm, step_size=step_size)
    sizes = (*layers, classes)
    weight = total / math.sqrt(sum(a * b for a, b in pairwise(sizes)))
    logit = layers[-1] * weight
    raw = math.expm1(2 * logit) if logit < 350 else math.inf
    return PublishedNoise(rho, total, weight, logit, raw, 2 * rho**2 / (regulariser * records))
