"""Loss perturbation as a value that a plan carries: from records of norm at most 1 to the released model.

What is proved of it: `dpcore.mechanisms.loss_perturbation`. The minimiser is found to within a gradient norm of `tau`;
output noise with a share of epsilon of its own hides what that leaves open.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from dpcore import checks
from dpcore.adjacency import Adjacency
from dpcore.erm import LogisticRisk, minimise
from dpcore.events import ApproximateDP, Event, PureDP
from dpcore.mechanisms import loss_perturbation
from dpcore.mechanisms.loss_perturbation import Jacobian, PerturbedLoss
from dpcore.mechanisms.noise_families import Array, GaussianNoise, Normals, RadialNoise
from dpcore.mechanisms.protocol import mechanism, repeated


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
                return loss_perturbation.published_epsilon_of(self.noise_multiplier, self.delta)
            case PerturbationLaw.GAUSSIAN:
                return loss_perturbation.epsilon_of(self.noise_multiplier, self.delta, self.classes, self.adjacency)

    @property
    def output(self) -> float:
        """The epsilon of the output noise."""
        return self.objective * self.output_share / (1 - self.output_share)

    @property
    def perturbed(self) -> PerturbedLoss[GaussianNoise] | PerturbedLoss[RadialNoise]:
        """The noise of the objective and its least modulus."""
        n, classes, how = self.records, self.classes, self.jacobian
        match self.law:
            case PerturbationLaw.PURE:
                return loss_perturbation.pure(self.objective, n, classes, self.adjacency, jacobian=how)
            case PerturbationLaw.PUBLISHED:
                return loss_perturbation.gaussian_published(self.objective, self.delta, n, classes, jacobian=how)
            case PerturbationLaw.GAUSSIAN:
                return loss_perturbation.gaussian(self.objective, self.delta, n, classes, self.adjacency, jacobian=how)

    @property
    def modulus(self) -> float:
        """Strong convexity of the objective: what is asked for, or what the proof needs."""
        return max(self.perturbed.modulus, self.regularisation)

    @property
    def each(self) -> PureDP | ApproximateDP:
        """What is proved to be spent, whatever is claimed."""
        objective = self.objective
        if self.law is PerturbationLaw.PURE:
            return PureDP(epsilon=objective + self.output, adjacency=self.adjacency)
        proved = objective
        if self.law is PerturbationLaw.PUBLISHED:
            proved = loss_perturbation.established_epsilon(self.noise_multiplier, objective, self.delta, self.classes)
        return ApproximateDP(epsilon=proved + self.output, delta=self.delta, adjacency=self.adjacency)

    def event(self, from_step: int = 0, to_step: int | None = None) -> Event:
        """See `dpcore.mechanisms.protocol.Mechanism.event`."""
        return repeated(self.each, self.steps, from_step, to_step)

    def risk(self, inputs: Array, labels: NDArray[np.int64], linear: Array | None = None) -> LogisticRisk:
        """The objective of inputs [present, d] and labels [present], with a linear term [d, classes] or without."""
        return LogisticRisk(inputs, labels, self.classes, self.records, self.modulus, linear)

    def release(self, inputs: Array, labels: NDArray[np.int64], draw: Normals) -> Array:
        """The released model [d, classes]. Raises InvalidValue for an input of norm above 1, NotCertified."""
        linear = self.perturbed.noise.sample((inputs.shape[1], self.classes), draw) / self.records
        risk = self.risk(inputs, labels, linear)
        theta = minimise(risk, self.tau).theta
        return theta + loss_perturbation.output_noise(self.output, self.tau, risk.modulus).sample(theta.shape, draw)
