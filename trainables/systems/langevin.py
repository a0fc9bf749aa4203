"""Clipped SGLD: one draw from (nearly) a Bayesian posterior, released with the differential privacy of its noise.

Source      Wu et al. (2020), equations 2-3, with every per-record gradient clipped to norm C and Poisson batches.
Claim       (epsilon, delta) of a composition of Poisson-subsampled Gaussians whose noise multiplier grows as the step
            size falls, by the PLD; add-remove; any number of queries.
Departures  The paper clips nothing, and without a clip there is no differential privacy to claim; its own bounds are on
            membership leakage and say nothing for losses above 0.35 (`dpcore.papers.membership`). Its batches are
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

from dpcore.checks import InvalidValue
from dpcore.events import Adjacency
from dpcore.guarantee import Guarantee, Status
from dpcore.mechanisms.sampled_gaussian import SampledGaussian, Sequence
from dpcore.papers.sgld import Phase, halving_schedule, noise_multiplier, published_noise_variance, step_size_of
from dpcore.rounding import epsilon_text
from dpcore.sampling import PoissonSampling
from trainables import models
from trainables.hyperparameters import knob, knobs
from trainables.planning import NOISE_MAX, NOISE_MIN, STEPS_MAX, ClaimTerms, check_batch, too_large
from trainables.system import Config, Dataset, DatasetSpec, PrivacyTarget, Refusal, Run, RunSettings, Scalar, Traits
from trainables.training.hyperparameters import BatchKnobs, ModelKnobs, PriorKnobs
from trainables.training.trained_model import REPORTED, TrainedByNoisedGradients

HALVINGS_MAX = 16
"""Then the step size is 1/65536 of the first; noises further apart cannot be bounded together closely enough."""


@knobs
class StepSizeKnobs:
    """Steps of one size in blocks, each half of the block before."""

    step_size: float = knob(low=1e-12, high=10.0, doc="e of the first block, the variance of its noise")
    halve_every: int = knob(low=1, high=1_000_000, unit="epochs", doc="the step size halves after so many")


@knobs
class LangevinKnobs(BatchKnobs, PriorKnobs, StepSizeKnobs, ModelKnobs):
    """What both systems take."""

    epochs: int = knob(low=1, high=1_000_000, unit="passes", doc="ceil(n / batch_size) steps in each")

    def phases(self, n: int) -> tuple[Phase, ...]:
        """The blocks of a trial on n records."""
        return halving_schedule(self.step_size, self.halve_every, self.epochs, -(-n // self.batch_size))

    @property
    def halvings(self) -> int:
        """How often the step size halves."""
        return (self.epochs - 1) // self.halve_every


@knobs
class ClippedSGLDKnobs(LangevinKnobs):
    """Of `clipped-sgld`."""

    noise_multiplier: float = knob(
        low=NOISE_MIN,
        high=NOISE_MAX,
        doc="noise over clip norm in the first step; decides the clip norm; solved from epsilon by default",
    )

    def clip_norm(self, n: int) -> float:
        """C = 2 b / (n z sqrt(e)) of the first step: what makes its noise multiplier the configured one."""
        return 2 * self.batch_size / (n * self.noise_multiplier * math.sqrt(self.step_size))


Walk = TypeVar("Walk", bound=LangevinKnobs)


class PrivateLangevin(TrainedByNoisedGradients[Walk, Sequence]):
    """Langevin steps on clipped Poisson batches: the two systems differ in where noise and clip come from."""

    metrics = REPORTED
    adjacencies = (Adjacency.ADD_REMOVE,)
    why_adjacency = "Poisson batches need it."
    halved = True
    """Whether a step moves by half its step size."""

    def check(self, knobs: Walk, facts: DatasetSpec, target: PrivacyTarget, given: Config) -> Refusal | None:
        """See `PlannedSystem.check`. Raises InvalidValue (model, batch above n)."""
        models.check(knobs.model, facts)
        check_batch(knobs.batch_size, facts)
        return None

    def blocks(self, knobs: Walk, facts: DatasetSpec, clip_norm: float, noises: list[float]) -> Sequence:
        """One part for each block, with the noise multipliers in order."""
        sampling = PoissonSampling(rate=knobs.batch_size / facts.n)
        return Sequence(
            parts=tuple(
                SampledGaussian(
                    sampling=sampling,
                    clip_norm=clip_norm,
                    noise_multiplier=noise,
                    steps=phase.steps,
                    expected_batch_size=knobs.batch_size,
                )
                for noise, phase in zip(noises, knobs.phases(facts.n), strict=True)
            )
        )

    def work(self, knobs: Walk, released: Sequence, facts: DatasetSpec) -> float:
        """See `PlannedSystem.work`."""
        return float(released.steps) * knobs.batch_size * facts.unit_records

    def train(self, run: Run, knobs: Walk, released: Sequence, data: Dataset, execution: RunSettings) -> None:
        """See `PlannedSystem.train`."""
        from trainables.training.optimisers import LangevinMean
        from trainables.training.private_sgd import train

        n = data.facts.n
        phases = knobs.phases(n)
        if not self.halved:
            # The update moves by half a step size.
            phases = tuple(Phase(2 * one.step_size, one.steps) for one in phases)
        train(
            run,
            data,
            execution,
            mechanism=released,
            optimiser=lambda model: LangevinMean(model, partial(step_size_of, phases), n, knobs.prior_variance),
        )


class ClippedSGLD(PrivateLangevin[ClippedSGLDKnobs]):
    """The System."""

    name = "clipped-sgld"
    source = "Wu et al. 2020"
    knobs = ClippedSGLDKnobs
    traits = Traits(units=True, workers=True, private_reports=True, weights=True, judged_as_released=True, curve=True)
    solves = MappingProxyType({"noise": "noise_multiplier"})

    def check_target(self, facts: DatasetSpec, target: PrivacyTarget) -> None:
        """See `PlannedSystem.check_target`. Raises InvalidValue (adjacency, solving the steps)."""
        super().check_target(facts, target)
        if target.solve == "steps":
            expected = f"noise or none for {self.name}"
            raise InvalidValue("privacy.solve", target.solve, expected, "Its steps differ; solve the noise.")

    def check(
        self, knobs: ClippedSGLDKnobs, facts: DatasetSpec, target: PrivacyTarget, given: Config
    ) -> Refusal | None:
        """See `PlannedSystem.check`. Raises InvalidValue (model, batch above n)."""
        super().check(knobs, facts, target, given)
        steps = sum(phase.steps for phase in knobs.phases(facts.n)) if knobs.halvings <= HALVINGS_MAX else 0
        return too_large(
            "halvings", knobs.halvings, HALVINGS_MAX, "Raise halve_every, or take fewer epochs."
        ) or too_large("steps", steps, STEPS_MAX, "Take fewer epochs or larger batches.")

    def check_solved(self, knobs: ClippedSGLDKnobs, facts: DatasetSpec, target: PrivacyTarget) -> Refusal | None:
        """See `PlannedSystem.check_solved`."""
        remedy = "Change epsilon, or take fewer epochs or smaller batches."
        return too_large("noise", knobs.noise_multiplier, NOISE_MAX, remedy)

    def mechanism(self, knobs: ClippedSGLDKnobs, facts: DatasetSpec, terms: ClaimTerms) -> Sequence:
        """See `PlannedSystem.mechanism`."""
        clip_norm = knobs.clip_norm(facts.n)
        noises = [
            noise_multiplier(phase.step_size, facts.n, knobs.batch_size, clip_norm) for phase in knobs.phases(facts.n)
        ]
        return self.blocks(knobs, facts, clip_norm, noises)

    def describe(self, knobs: ClippedSGLDKnobs, released: Sequence, facts: DatasetSpec) -> str:
        """See `PlannedSystem.describe`."""
        return (
            f"{released.steps} Langevin steps on Poisson batches of {facts.counted} (rate {knobs.batch_size}/{facts.n})"
            f", gradients clipped to {released.clip_norm:.4g}, Gaussian noise of {knobs.noise_multiplier:.5g} times "
            "that on the first sum, more later"
        )


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
# F is `dpcore.papers.sgld.published_noise_factor`. As long as e^2 F is the larger, the noise multiplier is sqrt(F) b
# / (n L), whatever the step size. There is nothing to solve: the noise follows from the target.
#
# Property 1 of Wu et al. concludes that membership leakage is at most epsilon/4 with probability 1 - delta. For delta
# > 0 it is refuted (`dpcore.papers.membership.property_1_counterexample`), and it is no part of the claim.

LARGEST_NOISE = 1e6
"""The formula asks for noise that drowns every gradient; beyond this nothing of the data is left to count."""


@knobs
class DPSGLDKnobs(LangevinKnobs):
    """Of `dp-sgld`; the target is recorded, since the noise follows from it."""

    step_size: float = knob(low=1e-12, high=10.0, doc="e of the first block; its noise has variance max(e^2 F, e)")
    clip_norm: float = knob(
        low=1e-9,
        high=1e6,
        default=1.0,
        unit="gradient norm",
        doc="L: every record's gradient is clipped to it, where the paper assumes a Lipschitz constant",
    )
    target_epsilon: float
    target_delta: float

    def noise_multipliers(self, n: int) -> list[float]:
        """sqrt(max(e^2 F, e)) / (e (n/b) L) of each block."""
        b, clip, epsilon, delta = self.batch_size, self.clip_norm, self.target_epsilon, self.target_delta
        return [
            math.sqrt(published_noise_variance(phase.step_size, n, self.epochs, clip, b, epsilon, delta))
            / (phase.step_size * n / b * clip)
            for phase in self.phases(n)
        ]


class DPSGLD(PrivateLangevin[DPSGLDKnobs]):
    """The System."""

    name = "dp-sgld"
    source = "Wang, Fienberg & Smola 2015; Wu et al. 2020"
    knobs = DPSGLDKnobs
    traits = Traits(units=True, workers=True, private_reports=True, weights=True, judged_as_released=True, curve=True)
    halved = False

    def recorded(self, target: PrivacyTarget) -> dict[str, Scalar]:
        """See `PlannedSystem.recorded`."""
        return {"target_epsilon": target.epsilon, "target_delta": target.delta}

    def check(self, knobs: DPSGLDKnobs, facts: DatasetSpec, target: PrivacyTarget, given: Config) -> Refusal | None:
        """See `PlannedSystem.check`. Raises InvalidValue (model, batch above n)."""
        super().check(knobs, facts, target, given)
        remedy = "Take fewer epochs, or raise epsilon or halve_every."
        return (
            too_large("steps", sum(phase.steps for phase in knobs.phases(facts.n)), STEPS_MAX, remedy)
            or too_large("halvings", knobs.halvings, HALVINGS_MAX, remedy)
            or too_large("noise", max(knobs.noise_multipliers(facts.n)), LARGEST_NOISE, remedy)
        )

    def mechanism(self, knobs: DPSGLDKnobs, facts: DatasetSpec, terms: ClaimTerms) -> Sequence:
        """See `PlannedSystem.mechanism`."""
        return self.blocks(knobs, facts, knobs.clip_norm, knobs.noise_multipliers(facts.n))

    def exceeded(self, claim: Guarantee, target: PrivacyTarget) -> str:
        """See `PlannedSystem.exceeded`."""
        return (
            f"the published noise for epsilon={target.epsilon} spends {epsilon_text(claim.epsilon, digits=6)} at "
            f"delta={target.delta}. Lower epsilon, or use clipped-sgld."
        )

    def describe(self, knobs: DPSGLDKnobs, released: Sequence, facts: DatasetSpec) -> str:
        """See `PlannedSystem.describe`."""
        least = min(part.noise_multiplier for part in released.parts)
        return (
            f"{released.steps} Langevin steps on Poisson batches of {facts.counted} (rate {knobs.batch_size}/{facts.n})"
            f", gradients clipped to {released.clip_norm:.4g}, Gaussian noise of {least:.5g} times that or more on the "
            "sum, by the published formula"
        )

    def beside(
        self, knobs: DPSGLDKnobs, released: Sequence, claim: Guarantee, facts: DatasetSpec, target: PrivacyTarget
    ) -> tuple[Guarantee, ...]:
        """The published claim: it holds for this run because the exact count of the same noise is no larger."""
        return (
            replace(
                claim,
                epsilon=target.epsilon,
                delta=target.delta,
                epsilon_lower=None,
                accountant="published formula",
                status=claim.status if claim.status is Status.PROVED else Status.PROVED_UNDER_ASSUMPTIONS,
                theorem="Wang, Fienberg & Smola (2015), Algorithm 2",
            ),
        )


DP_SGLD = DPSGLD()
