"""Two families of noise on a vector, as values that know their sampler and the event that they release.

Both samplers ask for standard normals alone, so that any source of normals serves them, a cryptographic one included.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from dpcore import checks
from dpcore.accountants.composition import PURE_ACCOUNTANT, PURE_THEOREM, each_pure
from dpcore.events import Adjacency, Event, Gaussian, PureDP, Repeated
from dpcore.gdp import sigma_gaussian
from dpcore.guarantee import FLOATING_POINT, Guarantee, Status
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

    def event(self, sensitivity: float, adjacency: Adjacency) -> Gaussian:
        """What adding it to a query of this L2 sensitivity releases."""
        return Gaussian(noise_multiplier=self.sigma / sensitivity, adjacency=adjacency)


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

    def event(self, sensitivity: float, adjacency: Adjacency) -> PureDP:
        """What adding it to a query of this L2 sensitivity releases (triangle inequality)."""
        return PureDP(epsilon=self.beta * sensitivity, adjacency=adjacency)


Noise = GaussianNoise | RadialNoise
Family = TypeVar("Family", GaussianNoise, RadialNoise)


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

EXACT_MINIMISER = "The released minimiser is exact."
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
               so 2 tau / modulus is added. None: exactness is assumed and the status says so.
    """

    n: int
    modulus: float
    adjacency: Adjacency
    tau: float | None = None

    def __post_init__(self) -> None:
        checks.count(minimum=1, n=self.n)
        checks.positive_finite(modulus=self.modulus)
        if self.tau is not None:
            checks.non_negative_finite(tau=self.tau)

    @property
    def exact(self) -> float:
        """Of the exact minimiser: 2K/(modulus n) under replace-one, half of that under add-remove."""
        records = 2 if self.adjacency is Adjacency.REPLACE_ONE else 1
        return records * SOFTMAX_LIPSCHITZ / (self.modulus * self.n)

    @property
    def value(self) -> float:
        """Of the released point."""
        return self.exact + (0.0 if self.tau is None else 2 * self.tau / self.modulus)

    @property
    def status(self) -> Status:
        """`proved` with a certificate."""
        return Status.PROVED_UNDER_ASSUMPTIONS if self.tau is None else Status.PROVED

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What a claim on it rests on besides."""
        if self.tau is None:
            return (UNIT_INPUTS, EXACT_MINIMISER)
        return (UNIT_INPUTS, CERTIFIED_MINIMISER)


# Noise for some equal releases of one query, together with what they guarantee.


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated(Generic[Family]):
    """`releases` adaptive answers, each with fresh `noise` on a query of L2 `sensitivity`."""

    noise: Family
    sensitivity: float
    releases: int
    guarantee: Guarantee

    @property
    def adjacency(self) -> Adjacency:
        """What `sensitivity` refers to."""
        return self.guarantee.adjacency

    @property
    def each(self) -> Event:
        """What one answer releases."""
        return self.noise.event(self.sensitivity, self.adjacency)

    @property
    def event(self) -> Event:
        """What all of them release."""
        return Repeated(event=self.each, count=self.releases)


class _Claimed(NamedTuple):
    """What all releases of a calibration together are claimed at, and by which argument."""

    epsilon: float
    delta: float
    accountant: str
    theorem: str
    unit: str


def _of_minimiser(
    sensitivity: MinimiserSensitivity, noise: Family, releases: int, claimed: _Claimed
) -> Calibrated[Family]:
    """`Calibrated` whose status and assumptions are those of the minimiser's sensitivity."""
    guarantee = Guarantee(
        **claimed._asdict(),
        adjacency=sensitivity.adjacency,
        status=Status(sensitivity.status),
        assumptions=(*sensitivity.assumptions, FLOATING_POINT),
    )
    return Calibrated(noise=noise, sensitivity=sensitivity.value, releases=releases, guarantee=guarantee)


# Model sensitivity: noise on the minimiser itself, released once (B = 1, by `answers_pure` and `answers_standard`).
# Prediction sensitivity: fresh noise on the logits theta^T x of each of B queries, ||x|| <= 1.
#
# Each answer has the L2 sensitivity of theta; what differs is how B of them are composed.
#
# Source van der Maaten & Hannun (2020), Theorems 1 and 2 (the model), 5 (pure, standard) and 6 (Gaussian, standard and
# advanced). Exact Gaussian composition, which the paper stops short of: Dong, Roth & Su (2022), Corollary 2.

_STANDARD = "van der Maaten & Hannun 2020, Theorem 6 (standard composition); Balle & Wang 2018, Theorem 8"
_ADVANCED = "van der Maaten & Hannun 2020, Theorem 6 (advanced composition); Dwork, Rothblum & Vadhan 2010"


class AdvancedSplit(NamedTuple):
    """How advanced composition divides a budget: `share` of delta is its slack."""

    sigma: float
    epsilon_each: float
    delta_each: float
    share: float


