"""Loss perturbation: a random linear term in the objective, whose exact minimiser is released.

    minimise  (1/n) sum_i loss(theta; x_i, y_i) + (1/n) <N, theta> + (modulus/2) ||theta||_F^2

theta determines N, so the densities of theta under two neighbours differ by a Jacobian factor, held to
exp(epsilon/2) by the modulus, and by the density of N at two points at most ||gradient shift|| apart, held to
exp(epsilon/2) by the scale of N. The shift is K under add-remove and 2K under replace-one.

Source  Chaudhuri, Monteleoni & Sarwate (2011), Algorithm 2; Kifer, Smith & Thakurta (2012); multi-class: van der
        Maaten & Hannun (2020), Theorems 3 and 4.
Repairs The published theorems refer to add-remove. The Gaussian proof there uses a one-dimensional tail for
        <N, (p-y) x^T> although p depends on N; here (p-y)^T g <= max_j g_j - g_y with a union over c-1 differences.
Exactness is assumed: the status is never above `proved-under-assumptions`. A point that is only certified to
tau needs `output_noise` of its own, charged beside (Iyengar et al. 2019).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from dpcore import checks
from dpcore.erm import LogisticRisk, minimise
from dpcore.events import Adjacency, ApproximateDP, Event, PureDP
from dpcore.guarantee import Status
from dpcore.mechanisms.output_perturbation import SOFTMAX_LIPSCHITZ, Array, GaussianNoise, Noise, Normals, RadialNoise
from dpcore.mechanisms.protocol import mechanism, repeated


class Jacobian(StrEnum):
    """How the least modulus is counted: see `least_modulus`."""

    RANK = "rank"
    TRACE = "trace"


def least_modulus(epsilon: float, n: int, classes: int, jacobian: Jacobian = Jacobian.RANK) -> float:
    """Least strong convexity that holds the Jacobian factor to exp(epsilon/2).

    rank   (c-1)/(n epsilon): rank c-1 and eigenvalues at most 1/2 (van der Maaten & Hannun 2020, Lemma 2)
    trace  2 (1 - 1/c)/(n epsilon): det(I + A) <= exp(trace A), and a softmax Hessian has trace at most 1 - 1/c
    """
    checks.positive_finite(epsilon=epsilon)
    checks.count(minimum=1, n=n)
    checks.count(minimum=2, classes=classes)
    weight = classes - 1 if jacobian == Jacobian.RANK else 2 * (1 - 1 / classes)
    return weight / (n * epsilon)


def shift(adjacency: Adjacency) -> float:
    """By how much a neighbour moves the gradient of the summed loss, at most: K, or 2K under replace-one."""
    return SOFTMAX_LIPSCHITZ * (2 if adjacency is Adjacency.REPLACE_ONE else 1)


def beta_pure(epsilon: float, adjacency: Adjacency) -> float:
    """(epsilon, 0), van der Maaten & Hannun (2020), Theorem 3: density exp(-beta ||N||_F), beta = epsilon/(2 shift)."""
    return epsilon / (2 * shift(adjacency))


def sigma_repaired(epsilon: float, delta: float, classes: int, adjacency: Adjacency) -> float:
    """(epsilon, delta): s = K (q + sqrt(q^2 + epsilon))/epsilon with q the upper delta/(c-1) quantile of N(0, 1).

    Under replace-one, 2K instead of K and delta/2 instead of delta (two records, one union bound).
    """
    checks.positive_finite(epsilon=epsilon)
    quantile = _quantile(delta, classes, adjacency)
    return shift(adjacency) * (quantile + math.sqrt(quantile**2 + epsilon)) / epsilon * (1 + 1e-12)


def sigma_published(epsilon: float, delta: float) -> float:
    """The noise as printed, s = K sqrt(8 ln(2/delta) + 4 epsilon)/epsilon, add-remove."""
    checks.positive_finite(epsilon=epsilon)
    checks.probability_open(delta=delta)
    return SOFTMAX_LIPSCHITZ * math.sqrt(8 * math.log(2 / delta) + 4 * epsilon) / epsilon


def published_standing(epsilon: float, delta: float, classes: int) -> tuple[Status, str]:
    """How firmly the claim of `sigma_published` stands, and by what.

    It stands where the repaired proof establishes it too. Elsewhere the printed proof is all that it has, and that one
    is refuted: its tail bound is too small by up to c-1.
    """
    established = established_delta(sigma_published(epsilon, delta), epsilon, classes)
    theorem = "van der Maaten & Hannun 2020, Theorem 4"
    if established <= delta:
        return Status.PROVED_UNDER_ASSUMPTIONS, theorem
    return Status.REFUTED, f"{theorem}, whose proof is refuted: delta={established:.3g} is established for c={classes}"


def epsilon_of(noise_multiplier: float, delta: float, classes: int, adjacency: Adjacency) -> float:
    """The epsilon at which `sigma_repaired` asks for sigma = noise_multiplier * (K, or 2K under replace-one)."""
    checks.positive_finite(noise_multiplier=noise_multiplier)
    quantile = _quantile(delta, classes, adjacency)
    return (1 + 2 * noise_multiplier * quantile) / noise_multiplier**2


def published_epsilon_of(noise_multiplier: float, delta: float) -> float:
    """The epsilon at which `sigma_published` asks for sigma = noise_multiplier * K."""
    checks.positive_finite(noise_multiplier=noise_multiplier)
    checks.probability_open(delta=delta)
    return (2 + math.sqrt(4 + 8 * noise_multiplier**2 * math.log(2 / delta))) / noise_multiplier**2


def _quantile(delta: float, classes: int, adjacency: Adjacency) -> float:
    checks.probability_open(delta=delta)
    checks.count(minimum=2, classes=classes)
    records = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    quantile = -float(ndtri(delta / records / (classes - 1)))
    if quantile < 0:
        raise checks.InvalidValue("delta", delta, f"below {records * (classes - 1) / 2:g}: the tail bound needs it")
    return quantile


def established_delta(sigma: float, epsilon: float, classes: int) -> float:
    """The delta that the repaired proof gives Gaussian noise `sigma` under add-remove: (c-1) Q(q), at most 1."""
    quantile = (sigma / SOFTMAX_LIPSCHITZ) * (epsilon / 2 - SOFTMAX_LIPSCHITZ**2 / (2 * sigma**2))
    return min(1.0, (classes - 1) * float(ndtr(-quantile)))


def established_epsilon(noise_multiplier: float, epsilon: float, delta: float, classes: int) -> float:
    """The epsilon at `delta` that the repaired proof gives the modulus of `epsilon` and sigma = noise_multiplier * K.

    Under add-remove: half of `epsilon` for the Jacobian, and half of what `gaussian` would sell this noise for.
    """
    checks.positive_finite(epsilon=epsilon)
    return (epsilon + epsilon_of(noise_multiplier, delta, classes, Adjacency.ADD_REMOVE)) / 2


def output_noise(epsilon: float, tau: float, modulus: float) -> RadialNoise:
    """Noise that hides how an optimiser stopped within tau/modulus of the minimiser: (epsilon, 0) of its own.

    Given the exact minimiser, the released points of two neighbours differ by at most 2 tau/modulus, so the two
    guarantees compose (Iyengar et al. 2019).
    """
    checks.positive_finite(epsilon=epsilon, tau=tau, modulus=modulus)
    return RadialNoise(epsilon * modulus / (2 * tau))


# Loss perturbation as a value that a plan carries: from records of norm at most 1 to the released model.
#
# What is proved of it: `dpcore.mechanisms.loss_perturbation`. The minimiser is found to within a gradient norm of
# `tau`; output noise with a share of epsilon of its own hides what that leaves open.


class PerturbationLaw(StrEnum):
    """Of the random linear term: Theorem 4 repaired, Theorem 3, or Theorem 4 as printed (add-remove alone)."""

    GAUSSIAN = "gaussian"
    PURE = "pure"
    PUBLISHED = "gaussian-published"


@mechanism("loss-perturbation")
@dataclass(frozen=True, slots=True, kw_only=True)
class PerturbedMinimiser:
    """One release of a perturbed minimiser.

    noise_multiplier  sigma (gaussian) or 1/beta (pure) of the linear term over one record's gradient shift, above 0
    output_share      share of the whole epsilon that output noise has, in (0, 1)
    regularisation    modulus that is asked for, above 0; the proof may take more (`modulus`)
    tau               gradient norm of the point that is found, above 0
    records, classes  n, the public divisor, and c
    delta, adjacency  what the claim is stated at

    Raises InvalidValue.
    """

    law: PerturbationLaw
    jacobian: Jacobian
    noise_multiplier: float
    output_share: float
    regularisation: float
    tau: float
    records: int
    classes: int
    delta: float
    adjacency: Adjacency

    def __post_init__(self) -> None:
        # Read from its written form, it is a plain word.
        object.__setattr__(self, "law", PerturbationLaw(self.law))
        object.__setattr__(self, "jacobian", Jacobian(self.jacobian))
        checks.positive_finite(noise_multiplier=self.noise_multiplier, regularisation=self.regularisation, tau=self.tau)
        checks.probability_open(output_share=self.output_share, delta=self.delta)
        checks.count(minimum=1, records=self.records)
        checks.count(minimum=2, classes=self.classes)

    @property
    def steps(self) -> int:
        """One."""
        return 1

    @property
    def objective(self) -> float:
        """The epsilon that the noise of the objective was sold for; `delta` is all of its own."""
        match self.law:
            case PerturbationLaw.PURE:
                return 2 / self.noise_multiplier
            case PerturbationLaw.PUBLISHED:
                return published_epsilon_of(self.noise_multiplier, self.delta)
            case PerturbationLaw.GAUSSIAN:
                return epsilon_of(self.noise_multiplier, self.delta, self.classes, self.adjacency)

    @property
    def output(self) -> float:
        """The epsilon of the output noise."""
        return self.objective * self.output_share / (1 - self.output_share)

    @property
    def noise(self) -> Noise:
        """Of the linear term."""
        match self.law:
            case PerturbationLaw.PURE:
                return RadialNoise(beta_pure(self.objective, self.adjacency))
            case PerturbationLaw.PUBLISHED:
                return GaussianNoise(sigma_published(self.objective, self.delta))
            case PerturbationLaw.GAUSSIAN:
                return GaussianNoise(sigma_repaired(self.objective, self.delta, self.classes, self.adjacency))

    @property
    def modulus(self) -> float:
        """Strong convexity of the objective: what is asked for, or what the proof needs."""
        return max(least_modulus(self.objective, self.records, self.classes, self.jacobian), self.regularisation)

    @property
    def each(self) -> PureDP | ApproximateDP:
        """What is proved to be spent, whatever is claimed."""
        objective = self.objective
        if self.law is PerturbationLaw.PURE:
            return PureDP(epsilon=objective + self.output, adjacency=self.adjacency)
        proved = objective
        if self.law is PerturbationLaw.PUBLISHED:
            proved = established_epsilon(self.noise_multiplier, objective, self.delta, self.classes)
        return ApproximateDP(epsilon=proved + self.output, delta=self.delta, adjacency=self.adjacency)

    def event(self, from_step: int = 0, to_step: int | None = None) -> Event:
        """See `dpcore.mechanisms.protocol.Mechanism.event`."""
        return repeated(self.each, self.steps, from_step, to_step)

    def risk(self, inputs: Array, labels: NDArray[np.int64], linear: Array | None = None) -> LogisticRisk:
        """The objective of inputs [present, d] and labels [present], with a linear term [d, classes] or without."""
        return LogisticRisk(inputs, labels, self.classes, self.records, self.modulus, linear)

    def release(self, inputs: Array, labels: NDArray[np.int64], draw: Normals) -> Array:
        """The released model [d, classes]. Raises InvalidValue for an input of norm above 1, NotCertified."""
        linear = self.noise.sample((inputs.shape[1], self.classes), draw) / self.records
        risk = self.risk(inputs, labels, linear)
        theta = minimise(risk, self.tau)
        return theta + output_noise(self.output, self.tau, risk.modulus).sample(theta.shape, draw)
