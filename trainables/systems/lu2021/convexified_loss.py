"""`convexified-loss`: Algorithm 1 of Lu et al. (2021) as published. Its claim is refuted, and says so."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dpcore.checks import InvalidValue
from dpcore.events import Adjacency
from dpcore.gdp import mu_gdp
from dpcore.guarantee import Guarantee
from dpcore.papers.convexified import Bound, NeuronNoise, OneNeuronAnswers, published_guarantee
from trainables.hyperparameters import read
from trainables.measures.hooks import Neighbours
from trainables.planning import ClaimTerms
from trainables.system import Config, Dataset, DatasetSpec, PrivacyPlan, PrivacyTarget, Refusal, Run, RunSettings
from trainables.systems.answering import AnsweringSystem
from trainables.systems.linear import classes_of
from trainables.systems.lu2021.hyperparameters import (
    METRICS,
    NOISE_MAX,
    NOISE_MIN,
    ConvexifiedLossKnobs,
    held_out,
    sensitivities,
)

if TYPE_CHECKING:
    from trainables.systems.lu2021.training import Trained


UNNOISED = "Metrics of the model without noise are reported too: no claim covers them."
ATTACKED = "Half of the queries are training records: which ones is reported by the attack's metric."


class ConvexifiedLoss(AnsweringSystem[ConvexifiedLossKnobs, OneNeuronAnswers, "Trained"]):
    """Noise on one sampled output neuron of a tanh network, per query."""

    name = "convexified-loss"
    source = "Lu et al. 2021, as published"
    knobs = ConvexifiedLossKnobs
    metrics = METRICS
    adjacencies = (Adjacency.ADD_REMOVE,)
    noise_range = (NOISE_MIN, NOISE_MAX)
    deciding = (
        "alpha", "regularisation", "hidden", "learning_rate", "batch_size", "epochs",
        "draw", "shadows", "attack_epochs",
    )  # fmt: skip

    def check(
        self, knobs: ConvexifiedLossKnobs, facts: DatasetSpec, target: PrivacyTarget, given: Config
    ) -> Refusal | None:
        """See `PlannedSystem.check`. Raises InvalidValue (batch, shadows, bound, queries)."""
        if knobs.batch_size > facts.n:
            raise InvalidValue("batch_size", knobs.batch_size, f"at most n={facts.n} records of {facts.dataset}")
        if knobs.shadows and facts.n_validation < 6:
            raise InvalidValue(
                "shadows", knobs.shadows, f"0: {facts.dataset} has {facts.n_validation} validation records, 6 needed"
            )
        if knobs.bound is Bound.CHAUDHURI_BINARY and classes_of(facts) > 2:
            raise InvalidValue("bound", str(knobs.bound), "another bound: this one is for two classes")
        return super().check(knobs, facts, target, given)

    def askable(self, knobs: ConvexifiedLossKnobs, facts: DatasetSpec) -> int:
        """See `AnsweringSystem.askable`: under an attack training records too."""
        asked = held_out(knobs, facts)
        return 2 * asked if knobs.shadows else asked

    def noise(self, knobs: ConvexifiedLossKnobs, facts: DatasetSpec, target: PrivacyTarget) -> float:
        """See `SolvedSystem.noise`."""
        if knobs.noise is NeuronNoise.LAPLACE:
            return knobs.queries / target.epsilon
        return math.sqrt(knobs.queries) / mu_gdp(target.epsilon, target.delta)

    def mechanism(self, knobs: ConvexifiedLossKnobs, facts: DatasetSpec, terms: ClaimTerms) -> OneNeuronAnswers:
        """See `PlannedSystem.mechanism`."""
        bounds = sensitivities(knobs, facts)
        return OneNeuronAnswers(
            logit_sensitivity=bounds.logit,
            probability_sensitivity=bounds.probability,
            noise=knobs.noise,
            noise_multiplier=knobs.noise_multiplier,
            split=knobs.split,
            steps=knobs.queries,
        )

    def claim(
        self, knobs: ConvexifiedLossKnobs, released: OneNeuronAnswers, facts: DatasetSpec, target: PrivacyTarget
    ) -> Guarantee:
        """What the publication claims for all queries together: basic composition, or that of Gaussian DP."""
        each = 1 / released.noise_multiplier
        total = released.steps * each if released.noise is NeuronNoise.LAPLACE else math.sqrt(released.steps) * each
        claim = published_guarantee(total, released.noise, target.delta)
        told = ((UNNOISED, knobs.reference), (ATTACKED, knobs.shadows > 0))
        lines = tuple(line for line, applies in told if applies)
        # One delta for both laws of noise, so that they share an axis; a pure claim holds at every delta.
        return replace(claim, delta=target.delta, unit=target.unit, assumptions=(*claim.assumptions, *lines))

    def describe(self, knobs: ConvexifiedLossKnobs, released: OneNeuronAnswers, facts: DatasetSpec) -> str:
        """See `PlannedSystem.describe`."""
        return (
            f"{released.steps} probability vectors of a tanh network (risk aversion {knobs.alpha:.4g}), each with "
            f"{released.noise} noise on one sampled logit (claimed sensitivity {released.logit_sensitivity:.4g}, not a "
            "bound)"
        )

    def work(self, knobs: ConvexifiedLossKnobs, released: OneNeuronAnswers, facts: DatasetSpec) -> float:
        """See `PlannedSystem.work`."""
        return float(facts.n) * knobs.epochs * (1 + knobs.shadows)

    def fit(self, runs: Sequence[Run], data: Dataset, execution: RunSettings) -> None:
        """See `TrainedOnce.fit`."""
        from trainables.parallel import limited_threads

        with limited_threads(execution.threads):
            super().fit(runs, data, execution)

    def trained(self, knobs: ConvexifiedLossKnobs, data: Dataset, execution: RunSettings) -> Trained:
        """See `TrainedOnce.trained`."""
        from trainables.systems.lu2021.training import train_group
        from trainables.training.private_sgd import device_of

        return train_group(knobs, data, str(device_of(execution)))

    def answer(
        self,
        run: Run,
        knobs: ConvexifiedLossKnobs,
        released: OneNeuronAnswers,
        trained: Trained,
        data: Dataset,
        execution: RunSettings,
    ) -> None:
        """See `TrainedOnce.answer`."""
        from trainables.systems.lu2021.training import answer

        answer(run, knobs, released, trained, data, execution)

    def neighbours(self, plan: PrivacyPlan, facts: DatasetSpec) -> Neighbours:
        """Data sets that the answers tell apart (see `trainables.measures.hooks.Auditable`)."""
        from trainables.systems.lu2021.neighbours import published_neighbours

        return published_neighbours(read(self.knobs, plan.config), self.mechanism_of(plan, facts), facts)

    def without_its_attack(self, plan: PrivacyPlan) -> PrivacyPlan:
        """See `trainables.measures.hooks.AttacksItself`: no shadows."""
        return replace(plan, config={**plan.config, "shadows": 0})


CONVEXIFIED_LOSS = ConvexifiedLoss()
