"""Clipped SGLD: one draw from (nearly) a Bayesian posterior, released with the differential privacy of its noise.

Source      Wu et al. (2020), equations 2-3, with every per-record gradient clipped to norm C and Poisson batches.
Claim       (epsilon, delta) of a composition of Poisson-subsampled Gaussians whose noise multiplier grows as the step
            size falls, by the PLD; add-remove; any number of queries.
Departures  The paper clips nothing, and without a clip there is no differential privacy to claim; its own bounds are on
            membership leakage and say nothing for losses above 0.35 (`dpcore.papers.wu2020`). Its batches are
            shuffled; Poisson batches are drawn here, at rate batch_size / n.

One step, with step size e, noise multiplier z = 2 b / (n C sqrt(e)) and prior N(0, v):

    theta -= (e/2) [ theta / v + (n/b) (sum over the batch of clip(gradient, C) + z C N(0, I)) ]

The noise term is N(0, e I), the sampler's own. So the clip norm decides privacy: `noise_multiplier` is z of the first
step, and C = 2 b / (n z sqrt(step_size)) follows from it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TypeVar

from dpcore.events import Adjacency
from dpcore.guarantee import Guarantee
from dpcore.mechanisms.noisy_sums import SampledGaussian, Sequence
from dpcore.papers.wu2020 import Phase, halving_schedule, noise_multiplier, published_noise_variance, step_size_of
from dpcore.sampling import PoissonSampling
from trainables.hyperparameters import hyperparameter, hyperparameters
from trainables.planning import NOISE_MAX, NOISE_MIN, STEPS_MAX, Case, Fit, PlannedSystem, check_at_most
from trainables.system import PrivacyTarget, Traits
from trainables.training.hyperparameters import BatchHyperparameters, ModelHyperparameters, PriorHyperparameters
from trainables.training.trained_model import FINE_TUNED, METRICS, TrainedByNoisedGradients

HALVINGS_MAX = 16
"""Then the step size is 1/65536 of the first; noises further apart cannot be bounded together closely enough."""


@hyperparameters
class LangevinHyperparameters(BatchHyperparameters, PriorHyperparameters, ModelHyperparameters):
    """What both systems take: steps of one size in blocks, each half of the block before.

    step_size    e of the first block, the variance of its noise
    halve_every  the step size halves after so many
    epochs       ceil(n / batch_size) steps in each
    """

    step_size: float = hyperparameter(low=1e-12, high=10.0)
    halve_every: int = hyperparameter(low=1, high=1_000_000, unit="epochs")
    epochs: int = hyperparameter(low=1, high=1_000_000, unit="passes")

    def phases(self, n: int) -> tuple[Phase, ...]:
        """The blocks of a trial on n records."""
        return halving_schedule(self.step_size, self.halve_every, self.epochs, -(-n // self.batch_size))

    def steps(self, n: int) -> int:
        """Of all blocks together."""
        return sum(phase.steps for phase in self.phases(n))

    @property
    def halvings(self) -> int:
        """How often the step size halves."""
        return (self.epochs - 1) // self.halve_every


@hyperparameters
class ClippedSGLDHyperparameters(LangevinHyperparameters):
    """Of `clipped-sgld`.

    noise_multiplier  noise over clip norm in the first step; decides the clip norm; solved from epsilon by default
    """

    noise_multiplier: float = hyperparameter(low=NOISE_MIN, high=NOISE_MAX)

    def clip_norm(self, n: int) -> float:
        """C = 2 b / (n z sqrt(e)) of the first step: what makes its noise multiplier the configured one."""
        return 2 * self.batch_size / (n * self.noise_multiplier * math.sqrt(self.step_size))


Walk = TypeVar("Walk", bound=LangevinHyperparameters)
STEPS = (
    "{released.steps} Langevin steps on Poisson batches of {facts.counted} (rate {params.batch_size}/{facts.n}), "
    "gradients clipped to {released.clip_norm:.4g}, Gaussian noise of "
    "{released.parts[0].noise_multiplier:.5g} times that "
)
"""How the sentences begin; the noise is that of the first block, the least of all."""


class PrivateLangevin(TrainedByNoisedGradients, PlannedSystem[Walk, Sequence]):
    """Langevin steps on clipped Poisson batches: the two systems differ in where noise and clip come from."""

    metrics = (*METRICS, *FINE_TUNED)
    traits = Traits(units=True, workers=True, private_reports=True, weights=True, judged_as_released=True, curve=True)
    adjacencies = (Adjacency.ADD_REMOVE,)
    why_adjacency = "Poisson batches need it."
    shown_step = 1.0
    """The update moves by half a step size; what it is given is this times the configured one."""

    def check(self, case: Case[Walk]) -> None:
        """See `PlannedSystem.check`. Raises InvalidValue (model, batch above n)."""
        super().check(case)
        check_at_most(HALVINGS_MAX, "Raise halve_every, or take fewer epochs.", halvings=case.params.halvings)
        check_at_most(STEPS_MAX, "Take fewer epochs or larger batches.", steps=case.params.steps(case.facts.n))

    def blocks(self, case: Case[Walk], clip_norm: float, noises: list[float]) -> Sequence:
        """One part for each block, with the noise multipliers in order."""
        params, n = case.params, case.facts.n
        each = partial(
            SampledGaussian,
            sampling=PoissonSampling(rate=params.batch_size / n),
            clip_norm=clip_norm,
            expected_batch_size=params.batch_size,
        )
        phases = zip(noises, params.phases(n), strict=True)
        return Sequence(parts=tuple(each(noise_multiplier=noise, steps=phase.steps) for noise, phase in phases))

    def train(self, fit: Fit[Walk, Sequence]) -> None:
        """See `PlannedSystem.train`."""
        from trainables.training.optimisers import langevin_mean
        from trainables.training.private_sgd import train

        n, variance = fit.data.facts.n, fit.params.prior_variance
        phases = tuple(Phase(self.shown_step * one.step_size, one.steps) for one in fit.params.phases(n))
        train(fit, lambda model: langevin_mean(model, partial(step_size_of, phases), n, variance))


class ClippedSGLD(PrivateLangevin[ClippedSGLDHyperparameters]):
    """The System."""

    name = "clipped-sgld"
    source = "Wu et al. 2020"
    params = ClippedSGLDHyperparameters
    sentence = STEPS + "on the first sum, more later"
    solves = MappingProxyType({"noise": "noise_multiplier"})

    def check_solved(self, case: Case[ClippedSGLDHyperparameters]) -> None:
        """See `PlannedSystem.check_solved`."""
        remedy = "Change epsilon, or take fewer epochs or smaller batches."
        check_at_most(NOISE_MAX, remedy, noise=case.params.noise_multiplier)

    def mechanism(self, case: Case[ClippedSGLDHyperparameters]) -> Sequence:
        """See `PlannedSystem.mechanism`."""
        params, n = case.params, case.facts.n
        clip_norm = params.clip_norm(n)
        noises = [noise_multiplier(one.step_size, n, params.batch_size, clip_norm) for one in params.phases(n)]
        return self.blocks(case, clip_norm, noises)


CLIPPED_SGLD = ClippedSGLD()


# DP-SGLD with its published noise: what Wu et al. compare their membership bounds with.
#
# Source Wang, Fienberg & Smola (2015), Algorithm 2; Wu et al. (2020), Property 1. Claim (epsilon, delta) of the noise
# that the published formula asks for at the target, recounted exactly by the PLD: the formula adds far more than its
# own claim needs. The published claim stands beside. Departures The paper assumes gradients bounded by a Lipschitz
# constant; here every per-record gradient is clipped to it, `clip_norm`. Batches are Poisson samples at rate
# batch_size / n. ceil(n / b) steps make a pass, and all of them are counted.
#
# One step, with step size e, prior N(0, v) and clip norm L:
#
# theta -= e [ theta / v + (n/b) sum over the batch of clip(gradient, L) ]; theta += N(0, max(e^2 F, e))
#
# F is `dpcore.papers.wu2020.published_noise_factor`. As long as e^2 F is the larger, the noise multiplier is sqrt(F) b
# / (n L), whatever the step size. There is nothing to solve: the noise follows from the target.
#
# Property 1 of Wu et al. concludes that membership leakage is at most epsilon/4 with probability 1 - delta. For delta
# > 0 it is refuted (`dpcore.papers.wu2020.property_1_counterexample`), and it is no part of the claim.

LARGEST_NOISE = 1e6
"""The formula asks for noise that drowns every gradient; beyond this nothing of the data is left to count."""


@hyperparameters
class DPSGLDHyperparameters(LangevinHyperparameters):
    """Of `dp-sgld`, whose noise follows from the target.

    step_size  e of the first block; its noise has variance max(e^2 F, e)
    clip_norm  L: every record's gradient is clipped to it, where the paper assumes a Lipschitz constant
    """

    step_size: float = hyperparameter(low=1e-12, high=10.0)
    clip_norm: float = hyperparameter(low=1e-9, high=1e6, default=1.0, unit="gradient norm")

    def noise_multipliers(self, n: int, target: PrivacyTarget) -> list[float]:
        """sqrt(max(e^2 F, e)) / (e (n/b) L) of each block."""
        b, clip = self.batch_size, self.clip_norm
        return [
            math.sqrt(published_noise_variance(phase.step_size, n, self.epochs, clip, b, target.epsilon, target.delta))
            / (phase.step_size * n / b * clip)
            for phase in self.phases(n)
        ]


class DPSGLD(PrivateLangevin[DPSGLDHyperparameters]):
    """The System."""

    name = "dp-sgld"
    source = "Wang, Fienberg & Smola 2015; Wu et al. 2020"
    params = DPSGLDHyperparameters
    sentence = STEPS + "or more on the sum, by the published formula"
    shown_step = 2.0
    remedy = "The published noise spends more here: lower epsilon, or use clipped-sgld."

    def check(self, case: Case[DPSGLDHyperparameters]) -> None:
        """See `PlannedSystem.check`. Raises InvalidValue (model, batch above n)."""
        super().check(case)
        noise = max(case.params.noise_multipliers(case.facts.n, case.target))
        check_at_most(LARGEST_NOISE, "Take fewer epochs, or raise epsilon or halve_every.", noise=noise)

    def mechanism(self, case: Case[DPSGLDHyperparameters]) -> Sequence:
        """See `PlannedSystem.mechanism`."""
        return self.blocks(case, case.params.clip_norm, case.params.noise_multipliers(case.facts.n, case.target))

    def claims(self, case: Case[DPSGLDHyperparameters], released: Sequence) -> list[Guarantee]:
        """And the published claim: it holds for this run because the exact count of the same noise is no larger."""
        (claim,) = super().claims(case, released)
        published = replace(
            claim,
            epsilon=case.target.epsilon,
            epsilon_lower=None,
            accountant="published formula",
            theorem="Wang, Fienberg & Smola (2015), Algorithm 2",
        )
        return [claim, published]


DP_SGLD = DPSGLD()