def answers_pure(
    epsilon: float, queries: int, sensitivity: MinimiserSensitivity, unit: str = "record"
) -> Calibrated[RadialNoise]:
    """(epsilon, 0) over all queries: beta = epsilon / (B sensitivity)."""
    checks.positive_finite(epsilon=epsilon)
    checks.count(minimum=1, queries=queries)
    claimed = _Claimed(epsilon, 0.0, "naive", "van der Maaten & Hannun 2020, Theorem 5", unit)
    return _of_minimiser(sensitivity, RadialNoise(epsilon / queries / sensitivity.value), queries, claimed)


def answers_pure_joint(
    epsilon: float, delta: float, queries: int, sensitivity: MinimiserSensitivity, unit: str = "record"
) -> Calibrated[RadialNoise]:
    """(epsilon, delta) over all queries with pure noise, by the optimal composition of pure DP."""
    each = each_pure(epsilon, delta, queries)
    claimed = _Claimed(epsilon, delta, PURE_ACCOUNTANT, PURE_THEOREM, unit)
    return _of_minimiser(sensitivity, RadialNoise(each / sensitivity.value), queries, claimed)


def answers_standard(
    epsilon: float, delta: float, queries: int, sensitivity: MinimiserSensitivity, unit: str = "record"
) -> Calibrated[GaussianNoise]:
    """(epsilon, delta) over all queries, each at (epsilon / B, delta / B)."""
    checks.count(minimum=1, queries=queries)
    sigma = sigma_gaussian(epsilon / queries, delta / queries, sensitivity.value)
    return _of_minimiser(sensitivity, GaussianNoise(sigma), queries, _Claimed(epsilon, delta, "naive", _STANDARD, unit))


def answers_advanced(
    epsilon: float, delta: float, queries: int, sensitivity: MinimiserSensitivity, unit: str = "record"
) -> Calibrated[GaussianNoise]:
    """(epsilon, delta) over all queries by advanced composition, its slack chosen for the least noise."""
    sigma = advanced_split(epsilon, delta, queries).sigma * sensitivity.value
    return _of_minimiser(
        sensitivity, GaussianNoise(sigma), queries, _Claimed(epsilon, delta, "advanced", _ADVANCED, unit)
    )


def answers_published(
    epsilon: float, delta: float, queries: int, sensitivity: MinimiserSensitivity, unit: str = "record"
) -> Calibrated[GaussianNoise]:
    """The paper's choice: the smaller noise of standard and advanced composition."""
    one = answers_standard(epsilon, delta, queries, sensitivity, unit)
    other = answers_advanced(epsilon, delta, queries, sensitivity, unit)
    return min(one, other, key=lambda found: found.noise.sigma)


def answers_joint(
    epsilon: float, delta: float, queries: int, sensitivity: MinimiserSensitivity, unit: str = "record"
) -> Calibrated[GaussianNoise]:
    """(epsilon, delta) over all queries, exactly: mu adds up in squares, so sigma grows with sqrt(B)."""
    checks.count(minimum=1, queries=queries)
    sigma = math.sqrt(queries) * sigma_gaussian(epsilon, delta, sensitivity.value) * (1 + 1e-15)
    theorem = "Dong, Roth & Su 2022, Corollary 2 (exact Gaussian composition)"
    return _of_minimiser(sensitivity, GaussianNoise(sigma), queries, _Claimed(epsilon, delta, "gdp", theorem, unit))


def advanced_split(epsilon: float, delta: float, queries: int) -> AdvancedSplit:
    """The best division of (epsilon, delta) by advanced composition, for sensitivity 1.

    With slack delta', epsilon = B e^2/2 + e sqrt(2 B ln(1/delta')) is solved for e, and each query gets
    (e, (delta - delta')/B). Any delta' in (0, delta) that no record decides is valid; the best is found numerically.
    """
    checks.positive_finite(epsilon=epsilon)
    checks.probability_open(delta=delta)
    checks.count(minimum=1, queries=queries)

    def split(log_odds: float) -> AdvancedSplit:
        share = 1 / (1 + math.exp(-log_odds))
        each = advanced_epsilon(epsilon, share * delta, queries)
        remaining = delta * (1 - share) / queries * (1 - 1e-15)
        return AdvancedSplit(sigma_gaussian(each, remaining), each, remaining, share)

    best = minimize_scalar(
        lambda log_odds: split(log_odds).sigma, bounds=(-15.0, 15.0), method="bounded", options={"xatol": 1e-6}
    )
    return split(float(best.x))


def advanced_epsilon(epsilon: float, slack: float, queries: int) -> float:
    """e with epsilon = B e^2/2 + e sqrt(2 B ln(1/slack)), without cancellation."""
    tail = math.log(1 / slack)
    return math.sqrt(2 / queries) * epsilon / (math.sqrt(tail + epsilon) + math.sqrt(tail)) * (1 - 1e-15)
