"""`convexified-head`: the risk-averse loss on a linear head in a ball, certified, with noise on every logit.

Mathematics and proof: `dpcore.convexified.repaired`. What the certificate leaves open (1% more) is charged.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpcore.adjacency import Adjacency
from dpcore.checks import InvalidValue
from dpcore.convexified import repaired
from dpcore.convexified.repaired import NoisyLogits
from dpcore.gdp_dual import mu_gdp
from dpcore.guarantee import Guarantee
from trainables.knobs import read
from trainables.measures.protocols import Neighbours
from trainables.system import Config, Dataset, Execution, PrivacyPlan, PrivacyTarget, PublicFacts, Refusal, Run
from trainables.systems.answering import AnsweringSystem
from trainables.systems.convexified.knobs import HEAD_METRICS, NOISE_MAX, NOISE_MIN, ConvexifiedHeadKnobs
from trainables.systems.convexified.scales import head_of

Array = NDArray[np.float64]

TRAINING = ("alpha", "regularisation", "radius", "features", "hidden", "clip_norm", "bias")


class ConvexifiedHead(AnsweringSystem[ConvexifiedHeadKnobs, NoisyLogits, Array]):
    """A certified linear head; every logit of every answer has noise of its own."""

    name = "convexified-head"
    source = "Lu et al. 2021, repaired"
    knobs = ConvexifiedHeadKnobs
    metrics = HEAD_METRICS
    adjacencies = (Adjacency.REPLACE_ONE,)
    noise_range = (NOISE_MIN, NOISE_MAX)

    def check(
        self, knobs: ConvexifiedHeadKnobs, facts: PublicFacts, target: PrivacyTarget, given: Config
    ) -> Refusal | None:
        """See `PlannedSystem.check`. Raises InvalidValue (n, queries)."""
        head_of(knobs, facts)
        return super().check(knobs, facts, target, given)

    def noise(self, knobs: ConvexifiedHeadKnobs, target: PrivacyTarget) -> float:
        """See `AnsweringSystem.noise`."""
        return math.sqrt(knobs.queries) / mu_gdp(target.epsilon, target.delta)

    def mechanism(self, knobs: ConvexifiedHeadKnobs, facts: PublicFacts) -> NoisyLogits:
        """See `PlannedSystem.mechanism`."""
        return NoisyLogits(
            sensitivity=head_of(knobs, facts).sensitivity, noise_multiplier=knobs.noise_multiplier, steps=knobs.queries
        )

    def claim(
        self, knobs: ConvexifiedHeadKnobs, released: NoisyLogits, facts: PublicFacts, target: PrivacyTarget
    ) -> Guarantee:
        """See `PlannedSystem.claim`."""
        claim = repaired.guarantee(head_of(knobs, facts), released.sigma, released.steps, target.delta)
        return replace(claim, unit=target.unit)

    def describe(self, knobs: ConvexifiedHeadKnobs, released: NoisyLogits, facts: PublicFacts) -> str:
        """See `PlannedSystem.describe`."""
        return (
            f"{released.steps} logit vectors of a certified head (risk aversion {knobs.alpha:.4g}, radius "
            f"{knobs.radius:.4g}), each with Gaussian noise of {released.noise_multiplier:.5g} times its sensitivity "
            f"{released.sensitivity:.4g}"
        )

    def work(self, knobs: ConvexifiedHeadKnobs, released: NoisyLogits, facts: PublicFacts) -> float:
        """See `PlannedSystem.work`."""
        return float(facts.n) * head_of(knobs, facts).iterations

    def group(self, knobs: ConvexifiedHeadKnobs) -> str:
        """See `PlannedSystem.group`: runs that differ in noise alone share their training."""
        return ",".join(f"{name}={getattr(knobs, name)!r}" for name in TRAINING)

    def trained(self, knobs: ConvexifiedHeadKnobs, data: Dataset, execution: Execution) -> Array:
        """See `AnsweringSystem.trained`. Raises InvalidValue when n is not the facts' n."""
        from trainables.systems.convexified.repaired_fit import train

        if len(data.train) != data.facts.n:
            raise InvalidValue("n", data.facts.n, f"the number of records, {len(data.train)}, under replace-one")
        return train(knobs, data)

    def answer(
        self,
        run: Run,
        knobs: ConvexifiedHeadKnobs,
        released: NoisyLogits,
        trained: Array,
        data: Dataset,
        execution: Execution,
    ) -> None:
        """See `AnsweringSystem.answer`."""
        from trainables.systems.convexified.repaired_fit import answer

        answer(run, knobs, released, trained, data, execution)

    def neighbours(self, plan: PrivacyPlan, facts: PublicFacts) -> Neighbours:
        """The flipped label that moves the head furthest (see `trainables.measures.protocols.Auditable`)."""
        from trainables.systems.convexified.neighbours import repaired_neighbours

        return repaired_neighbours(read(self.knobs, plan.config), self.mechanism_of(plan, facts), facts)


CONVEXIFIED_HEAD = ConvexifiedHead()
