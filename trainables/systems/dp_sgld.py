"""DP-SGLD with its published noise: what Wu et al. compare their membership bounds with.

Source      Wang, Fienberg & Smola (2015), Algorithm 2; Wu et al. (2020), Property 1.
Claim       (epsilon, delta) of the noise that the published formula asks for at the target, recounted exactly by the
            PLD: the formula adds far more than its own claim needs. The published claim stands beside.
Departures  The paper assumes gradients bounded by a Lipschitz constant; here every per-record gradient is clipped to
            it, `clip_norm`. Batches are Poisson samples at rate batch_size / n. ceil(n / b) steps make a pass, and all
            of them are counted.

One step, with step size e, prior N(0, v) and clip norm L:

    theta -= e [ theta / v + (n/b) sum over the batch of clip(gradient, L) ];  theta += N(0, max(e^2 F, e))

F is `dpcore.papers.sgld.published_noise_factor`. As long as e^2 F is the larger, the noise multiplier is
sqrt(F) b / (n L), whatever the step size. There is nothing to solve: the noise follows from the target.

Property 1 of Wu et al. concludes that membership leakage is at most epsilon/4 with probability 1 - delta. For delta > 0
it is refuted (`dpcore.papers.membership.property_1_counterexample`), and it is no part of the claim.
"""

from __future__ import annotations

import math
from dataclasses import replace

from dpcore.guarantee import Guarantee, Status
from dpcore.mechanisms.sampled_gaussian import Sequence
from dpcore.papers.sgld import published_noise_variance
from dpcore.rounding import epsilon_text
from trainables.capabilities import Capabilities
from trainables.knobs import knob, knobs
from trainables.planner import STEPS_MAX, ClaimTerms, too_large
from trainables.system import Config, PrivacyTarget, PublicFacts, Refusal, Scalar
from trainables.systems.sgld import HALVINGS_MAX, LangevinKnobs, PrivateLangevin

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
    capabilities = Capabilities(
        units=True, workers=True, private_reports=True, weights=True, judged_as_released=True, curve=True
    )
    halved = False

    def recorded(self, target: PrivacyTarget) -> dict[str, Scalar]:
        """See `PlannedSystem.recorded`."""
        return {"target_epsilon": target.epsilon, "target_delta": target.delta}

    def check(self, knobs: DPSGLDKnobs, facts: PublicFacts, target: PrivacyTarget, given: Config) -> Refusal | None:
        """See `PlannedSystem.check`. Raises InvalidValue (model, batch above n)."""
        super().check(knobs, facts, target, given)
        remedy = "Take fewer epochs, or raise epsilon or halve_every."
        return (
            too_large("steps", sum(phase.steps for phase in knobs.phases(facts.n)), STEPS_MAX, remedy)
            or too_large("halvings", knobs.halvings, HALVINGS_MAX, remedy)
            or too_large("noise", max(knobs.noise_multipliers(facts.n)), LARGEST_NOISE, remedy)
        )

    def mechanism(self, knobs: DPSGLDKnobs, facts: PublicFacts, terms: ClaimTerms) -> Sequence:
        """See `PlannedSystem.mechanism`."""
        return self.blocks(knobs, facts, knobs.clip_norm, knobs.noise_multipliers(facts.n))

    def exceeded(self, claim: Guarantee, target: PrivacyTarget) -> str:
        """See `PlannedSystem.exceeded`."""
        return (
            f"the published noise for epsilon={target.epsilon} spends {epsilon_text(claim.epsilon, digits=6)} at "
            f"delta={target.delta}. Lower epsilon, or use clipped-sgld."
        )

    def describe(self, knobs: DPSGLDKnobs, released: Sequence, facts: PublicFacts) -> str:
        """See `PlannedSystem.describe`."""
        least = min(part.noise_multiplier for part in released.parts)
        return (
            f"{released.steps} Langevin steps on Poisson batches of {facts.counted} (rate {knobs.batch_size}/{facts.n})"
            f", gradients clipped to {released.clip_norm:.4g}, Gaussian noise of {least:.5g} times that or more on the "
            "sum, by the published formula"
        )

    def beside(
        self, knobs: DPSGLDKnobs, released: Sequence, claim: Guarantee, facts: PublicFacts, target: PrivacyTarget
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
