"""Two families of noise on a vector, as values that know their sampler and the event that they release.

Both samplers ask for standard normals alone, so that any source of normals serves them, a cryptographic one included.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from dpcore import checks
from dpcore.accountants.composition import PURE_ACCOUNTANT, PURE_THEOREM, each_pure
from dpcore.events import Adjacency, Event, Gaussian, PureDP
from dpcore.gdp import sigma_gaussian
from dpcore.mechanisms.protocol import mechanism, repeated

Array = NDArray[np.float64]
Normals = Callable[[tuple[int, ...]], Array]
"""shape -> independent N(0, 1) draws of that shape, float64."""


@dataclass(frozen=True, slots=True)
class GaussianNoise:
    """Independent N(0, sigma^2) in every coordinate. `sigma` is an absolute scale, above 0."""

    sigma: float

    def __post_init__(self) -> None:
        checks.positive_finite(sigma=self.sigma)

    def sample(self, shape: tuple[int, ...], normals: Normals) -> Array:
        """One draw of `shape`."""
        return self.sigma * normals(shape)


@dataclass(frozen=True, slots=True)
class RadialNoise:
    """Density proportional to exp(-beta ||b||_2): a Gamma(dimension, rate beta) radius in a uniform direction.

    beta  above 0, in units of one over the query's. Mean radius dimension / beta; variance of a coordinate
          (dimension + 1) / beta^2.

    Source  Chaudhuri, Monteleoni & Sarwate (2011), section 3; Hardt & Talwar (2010) for the sampler.
    """

    beta: float

    def __post_init__(self) -> None:
        checks.positive_finite(beta=self.beta)

    def sample(self, shape: tuple[int, ...], normals: Normals) -> Array:
        """One draw of `shape`, exact: half the sum of 2m squared normals is Gamma(m, 1)."""
        dimension = int(np.prod(shape))
        checks.count(minimum=1, dimension=dimension)
        radius = 0.5 * float(np.square(normals((2 * dimension,))).sum())
        direction = normals(shape)
        return direction * (radius / self.beta / float(np.sqrt(np.square(direction).sum())))


Noise = GaussianNoise | RadialNoise


class NoiseLaw(StrEnum):
    """The two families by name."""

    GAUSSIAN = "gaussian"
    PURE = "pure"

    def noise(self, scale: float) -> Noise:
        """Of that scale, above 0: sigma, or one over beta."""
        return GaussianNoise(scale) if self is NoiseLaw.GAUSSIAN else RadialNoise(1 / scale)

    def event(self, noise_multiplier: float, adjacency: Adjacency) -> Gaussian | PureDP:
        """What noise of `noise_multiplier` times a query's sensitivity under `adjacency` releases of that query."""
        if self is NoiseLaw.GAUSSIAN:
            return Gaussian(noise_multiplier=noise_multiplier, adjacency=adjacency)
        return PureDP(epsilon=1 / noise_multiplier, adjacency=adjacency)


# Output perturbation: noise on a vector that was computed from the records, as a value that a plan carries.
#
# Source  Dwork & Roth (2014), appendix A; pure noise: Chaudhuri, Monteleoni & Sarwate (2011), Algorithm 1.


