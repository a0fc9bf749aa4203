"""Algorithm 1 of Lu et al. (2021): noise on one sampled output neuron. Refuted; kept to be reproduced and attacked.

With three classes or more two outputs stay without noise, and the ratio of their probabilities shows the difference of
their logits exactly: delta is 1 at every finite epsilon. With two classes the output depends on the difference of the
logits only, and a valid sensitivity, which the publication does not have, would make it 2 epsilon_neuron-DP.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_softmax, softmax

from dpcore import checks
from dpcore.adjacency import Adjacency
from dpcore.events import Event, NonPrivate
from dpcore.gdp_dual import eps_gdp
from dpcore.guarantee import Guarantee, Status
from dpcore.mechanisms.protocol import mechanism, repeated

Array = NDArray[np.float64]

REASON = (
    "Two classes without noise show their logits' difference exactly (three classes or more); "
    "the sensitivities do not bound one record's influence (any number of classes)."
)


class RandomSource(Protocol):
    """What the mechanisms ask of a random source; `numpy.random.Generator` is one."""

    def random(self, size: tuple[int, ...]) -> Array:
        """Uniform draws in [0, 1)."""
        ...

    def laplace(self, loc: float, scale: float, size: int) -> Array:
        """Laplace draws, density exp(-|x - loc| / scale) / (2 scale)."""
        ...

    def normal(self, loc: float, scale: float, size: int | tuple[int, ...]) -> Array:
        """N(loc, scale^2)."""
        ...


class Noise(StrEnum):
    """Which law the sampled neuron's noise has."""

    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"


def neuron_budget(budget: float, classes: int, noise: Noise, split: float = 1.0) -> float:
    """epsilon_neuron of one query: eps/(2C + split) for Laplace, eps/sqrt(4C + split^2) for Gaussian noise.

    budget  epsilon per query; with Gaussian noise it is a mu of Gaussian differential privacy
    split   epsilon_sampling / epsilon_neuron, at least 0; 1 as published

    Raises InvalidValue.
    """
    checks.positive_finite(budget=budget)
    checks.count(2, classes=classes)
    checks.non_negative_finite(split=split)
    return budget / (2 * classes + split) if noise is Noise.LAPLACE else budget / math.sqrt(4 * classes + split**2)


def log_predictions(
    logits: ArrayLike,
    logit_sensitivity: float,
    probability_sensitivity: float,
    budget: float,
    noise: Noise,
    rng: np.random.Generator | RandomSource,
    split: float = 1.0,
) -> Array:
    """Log-probabilities that Algorithm 1 releases, one independent run per row.

    logits                   shape (queries, classes)
    logit_sensitivity        Dz, above 0
    probability_sensitivity  Dp in (0, 1]
    budget                   epsilon (mu for Gaussian noise) of each query
    split                    epsilon_sampling / epsilon_neuron; 1 as published
    Neuron v is sampled with probability proportional to exp(e_s p_v / (2 Dp)) and gets noise of scale Dz / e_n.
    Logarithms carry the same information as the probabilities and do not underflow. Returns shape (queries, classes).

    Raises InvalidValue.
    """
    z = np.array(logits, dtype=np.float64)
    if z.ndim != 2:
        raise checks.InvalidValue("logits", z.shape, "shape (queries, classes)")
    checks.positive_finite(logit_sensitivity=logit_sensitivity)
    checks.rate(probability_sensitivity=probability_sensitivity)
    share = neuron_budget(budget, z.shape[1], noise, split)
    chances = softmax(split * share * softmax(z, axis=1) / (2 * probability_sensitivity), axis=1)
    chosen = (rng.random((len(z), 1)) > np.cumsum(chances, axis=1)[:, :-1]).sum(axis=1)
    scale = logit_sensitivity / share
    draw = rng.laplace if noise is Noise.LAPLACE else rng.normal
    z[np.arange(len(z)), chosen] += draw(0.0, scale, len(z))
    out: Array = log_softmax(z, axis=1)
    return out


@mechanism("one-neuron-answers")
@dataclass(frozen=True, slots=True, kw_only=True)
class OneNeuronAnswers:
    """`steps` answers of Algorithm 1, each a vector of log-probabilities. They are not private.

    logit_sensitivity, probability_sensitivity  Dz and Dp, as claimed
    noise                                       its law
    noise_multiplier                            one over the budget of an answer, above 0
    split                                       epsilon_sampling / epsilon_neuron

    Raises InvalidValue.
    """

    logit_sensitivity: float
    probability_sensitivity: float
    noise: Noise
    noise_multiplier: float
    split: float
    steps: int

    def __post_init__(self) -> None:
        checks.positive_finite(logit_sensitivity=self.logit_sensitivity, noise_multiplier=self.noise_multiplier)
        checks.rate(probability_sensitivity=self.probability_sensitivity)
        checks.non_negative_finite(split=self.split)
        checks.count(steps=self.steps)
        # Read from its written form, it is a plain word.
        object.__setattr__(self, "noise", Noise(self.noise))

    def event(self, from_step: int = 0, to_step: int | None = None) -> Event:
        """See `dpcore.mechanisms.protocol.Mechanism.event`: all but one output leave as they are."""
        return repeated(NonPrivate(), self.steps, from_step, to_step)

    def scale(self, classes: int) -> float:
        """Of the noise on the sampled logit."""
        return self.logit_sensitivity / neuron_budget(1 / self.noise_multiplier, classes, self.noise, self.split)

    def release(self, logits: ArrayLike, rng: np.random.Generator | RandomSource) -> Array:
        """The answers to logits [queries, classes], of the same shape (`log_predictions`)."""
        dz, dp, budget = self.logit_sensitivity, self.probability_sensitivity, 1 / self.noise_multiplier
        return log_predictions(logits, dz, dp, budget, self.noise, rng, self.split)


def published_guarantee(total: float, noise: Noise, delta: float | None = None) -> Guarantee:
    """The publication's claim for all queries together, marked refuted.

    total  epsilon (Laplace, Theorem 6) or mu (Gaussian), above 0
    delta  in (0, 1), needed for Gaussian noise only: mu = 1 reads epsilon 4.377 at delta 1e-5

    Raises InvalidValue.
    """
    checks.positive_finite(total=total)
    if noise is Noise.GAUSSIAN and delta is None:
        raise checks.InvalidValue("delta", delta, "a number in (0, 1)", "A Gaussian claim has no epsilon without it.")
    gaussian = noise is Noise.GAUSSIAN and delta is not None
    return Guarantee(
        epsilon=eps_gdp(total, delta) if gaussian and delta is not None else total,
        delta=delta if gaussian and delta is not None else 0.0,
        adjacency=Adjacency.ADD_REMOVE,
        accountant="one-neuron",
        status=Status.REFUTED,
        theorem="Lu et al. (2021), Theorem 6",
        assumptions=(REASON,),
    )
