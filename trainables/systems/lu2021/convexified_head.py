"""`convexified-head`: the risk-averse loss on a linear head in a ball, certified, with noise on every logit.

Mathematics and proof: `dpcore.papers.convexified`. What the certificate leaves open (1% more) is charged.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcore.events import Adjacency
from dpcore.gdp import mu_gdp
from dpcore.guarantee import Guarantee
from dpcore.mechanisms.noise_families import NoiseLaw
from dpcore.mechanisms.output_perturbation import OutputPerturbation
from dpcore.papers import convexified
from trainables.hyperparameters import read
from trainables.measures.hooks import Neighbours
from trainables.planning import ClaimTerms
from trainables.system import Config, Dataset, DatasetSpec, PrivacyPlan, PrivacyTarget, Refusal, Run, RunSettings
from trainables.systems.answering import ACCURACY, AnsweringSystem, answer_next
from trainables.systems.linear import at
from trainables.systems.lu2021.hyperparameters import NOISE_MAX, NOISE_MIN, ConvexifiedHeadKnobs, head_of
from trainables.training.noise import normals

Array = NDArray[np.float64]


class ConvexifiedHead(AnsweringSystem[ConvexifiedHeadKnobs, OutputPerturbation, Array]):
    """A certified linear head; every logit of every answer has noise of its own."""

    name = "convexified-head"
    source = "Lu et al. 2021, repaired"
    knobs = ConvexifiedHeadKnobs
    metrics = (ACCURACY,)
    adjacencies = (Adjacency.REPLACE_ONE,)
    noise_range = (NOISE_MIN, NOISE_MAX)
    deciding = ("alpha", "regularisation", "radius", "features", "hidden", "clip_norm", "bias")

    def check(
        self, knobs: ConvexifiedHeadKnobs, facts: DatasetSpec, target: PrivacyTarget, given: Config
    ) -> Refusal | None:
        """See `PlannedSystem.check`. Raises InvalidValue (n, queries)."""
        head_of(knobs, facts)
        return super().check(knobs, facts, target, given)

    def noise(self, knobs: ConvexifiedHeadKnobs, facts: DatasetSpec, target: PrivacyTarget) -> float:
        """See `SolvedSystem.noise`."""
        return math.sqrt(knobs.queries) / mu_gdp(target.epsilon, target.delta)

    def mechanism(self, knobs: ConvexifiedHeadKnobs, facts: DatasetSpec, terms: ClaimTerms) -> OutputPerturbation:
        """See `PlannedSystem.mechanism`."""
        return OutputPerturbation(
            law=NoiseLaw.GAUSSIAN,
            noise_multiplier=knobs.noise_multiplier,
            sensitivity=head_of(knobs, facts).sensitivity,
            adjacency=terms.adjacency,
            steps=knobs.queries,
        )

    def claim(
        self, knobs: ConvexifiedHeadKnobs, released: OutputPerturbation, facts: DatasetSpec, target: PrivacyTarget
    ) -> Guarantee:
        """See `PlannedSystem.claim`."""
        claim = convexified.answers_guarantee(head_of(knobs, facts), released.scale, released.steps, target.delta)
        return replace(claim, unit=target.unit)

    def describe(self, knobs: ConvexifiedHeadKnobs, released: OutputPerturbation, facts: DatasetSpec) -> str:
        """See `PlannedSystem.describe`."""
        return (
            f"{released.steps} logit vectors of a certified head (risk aversion {knobs.alpha:.4g}, radius "
            f"{knobs.radius:.4g}), each with Gaussian noise of {released.noise_multiplier:.5g} times its sensitivity "
            f"{released.sensitivity:.4g}"
        )

    def work(self, knobs: ConvexifiedHeadKnobs, released: OutputPerturbation, facts: DatasetSpec) -> float:
        """See `PlannedSystem.work`."""
        return float(facts.n) * head_of(knobs, facts).iterations

    def trained(self, knobs: ConvexifiedHeadKnobs, data: Dataset, execution: RunSettings) -> Array:
        """See `TrainedOnce.trained`."""
        from trainables.systems.lu2021.head import train

        return train(knobs, data)

    def answer(
        self,
        run: Run,
        knobs: ConvexifiedHeadKnobs,
        released: OutputPerturbation,
        trained: Array,
        data: Dataset,
        execution: RunSettings,
    ) -> None:
        """See `TrainedOnce.answer`."""
        from trainables.systems.lu2021.head import features_of

        draw = normals(run, execution)

        def answers(asked: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
            exact = convexified.head_logits(trained, features_of(knobs, data.facts, at(data.validation, asked)))
            logits = released.release(exact, draw)
            return {"labels": logits.argmax(axis=1), "logits": logits}

        answer_next(run, data, released.steps, answers)

    def neighbours(self, plan: PrivacyPlan, facts: DatasetSpec) -> Neighbours:
        """The flipped label that moves the head furthest (see `trainables.measures.hooks.Auditable`)."""
        from trainables.systems.lu2021.neighbours import repaired_neighbours

        return repaired_neighbours(read(self.knobs, plan.config), self.mechanism_of(plan, facts), facts)


CONVEXIFIED_HEAD = ConvexifiedHead()