@mechanism("output-perturbation")
@dataclass(frozen=True, slots=True, kw_only=True)
class OutputPerturbation:
    """`steps` releases of a vector, each with noise of its own.

    law               of the noise
    noise_multiplier  its scale (sigma, or one over beta) divided by `sensitivity`, above 0
    sensitivity       largest L2 (Frobenius) change of the vector between neighbours under `adjacency`, above 0
    steps             at least 0

    Raises InvalidValue.
    """

    law: NoiseLaw
    noise_multiplier: float
    sensitivity: float
    adjacency: Adjacency
    steps: int

    def __post_init__(self) -> None:
        checks.positive_finite(noise_multiplier=self.noise_multiplier, sensitivity=self.sensitivity)
        checks.count(steps=self.steps)
        # Read from its written form, it is a plain word.
        object.__setattr__(self, "law", NoiseLaw(self.law))

    @property
    def scale(self) -> float:
        """sigma, or one over beta."""
        return self.noise_multiplier * self.sensitivity

    @property
    def noise(self) -> Noise:
        """In absolute terms."""
        return self.law.noise(self.scale)

    @property
    def each(self) -> Gaussian | PureDP:
        """What one step releases."""
        return self.law.event(self.noise_multiplier, self.adjacency)

    def event(self, from_step: int = 0, to_step: int | None = None) -> Event:
        """See `dpcore.mechanisms.protocol.Mechanism.event`."""
        return repeated(self.each, self.steps, from_step, to_step)

    def release(self, vector: Array, draw: Normals) -> Array:
        """One step: the vector, or matrix, with noise of its shape."""
        return vector + self.noise.sample(vector.shape, draw)


# How far one record moves the minimiser of a strongly convex empirical risk.
#
# J(theta) = (1/n) sum_i loss(theta; x_i, y_i) + (modulus/2) ||theta||_F^2, ||x_i|| <= 1, n public
#
# Replacing one record moves the gradient by at most 2K/n, adding or removing one (with the divisor n kept) by K/n,
# where K is the loss's Lipschitz constant in the logits; strong convexity divides that by the modulus.
#
# Source Chaudhuri, Monteleoni & Sarwate (2011), Lemma 7 and Corollary 8; van der Maaten & Hannun (2020), Lemma 1.

SOFTMAX_LIPSCHITZ = math.sqrt(2.0)
"""Of softmax cross-entropy: ||p - e_y||_2 <= sqrt(2)."""

CERTIFIED_MINIMISER = (
    "The released minimiser is as near to the exact one as its gradient certifies; the rest is charged."
)
UNIT_INPUTS = "Every record is scaled to norm at most 1 by itself, before training; n is a public constant."


@dataclass(frozen=True, slots=True, kw_only=True)
class MinimiserSensitivity:
    """L2 (Frobenius) sensitivity of the minimiser, certificate included.

    n          the public divisor of the objective
    modulus    of strong convexity, above 0 (the regularisation, for 0.5 ||theta||^2)
    tau        public bound on the gradient norm at the released point: it lies within tau / modulus of the minimiser,
               so 2 tau / modulus is added
    """

    n: int
    modulus: float
    adjacency: Adjacency
    tau: float

    def __post_init__(self) -> None:
        checks.count(minimum=1, n=self.n)
        checks.positive_finite(modulus=self.modulus)
        checks.non_negative_finite(tau=self.tau)

    @property
    def exact(self) -> float:
        """Of the exact minimiser: 2K/(modulus n) under replace-one, half of that under add-remove."""
        records = 2 if self.adjacency is Adjacency.REPLACE_ONE else 1
        return records * SOFTMAX_LIPSCHITZ / (self.modulus * self.n)

    @property
    def value(self) -> float:
        """Of the released point."""
        return self.exact + 2 * self.tau / self.modulus


# Noise for equal releases of one query, by several rules of composition.
#
# Model sensitivity: noise on the minimiser itself, released once (`standard`, or `pure`). Prediction sensitivity: fresh
# noise on the logits theta^T x of each of B queries, ||x|| <= 1. Each answer has the L2 sensitivity of theta; what
# differs is how B of them are composed.
#
# Source van der Maaten & Hannun (2020), Theorems 1 and 2 (the model), 5 (pure, standard) and 6 (Gaussian, standard and
# advanced). Exact Gaussian composition, which the paper stops short of: Dong, Roth & Su (2022), Corollary 2.


class Solved(NamedTuple):
    """The noise over the sensitivity that keeps a budget, and by which argument."""

    noise_multiplier: float
    accountant: str
    theorem: str


def answers_pure(epsilon: float, queries: int, sensitivity: float) -> Solved:
    """(epsilon, 0) over all queries: beta = epsilon / (B sensitivity)."""
    checks.positive_finite(epsilon=epsilon)
    checks.count(minimum=1, queries=queries)
    return _radial(epsilon / queries, sensitivity, "naive", "van der Maaten & Hannun 2020, Theorem 5")


def answers_pure_joint(epsilon: float, delta: float, queries: int, sensitivity: float) -> Solved:
    """(epsilon, delta) over all queries with pure noise, by the optimal composition of pure DP."""
    return _radial(each_pure(epsilon, delta, queries), sensitivity, PURE_ACCOUNTANT, PURE_THEOREM)


def answers_standard(epsilon: float, delta: float, queries: int, sensitivity: float) -> Solved:
    """(epsilon, delta) over all queries, each at (epsilon / B, delta / B)."""
    checks.count(minimum=1, queries=queries)
    sigma = sigma_gaussian(epsilon / queries, delta / queries, sensitivity)
    theorem = "van der Maaten & Hannun 2020, Theorem 6 (standard composition); Balle & Wang 2018, Theorem 8"
    return Solved(sigma / sensitivity, "naive", theorem)


def answers_advanced(epsilon: float, delta: float, queries: int, sensitivity: float) -> Solved:
    """(epsilon, delta) over all queries by advanced composition, its slack chosen for the least noise."""
    sigma = advanced_sigma(epsilon, delta, queries) * sensitivity
    theorem = "van der Maaten & Hannun 2020, Theorem 6 (advanced composition); Dwork, Rothblum & Vadhan 2010"
    return Solved(sigma / sensitivity, "advanced", theorem)


def answers_published(epsilon: float, delta: float, queries: int, sensitivity: float) -> Solved:
    """The paper's choice: the smaller noise of standard and advanced composition."""
    return min(rule(epsilon, delta, queries, sensitivity) for rule in (answers_standard, answers_advanced))


def answers_joint(epsilon: float, delta: float, queries: int, sensitivity: float) -> Solved:
    """(epsilon, delta) over all queries, exactly: mu adds up in squares, so sigma grows with sqrt(B)."""
    checks.count(minimum=1, queries=queries)
    sigma = math.sqrt(queries) * sigma_gaussian(epsilon, delta, sensitivity) * (1 + 1e-15)
    return Solved(sigma / sensitivity, "gdp", "Dong, Roth & Su 2022, Corollary 2 (exact Gaussian composition)")


def _radial(epsilon_each: float, sensitivity: float, accountant: str, theorem: str) -> Solved:
    beta = epsilon_each / sensitivity
    return Solved(1 / (beta * sensitivity), accountant, theorem)


def advanced_sigma(epsilon: float, delta: float, queries: int) -> float:
    """Of the best division of (epsilon, delta) by advanced composition, for sensitivity 1.

    With slack delta', epsilon = B e^2/2 + e sqrt(2 B ln(1/delta')) is solved for e, and each query gets
    (e, (delta - delta')/B). Any delta' in (0, delta) that no record decides is valid; the best is found numerically.
    """
    checks.positive_finite(epsilon=epsilon)
    checks.probability_open(delta=delta)
    checks.count(minimum=1, queries=queries)

    def sigma(log_odds: float) -> float:
        share = 1 / (1 + math.exp(-log_odds))
        each = advanced_epsilon(epsilon, share * delta, queries)
        return sigma_gaussian(each, delta * (1 - share) / queries * (1 - 1e-15))

    best = minimize_scalar(sigma, bounds=(-15.0, 15.0), method="bounded", options={"xatol": 1e-6})
    return sigma(float(best.x))


def advanced_epsilon(epsilon: float, slack: float, queries: int) -> float:
    """e with epsilon = B e^2/2 + e sqrt(2 B ln(1/slack)), without cancellation."""
    tail = math.log(1 / slack)
    return math.sqrt(2 / queries) * epsilon / (math.sqrt(tail + epsilon) + math.sqrt(tail)) * (1 - 1e-15)
